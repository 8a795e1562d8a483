package cli

import (
	"errors"
	"fmt"
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

// CheckArgs makes the errors of a check of arguments UsageErrors that point at the help.
func CheckArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		var usage *UsageError
		err := check(cmd, args)
		if err == nil || errors.As(err, &usage) {
			return err
		}
		return WrongUsage(fmt.Errorf("%w%s; see %s --help", err, quoting(cmd), cmd.CommandPath()))
	}
}

// quoting reminds of the form of times, whose second words count as arguments.
func quoting(cmd *cobra.Command) string {
	given := func(name string) bool { return cmd.Flags().Lookup(name) != nil && cmd.Flags().Changed(name) }
	switch {
	case given("in"), given("delay"):
		return "; --in takes one word, like --in 10m"
	case given("at"):
		return "; an instant of several words needs quotes, like --at \"tomorrow 9:00\""
	}
	return ""
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
		err = fmt.Errorf("unknown flag --%s%s", name, didYouMean("--", flagsLike(cmd, name)))
	case errors.As(err, &invalid):
		err = plainValue("--"+invalid.GetFlag().Name, err)
	}
	return WrongUsage(fmt.Errorf("%w; see %s --help", err, cmd.CommandPath()))
}

// flagsLike returns the flags of a command that a name may have meant.
func flagsLike(cmd *cobra.Command, name string) []string {
	flags := &cobra.Command{SuggestionsMinimumDistance: typos(name)}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		flags.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return flags.SuggestionsFor(name)
}

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
