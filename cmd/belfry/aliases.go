package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// nounAliases are the other names of commands with subcommands.
var nounAliases = map[string][]string{
	"task": {"tasks", "t"}, "schedule": {"schedules", "sched"}, "calendar": {"calendars", "cal"},
	"queue": {"queues", "q"}, "lease": {"leases"}, "dead": {"dlq"}, "cluster": {"cl"}, "node": {"nodes", "no"},
	"shards": {"shard", "sh"}, "operation": {"operations", "op", "ops"}, "key": {"keys"},
	"namespace": {"namespaces", "ns"}, "context": {"contexts", "ctx"}, "token": {"tokens"},
}

// verbAliases are the other names of the commands below them. Nouns have the verb get or show, and take both.
var verbAliases = map[string][]string{
	"list": {"ls"}, "get": {"show"}, "show": {"get"}, "status": {"show", "get"}, "delete": {"rm", "remove"},
	"remove": {"rm", "delete"}, "revoke": {"rm", "delete", "remove"}, "drop": {"rm", "delete", "remove"},
	"schedule": {"add", "create"}, "put": {"create"}, "create": {"add"}, "rename": {"mv"}, "history": {"log"},
}

// foreignWords are the words of other products for a command, which an unknown command suggests.
var foreignWords = map[string][]string{
	"serve": {"server", "start", "run", "up"}, "doctor": {"health", "healthcheck", "diagnose", "check"},
	"tail": {"logs", "watch", "follow"}, "schedule": {"cron", "recurring"}, "advance": {"timewarp"},
	"task schedule": {"submit", "publish", "send", "delay"}, "task cancel": {"delete", "remove", "rm", "kill"},
	"task patch": {"update", "edit", "change"}, "task move": {"reschedule", "postpone", "snooze"},
	"task fire": {"trigger", "run-now"}, "task touch": {"debounce", "extend", "bump"},
	"queue set": {"create", "add", "new", "configure"}, "queue pause": {"stop", "hold", "disable"},
	"queue resume": {"unpause", "continue", "enable"}, "lease take": {"receive", "pull", "poll", "claim"},
	"lease ack": {"done", "complete"}, "dead replay": {"retry", "redrive", "requeue"}, "dead drop": {"purge", "clear"},
	"schedule put": {"set"}, "operation stop": {"abort"},
}

// addAliases adds the other names of all commands below root. A name of a command is no alias beside it.
func addAliases(root *cobra.Command) {
	for path, words := range foreignWords {
		if cmd, _, err := root.Find(strings.Fields(path)); err == nil {
			cmd.SuggestFor = words
		}
	}
	for _, noun := range root.Commands() {
		if noun.HasSubCommands() {
			noun.Aliases = nounAliases[noun.Name()]
			addVerbAliases(noun)
		}
	}
}

func addVerbAliases(noun *cobra.Command) {
	taken := func(name string) bool {
		return slices.ContainsFunc(noun.Commands(), func(c *cobra.Command) bool {
			return c.Name() == name || c.HasAlias(name)
		})
	}
	for _, verb := range noun.Commands() {
		if verb.HasSubCommands() {
			verb.Aliases = nounAliases[verb.Name()]
			addVerbAliases(verb)
			continue
		}
		for _, alias := range verbAliases[verb.Name()] {
			if !taken(alias) {
				verb.Aliases = append(verb.Aliases, alias)
			}
		}
	}
}
