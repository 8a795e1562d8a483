package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newShards() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "shards",
		Short: "See the shards and their slots; split shards, move slots, balance them",
		Example: `  belfry shards list
  belfry shards balance --shards 12 --preview
  belfry shards split 2 --wait`,
	}, newShardsList(), newShardsSplit(), newShardsMove(), newShardsBalance(), newShardsWheel(),
		newShardsActivity())
}

func newShardsList() *cobra.Command {
	return cli.PlainVerb(&cobra.Command{
		Use:   "list",
		Short: "List the shards with their slots, and the moves of slots under way",
		Example: `  belfry shards list
  belfry shards list --json | jq -r '"\(.id) \(.tasks)"'`,
	}, func(c *cli.Call) error {
		view, err := c.Client.Cluster(c.Context())
		if err != nil {
			return err
		}
		return output.ShowEach(c.Out, view.Shards, func(t *output.Table, _ []client.Shard) { fillShards(t, view) })
	})
}

func fillShards(t *output.Table, view *client.Cluster) {
	t.Columns("SHARD", "LEADER", "TASKS", "BYTES", "SLOTS", "RANGES").Wide("TERM", "REPLICAS").Add()
	for _, s := range view.Shards {
		count, ranges := 0, []string{}
		for _, r := range s.Slots {
			count += int(r.End - r.First)
			ranges = append(ranges, slotRange(r))
		}
		t.Cells(s.ID, nodeName(view, s.Leader), s.Tasks, headroom.FormatBytes(s.Bytes), count, strings.Join(ranges, ","),
			s.Term, replicas(view, s))
	}
	fillSlotMoves(t, view)
	if view.AutoSplit != nil {
		t.Row("\n%s", autoSplit(view.AutoSplit))
	}
}

// autoSplit describes the shards that split by themselves.
func autoSplit(a *client.AutoSplit) string {
	text := fmt.Sprintf("A shard of more than %s splits by itself, while there are fewer than %d.",
		headroom.FormatBytes(a.Bytes), a.Shards)
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
			headroom.FormatBytes(m.BytesCopied), m.Tries, cmp.Or(m.Waits, "-"))
	}
}

func newShardsSplit() *cobra.Command {
	return previewed(&cobra.Command{
		Use:   "split SHARD",
		Short: "Move half of a shard's slots to a new shard",
		Long: `Move the upper half of a shard's slots to a new shard on the same nodes, while
both serve. Shards are not merged again.`,
		Example: `  belfry shards split 2 --preview
  belfry shards split 2 --yes --wait`,
	}, true, func(c *cli.Call) (client.OperationRequest, error) {
		shard, err := shardOf(c)
		return client.OperationRequest{Kind: client.Split, Shard: shard}, err
	})
}

func newShardsMove() *cobra.Command {
	var to int
	cmd := previewed(&cobra.Command{
		Use:   "move SLOTS --to SHARD",
		Short: "Move slots to a shard",
		Long: `Move slots from the shards that own them to another one, while all serve. Slots
are numbers from 0 to 4095, or ranges of them.`,
		Example: `  belfry shards move 0-511,1024 --to 4 --preview
  belfry shards move 0-511,1024 --to 4 --yes --wait`,
	}, true, func(c *cli.Call) (r client.OperationRequest, err error) {
		if to < 1 {
			return r, fmt.Errorf("--to %d: it is the number of a shard, from 1", to)
		}
		return client.OperationRequest{Kind: client.MoveSlots, Slots: c.Args[0], To: to}, nil
	})
	cmd.Flags().IntVar(&to, "to", 0, "number of the shard that gets the slots")
	return cmd
}

func newShardsBalance() *cobra.Command {
	var shards int
	cmd := previewed(&cobra.Command{
		Use:   "balance",
		Short: "Give all shards as many slots, and make more shards",
		Long: `Move slots until each shard has as many as any other, or one more or less. With
--shards the cluster gets new shards, up to that number. Each slot moves at most
once. Shards are not merged again.`,
		Example: `  belfry shards balance --preview
  belfry shards balance --shards 12 --yes --wait`,
	}, true, func(c *cli.Call) (r client.OperationRequest, err error) {
		if shards < 0 || c.Given("shards") && shards == 0 {
			return r, fmt.Errorf("--shards %d: a cluster has at least 1", shards)
		}
		return client.OperationRequest{Kind: client.Balance, To: shards}, nil
	})
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
		t.Cells(s.Slots, s.From, to, headroom.FormatBytes(s.Bytes))
	}
	t.Row("%s. Nothing has begun.", planned(plan))
}

func newShardsWheel() *cobra.Command {
	return cli.Verb(&cobra.Command{
		Use:   "wheel [SHARD]",
		Short: "Count the tasks that wait in the timing wheels, by due time",
		Long: `Count the tasks that wait in the timing wheels of all shards, or of one, by due
time. The wide form shows the rings of the wheels, too.`,
		Example: `  belfry shards wheel
  belfry shards wheel 2 -o wide
  belfry shards wheel --json | jq '.due_within["1m"]'`,
	}, func(c *cli.Call) (*client.Wheel, error) {
		shard, err := shardOf(c)
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		return c.Client.Wheel(c.Context(), shard)
	}, fillWheel)
}

// shardOf reads the number of the shard that the argument names, or 0 for all without one.
func shardOf(c *cli.Call) (int, error) {
	if len(c.Args) == 0 {
		return 0, nil
	}
	shard, err := strconv.Atoi(c.Args[0])
	if err != nil || shard < 1 {
		return 0, fmt.Errorf("%q is no number of a shard", c.Args[0])
	}
	return shard, nil
}

func fillWheel(t *output.Table, w *client.Wheel) {
	t.Field("waiting", strconv.FormatUint(w.Waiting, 10))
	d := &w.DueWithin
	t.Field("due within", fmt.Sprintf("1s %d, 10s %d, 1m %d, 10m %d, 1h %d", d.Second, d.Seconds10, d.Minute, d.Minutes10,
		d.Hour))
	t.Field("in no ring", strconv.FormatUint(w.Beside, 10))
	t.Field("not counted", missingShards(w.Missing))
	t.Row("")
	t.Columns("DUE FROM", "TASKS").Add()
	for i, tasks := range w.Steps.Tasks {
		if tasks > 0 {
			from := w.Steps.From.Add(time.Duration(int64(i)*w.Steps.StepMs) * time.Millisecond)
			t.Cells(t.Instant(from), tasks)
		}
	}
	if !t.IsWide() {
		return
	}
	t.Row("")
	t.Columns("LEVEL", "FROM", "SLOT", "TASKS").Add()
	for _, r := range w.Rows {
		sum := uint64(0)
		for _, tasks := range r.Tasks {
			sum += tasks
		}
		t.Cells(r.Level, t.Instant(r.From.Time), time.Duration(r.SlotMs)*time.Millisecond, sum)
	}
}

// missingShards names the shards that are not counted.
func missingShards(shards []uint32) string {
	if len(shards) == 0 {
		return ""
	}
	return "shards " + strings.Trim(fmt.Sprint(shards), "[]") + ", whose leaders did not answer"
}

func newShardsActivity() *cobra.Command {
	var times cli.Times
	var since string
	cmd := cli.Verb(&cobra.Command{
		Use:   "activity [SHARD]",
		Short: "Count the events of the last minutes, and the lateness of attempts",
		Long: `Count the events of the last quarter of an hour, and how late attempts began, in
steps of five seconds: of all shards, or of one. Steps without an event are left
out.`,
		Example: `  belfry shards activity --since 1m
  belfry shards activity --json | jq '[.steps[].fired] | add'`,
	}, func(c *cli.Call) (*client.Activity, error) {
		var from time.Time
		shard, err := shardOf(c)
		if err == nil {
			err = times.AtOrBefore(&from, "since", since)
		}
		if err != nil {
			return nil, cli.WrongUsage(err)
		}
		var within time.Duration
		if !from.IsZero() {
			within = max(time.Since(from).Round(time.Second), time.Second)
		}
		return c.Client.Activity(c.Context(), shard, within)
	}, fillActivity)
	times.AddFlags(cmd)
	cmd.Flags().StringVar(&since, "since", "", "`time` of the oldest step: an instant, or a duration before now")
	return cmd
}

func fillActivity(t *output.Table, a *client.Activity) {
	t.Columns("AT", "SCHEDULED", "FIRED", "DELIVERED", "FAILED", "DEAD", "CANCELLED", "SKIPPED", "LATEST BEGIN").Add()
	for _, s := range a.Steps {
		t.Cells(instant.Stamp(s.At.Time), s.Scheduled, s.Fired, s.Delivered, s.Failed, s.Dead, s.Cancelled, s.Skipped,
			worstLateness(a.LateWithinMs, s.Late))
	}
	if missing := missingShards(a.Missing); missing != "" {
		t.Row("\nnot counted: %s", missing)
	}
}

// worstLateness describes the last class of lateness that has an attempt.
func worstLateness(bounds []int64, counts []uint64) string {
	for i := len(counts) - 1; i >= 0; i-- {
		switch {
		case counts[i] == 0:
		case i < len(bounds):
			return fmt.Sprintf("within %d ms", bounds[i])
		case len(bounds) > 0:
			return fmt.Sprintf("later than %d ms", bounds[len(bounds)-1])
		}
	}
	return ""
}
