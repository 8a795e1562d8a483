package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newOperation() *cobra.Command {
	return group(&cobra.Command{
		Use:   "operation",
		Short: "Change many tasks at once, and see or stop operations",
		Long: `Change many tasks at once: cancel, move, patch, fire or replay all tasks that
pass a filter, or purge dead letters. And see or stop operations, also those on
nodes, replicas and slots.`,
		Example: `  belfry operation cancel --queue reports --label tenant=acme --wait
  belfry operation list
  belfry operation show op-3f6c2a9d01b4e785 --wait`,
	}, append(newBulks(), cli.WithoutNamespace(newOperationList(), newOperationShow(), newOperationStop())...)...)
}

func newOperationList() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the operations under way, and the last that have ended",
		Example: `  belfry operation list
  belfry operation list --json | jq -r 'select(.state == "running") | .waits[]'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			ops, err := conn.Operations(cmd.Context())
			if err != nil {
				return err
			}
			return output.ShowEach(cmd.OutOrStdout(), &caller.output, ops, func(t *output.Table) {
				if fillOperations(t, ops); len(ops) == 0 {
					t.Row("no operation is known")
				}
			})
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func newOperationShow() *cobra.Command {
	var caller caller
	var waiting waiting
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show an operation, its progress, and why it waits",
		Example: `  belfry operation show op-3f6c2a9d01b4e785
  belfry operation show op-3f6c2a9d01b4e785 --wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			op, err := conn.Operation(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if waiting.wait {
				return waiting.follow(cmd, conn, &caller, op)
			}
			return caller.show(cmd, op, func(t *output.Table) { fillOperation(t, op) })
		},
	}
	caller.addFlags(cmd)
	waiting.addFlags(cmd)
	return cmd
}

func newOperationStop() *cobra.Command {
	var caller caller
	var waiting waiting
	cmd := &cobra.Command{
		Use:     "stop ID",
		Short:   "Stop an operation where it is; on a node, resume the node",
		Example: `  belfry operation stop op-3f6c2a9d01b4e785`,
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			op, err := conn.StopOperation(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if op.Kind == client.Bulk && waiting.wait {
				return waiting.followStop(cmd, conn, &caller, op)
			}
			return waiting.follow(cmd, conn, &caller, op)
		},
	}
	caller.addFlags(cmd)
	waiting.addFlags(cmd)
	return cmd
}

func fillOperations(t *output.Table, ops []client.Operation) {
	if len(ops) == 0 {
		return
	}
	t.Columns("OPERATION", "WHAT", "STATE", "DONE", "BEGAN", "WAITS FOR").
		Fit("BEGAN", "WHAT", "WAITS FOR").Wide("ENDED", "OUTCOMES", "BY ITSELF").Add()
	for i := range ops {
		op := &ops[i]
		t.Cells(op.ID, what(op), op.State, done(op), t.Instant(op.BeganAt),
			cmp.Or(strings.Join(op.Waits, "; "), op.Detail, "-"), t.Instant(ended(op)), outcomesOf(op), op.Cause)
	}
}

// ended returns the instant at which an operation ended, or the zero time.
func ended(op *client.Operation) time.Time {
	if op.EndedAt == nil {
		return time.Time{}
	}
	return *op.EndedAt
}

func fillOperation(t *output.Table, op *client.Operation) {
	t.Field("id", op.ID)
	t.Field("operation", what(op))
	t.Field("state", string(op.State))
	t.Field("done", done(op))
	fillBulk(t, op)
	if op.BytesLeft > 0 {
		t.Field("to copy", copying(op))
	}
	if op.TasksCopied > 0 {
		t.Field("tasks copied", strconv.FormatUint(op.TasksCopied, 10))
	}
	t.Time("began", op.BeganAt)
	t.Time("ended", ended(op))
	t.Field("reason", op.Detail)
	t.Field("by itself", op.Cause)
	for _, reason := range op.Waits {
		t.Field("waits for", reason)
	}
}

// what returns an operation in few words: "drain n3", "replication 5".
func what(op *client.Operation) string {
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
		return whatBulk(op)
	case client.Rest:
		return "drain leaders of " + cmp.Or(op.NodeName, op.Node)
	}
	return string(op.Kind) + " " + cmp.Or(op.NodeName, op.Node)
}

func done(op *client.Operation) string {
	if op.Kind == client.Bulk {
		return fmt.Sprintf("%.0f %% of the slots (%d of %d matched tasks)", op.Percent, op.Done, op.Matched)
	}
	if op.Total == 0 {
		return fmt.Sprintf("%.0f %%", op.Percent)
	}
	return fmt.Sprintf("%.0f %% (%d of %d)", op.Percent, op.Done, op.Total)
}

// copying describes the bytes that are left, their rate and the time that they take at that rate.
func copying(op *client.Operation) string {
	text := size(float64(op.BytesLeft))
	if op.BytesPerSecond > 0 {
		left := time.Duration(float64(op.BytesLeft) / float64(op.BytesPerSecond) * float64(time.Second))
		text += fmt.Sprintf(", %s/s, about %v left", size(float64(op.BytesPerSecond)), left.Round(time.Second))
	}
	return text
}

// endLines describes an operation that has ended.
func endLines(op *client.Operation) []string {
	line := fmt.Sprintf("%s: %s, %s", what(op), op.State, done(op))
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
