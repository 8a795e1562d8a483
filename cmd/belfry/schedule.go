package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

func newTaskSchedule() *cobra.Command {
	var caller caller
	var task taskFlags
	var key string
	var absent bool
	cmd := &cobra.Command{
		Use:   "schedule [ID]",
		Short: "Schedule a task, or replace the task of the same id",
		Long: `Schedule a task, or atomically replace the task of the same id.

Without an id the cluster makes one. Without --delay and --at the task is due
at once.

A task that was delivered is scheduled, and delivered, again. With --if-absent
the task is scheduled once: if a task of that id exists, even a finished one,
nothing changes, the command prints that task, and the exit status is 0. This
holds as long as the task can be read: for the queue's keep_done after its end.`,
		Example: `  belfry task schedule order-1042-close --if-absent --delay 30m \
    --url https://shop.example/close --payload '{"order": 1042}'
  belfry task schedule --at 2030-01-21T10:00:00Z -q reports -l tenant=acme`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := task.task(optional(args), cmd.InOrStdin())
			if err != nil {
				return cli.WrongUsage(err)
			}
			return caller.taskCall(cmd, func(conn *client.Client) (*client.Task, error) {
				var kept client.Task
				opts := append(scheduleOptions(key, absent), client.ReturnTask(&kept))
				_, err := conn.Schedule(cmd.Context(), t, opts...)
				if there := existing(err); absent && there != nil {
					cmd.PrintErrf("task %s is there already (%s): nothing was changed\n", there.ID, there.State)
					return there, nil
				}
				return &kept, err
			})
		},
	}
	caller.addFlags(cmd)
	task.addFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVarP(&key, "key", "k", "", "idempotency `key`: the same call again changes nothing, until two others "+
		"have changed the task or its tombstone is gone (default: a random one)")
	flags.BoolVar(&absent, "if-absent", false, "schedule once: only if there is no such task, finished or not")
	return cmd
}

// existing returns the task that kept a call from creating one. It is nil if err carries none.
func existing(err error) *client.Task {
	var refusal *client.Error
	if errors.Is(err, client.ErrPrecondition) && errors.As(err, &refusal) {
		return refusal.Task
	}
	return nil
}

func scheduleOptions(key string, absent bool) []client.Option {
	opts := keyOption(key)
	if absent {
		opts = append(opts, client.IfAbsent())
	}
	return opts
}

func keyOption(key string) []client.Option {
	if key == "" {
		return nil
	}
	return []client.Option{client.WithKey(key)}
}

func optional(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
