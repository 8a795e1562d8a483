package cli

import (
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Groups of commands, as the help shows them. The commands of CallGroup call a cluster.
const (
	RunGroup   = "run"
	CallGroup  = "call"
	CheckGroup = "check"
)

// HelpWidth is the number of columns that help texts keep to.
const HelpWidth = 80

// WrapHelp makes the help of a command and of its subcommands keep to HelpWidth, and end with settingsNote.
func WrapHelp(root *cobra.Command) {
	addTemplateFuncs()
	template := strings.ReplaceAll(root.UsageTemplate(), ".LocalFlags.FlagUsages", "flagLines .LocalFlags")
	template = strings.ReplaceAll(template, ".InheritedFlags.FlagUsages", "flagLines .InheritedFlags")
	root.SetUsageTemplate(strings.TrimRight(template, "\n") + "{{settings .}}\n")
}

// addTemplateFuncs adds the functions of the help's template, which cobra keeps for the whole process.
var addTemplateFuncs = sync.OnceFunc(func() {
	cobra.AddTemplateFunc("flagLines", func(flags *pflag.FlagSet) string { return flags.FlagUsagesWrapped(HelpWidth) })
	cobra.AddTemplateFunc("settings", settingsNote)
})

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
func CompleteWords(cmd *cobra.Command, flag string, words ...cobra.Completion) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is missing, or completed twice
	}
}
