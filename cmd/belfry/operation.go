package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
	"github.com/belfryhq/belfry/cmd/belfry/internal/progress"
	"github.com/belfryhq/belfry/internal/wait"
)

func newOperation() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "operation",
		Short: "Change many tasks or schedules at once, and see or stop operations",
		Long: `Change many tasks at once: cancel, move, patch, fire or replay all tasks that
pass a filter, or purge dead letters. Or pause, resume, delete or patch many
schedules. And see or stop operations, also those on nodes, replicas and slots.`,
		Example: `  belfry operation cancel --queue reports --label tenant=acme --wait
  belfry operation list
  belfry operation show op-3f6c2a9d01b4e785 --wait`,
	}, append(newBulks(), cli.WithoutNamespace(newOperationList(), newOperationShow(), newOperationStop())...)...)
}

func newOperationList() *cobra.Command {
	return cli.ListVerb(&cobra.Command{
		Use:   "list",
		Short: "List the operations under way, and the last that have ended",
		Example: `  belfry operation list
  belfry operation list --json | jq -r 'select(.state == "running") | .waits[]'`,
	}, func(c *cli.Call) ([]client.Operation, error) {
		return c.Client.Operations(c.Context())
	}, func(t *output.Table, ops []client.Operation) {
		if fillOperations(t, ops); len(ops) == 0 {
			t.Row("no operation is known")
		}
	})
}

func newOperationShow() *cobra.Command {
	return waiting(cli.PlainVerb(&cobra.Command{
		Use:   "show ID",
		Short: "Show an operation, its progress, and why it waits",
		Example: `  belfry operation show op-3f6c2a9d01b4e785
  belfry operation show op-3f6c2a9d01b4e785 --wait`,
	}, func(c *cli.Call) error {
		op, err := c.Client.Operation(c.Context(), c.Args[0])
		switch {
		case err != nil:
			return err
		case waits(c):
			return showEnd(c, op, client.OperationDone)
		}
		return output.Show(c.Out, op, fillOperation)
	}))
}

func newOperationStop() *cobra.Command {
	return waiting(cli.PlainVerb(&cobra.Command{
		Use:     "stop ID",
		Short:   "Stop an operation where it is; on a node, resume the node",
		Example: `  belfry operation stop op-3f6c2a9d01b4e785`,
	}, func(c *cli.Call) error {
		op, err := c.Client.StopOperation(c.Context(), c.Args[0])
		switch {
		case err != nil:
			return err
		case op.Kind == client.Bulk && waits(c):
			return showEnd(c, op, client.OperationStopped)
		}
		return follow(c, op)
	}))
}

// operationVerb completes a command that begins an operation. Without an operation and an error, begin has printed a
// preview.
func operationVerb(cmd *cobra.Command, begin func(*cli.Call) (*client.Operation, error)) *cobra.Command {
	return waiting(cli.PlainVerb(cmd, func(c *cli.Call) error {
		op, err := begin(c)
		if err != nil || op == nil {
			return err
		}
		return follow(c, op)
	}))
}

// previewed completes a command that begins an operation on nodes, replicas or slots, or shows its plan with --preview.
// An operation that is final cannot be undone.
func previewed(
	cmd *cobra.Command, final bool, request func(*cli.Call) (client.OperationRequest, error),
) *cobra.Command {
	var preview bool
	operationVerb(cmd, func(c *cli.Call) (*client.Operation, error) {
		r, err := request(c)
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		if preview {
			plan, err := c.Client.Preview(c.Context(), r)
			if err != nil {
				return nil, err
			}
			return nil, output.Show(c.Out, plan, fillSteps)
		}
		if final {
			if err := c.Ask(func() (cli.Question, error) { return planQuestion(c, r) }); err != nil {
				return nil, err
			}
		}
		return c.Client.Begin(c.Context(), r)
	})
	cmd.Flags().BoolVar(&preview, "preview", false, "show the steps and the bytes to copy, and begin nothing")
	if final {
		cli.Asking(cmd)
	}
	return cmd
}

// planQuestion asks about an operation that cannot be undone, with its plan.
func planQuestion(c *cli.Call, r client.OperationRequest) (cli.Question, error) {
	plan, err := c.Client.Preview(c.Context(), r)
	if err != nil {
		return cli.Question{}, err
	}
	if r.Node == "" {
		op := client.Operation{Kind: r.Kind, Shard: r.Shard, To: r.To, Slots: r.Slots}
		effect := fmt.Sprintf("begins %s (%s); shards are not merged again", summaryOf(&op), planned(plan))
		return cli.Question{Effect: effect}, nil
	}
	name := cmp.Or(plan.NodeName, r.Node)
	return cli.Question{
		Effect: fmt.Sprintf("takes node %s (%s) out of the cluster for ever (%s)", name, plan.Node, planned(plan)),
		Kind:   "node", Name: name,
	}, nil
}

// waiting adds --wait to a command about an operation.
func waiting(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolP("wait", "w", false, "show the progress until the end; the exit code is 0 if it is done")
	return cmd
}

// waits reports whether the caller waits for the end of the operation.
func waits(c *cli.Call) bool { return c.Text("wait") == "true" }

// follow prints an operation: at once, or with --wait at its end, after its progress.
func follow(c *cli.Call, op *client.Operation) error {
	if waits(c) {
		return showEnd(c, op, client.OperationDone)
	}
	return output.Show(c.Out, op, func(t *output.Table, op *client.Operation) {
		fillOperation(t, op)
		if op.State == client.OperationRunning {
			t.Row("\nIt goes on by itself: belfry operation show %s --wait", op.ID)
		}
	})
}

// showEnd prints an operation once it has ended, after its progress. An end in another state than the wanted one is no
// error if the operation is done.
func showEnd(c *cli.Call, op *client.Operation, wanted client.OperationState) error {
	op, err := awaitEnd(c, op)
	if err != nil {
		return err
	}
	err = output.Show(c.Out, op, func(t *output.Table, op *client.Operation) {
		for _, line := range endLines(op) {
			t.Row("%s", line)
		}
	})
	if err == nil && op.State == client.OperationStopped && wanted != client.OperationStopped {
		err = fmt.Errorf("%s was stopped: %s", op.ID, op.Detail)
	}
	return err
}

// The pause between two looks at an operation doubles from firstPause to longestPause: most operations end at once.
const (
	firstPause   = 20 * time.Millisecond
	longestPause = time.Second
)

// awaitEnd shows the progress of an operation until it has ended.
func awaitEnd(c *cli.Call, op *client.Operation) (*client.Operation, error) {
	meter := progress.New(c.Stderr())
	defer meter.Close()
	for pause := firstPause; op.State == client.OperationRunning; pause = min(2*pause, longestPause) {
		meter.Show(progressOf(op))
		next, err := lookAgain(c.Context(), c.Client, op.ID, pause)
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
		Work: summaryOf(op), Count: int64(op.Done), Unit: unitOf(op.Kind), Share: op.Percent / 100,
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
		if !wait.For(ctx, pause) {
			return nil, ctx.Err()
		}
		op, err := conn.Operation(ctx, id)
		if !errors.Is(err, client.ErrNotFound) || tries == 0 {
			return op, err
		}
		pause = min(2*pause, longestPause)
	}
}

func fillOperations(t *output.Table, ops []client.Operation) {
	if len(ops) == 0 {
		return
	}
	t.Columns("OPERATION", "WHAT", "STATE", "DONE", "BEGAN", "WAITS FOR").
		Fit("BEGAN", "WHAT", "WAITS FOR").Wide("ENDED", "OUTCOMES", "BY ITSELF").Add()
	for i := range ops {
		op := &ops[i]
		t.Cells(op.ID, summaryOf(op), op.State, doneText(op), t.Instant(op.BeganAt.Time),
			cmp.Or(strings.Join(op.Waits, "; "), op.Detail, "-"), t.Instant(ended(op)), outcomesOf(op), op.Cause)
	}
}

// ended returns the instant at which an operation ended, or the zero time.
func ended(op *client.Operation) time.Time {
	if op.EndedAt == nil {
		return time.Time{}
	}
	return op.EndedAt.Time
}

func fillOperation(t *output.Table, op *client.Operation) {
	t.Field("id", op.ID)
	t.Field("operation", summaryOf(op))
	t.Field("state", string(op.State))
	t.Field("done", doneText(op))
	fillBulk(t, op)
	if op.BytesLeft > 0 {
		t.Field("to copy", copyText(op))
	}
	if op.TasksCopied > 0 {
		t.Field("tasks copied", strconv.FormatUint(op.TasksCopied, 10))
	}
	t.Time("began", op.BeganAt.Time)
	t.Time("ended", ended(op))
	t.Field("reason", op.Detail)
	t.Field("by itself", op.Cause)
	for _, reason := range op.Waits {
		t.Field("waits for", reason)
	}
}

// summaryOf returns an operation in few words: "drain n3", "replication 5".
func summaryOf(op *client.Operation) string {
	switch op.Kind {
	case client.Replication:
		return fmt.Sprintf("replication %d", op.Replication)
	case client.Split:
		text := fmt.Sprintf("split shard %d", op.Shard)
		if op.Cause != "" {
			text += " (by itself)"
		}
		return text
	case client.MoveSlots:
		return fmt.Sprintf("move slots %s to shard %d", op.Slots, op.To)
	case client.Balance:
		if op.To > 0 {
			return fmt.Sprintf("balance %d shards", op.To)
		}
		return "balance shards"
	case client.KeepSlots:
		return "keep slots"
	case client.EraseNamespace:
		return "delete namespace " + op.Namespace
	case client.Bulk:
		return bulkSummary(op)
	case client.Rest:
		return "drain leaders of " + cmp.Or(op.NodeName, op.Node)
	}
	return string(op.Kind) + " " + cmp.Or(op.NodeName, op.Node)
}

func doneText(op *client.Operation) string {
	if op.Kind == client.Bulk {
		return fmt.Sprintf("%.0f %% of the slots (%d of %d matched %s)", op.Percent, op.Done, op.Total, bulkNoun(op))
	}
	if op.Total == 0 {
		return fmt.Sprintf("%.0f %%", op.Percent)
	}
	return fmt.Sprintf("%.0f %% (%d of %d)", op.Percent, op.Done, op.Total)
}

// copyText describes the bytes that are left, their rate and the time that they take at that rate.
func copyText(op *client.Operation) string {
	text := headroom.FormatBytes(op.BytesLeft)
	if op.BytesPerSecond > 0 {
		left := time.Duration(float64(op.BytesLeft) / float64(op.BytesPerSecond) * float64(time.Second))
		text += fmt.Sprintf(", %s/s, about %v left", headroom.FormatBytes(op.BytesPerSecond), left.Round(time.Second))
	}
	return text
}

// endLines describes an operation that has ended.
func endLines(op *client.Operation) []string {
	line := fmt.Sprintf("%s: %s, %s", summaryOf(op), op.State, doneText(op))
	if op.TasksCopied > 0 {
		line += fmt.Sprintf(", %d tasks copied", op.TasksCopied)
	}
	if outcomes := outcomesOf(op); outcomes != "" {
		line += ": " + outcomes
	}
	if op.Detail == "" {
		return []string{line}
	}
	return []string{line, "  reason: " + op.Detail}
}
