package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// Groups of commands, as the help shows them. The commands of CallGroup call a cluster.
const (
	RunGroup   = "run"
	CallGroup  = "call"
	CheckGroup = "check"
)

// HelpWidth is the number of columns that help texts keep to.
const HelpWidth = 80

// WrapHelp makes the help of a command and of its subcommands keep to HelpWidth, and end with settingsNote. It uses
// none of cobra's templates: text/template calls methods by their names, so that the linker must keep all methods.
func WrapHelp(root *cobra.Command) {
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStderr(), usage(cmd))
		return err
	})
}

// usage returns the usage of a command as cobra prints it, with wrapped flags.
func usage(cmd *cobra.Command) string {
	var b strings.Builder
	section := func(title, text string) { b.WriteString("\n\n" + title + "\n" + strings.TrimRight(text, " \n")) }
	b.WriteString("Usage:")
	if cmd.Runnable() {
		b.WriteString("\n  " + cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n  " + cmd.CommandPath() + " [command]")
	}
	if len(cmd.Aliases) > 0 {
		section("Aliases:", "  "+cmd.NameAndAliases())
	}
	if cmd.HasExample() {
		section("Examples:", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		for _, group := range cmd.Groups() {
			section(group.Title, commandLines(cmd, group.ID))
		}
		switch {
		case len(cmd.Groups()) == 0:
			section("Available Commands:", commandLines(cmd, ""))
		case !cmd.AllChildCommandsHaveGroup():
			section("Additional Commands:", commandLines(cmd, ""))
		}
	}
	own, connection := splitFlags(cmd.LocalFlags())
	if own.HasAvailableFlags() {
		section("Flags:", own.FlagUsagesWrapped(HelpWidth))
	}
	if connection.HasAvailableFlags() {
		section("Connection flags:", connection.FlagUsagesWrapped(HelpWidth))
	}
	if cmd.HasAvailableInheritedFlags() {
		section("Global Flags:", cmd.InheritedFlags().FlagUsagesWrapped(HelpWidth))
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\n\nUse \"" + cmd.CommandPath() + " [command] --help\" for more information about a command.")
	}
	return b.String() + settingsNote(cmd) + "\n"
}

// splitFlags separates the flags of a connection from the others.
func splitFlags(all *pflag.FlagSet) (own, connection *pflag.FlagSet) {
	own, connection = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	all.VisitAll(func(f *pflag.Flag) {
		if IsConnection(f) {
			connection.AddFlag(f)
		} else {
			own.AddFlag(f)
		}
	})
	return own, connection
}

// commandLines returns a line for each subcommand of a group; an empty group is that of commands without one.
func commandLines(cmd *cobra.Command, group string) string {
	var b strings.Builder
	for _, c := range cmd.Commands() {
		if c.GroupID == group && (c.IsAvailableCommand() || c.Name() == "help") {
			fmt.Fprintf(&b, "  %-*s %s\n", c.NamePadding(), c.Name(), c.Short)
		}
	}
	return b.String()
}

// settingsNote describes the environment variables of a command, for the end of its help.
func settingsNote(cmd *cobra.Command) string {
	if !cmd.HasParent() || cmd.HasSubCommands() || IsCall(cmd) {
		return ""
	}
	var example *pflag.Flag // the flag with the shortest name
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if Settable(f) && (example == nil || len(f.Name) < len(example.Name)) {
			example = f
		}
	})
	if example == nil {
		return ""
	}
	return fmt.Sprintf("\n\nFlags can also be set by environment variables, such as\n"+
		"%s for --%s, and in the YAML file that --config names.", Variable(cmd, example), example.Name)
}

// CompleteWords makes the shell complete a flag with these words.
func CompleteWords(cmd *cobra.Command, flag string, words ...string) {
	if err := cmd.Flags().SetAnnotation(flag, output.Words, words); err != nil {
		panic(err) // the flag is missing
	}
}
