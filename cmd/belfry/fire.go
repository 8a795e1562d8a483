package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

func newFire() *cobra.Command {
	var caller caller
	var key string
	cmd := &cobra.Command{
		Use:   "fire ID",
		Short: "Make a task due now; one between attempts is tried now",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			var task client.Task
			opts := append(keyOption(key), client.ReturnTask(&task))
			if _, err := conn.FireNow(cmd.Context(), args[0], opts...); err != nil {
				return err
			}
			return caller.show(cmd, task, func(w io.Writer) { showTask(w, &task) })
		},
	}
	caller.addFlags(cmd)
	cmd.Flags().StringVar(&key, "key", "", "idempotency key (default: a random one)")
	return cmd
}
