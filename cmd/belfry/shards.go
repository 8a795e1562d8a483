package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newShards() *cobra.Command {
	return group(&cobra.Command{
		Use:   "shards",
		Short: "See the shards and their slots; split shards, move slots, balance them",
		Example: `  belfry shards list
  belfry shards balance --shards 12 --preview
  belfry shards split 2 --wait`,
	}, newShardsList(), newShardsSplit(), newShardsMove(), newShardsBalance(), newShardsWheel(),
		newShardsActivity())
}

func newShardsList() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the shards with their slots, and the moves of slots under way",
		Example: `  belfry shards list
  belfry shards list --json | jq -r '"\(.id) \(.tasks)"'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			view, err := conn.Cluster(cmd.Context())
			if err != nil {
				return err
			}
			return output.ShowEach(cmd.OutOrStdout(), &caller.output, view.Shards, func(t *output.Table) { fillShards(t, view) })
		},
	}
	caller.addFlags(cmd)
	return cmd
}

func fillShards(t *output.Table, view *client.Cluster) {
	t.Columns("SHARD", "LEADER", "TASKS", "BYTES", "SLOTS", "RANGES").Wide("TERM", "REPLICAS").Add()
	for _, s := range view.Shards {
		count, ranges := 0, []string{}
		for _, r := range s.Slots {
			count += int(r.End - r.First)
			ranges = append(ranges, slotRange(r))
		}
		t.Cells(s.ID, nodeName(view, s.Leader), s.Tasks, size(float64(s.Bytes)), count, strings.Join(ranges, ","), s.Term,
			replicas(view, s))
	}
	fillSlotMoves(t, view)
	if view.AutoSplit != nil {
		t.Row("\n%s", autoSplit(view.AutoSplit))
	}
}

// autoSplit describes the shards that split by themselves.
func autoSplit(a *client.AutoSplit) string {
	text := fmt.Sprintf("A shard of more than %s splits by itself, while there are fewer than %d.", size(float64(a.Bytes)),
		a.Shards)
	if a.Waits == "" {
		return text
	}
	return fmt.Sprintf("%s Larger are: %s. They wait: %s.", text, strings.Trim(fmt.Sprint(a.Outgrown), "[]"), a.Waits)
}

// slotRange returns a range as `belfry shards move` takes it.
func slotRange(r client.Slots) string {
	if r.End == r.First+1 {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.End-1)
}

// fillSlotMoves adds the moves of slots under way.
func fillSlotMoves(t *output.Table, view *client.Cluster) {
	if len(view.SlotMoves) > 0 {
		t.Row("")
		t.Columns("SLOTS", "FROM", "TO", "STATE", "STEP", "TASKS COPIED", "BYTES COPIED", "GIVEN UP", "WAITS FOR").
			Fit("WAITS FOR").Add()
	}
	for _, m := range view.SlotMoves {
		t.Cells(m.Slots, m.From, m.To, m.State, cmp.Or(m.Step, "-"), m.TasksCopied,
			size(float64(m.BytesCopied)), m.Tries, cmp.Or(m.Waits, "-"))
	}
}

func newShardsSplit() *cobra.Command {
	c := &operationCall{kind: client.Split, final: true}
	cmd := &cobra.Command{
		Use:   "split SHARD",
		Short: "Move half of a shard's slots to a new shard",
		Long: `Move the upper half of a shard's slots to a new shard on the same nodes, while
both serve. Shards are not merged again.`,
		Example: `  belfry shards split 2 --preview
  belfry shards split 2 --yes --wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			shard, err := strconv.Atoi(args[0])
			if err != nil || shard < 1 {
				return cli.WrongUsage(fmt.Errorf("%q is no number of a shard", args[0]))
			}
			return c.run(cmd, client.OperationRequest{Kind: client.Split, Shard: shard})
		},
	}
	c.addFlags(cmd)
	return cmd
}

func newShardsMove() *cobra.Command {
	c := &operationCall{kind: client.MoveSlots, final: true}
	var to int
	cmd := &cobra.Command{
		Use:   "move SLOTS --to SHARD",
		Short: "Move slots to a shard",
		Long: `Move slots from the shards that own them to another one, while all serve. Slots
are numbers from 0 to 4095, or ranges of them.`,
		Example: `  belfry shards move 0-511,1024 --to 4 --preview
  belfry shards move 0-511,1024 --to 4 --yes --wait`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if to < 1 {
				return cli.WrongUsage(fmt.Errorf("--to %d: it is the number of a shard, from 1", to))
			}
			return c.run(cmd, client.OperationRequest{Kind: client.MoveSlots, Slots: args[0], To: to})
		},
	}
	c.addFlags(cmd)
	cmd.Flags().IntVar(&to, "to", 0, "number of the shard that gets the slots")
	return cmd
}

func newShardsBalance() *cobra.Command {
	c := &operationCall{kind: client.Balance, final: true}
	var shards int
	cmd := &cobra.Command{
		Use:   "balance",
		Short: "Give all shards as many slots, and make more shards",
		Long: `Move slots until each shard has as many as any other, or one more or less. With
--shards the cluster gets new shards, up to that number. Each slot moves at most
once. Shards are not merged again.`,
		Example: `  belfry shards balance --preview
  belfry shards balance --shards 12 --yes --wait`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if shards < 0 || cmd.Flags().Changed("shards") && shards == 0 {
				return cli.WrongUsage(fmt.Errorf("--shards %d: a cluster has at least 1", shards))
			}
			return c.run(cmd, client.OperationRequest{Kind: client.Balance, To: shards})
		},
	}
	c.addFlags(cmd)
	cmd.Flags().IntVar(&shards, "shards", 0, "number of shards; without it, as many as there are")
	return cmd
}

// onSlots reports whether an operation moves slots.
func onSlots(kind client.OperationKind) bool {
	return slices.Contains([]client.OperationKind{client.Split, client.MoveSlots, client.Balance}, kind)
}

func fillSlotSteps(t *output.Table, plan *client.Plan) {
	if len(plan.Steps) > 0 {
		t.Columns("SLOTS", "FROM", "TO", "BYTES").Add()
	}
	for _, s := range plan.Steps {
		to := strconv.Itoa(int(s.Shard))
		if s.Action == string(client.Split) {
			to += " (new)"
		}
		t.Cells(s.Slots, s.From, to, size(float64(s.Bytes)))
	}
	t.Row("%s. Nothing has begun.", planned(plan))
}
