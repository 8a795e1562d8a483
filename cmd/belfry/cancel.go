package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

func newCancel() *cobra.Command {
	var caller caller
	var key string
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a task and say, for good, what that came to",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			outcome, err := conn.Cancel(cmd.Context(), args[0], keyOption(key)...)
			if err != nil {
				return err
			}
			return caller.show(cmd, map[string]client.Outcome{"outcome": outcome}, func(w io.Writer) {
				_, _ = fmt.Fprintf(w, "%s: %s\n", outcome, meaning(outcome)) // into the table's memory
			})
		},
	}
	caller.addFlags(cmd)
	cmd.Flags().StringVar(&key, "key", "", "idempotency key (default: a random one)")
	return cmd
}

func meaning(o client.Outcome) string {
	switch o {
	case client.OutcomeCancelled:
		return "no attempt was ever begun, and none will be"
	case client.OutcomeStopped:
		return "an attempt was begun and may have been delivered; no further one will be"
	case client.OutcomeAlreadyFired:
		return "it was delivered or dead before"
	}
	return "an outcome that this version does not know"
}
