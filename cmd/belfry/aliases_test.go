package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

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
