package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
	"github.com/belfryhq/belfry/cmd/belfry/internal/progress"
)

// waiting follows an operation to its end, if the caller wants to.
type waiting struct {
	wait bool
}

func (w *waiting) addFlags(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&w.wait, "wait", "w", false, "show the progress until the end; the exit code is 0 if it is done")
}

// The pause between two looks at an operation doubles from firstPause to longestPause: most operations end at once.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// follow prints an operation: at once, or with --wait at its end, after its progress. An operation that was stopped is
// an error.
func (w *waiting) follow(cmd *cobra.Command, conn *client.Client, c *caller, op *client.Operation) error {
	return w.followTo(cmd, conn, c, op, client.OperationDone)
}

// followStop is follow for an operation that is being stopped.
func (w *waiting) followStop(cmd *cobra.Command, conn *client.Client, c *caller, op *client.Operation) error {
	return w.followTo(cmd, conn, c, op, client.OperationStopped)
}

// followTo follows an operation until it has ended. An end in another state than the wanted one is no error if the
// operation is done.
func (w *waiting) followTo(
	cmd *cobra.Command, conn *client.Client, c *caller, op *client.Operation, wanted client.OperationState,
) error {
	if !w.wait {
		return c.show(cmd, op, func(t *output.Table) {
			fillOperation(t, op)
			if op.State == client.OperationRunning {
				t.Row("\nIt goes on by itself: belfry operation show %s --wait", op.ID)
			}
		})
	}
	op, err := w.await(cmd, conn, op)
	if err != nil {
		return err
	}
	err = c.show(cmd, op, func(t *output.Table) {
		for _, line := range endLines(op) {
			t.Row("%s", line)
		}
	})
	if err == nil && op.State == client.OperationStopped && wanted != client.OperationStopped {
		err = fmt.Errorf("%s was stopped: %s", op.ID, op.Detail)
	}
	return err
}

// await shows the progress of an operation until it has ended.
func (w *waiting) await(cmd *cobra.Command, conn *client.Client, op *client.Operation) (*client.Operation, error) {
	meter := progress.New(cmd.ErrOrStderr())
	defer meter.Close()
	for pause := firstPause; op.State == client.OperationRunning; pause = min(2*pause, longestPause) {
		meter.Show(progressOf(op))
		next, err := lookAgain(cmd.Context(), conn, op.ID, pause)
		if err != nil {
			return nil, fmt.Errorf("%w; it goes on by itself: belfry operation show %s --wait", err, op.ID)
		}
		op = next
	}
	return op, nil
}

// progressOf returns how far an operation has come.
func progressOf(op *client.Operation) progress.State {
	s := progress.State{
		Work: what(op), Count: int64(op.Done), Unit: unitOf(op.Kind), Share: op.Percent / 100,
		Waits: strings.Join(op.Waits, "; "),
	}
	if op.Total == 0 && op.Kind != client.Bulk {
		s.Unit = ""
	}
	return s
}

// unitOf returns the plural of the things that an operation counts.
func unitOf(kind client.OperationKind) string {
	switch {
	case kind == client.Bulk, kind == client.EraseNamespace:
		return "tasks"
	case kind == client.Rest:
		return "leaderships"
	case onSlots(kind):
		return "slots"
	}
	return "replicas"
}

// lookAgain reads an operation after a pause. A node that has not heard of it yet is asked again, for five seconds at
// least.
func lookAgain(
	ctx context.Context, conn *client.Client, id string, pause time.Duration,
) (*client.Operation, error) {
	for tries := 10; ; tries-- {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		op, err := conn.Operation(ctx, id)
		if !errors.Is(err, client.ErrNotFound) || tries == 0 {
			return op, err
		}
		pause = min(2*pause, longestPause)
	}
}
