package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// UsageError is a mistake in arguments, flags, environment variables or the configuration file.
type UsageError struct{ err error }

// WrongUsage returns a UsageError, by which the command ends with its own exit code.
func WrongUsage(err error) error { return &UsageError{err} }

func (e *UsageError) Error() string { return e.err.Error() }
func (e *UsageError) Unwrap() error { return e.err }

// CheckArgs gives each command below root without a check of its arguments the one that its usage demands.
func CheckArgs(root *cobra.Command) {
	for _, cmd := range root.Commands() {
		if cmd.Args == nil {
			cmd.Args = checkArgs
		}
		CheckArgs(cmd)
	}
}

// checkArgs returns an error with the names of missing and surplus arguments.
func checkArgs(cmd *cobra.Command, args []string) error {
	wanted := Args(cmd.Use)
	names, least, most := make([]string, len(wanted)), 0, len(wanted)
	for i, arg := range wanted {
		names[i] = strings.ReplaceAll(arg.Name, "|", " or ")
		if !arg.Optional {
			least = i + 1
		}
		if arg.Repeated {
			most = max(most, len(args))
		}
	}
	var fault string
	switch {
	case len(args) < least:
		missing := map[bool]string{true: " is missing", false: " are missing"}[least-len(args) == 1]
		fault = strings.Join(names[len(args):least], " and ") + missing
	case len(args) > most:
		takes := "no argument"
		if most > 0 {
			takes = "one " + strings.Join(names, " and one ")
		}
		fault = fmt.Sprintf("%s takes %s, and got %s%s", cmd.CommandPath(), takes, quoted(args),
			quoting(cmd, args, args[most:]))
	case len(cmd.ValidArgs) > 0 && !slices.Contains(cmd.ValidArgs, args[0]):
		fault = fmt.Sprintf("%q is none of %s", args[0], strings.Join(cmd.ValidArgs, ", "))
	default:
		return nil
	}
	return WrongUsage(fmt.Errorf("%s; see %s --help", fault, cmd.CommandPath()))
}

// quoted lists words in quotes.
func quoted(words []string) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprintf("%q", words), `" "`, `" and "`), "[]")
}

// quoting reminds of the quotes around a value of several words, whose later words count as arguments. It shows the
// value with the surplus words if only one flag can be meant.
func quoting(cmd *cobra.Command, args, surplus []string) string {
	var texts []*pflag.Flag
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Value.Type(), "string") && !IsConnection(f) {
			texts = append(texts, f)
		}
	})
	for _, f := range texts {
		for _, arg := range args {
			if span := spelledOut(f.Value.String() + " " + arg); span != "" {
				return fmt.Sprintf("; did you mean --%s %s?", f.Name, span)
			}
		}
	}
	for i := range args[1:] {
		if span := spelledOut(args[i] + " " + args[i+1]); span != "" {
			return "; did you mean " + span + "?"
		}
	}
	switch len(texts) {
	case 0:
		return ""
	case 1:
		value := strings.Trim(texts[0].Value.String(), "[]")
		return fmt.Sprintf("; a value of several words needs quotes, as in --%s %q", texts[0].Name,
			value+" "+strings.Join(surplus, " "))
	}
	return "; a value of several words needs quotes"
}

// Arg is an argument in the usage of a command.
type Arg struct {
	Name               string
	Optional, Repeated bool
}

// Args returns the arguments in a usage, as in "drop QUEUE [ID...]".
func Args(use string) (args []Arg) {
	words := strings.Fields(use)[1:]
	for i, word := range words {
		if i > 0 && strings.HasPrefix(words[i-1], "--") || strings.HasPrefix(word, "--") {
			continue // a flag, or its value
		}
		plain, repeated := strings.CutSuffix(strings.Trim(word, "[]"), "...")
		plain, _, _ = strings.Cut(plain, "[")
		args = append(args, Arg{Name: plain, Optional: word[0] == '[', Repeated: repeated})
	}
	return args
}

// typos returns the number of wrong letters with which a word is still taken for another.
func typos(word string) int { return min(2, len(word)/2) }

// KnownCommand refuses a word that is the name of no subcommand.
func KnownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return WrongUsage(fmt.Errorf("unknown command %q for %q%s; see %s --help", args[0], cmd.CommandPath(),
		didYouMean("", commandsLike(cmd, args[0])), cmd.CommandPath()))
}

// commandsLike returns the commands that a word may have meant, as their paths from cmd: the verbs of that name below
// the nouns, else the commands of cmd that are spelt alike, else the verbs that are.
func commandsLike(cmd *cobra.Command, word string) []string {
	if named := verbsLike(cmd, word, func(verb string) bool { return verb == word }); len(named) > 0 {
		return named
	}
	cmd.SuggestionsMinimumDistance = typos(word)
	if alike := cmd.SuggestionsFor(word); len(alike) > 0 {
		return alike
	}
	return verbsLike(cmd, word, func(string) bool { return true })
}

// verbsLike returns the commands two levels below cmd that are spelt like a word and pass the filter.
func verbsLike(cmd *cobra.Command, word string, filter func(verb string) bool) []string {
	var paths []string
	for _, noun := range cmd.Commands() {
		noun.SuggestionsMinimumDistance = typos(word)
		for _, verb := range noun.SuggestionsFor(word) {
			if filter(verb) {
				paths = append(paths, noun.Name()+" "+verb)
			}
		}
	}
	return paths
}

// didYouMean returns a question that suggests words, each with the prefix. It is empty without words.
func didYouMean(prefix string, words []string) string {
	if len(words) == 0 {
		return ""
	}
	return " (did you mean " + prefix + strings.Join(words, " or "+prefix) + "?)"
}

// FlagError describes a mistake in a command's flags. After an unknown command, all flags are unknown: then the command
// is the mistake.
func FlagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() {
		if err := KnownCommand(cmd, cmd.Flags().Args()); err != nil {
			return err
		}
	}
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "":
		name := unknown.GetSpecifiedName()
		hint := argLike(cmd, name)
		if hint == "" {
			hint = didYouMean("--", flagsLike(cmd, name))
		}
		err = fmt.Errorf("unknown flag --%s%s", name, hint)
	case errors.As(err, &unknown):
		if f := cmd.Flags().Lookup(strings.TrimLeft(unknown.GetSpecifiedShortnames(), "-")); f != nil {
			err = fmt.Errorf("%w%s", err, didYouMean("--", []string{f.Name}))
		}
	case errors.As(err, &invalid):
		err = plainValue("--"+invalid.GetFlag().Name, err)
	}
	return WrongUsage(fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
}

// argLike says that an argument, which needs no flag, has the name of an unknown flag. It is empty if none has.
func argLike(cmd *cobra.Command, name string) string {
	for _, arg := range Args(cmd.Use) {
		if strings.EqualFold(arg.Name, name) {
			return fmt.Sprintf(" (%s stands without a flag: %s %s)", arg.Name, cmd.CommandPath(), arg.Name)
		}
	}
	return ""
}

// flagsLike returns the flags of a command that a name may have meant.
func flagsLike(cmd *cobra.Command, name string) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return near(name, names)
}

// near returns the names that are spelt like a word.
func near(word string, names []string) []string {
	list := &cobra.Command{SuggestionsMinimumDistance: typos(word)}
	for _, name := range names {
		list.AddCommand(&cobra.Command{Use: name, Run: func(*cobra.Command, []string) {}})
	}
	return list.SuggestionsFor(word)
}

// DidYouMean returns a question, in brackets behind a space, that suggests the names spelt like a word. It is empty if
// there are none.
func DidYouMean(word string, names []string) string { return didYouMean("", near(word, names)) }

// wanted describes the values that a flag takes, by the flag's type.
var wanted = map[string]string{
	"int": "a whole number", "uint16": "a whole number up to 65535", "uint32": "a whole number", "float64": "a number",
	"bool": "true or false",
}

// plainValue rewrites the error of an invalid value in plain words: the setting, named as the caller names it, the
// refused value, and the values that it takes. It returns other errors unchanged.
func plainValue(name string, err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	if want, ok := wanted[invalid.GetFlag().Value.Type()]; ok {
		return fmt.Errorf("%s %q is not %s", name, invalid.GetValue(), want)
	}
	return fmt.Errorf("%s: %w", strings.TrimSuffix(name, ":"), invalid.Unwrap())
}
