package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newQueuePatch() *cobra.Command {
	var caller caller
	var f queueFlags
	cmd := &cobra.Command{
		Use:   "patch NAME",
		Short: "Change a queue's policy in one step",
		Long: `Change the given fields of a queue's policy, in one step. The others stay as
they are.

Patches that are made at the same time are all in force afterwards. A queue
without a policy gets one.

An empty value, or 0, sets a field back to its default, as in queue set.
Headers are merged with those there are; one without a value is removed.`,
		Example: `  belfry queue patch orders --max-in-flight 20 --keep-done 1d
  belfry queue patch orders --max-in-flight 0`,
		RunE: func(cmd *cobra.Command, args []string) error {
			patch, err := f.patch(cmd.Flags().Changed)
			if err != nil {
				return cli.WrongUsage(err)
			}
			return caller.queueCall(cmd, func(conn *client.Client) (*client.Queue, error) {
				return conn.PatchQueue(cmd.Context(), args[0], patch)
			})
		},
	}
	caller.addFlags(cmd)
	f.addPatchable(cmd.Flags())
	return cmd
}

func newQueuePause() *cobra.Command {
	return newQueueCall(&cobra.Command{
		Use:     "pause NAME",
		Short:   "Pause a queue: attempts and leases under way go on, none begins",
		Example: `  belfry queue pause orders`,
	}, ofQueue((*client.Client).PauseQueue))
}

func newQueueResume() *cobra.Command {
	return newQueueCall(&cobra.Command{
		Use:     "resume NAME",
		Short:   "End a queue's pause",
		Example: `  belfry queue resume orders`,
	}, ofQueue((*client.Client).ResumeQueue))
}

// ofQueue makes a call that would make a missing queue refuse one: the name is probably wrong.
func ofQueue(call func(*client.Client, context.Context, string) (*client.Queue, error),
) func(*client.Client, context.Context, string) (*client.Queue, error) {
	return func(conn *client.Client, ctx context.Context, name string) (*client.Queue, error) {
		if _, err := conn.Queue(ctx, name); errors.Is(err, client.ErrNotFound) {
			return nil, fmt.Errorf("%w; belfry queue set %s --paused makes a paused one", noQueue(ctx, conn, name, err),
				shellWord(name))
		}
		return call(conn, ctx, name)
	}
}

// noQueueError is the error of a call about a queue that is not there.
type noQueueError struct {
	name, hint string
	refusal    error
}

func (e *noQueueError) Error() string { return fmt.Sprintf("there is no queue %q%s", e.name, e.hint) }
func (e *noQueueError) Unwrap() error { return e.refusal }

// noQueue returns the error of a call about a queue. If the queue is not there, the error suggests the nearest names.
func noQueue(ctx context.Context, conn *client.Client, name string, err error) error {
	var named *noQueueError
	if !errors.Is(err, client.ErrNotFound) || errors.As(err, &named) {
		return err
	}
	return &noQueueError{name, cli.DidYouMean(name, queueNames(ctx, conn)), err}
}

// queueNames returns the names of the queues, or some of them if there are many or the caller may not see them.
func queueNames(ctx context.Context, conn *client.Client) (names []string) {
	const most = 1000
	for q, err := range conn.Queues(ctx) {
		if err != nil || len(names) == most {
			break
		}
		names = append(names, q.Name)
	}
	return names
}

// absence returns the end of a message about an empty answer if the reason is that the queue is not there.
func absence(ctx context.Context, conn *client.Client, name string) string {
	var missing *noQueueError
	if name == "" {
		return ""
	}
	if _, err := conn.Queue(ctx, name); errors.As(noQueue(ctx, conn, name, err), &missing) {
		return ": " + missing.Error()
	}
	return ""
}

// newQueueCall completes a command that takes the name of a queue and prints the queue.
func newQueueCall(cmd *cobra.Command,
	call func(*client.Client, context.Context, string) (*client.Queue, error)) *cobra.Command {
	var caller caller
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return caller.queueCall(cmd, func(conn *client.Client) (*client.Queue, error) {
			q, err := call(conn, cmd.Context(), args[0])
			return q, noQueue(cmd.Context(), conn, args[0], err)
		})
	}
	caller.addFlags(cmd)
	return cmd
}

// queueCall makes a call and prints the queue that it returns.
func (c *caller) queueCall(cmd *cobra.Command, call func(*client.Client) (*client.Queue, error)) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	q, err := call(conn)
	if err != nil {
		return err
	}
	return c.show(cmd, q, func(t *output.Table) { fillQueue(t, q) })
}

// patch returns the change that the given flags describe.
func (f *queueFlags) patch(given func(flag string) bool) (client.QueuePatch, error) {
	p := client.QueuePatch{MaxInFlight: f.maxInFlight, MaxPerSecond: f.maxPerSecond, BatchMax: f.batchMax}
	if !slices.ContainsFunc(queuePatchable, given) {
		return p, errors.New("give what to change, as in --max-in-flight 20; see belfry queue patch --help")
	}
	if given("paused") {
		p.Paused = &f.paused
	}
	target, retry := client.Target{URL: f.url}, client.Retry{MaxAttempts: f.maxAttempts}
	window, err := readWindow(f.window)
	p.Window = window
	err = errors.Join(
		err,
		f.groups.patch(given, &p),
		cli.ParseInto(&p.KeepDone, "keep-done", f.keepDone),
		cli.ParseInto(&p.KeepDead, "keep-dead", f.keepDead),
		cli.ParseInto(&target.Timeout, "attempt-timeout", f.attemptTimeout),
		cli.ParseInto(&retry.MinBackoff, "min-backoff", f.minBackoff),
		cli.ParseInto(&retry.MaxBackoff, "max-backoff", f.maxBackoff),
		cli.ParseEach(&retry.Delays, "retry-delays", f.delays),
		cli.Headers(&target.Headers, f.headers),
	)
	if f.url != "" || target.Headers != nil || target.Timeout != 0 {
		p.Target = &target
	}
	if !retry.IsZero() {
		p.Retry = &retry
	}
	for _, field := range []struct {
		flag, name string
		isDefault  bool
	}{
		{"url", "target", f.url == ""},
		{"attempt-timeout", "target.timeout", target.Timeout == 0},
		{"max-attempts", "retry.max_attempts", retry.MaxAttempts == 0},
		{"min-backoff", "retry.min_backoff", retry.MinBackoff == 0},
		{"max-backoff", "retry.max_backoff", retry.MaxBackoff == 0},
		{"retry-delays", "retry.delays", len(retry.Delays) == 0},
		{"max-in-flight", "max_in_flight", p.MaxInFlight == 0},
		{"max-per-second", "max_per_second", p.MaxPerSecond == 0},
		{"batch-max", "batch_max", p.BatchMax == 0},
		{"keep-done", "keep_done", p.KeepDone == 0},
		{"keep-dead", "keep_dead", p.KeepDead == 0},
		{"window", "window", p.Window == nil},
		{"group-in-flight", "group_in_flight", p.GroupInFlight == 0},
	} {
		if given(field.flag) && field.isDefault {
			p.Clear = append(p.Clear, field.name)
		}
	}
	return p, err
}
