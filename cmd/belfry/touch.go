package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
)

func newTouch() *cobra.Command {
	var caller caller
	var delay, latest, key string
	cmd := &cobra.Command{
		Use:     "touch ID",
		Short:   "Start a task's delay again from now",
		Example: "  belfry touch session-7 --delay 15m --no-later-than 1h    # at most an hour after it was created",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			touch, err := parseTouch(delay, latest)
			if err != nil {
				return &usageError{err}
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			var task client.Task
			opts := append(keyOption(key), client.ReturnTask(&task))
			if _, err := conn.Touch(cmd.Context(), args[0], touch, opts...); err != nil {
				return err
			}
			return caller.show(cmd, task, func(w io.Writer) { showTask(w, &task) })
		},
	}
	caller.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVar(&delay, "delay", "", "the delay to start (default: the task's last)")
	flags.StringVar(&latest, "no-later-than", "", "but not beyond this instant, or this long after the task was created")
	flags.StringVar(&key, "key", "", "idempotency key (default: a random one)")
	alias(cmd, "delay", "in")
	return cmd
}

func parseTouch(delay, latest string) (client.Touch, error) {
	var touch client.Touch
	if err := parseInto(&touch.Delay, "delay", delay); err != nil || latest == "" {
		return touch, err
	}
	return touch, parseAtOrSpan(&touch.NoLaterThan, &touch.NoOlderThan, "no-later-than", latest)
}
