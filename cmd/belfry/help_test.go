package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"mvdan.cc/sh/v3/syntax"

	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/internal/assert"
)

// eachCommand calls f for every command below cmd.
func eachCommand(cmd *cobra.Command, f func(*cobra.Command)) {
	for _, child := range cmd.Commands() {
		f(child)
		eachCommand(child, f)
	}
}

// sentenceEnds match the ends of sentences, of their parts and of paragraphs, and the lines of a list.
var sentenceEnds = regexp.MustCompile(`[.:;]\s|\n\n|\n  `)

const sentenceWords = 30

// Every command has a summary of one line, an example, and a help in short sentences that fits into a terminal of 80
// columns.
func TestHelp(t *testing.T) {
	root := newRoot()
	root.InitDefaultHelpFlag()
	eachCommand(root, func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		if cmd.Short == "" || cmd.Args == nil || cmd.RunE == nil {
			t.Errorf("%s has no description, no rule about arguments, or nothing to run", path)
		}
		if cmd.Example == "" {
			t.Errorf("%s has no example", path)
		}
		out, err := printed(t, append(strings.Fields(path)[1:], "--help")...)
		assert.NoError(t, err)
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > cli.HelpWidth {
				t.Errorf("%s --help: a line of %d columns: %s", path, n, line)
			}
		}
		for _, sentence := range sentenceEnds.Split(cmd.Long, -1) {
			if n := len(strings.Fields(sentence)); n > sentenceWords {
				t.Errorf("%s --help: a sentence of %d words: %s", path, n, sentence)
			}
		}
		own, _, grouped := strings.Cut(out, "\n\nConnection flags:\n")
		if calls := cli.IsCall(cmd) && !cli.IsGroup(cmd); grouped != calls || calls && strings.Contains(own, "--timeout") {
			t.Errorf("%s --help: the flags of the connection have no section of their own:\n%s", path, out)
		}
		if strings.HasSuffix(cmd.Short, ".") || strings.Contains(out, "stringArray") || strings.Contains(out, "stringSlice") {
			t.Errorf("%s --help:\n%s", path, out)
		}
	})
}

// Examples are command lines that the commands take.
func TestExamples(t *testing.T) {
	root := newRoot()
	eachCommand(root, func(cmd *cobra.Command) {
		for _, args := range commandLines(t, cmd.Example) {
			found, rest, err := root.Find(args)
			if err != nil {
				t.Errorf("%s: %v: %v", cmd.CommandPath(), args, err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: %v: %v", cmd.CommandPath(), args, err)
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%s: %v: %v", cmd.CommandPath(), args, err)
			}
		}
	})
}

// commandLines returns the arguments of every call of belfry in a shell script.
func commandLines(t *testing.T, script string) (lines [][]string) {
	t.Helper()
	file, err := syntax.NewParser().Parse(strings.NewReader(script), "")
	assert.NoError(t, err, "%s", script)
	syntax.Walk(file, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 || call.Args[0].Lit() != "belfry" {
			return true
		}
		var args []string
		for _, word := range call.Args[1:] {
			args = append(args, literal(word))
		}
		lines = append(lines, args)
		return true
	})
	if len(lines) == 0 {
		t.Errorf("no call in:\n%s", script)
	}
	return lines
}

// literal returns a word of a shell script without its quotes.
func literal(word *syntax.Word) string {
	var text strings.Builder
	syntax.Walk(word, func(node syntax.Node) bool {
		switch part := node.(type) {
		case *syntax.Lit:
			text.WriteString(part.Value)
		case *syntax.SglQuoted:
			text.WriteString(part.Value)
		}
		return true
	})
	return text.String()
}

// Flags have the same names in all commands, and a letter stands for one flag.
func TestFlagsAgreeAmongCommands(t *testing.T) {
	letters := map[string]string{}
	eachCommand(newRoot(), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Usage == "" {
				t.Errorf("%s --%s says nothing about itself", cmd.CommandPath(), f.Name)
			}
			if strings.ToLower(f.Name) != f.Name || strings.Contains(f.Name, "_") {
				t.Errorf("%s --%s is not in lower case with dashes", cmd.CommandPath(), f.Name)
			}
			ofKubectl := f.Name == "file" && cmd.Name() == "apply" // whose apply has -f
			if letter := f.Shorthand; letter != "" && !ofKubectl {
				if letters[letter] != "" && letters[letter] != f.Name {
					t.Errorf("%s: -%s is --%s, and --%s elsewhere", cmd.CommandPath(), letter, f.Name, letters[letter])
				}
				letters[letter] = f.Name
			}
		})
		if cli.IsCall(cmd) && !cli.IsGroup(cmd) {
			for _, name := range []string{"addr", "timeout", "json", "output", "context", "namespace", "key-file", "ca", "client-cert", "client-key"} {
				if cmd.Flags().Lookup(name) == nil {
					t.Errorf("%s has no --%s", cmd.CommandPath(), name)
				}
			}
		}
	})
}

// A shell completes nouns, their verbs, and the values of flags that take one of a few words.
func TestCompletion(t *testing.T) {
	for args, want := range map[string][]string{
		"tas": {"task"}, "task sch": {"schedule"}, "queue p": {"patch", "pause"}, "cluster ": {"replication", "rotate-jwt-keys", "status"},
		"schedule put a --misfire ": {"all", "latest", "skip"},
		"task list --state ":        {"cancelled", "dead", "delivered", "firing", "ready", "retrying", "scheduled"},
		"serve --timing ":           {"fast", "lan", "wan"},
		"serve --log-format ":       {"json", "text"}, "serve --log-store ": {"boltdb", "wal"},
		"serve --log-level ": {"debug", "error", "info", "warn"},
	} {
		words := strings.Split(args, " ")
		out, err := printed(t, append([]string{"__complete"}, words...)...)
		assert.NoError(t, err)
		var got []string
		for line := range strings.Lines(out) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			if word == "" || word[0] == ':' || strings.HasPrefix(word, "Completion ended") {
				continue // a blank line, or the shell's directive
			}
			got = append(got, word)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("belfry %s: %q, want %q", args, got, want)
		}
	}
}

// Within a command each name and each alias stands for one command.
func TestAliasesDoNotCollide(t *testing.T) {
	root := newRoot()
	check := func(parent *cobra.Command) {
		owners := map[string]string{}
		for _, cmd := range parent.Commands() {
			for _, name := range append([]string{cmd.Name()}, cmd.Aliases...) {
				if owners[name] != "" {
					t.Errorf("%s %s is %s and %s", parent.CommandPath(), name, owners[name], cmd.Name())
				}
				owners[name] = cmd.Name()
			}
		}
	}
	check(root)
	eachCommand(root, check)
	for noun := range nounAliases {
		cmd, _, err := root.Find([]string{noun})
		if noun != "token" && (err != nil || len(cmd.Aliases) == 0) {
			t.Errorf("no command %s has aliases: %v", noun, err)
		}
	}
}

// A short name leads to its command, and the help shows it.
func TestAliases(t *testing.T) {
	for line, want := range map[string]string{
		"t ls": "belfry task list", "tasks show a": "belfry task get", "q rm x": "belfry queue delete",
		"ns ls": "belfry namespace list", "sched get a": "belfry schedule show", "op ls": "belfry operation list",
		"key rm a": "belfry key revoke", "no rm a": "belfry node remove", "dlq rm q": "belfry dead drop",
		"node tokens ls": "belfry node token list", "ctx mv a b": "belfry context rename", "cl show": "belfry cluster status",
		"shard ls": "belfry shards list", "cal rm a": "belfry calendar delete", "t add a": "belfry task schedule",
		"t log a": "belfry task history",
	} {
		cmd, _, err := newRoot().Find(strings.Fields(line))
		if err != nil || cmd.CommandPath() != want {
			t.Errorf("belfry %s is %s, %v; want %s", line, cmd.CommandPath(), err, want)
		}
	}
	for line, want := range map[string]string{"task --help": "task, tasks, t", "task list --help": "list, ls"} {
		out, err := printed(t, strings.Fields(line)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("belfry %s: %v, want %q:\n%s", line, err, want, out)
		}
	}
}

// The flag --version prints the same text as the command, even where an image sets the environment variable of its
// name.
func TestVersionFlag(t *testing.T) {
	t.Setenv("BELFRY_VERSION", "1.2.3")
	flag, code := belfry(t, "--version")
	command, _ := belfry(t, "version")
	if code != 0 || flag != command || !strings.HasPrefix(flag, "belfry dev (commit ") {
		t.Errorf("%d: %q, and the command prints %q", code, flag, command)
	}
	if out, code := belfry(t); code != 0 || !strings.Contains(out, "--version") {
		t.Errorf("%d\n%s", code, out)
	}
}

// TestModules compares the modules in the program, each with the number of its packages, with testdata/modules.txt. A
// new module is one to trust and to keep up to date, and each package costs every first build and the size of the
// program. With BELFRY_REFERENCE=write the test writes the file.
func TestModules(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	list.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOPROXY=off")
	out, err := list.Output()
	assert.NoError(t, err, "%v", list)
	packages := map[string]int{}
	for module := range strings.FieldsSeq(string(out)) { // the standard library's packages have none
		packages[module]++
	}
	var got strings.Builder
	for _, module := range slices.Sorted(maps.Keys(packages)) {
		if module != "github.com/belfryhq/belfry" {
			fmt.Fprintln(&got, module, packages[module])
		}
	}
	const file = "testdata/modules.txt"
	if os.Getenv("BELFRY_REFERENCE") == "write" {
		assert.NoError(t, os.WriteFile(file, []byte(got.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	assert.NoError(t, err)
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("modules of the program; to accept them: BELFRY_REFERENCE=write go test -run TestModules .\n%s", diff)
	}
}
