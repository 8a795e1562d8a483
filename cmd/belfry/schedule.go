package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

func newSchedule() *cobra.Command {
	var caller caller
	var task taskFlags
	var key string
	var absent bool
	cmd := &cobra.Command{
		Use:   "schedule [ID]",
		Short: "Schedule a task, or replace the one of the same id",
		Long: `Schedule a task, or atomically replace the one of the same id.

Without an id the service makes one; with neither --in nor --at it is due at once.

A task that was delivered is scheduled, and delivered, again. With --if-absent it is scheduled once: if there is a
task of that id, finished ones included, nothing changes, that task is printed, and the exit status is 0. This holds as
long as the task can be read, which is the queue's keep_done after it has finished.`,
		Example: `  belfry schedule order-1042-close --if-absent --in 30m --url https://shop.example/close --payload '"7"'
  belfry schedule --at 2026-11-21T10:00:00Z --queue reports --label tenant=acme`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := task.task(optional(args), cmd.InOrStdin())
			if err != nil {
				return &usageError{err}
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			var kept client.Task
			opts := append(scheduleOptions(key, absent), client.ReturnTask(&kept))
			_, err = conn.Schedule(cmd.Context(), t, opts...)
			if there := existing(err); absent && there != nil {
				cmd.PrintErrf("task %s is there already (%s): nothing was changed\n", there.ID, there.State)
				kept, err = *there, nil
			}
			if err != nil {
				return err
			}
			return caller.show(cmd, kept, func(w io.Writer) { showTask(w, &kept) })
		},
	}
	caller.addFlags(cmd)
	task.addFlags(cmd.Flags())
	alias(cmd, "in", "delay")
	cmd.Flags().StringVar(&key, "key", "", "idempotency key: the same call again changes nothing, until two others have\n"+
		"changed the task or its tombstone is gone (default: a random one)")
	cmd.Flags().BoolVar(&absent, "if-absent", false, "schedule once: only if there is no such task, finished or not")
	return cmd
}

// existing returns the task that kept a call from creating one, nil if err says nothing of one.
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
