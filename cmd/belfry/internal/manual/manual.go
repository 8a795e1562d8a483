// Package manual writes the commands as manual pages of section 1, and as one Markdown page.
//
//	commands ──PageOf──▶ Page ──Roff──▶ belfry-task-get.1
//	                      └─────Markdown──▶ command-line.md
//
// The same commands give the same bytes: a page has no date, except for one that the caller gives.
//
// Why not cobra/doc? It makes Markdown first and roff of that, with a page's inherited flags apart from its own and no
// section on the environment. Its three packages would become part of the binary.
package manual

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

// Page describes a command.
type Page struct {
	Path        string // as in "belfry task get"
	Summary     string
	Usage       string
	Description []Block
	Options     []Option
	Connection  []Option // of a command that calls a cluster
	Examples    []string // lines of a shell
	Environment []Variable
	Settings    bool     // a file of --config sets the options, too
	Commands    []*Page  // below this one
	SeeAlso     []string // paths
}

// Block is a paragraph, or lines whose breaks and spaces count.
type Block struct {
	Text string
	Raw  bool
}

// Option is a flag.
type Option struct {
	Name, Letter, Value string // Value: placeholder of its value; empty: it takes none
	Usage, Default      string
}

// Variable is an environment variable that sets a flag, or holds a value that no flag does.
type Variable struct{ Name, Flag, Usage string }

// PageOf returns the page of a command, with the pages below it. Hidden commands are left out.
func PageOf(cmd *cobra.Command) *Page {
	cmd.InitDefaultHelpFlag()
	p := &Page{Path: cmd.CommandPath(), Summary: cmd.Short, Usage: strings.TrimSpace(cmd.UseLine()),
		Description: blocks(cmd.Long), Examples: trimmed(cmd.Example)}
	if cli.IsGroup(cmd) && cmd.HasParent() {
		p.Usage = cmd.CommandPath() + " COMMAND"
	}
	runs := cmd.HasParent() && !cli.IsGroup(cmd)
	cmd.InheritedFlags() // adds them to Flags
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "config" && runs || f.Deprecated != "" {
			return
		}
		if cli.IsConnection(f) {
			p.Connection = append(p.Connection, optionOf(f))
		} else {
			p.Options = append(p.Options, optionOf(f))
		}
		if name := cli.Variable(cmd, f); name != "" && runs {
			p.Environment = append(p.Environment, Variable{Name: name, Flag: f.Name})
		}
	})
	if cli.IsCall(cmd) && runs {
		p.Environment = append(p.Environment, Variable{Name: cli.KeyVariable, Usage: "an API key or a token"})
	}
	p.Settings = runs
	p.addRelatives(cmd)
	return p
}

// addRelatives adds the commands below and beside a command.
func (p *Page) addRelatives(cmd *cobra.Command) {
	for _, child := range cmd.Commands() {
		if child.IsAvailableCommand() {
			p.Commands = append(p.Commands, PageOf(child))
			p.SeeAlso = append(p.SeeAlso, child.CommandPath())
		}
	}
	if !cmd.HasParent() {
		return
	}
	parent := cmd.Parent()
	if parent.HasParent() {
		for _, other := range parent.Commands() {
			if other != cmd && other.IsAvailableCommand() {
				p.SeeAlso = append(p.SeeAlso, other.CommandPath())
			}
		}
	}
	p.SeeAlso = append([]string{parent.CommandPath()}, p.SeeAlso...)
}

// shortDuration matches the zeros at the end of a duration, as in 24h0m0s.
var shortDuration = regexp.MustCompile(`([hm])(0m)?0s$`)

func optionOf(f *pflag.Flag) Option {
	value, usage := pflag.UnquoteUsage(f)
	o := Option{Name: f.Name, Letter: f.Shorthand, Value: value, Usage: usage}
	if value == "stringArray" || value == "stringSlice" || value == "strings" {
		o.Value = "list"
	}
	if !slices.Contains([]string{"", "0", "0s", "false", "[]", "<nil>"}, f.DefValue) {
		o.Default = strings.Trim(f.DefValue, "[]")
		if f.Value.Type() == "duration" {
			o.Default = shortDuration.ReplaceAllString(o.Default, "$1")
		}
	}
	return o
}

// blocks splits a help text at its empty lines. Lines that begin with a space keep their form.
func blocks(text string) []Block {
	var list []Block
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		switch {
		case part == "":
		case strings.HasPrefix(part, " "):
			list = append(list, Block{Text: part, Raw: true})
		default:
			list = append(list, Block{Text: strings.Join(strings.Fields(part), " ")})
		}
	}
	return list
}

// trimmed returns the lines of an example without their indent.
func trimmed(example string) []string {
	if example == "" {
		return nil
	}
	lines := strings.Split(strings.TrimRight(example, "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return lines
}

// All returns a page and all below it.
func (p *Page) All() []*Page {
	list := []*Page{p}
	for _, child := range p.Commands {
		list = append(list, child.All()...)
	}
	return list
}

// setting describes the flag that a variable sets.
func (v *Variable) setting() string {
	if v.Flag == "" {
		return v.Usage
	}
	return fmt.Sprintf("sets --%s", v.Flag)
}

// Exit is an exit code with its meaning.
type Exit struct {
	Code    int
	Meaning string
	Calls   bool   // of commands that call a cluster alone
	Path    string // of this command alone; empty: of all
}

// exits returns the codes that a command ends with.
func (p *Page) exits(all []Exit) []Exit {
	return slices.DeleteFunc(slices.Clone(all), func(e Exit) bool {
		return e.Calls && len(p.Connection) == 0 || e.Path != "" && e.Path != p.Path
	})
}
