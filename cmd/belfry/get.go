package main

import (
	"io"

	"github.com/spf13/cobra"
)

func newGet() *cobra.Command {
	var caller caller
	var stale bool
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a task, also for a while after it is done",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			read := conn.Get
			if stale {
				read = conn.GetStale
			}
			task, err := read(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return caller.show(cmd, task, func(w io.Writer) { showTask(w, task) })
		},
	}
	caller.addFlags(cmd)
	cmd.Flags().BoolVar(&stale, "stale", false, "ask the nearest replica, which may be a little behind")
	return cmd
}
