package main

import (
	"errors"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newTask() *cobra.Command {
	return group(&cobra.Command{
		Use:   "task",
		Short: "Schedule, read, change and cancel tasks",
		Example: `  belfry task schedule hello --in 10s --url http://127.0.0.1:9000/
  belfry task get hello`,
	}, newTaskSchedule(), newTaskGet(), newTaskList(), newTaskCancel(), newTaskTouch(), newTaskFire(), newTaskPatch(),
		newTaskMove(), newTaskBatch(), newTaskHistory())
}

func newTaskGet() *cobra.Command {
	var caller caller
	var stale bool
	cmd := &cobra.Command{
		Use:   "get ID",
		Short: "Show a task, even a finished one while its queue keeps it",
		Example: `  belfry task get order-1042-close
  belfry task get order-1042-close --json | jq .state`,
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
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			outcome, err := conn.Cancel(cmd.Context(), args[0], keyOption(key)...)
			if err != nil {
				return err
			}
			return caller.show(cmd, map[string]client.Outcome{"outcome": outcome}, func(t *output.Table) {
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
	var times cli.Times
	cmd := &cobra.Command{
		Use:   "touch ID",
		Short: "Start a task's delay again from now",
		Example: `  belfry task touch session-7 --in 15m
  belfry task touch session-7 --no-later-than 1h   # 1h after its creation`,
		RunE: func(cmd *cobra.Command, args []string) error {
			touch, err := parseTouch(&times, delay, latest)
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
	flags.StringVarP(&delay, "in", "d", "", "the `delay` to start (default: the task's last)")
	flags.StringVar(&latest, "no-later-than", "",
		"latest `time` at which it is due: an instant, or a duration from the task's creation")
	flags.StringVarP(&key, "key", "k", "", keyUsage)
	times.AddFlags(cmd)
	cli.HiddenName(cmd, "delay", "in")
	return cmd
}

func parseTouch(times *cli.Times, delay, latest string) (client.Touch, error) {
	var touch client.Touch
	if err := cli.ParseInto(&touch.Delay, "in", delay); err != nil || latest == "" {
		return touch, err
	}
	return touch, times.AtOrSpan(&touch.NoLaterThan, &touch.NoOlderThan, "no-later-than", latest)
}

func newTaskFire() *cobra.Command {
	var caller caller
	var key string
	cmd := &cobra.Command{
		Use:     "fire ID",
		Short:   "Make a task due now; a task between two attempts is tried now",
		Example: `  belfry task fire order-1042-close`,
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
		Example: `  belfry task patch order-1042-close --in 2h
  belfry task patch order-1042-close -p '{"reason": "late"}' --clear retry`,
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
	f.task.addPatchable(cmd)
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
	case given("in") && t.Delay == 0:
		return client.Patch{}, errors.New("--in must be more than 0; belfry task fire makes a task due now")
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
		return p, errors.New("give what to change, as in --in 2h; see belfry task patch --help")
	}
	return p, nil
}
