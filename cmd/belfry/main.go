package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/complete"
	"github.com/belfryhq/belfry/node"
)

const (
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitUnknown  = 4
	exitWarnings = 5 // doctor's
	exitCritical = 6
	// exitSettings is serve's exitUsage. A supervisor must not start it again after that, but must after a crash, whose
	// status in Go is 2.
	exitSettings = 78
)

func main() {
	// The first signal ends the context, and all parts stop in order. A second signal ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	cmd, err := newRoot().ExecuteContextC(ctx)
	switch {
	case err == nil, errors.Is(err, errSaid):
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "belfry: interrupted")
	default:
		fmt.Fprintln(os.Stderr, "belfry:", cli.Explain(cmd, err))
	}
	os.Exit(exitCode(cmd, err))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "belfry",
		Short: "A clustered timer service: it delivers tasks over HTTP when they are due",
		Long: `A clustered timer service: it delivers tasks over HTTP when they are due.

Nouns and verbs have short names, which their help shows: belfry t ls is
belfry task list. Tables show times in the zone of this machine, or of the
variable TZ; JSON and YAML have them in UTC.`,
		Example: `  belfry demo
  belfry local
  belfry task schedule hello --in 10s --url http://127.0.0.1:9000/`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	version := root.Flags().BoolP("version", "v", false, "version for belfry")
	root.Args = func(cmd *cobra.Command, args []string) error {
		if *version {
			return nil
		}
		return cli.KnownCommand(cmd, args)
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return printVersion(cmd)
		}
		return cmd.Help()
	}
	root.PersistentFlags().String("config", "", "YAML `file` with settings; its keys are the command's flags")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd == root { // it has no settings
			return nil
		}
		complete.Attach(cmd)
		return cli.Apply(cmd, os.LookupEnv)
	}
	root.SetFlagErrorFunc(cli.FlagError)
	cli.WrapHelp(root)
	root.AddGroup(&cobra.Group{ID: cli.RunGroup, Title: "Run nodes and receivers:"},
		&cobra.Group{ID: cli.CallGroup, Title: "Call a cluster:"},
		&cobra.Group{ID: cli.CheckGroup, Title: "Plan, prepare, check and restore:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
	add(cli.RunGroup, newServe(), newLocal(), newDemo(), newDev(), newListen())
	add(cli.CallGroup, newTask(), newSchedule(), newCalendar(), newQueue(), newLease(), newDead(), newTail())
	add(cli.CallGroup, newTop(), newBench(), newImport(), newRelay(), newApply(), newMCP())
	add(cli.CallGroup, cli.WithoutNamespace(newCluster(), newNode(), newShards(), newDoctor(), newAudit(), newBackup())...)
	add(cli.CallGroup, newOperation(), newKey())
	add(cli.CallGroup, cli.WithoutNamespace(newNamespace(), newWhoAmI(), newAdvance())...)
	add(cli.CallGroup, newContext())
	add(cli.CheckGroup, newPlan(), newCerts(), newVerify(), newRestore(), newRecover(), newHealthcheck())
	root.AddCommand(newVersion(), newCompletion(), newMan())
	addAliases(root)
	cli.CheckArgs(root)
	return root
}

// errSaid is a failure that the command has described already.
var errSaid = errors.New("failed")

func exitCode(cmd *cobra.Command, err error) int {
	var usage *cli.UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage) && cmd.Name() == "serve":
		return exitSettings
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, client.ErrNotFound):
		return exitNotFound
	case errors.Is(err, client.ErrUnknown):
		return exitUnknown
	case errors.Is(err, errCritical):
		return exitCritical
	case errors.Is(err, errWarnings):
		return exitWarnings
	}
	return exitFailed
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version, the commit, the Go version and the platform",
		Example: `  belfry version`,
		RunE:    func(cmd *cobra.Command, _ []string) error { return printVersion(cmd) },
	}
}

func printVersion(cmd *cobra.Command) error {
	_, err := fmt.Fprintln(cmd.OutOrStdout(), "belfry", node.ReadBuild())
	return err
}

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

// addAliases adds the other names of all commands below root.
func addAliases(root *cobra.Command) {
	for path, words := range foreignWords {
		if cmd, _, err := root.Find(strings.Fields(path)); err == nil {
			cmd.SuggestFor = words
		}
	}
	aliasBelow(root)
}

// aliasBelow adds the other names of nouns, and of the verbs of nouns. A name of a verb is no alias beside it.
func aliasBelow(parent *cobra.Command) {
	taken := func(name string) bool {
		return slices.ContainsFunc(parent.Commands(), func(c *cobra.Command) bool {
			return c.Name() == name || c.HasAlias(name)
		})
	}
	for _, cmd := range parent.Commands() {
		switch {
		case cmd.HasSubCommands():
			cmd.Aliases = nounAliases[cmd.Name()]
			aliasBelow(cmd)
		case parent.HasParent():
			cmd.Aliases = slices.DeleteFunc(slices.Clone(verbAliases[cmd.Name()]), taken)
		}
	}
}
