package main

import (
	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
)

func newTask() *cobra.Command {
	return group(&cobra.Command{
		Use:   "task",
		Short: "Schedule, read, change and cancel tasks",
		Example: `  belfry task schedule hello --delay 10s --url http://127.0.0.1:9000/
  belfry task get hello`,
	}, newTaskSchedule(), newTaskGet(), newTaskList(), newTaskCancel(), newTaskTouch(), newTaskFire(), newTaskPatch(),
		newTaskBatch())
}

func newTaskGet() *cobra.Command {
	var caller caller
	var stale bool
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a task, even a finished one while its queue keeps it",
		Example: `  belfry task get order-1042-close
  belfry task get order-1042-close --json | jq .state`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return caller.taskCall(cmd, func(conn *client.Client) (*client.Task, error) {
				if stale {
					return conn.GetStale(cmd.Context(), args[0])
				}
				return conn.Get(cmd.Context(), args[0])
			})
		},
	}
	caller.addFlags(cmd)
	cmd.Flags().BoolVar(&stale, "stale", false, "read from the nearest replica, which may be a little behind")
	return cmd
}

func newTaskCancel() *cobra.Command {
	var caller caller
	var key string
	cmd := &cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a task; the answer says whether an attempt had begun",
		Example: `  belfry task cancel order-1042-close
  belfry task cancel order-1042-close --json | jq -r .outcome`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			outcome, err := conn.Cancel(cmd.Context(), args[0], keyOption(key)...)
			if err != nil {
				return err
			}
			return caller.show(cmd, map[string]client.Outcome{"outcome": outcome}, func(t *cli.Table) {
				t.Row("%s: %s", outcome, meaning(outcome))
			})
		},
	}
	caller.addFlags(cmd)
	cmd.Flags().StringVarP(&key, "key", "k", "", keyUsage)
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

func newTaskTouch() *cobra.Command {
	var caller caller
	var delay, latest, key string
	cmd := &cobra.Command{
		Use:   "touch ID",
		Short: "Start a task's delay again from now",
		Example: `  belfry task touch session-7 --delay 15m
  belfry task touch session-7 --no-later-than 1h   # 1h after its creation`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			touch, err := parseTouch(delay, latest)
			if err != nil {
				return cli.WrongUsage(err)
			}
			return caller.taskCall(cmd, func(conn *client.Client) (*client.Task, error) {
				var task client.Task
				_, err := conn.Touch(cmd.Context(), args[0], touch, append(keyOption(key), client.ReturnTask(&task))...)
				return &task, err
			})
		},
	}
	caller.addFlags(cmd)
	flags := cmd.Flags()
	flags.StringVarP(&delay, "delay", "d", "", "the `delay` to start (default: the task's last)")
	flags.StringVar(&latest, "no-later-than", "",
		"latest `time` at which it is due: an instant, or a duration from the task's creation")
	flags.StringVarP(&key, "key", "k", "", keyUsage)
	return cmd
}

func parseTouch(delay, latest string) (client.Touch, error) {
	var touch client.Touch
	if err := cli.ParseInto(&touch.Delay, "delay", delay); err != nil || latest == "" {
		return touch, err
	}
	return touch, cli.ParseAtOrSpan(&touch.NoLaterThan, &touch.NoOlderThan, "no-later-than", latest)
}

func newTaskFire() *cobra.Command {
	var caller caller
	var key string
	cmd := &cobra.Command{
		Use:     "fire ID",
		Short:   "Make a task due now; a task between two attempts is tried now",
		Example: `  belfry task fire order-1042-close`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return caller.taskCall(cmd, func(conn *client.Client) (*client.Task, error) {
				var task client.Task
				_, err := conn.FireNow(cmd.Context(), args[0], append(keyOption(key), client.ReturnTask(&task))...)
				return &task, err
			})
		},
	}
	caller.addFlags(cmd)
	cmd.Flags().StringVarP(&key, "key", "k", "", keyUsage)
	return cmd
}
