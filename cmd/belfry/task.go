package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newTask() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "task",
		Short: "Schedule, read, change and cancel tasks",
		Example: `  belfry task schedule hello --in 10s --url http://127.0.0.1:9000/
  belfry task get hello`,
	}, newTaskSchedule(), newTaskGet(), newTaskList(), newTaskCancel(), newTaskTouch(), newTaskFire(), newTaskPatch(),
		newTaskMove(), newTaskBatch(), newTaskHistory())
}

// withKeyFlag adds --key to a command that makes a change.
func withKeyFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().StringP("key", "k", "", "idempotency `key` (default: a random one)")
	return cmd
}

// keyOption adds the key of --key to the options of a call.
func keyOption(c *cli.Call, options ...client.Option) []client.Option {
	if key := c.Text("key"); key != "" {
		options = append(options, client.WithKey(key))
	}
	return options
}

func newTaskSchedule() *cobra.Command {
	var f taskFlags
	var absent bool
	cmd := withKeyFlag(cli.Verb(&cobra.Command{
		Use:   "schedule [ID]",
		Short: "Schedule a task, or replace the task of the same id",
		Long: `Schedule a task, or atomically replace the task of the same id.

Without an id the cluster makes one. Without --in and --at the task is due
at once.

A task that was delivered is scheduled, and delivered, again. With --if-absent
the task is scheduled once: if a task of that id exists, even a finished one,
nothing changes, the command prints that task, and the exit status is 0. This
holds as long as the task can be read: for the queue's keep_done after its end.`,
		Example: `  belfry task schedule order-1042-close --if-absent --in 30m \
    --url https://shop.example/close --payload '{"order": 1042}'
  belfry task schedule --at "tomorrow 9:00" -q reports -l tenant=acme`,
	}, func(c *cli.Call) (*client.Task, error) {
		task, err := f.task(c.Arg(), c.In())
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		var kept client.Task
		_, err = c.Client.Schedule(c.Context(), task, scheduleOptions(c, absent, client.ReturnTask(&kept))...)
		if refusal := refusalOf(err); absent && refusal.Task != nil {
			c.Note("task %s is there already (%s): nothing was changed", refusal.Task.ID, refusal.Task.State)
			return refusal.Task, nil
		}
		if err == nil {
			warnWithoutReceiver(c, &kept)
		}
		return &kept, err
	}, fillTask))
	f.addFlags(cmd)
	flags := cmd.Flags()
	flags.Lookup("key").Usage = "idempotency `key`: the same call again changes nothing, until two others " +
		"have changed the task or its tombstone is gone (default: a random one)"
	flags.BoolVar(&absent, "if-absent", false, "schedule once: only if there is no such task, finished or not")
	return cmd
}

// scheduleOptions adds --key and --if-absent to the options of a call.
func scheduleOptions(c *cli.Call, absent bool, options ...client.Option) []client.Option {
	if absent {
		options = append(options, client.IfAbsent())
	}
	return keyOption(c, options...)
}

// refusalOf returns the refusal of a condition, with the task or the schedule that kept a call from creating one. Other
// errors have none.
func refusalOf(err error) (refusal client.Error) {
	var found *client.Error
	if errors.Is(err, client.ErrPrecondition) && errors.As(err, &found) {
		return *found
	}
	return refusal
}

// warnWithoutReceiver says on the standard error that a stored task has no receiver and its queue has no consumer, as
// when --url was forgotten or the name of the queue is mistyped. A caller who may not read queues gets no warning.
func warnWithoutReceiver(c *cli.Call, task *client.Task) {
	if task.Target != nil {
		return
	}
	name := cmp.Or(task.Queue, "default")
	q, err := c.Client.Queue(c.Context(), name)
	if errors.Is(err, client.ErrNotFound) { // a schedule without an occurrence is no task
		q, err = &client.Queue{Name: name}, nil
	}
	if err != nil || q.Target != nil || q.Counts != nil && q.Counts.Leased > 0 {
		return
	}
	others := slices.DeleteFunc(queueNames(c), func(other string) bool { return other == name })
	c.Note("note: no --url is given, and queue %s has no receiver and no consumer with a lease%s: the task "+
		"waits for a consumer, such as belfry lease take %[1]s", shellWord(name), cli.DidYouMean(name, others))
}

func newTaskGet() *cobra.Command {
	var stale bool
	cmd := cli.Verb(&cobra.Command{
		Use:   "get ID",
		Short: "Show a task, even a finished one while its queue keeps it",
		Example: `  belfry task get order-1042-close
  belfry task get order-1042-close --json | jq .state`,
	}, func(c *cli.Call) (*client.Task, error) {
		if stale {
			return c.Client.GetStale(c.Context(), c.Args[0])
		}
		return c.Client.Get(c.Context(), c.Args[0])
	}, fillTask)
	cmd.Flags().BoolVar(&stale, "stale", false, "read from the nearest replica, which may be a little behind")
	return cmd
}

func newTaskCancel() *cobra.Command {
	return withKeyFlag(cli.Verb(&cobra.Command{
		Use:   "cancel ID",
		Short: "Cancel a task; the answer says whether an attempt had begun",
		Example: `  belfry task cancel order-1042-close
  belfry task cancel order-1042-close --json | jq -r .outcome`,
	}, func(c *cli.Call) (map[string]client.Outcome, error) {
		outcome, err := c.Client.Cancel(c.Context(), c.Args[0], keyOption(c)...)
		return map[string]client.Outcome{"outcome": outcome}, err
	}, func(t *output.Table, answer map[string]client.Outcome) {
		t.Row("%s: %s", answer["outcome"], describeOutcome(answer["outcome"]))
	}))
}

func describeOutcome(o client.Outcome) string {
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
	var delay, latest, payload string
	var added []string
	var times cli.Times
	cmd := withKeyFlag(cli.Verb(&cobra.Command{
		Use:   "touch ID",
		Short: "Start a task's delay again from now",
		Example: `  belfry task touch session-7 --in 15m
  belfry task touch session-7 --no-later-than 1h   # 1h after its creation
  belfry task touch cart-7 --append '{"sku": 12}'  # to its array`,
	}, func(c *cli.Call) (*client.Task, error) {
		touch := client.Touch{Payload: json.RawMessage(payload)}
		for _, v := range added {
			touch.Append = append(touch.Append, json.RawMessage(v))
		}
		if payload == "" {
			touch.Payload = nil
		}
		err := cli.ParseInto(&touch.Delay, "in", delay)
		if err == nil {
			err = times.AtOrSpan(&touch.NoLaterThan, &touch.NoOlderThan, "no-later-than", latest)
		}
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		var task client.Task
		_, err = c.Client.Touch(c.Context(), c.Args[0], touch, keyOption(c, client.ReturnTask(&task))...)
		return &task, err
	}, fillTask))
	flags := cmd.Flags()
	flags.StringVarP(&delay, "in", "d", "", "the `delay` to start (default: the task's last)")
	flags.StringVar(&latest, "no-later-than", "",
		"latest `time` at which it is due: an instant, or a duration from the task's creation")
	flags.StringVarP(&payload, "payload", "p", "", "replace the payload by this `JSON`")
	flags.StringArrayVar(&added, "append", nil, "add this `JSON` to the array that is the payload; repeatable")
	times.AddFlags(cmd)
	cli.HiddenName(cmd, "delay", "in")
	return cmd
}

func newTaskFire() *cobra.Command {
	return withKeyFlag(cli.Verb(&cobra.Command{
		Use:     "fire ID",
		Short:   "Make a task due now; a task between two attempts is tried now",
		Example: `  belfry task fire order-1042-close`,
	}, func(c *cli.Call) (*client.Task, error) {
		var task client.Task
		_, err := c.Client.FireNow(c.Context(), c.Args[0], keyOption(c, client.ReturnTask(&task))...)
		return &task, err
	}, fillTask))
}

func newTaskPatch() *cobra.Command {
	var f taskFlags
	var cleared []string
	cmd := withKeyFlag(cli.Verb(&cobra.Command{
		Use:   "patch ID",
		Short: "Change a task of which no attempt has begun",
		Long: `Change the given fields of a task of which no attempt has begun. The others
stay as they are.

Headers and labels are merged with those of the task; one without a value is
removed, as in --label tenant=. --clear sets a field back to its default:
target, target.timeout, retry, retry.max_attempts, labels, payload.`,
		Example: `  belfry task patch order-1042-close --in 2h
  belfry task patch order-1042-close -p '{"reason": "late"}' --clear retry`,
	}, func(c *cli.Call) (*client.Task, error) {
		patch, err := f.patch(c, cleared)
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		return c.Client.Patch(c.Context(), c.Args[0], patch, keyOption(c)...)
	}, fillTask))
	f.addPatchable(cmd)
	cmd.Flags().StringSliceVar(&cleared, "clear", nil, "`fields` to set back to their defaults; repeatable")
	return cmd
}

func newTaskMove() *cobra.Command {
	var f taskFlags
	cmd := withKeyFlag(cli.Verb(&cobra.Command{
		Use:   "move ID",
		Short: "Change when a task is due, if no attempt of it has begun",
		Long: `Change when a task is due, if no attempt of it has begun. The other fields stay
as they are.`,
		Example: `  belfry task move order-1042-close --in 2h
  belfry task move order-1042-close --at "monday 9:00" --tz Europe/Berlin`,
	}, func(c *cli.Call) (*client.Task, error) {
		patch, err := f.move()
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		return c.Client.Patch(c.Context(), c.Args[0], patch, keyOption(c)...)
	}, fillTask))
	f.addTime(cmd)
	return cmd
}

func newTaskBatch() *cobra.Command {
	cmd := cli.PlainVerb(&cobra.Command{
		Use:   "batch [FILE]",
		Short: "Carry out many operations, a line of JSON each",
		Long: `Carry out many operations from a file or the standard input, a line of JSON
each, as POST /v1/batch takes them.

The answers are printed as they come, a line of JSON for each operation, in the
same order. The exit status is 0 if all were carried out, 1 if any was refused,
and 4 if the answer broke off: then operations without an answer may have been
carried out, and those with a "key" can be sent again.`,
		Example: `  belfry task batch tasks.ndjson
  echo '{"op": "schedule", "id": "a", "delay": "1h"}' | belfry task batch`,
	}, func(c *cli.Call) error {
		in, err := input(c, c.Arg())
		if err != nil {
			return cli.WrongUsage(err)
		}
		defer func() { _ = in.Close() }() // the file was only read
		return batch(c, in)
	})
	cmd.Flags().Lookup("json").Usage = "changes nothing: the answers are lines of JSON"
	cmd.Flags().Lookup("output").Usage = "`form` of the answers: json or yaml (default json)"
	return cmd
}

// input opens a file; an empty name and - mean the standard input.
func input(c *cli.Call, name string) (io.ReadCloser, error) {
	if name == "" || name == "-" {
		return io.NopCloser(c.In()), nil
	}
	return os.Open(name)
}

// batch prints the answers, and fails if an operation was refused.
func batch(c *cli.Call, in io.Reader) error {
	answered, refused := 0, 0
	err := c.Client.BatchLines(c.Context(), in, func(line []byte) error {
		var answer struct{ Status int }
		if err := json.Unmarshal(line, &answer); err != nil {
			return fmt.Errorf("line %d of the answer cannot be read: %w", answered+1, err)
		}
		if answered++; answer.Status < 200 || answer.Status > 299 {
			refused++
		}
		return c.Out.Encode(json.RawMessage(line))
	})
	switch {
	case err != nil && answered > 0:
		return fmt.Errorf("%w (operations answered before: %d)", err, answered)
	case err != nil:
		return err
	case refused > 0:
		c.Note("%d of %d operations were refused", refused, answered)
		return errSaid
	case answered == 0:
		return cli.WrongUsage(errors.New("there was no operation to carry out"))
	}
	return nil
}

// fillTask adds the fields of a task that are set.
func fillTask(t *output.Table, task *client.Task) {
	t.Field("id", task.ID)
	t.Field("state", string(task.State))
	t.Field("outcome", string(task.Outcome))
	t.Field("previous", string(task.Previous))
	t.Field("queue", task.Queue)
	t.Time("fire at", task.FireAt)
	t.Time("next attempt", task.NextAttemptAt)
	t.Field("attempts", fmt.Sprint(task.Attempts))
	t.Field("last error", task.LastError)
	t.Time("leased until", task.LeaseEndsAt)
	t.Field("target", targetURL(task))
	t.Field("retry", retry(task.Retry))
	t.Field("labels", labels(task.Labels))
	t.Field("window", window(task.Window))
	t.Field("group", task.Group)
	if task.Priority != 0 {
		t.Field("priority", fmt.Sprint(task.Priority))
	}
	t.Field("on delivered", followUp(task.OnDelivered))
	t.Field("on dead", followUp(task.OnDead))
	t.Field("waits for", task.WaitsFor)
	t.Field("payload", payload(task))
	t.Field("shard", fmt.Sprint(task.Shard))
	t.Field("revision", fmt.Sprint(task.Revision))
	for _, p := range task.History {
		t.Field(fmt.Sprintf("attempt %d", p.Attempt), attempt(p))
	}
}

// attempt describes how an attempt ended, when, and where it was made.
func attempt(p client.Past) string {
	result := p.Error
	if result == "" {
		result = "delivered"
	}
	by := p.Node
	if by == "" {
		by = "consumer"
	}
	return fmt.Sprintf("%s (%s, %s, fence %d)", result, instant.Stamp(p.EndedAt), by, p.Fence)
}

// retry describes the rule that a task or a queue has for its attempts.
func retry(r *client.Retry) string {
	var parts []string
	if r != nil && r.MaxAttempts > 0 {
		parts = append(parts, fmt.Sprintf("at most %d attempts", r.MaxAttempts))
	}
	if r != nil && r.MinBackoff > 0 {
		parts = append(parts, "at least "+instant.Span(r.MinBackoff)+" apart")
	}
	if r != nil && r.MaxBackoff > 0 {
		parts = append(parts, "at most "+instant.Span(r.MaxBackoff)+" apart")
	}
	if r != nil && len(r.Delays) > 0 {
		parts = append(parts, "after "+strings.Join(texts(r.Delays, instant.Span), ", "))
	}
	return strings.Join(parts, ", ")
}

// texts returns the text of each element of a list.
func texts[T any](list []T, text func(T) string) []string {
	all := make([]string, len(list))
	for i, v := range list {
		all[i] = text(v)
	}
	return all
}

// listed returns the names and values of a map in a format, sorted by name.
func listed[V any](m map[string]V, format string) []string {
	return texts(slices.Sorted(maps.Keys(m)), func(name string) string { return fmt.Sprintf(format, name, m[name]) })
}

const maxPayload = 200 // bytes of a payload in a table

func payload(t *client.Task) string {
	if t.PayloadBytes != nil {
		return fmt.Sprintf("%d bytes", len(t.PayloadBytes))
	}
	text := strings.Join(strings.Fields(string(t.Payload)), " ")
	if len(text) > maxPayload {
		return strings.ToValidUTF8(text[:maxPayload], "") + fmt.Sprintf("… (%d bytes)", len(t.Payload))
	}
	return text
}
