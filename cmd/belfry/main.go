package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/node"
)

const (
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitUnknown  = 4
)

func main() {
	// The first signal ends the context and all stops in order; a second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	cmd, err := newRoot().ExecuteContextC(ctx)
	switch {
	case err == nil, errors.Is(err, errSaid):
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "belfry: interrupted")
	default:
		fmt.Fprintln(os.Stderr, "belfry:", explain(cmd, err))
	}
	os.Exit(exitCode(err))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "belfry",
		Short:         "A clustered timer service: deliver this, then",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          knownCommand,
		Version:       node.ReadBuild().String(),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("belfry {{.Version}}\n")
	root.PersistentFlags().String("config", "", "YAML file with settings: its keys are the command's flags")
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return applySettings(cmd.Flags(), os.LookupEnv) }
	root.SetFlagErrorFunc(flagError)
	root.AddGroup(&cobra.Group{ID: "run", Title: "Run:"}, &cobra.Group{ID: "call", Title: "Call a cluster:"})
	add := func(group string, commands ...*cobra.Command) {
		for _, cmd := range commands {
			cmd.GroupID = group
			cmd.Args = usageArgs(cmd.Args)
			root.AddCommand(cmd)
		}
	}
	add("run", newServe(), newLocal(), newDemo(), newListen(), newVerify(), newPlan())
	add("call", newSchedule(), newCancel(), newGet(), newList(), newTouch(), newPatch(), newFire(), newBatch(), newQueue(),
		newLease(), newSettle(), newAck(), newDead(), newCluster())
	root.AddCommand(newVersion())
	return root
}

// errSaid is a failure that the command has told of already.
var errSaid = errors.New("failed")

func exitCode(err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &usage):
		return exitUsage
	case errors.Is(err, client.ErrNotFound):
		return exitNotFound
	case errors.Is(err, client.ErrUnknown):
		return exitUnknown
	}
	return exitFailed
}
