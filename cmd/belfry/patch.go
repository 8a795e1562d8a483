package main

import (
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

// patchFlags describe a change to a task on the command line.
type patchFlags struct {
	task  taskFlags
	clear []string
}

func newTaskPatch() *cobra.Command {
	var caller caller
	var f patchFlags
	var key string
	cmd := &cobra.Command{
		Use:   "patch ID",
		Short: "Change a task of which no attempt has begun",
		Long: `Change the given fields of a task of which no attempt has begun. The others
stay as they are.

Headers and labels are merged with those of the task; one without a value is
removed, as in --label tenant=. --clear sets a field back to its default:
target, target.timeout, retry, retry.max_attempts, labels, payload.`,
		Example: `  belfry task patch order-1042-close --delay 2h
  belfry task patch order-1042-close -p '{"reason": "late"}' --clear retry`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := f.patch(cmd.Flags().Changed, cmd.InOrStdin())
			if err != nil {
				return cli.WrongUsage(err)
			}
			return caller.taskCall(cmd, func(conn *client.Client) (*client.Task, error) {
				return conn.Patch(cmd.Context(), args[0], patch, keyOption(key)...)
			})
		},
	}
	caller.addFlags(cmd)
	flags := cmd.Flags()
	f.task.addPatchable(flags)
	flags.StringSliceVar(&f.clear, "clear", nil, "`fields` to set back to their defaults; repeatable")
	flags.StringVarP(&key, "key", "k", "", keyUsage)
	return cmd
}

// patch returns the change that the given flags describe.
func (f *patchFlags) patch(given func(flag string) bool, stdin io.Reader) (client.Patch, error) {
	t, err := f.task.parse("", stdin)
	if err != nil {
		return client.Patch{}, err
	}
	switch {
	case given("delay") && t.Delay == 0:
		return client.Patch{}, errors.New("--delay must be more than 0; belfry task fire makes a task due now")
	case t.PayloadBytes != nil:
		return client.Patch{}, errors.New("the payload is not JSON; schedule the task anew to deliver other bytes")
	}
	p := client.Patch{
		FireAt: t.FireAt, Delay: t.Delay, Payload: t.Payload, ContentType: t.ContentType, Labels: t.Labels, Clear: f.clear,
	}
	if given("url") || given("header") || given("attempt-timeout") {
		p.Target = t.Target
	}
	if !t.Retry.IsZero() {
		p.Retry = t.Retry
	}
	if !slices.ContainsFunc(patchable, given) && len(f.clear) == 0 {
		return p, errors.New("give what to change, as in --delay 2h; see belfry task patch --help")
	}
	return p, nil
}
