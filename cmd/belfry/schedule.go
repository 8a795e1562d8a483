package main

import (
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

Without an id the service makes one; with neither --in nor --at it is due at once.`,
		Example: `  belfry schedule order-1042-close --in 30m --url https://shop.example/close --payload '{"order":1042}'
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
			if _, err := conn.Schedule(cmd.Context(), t, opts...); err != nil {
				return err
			}
			return caller.show(cmd, kept, func(w io.Writer) { showTask(w, &kept) })
		},
	}
	caller.addFlags(cmd)
	task.addFlags(cmd)
	cmd.Flags().StringVar(&key, "key", "", "idempotency key: the same call again changes nothing (default: a random one)")
	cmd.Flags().BoolVar(&absent, "if-absent", false, "only if there is no such task, finished ones included")
	return cmd
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
