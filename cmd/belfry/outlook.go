package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/instant"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newShardsWheel() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "wheel [SHARD]",
		Short: "Count the tasks that wait in the timing wheels, by due time",
		Long: `Count the tasks that wait in the timing wheels of all shards, or of one, by due
time. The wide form shows the rings of the wheels, too.`,
		Example: `  belfry shards wheel
  belfry shards wheel 2 -o wide
  belfry shards wheel --json | jq '.due_within["1m"]'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			shard, err := shardOf(args)
			if err != nil {
				return cli.WrongUsage(err)
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			wheel, err := conn.Wheel(cmd.Context(), shard)
			if err != nil {
				return err
			}
			return caller.show(cmd, wheel, func(t *output.Table) { fillWheel(t, wheel) })
		},
	}
	caller.addFlags(cmd)
	return cmd
}

// shardOf reads the number of a shard, or 0 for all.
func shardOf(args []string) (int, error) {
	if len(args) == 0 {
		return 0, nil
	}
	shard, err := strconv.Atoi(args[0])
	if err != nil || shard < 1 {
		return 0, fmt.Errorf("%q is no number of a shard", args[0])
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
		t.Cells(r.Level, t.Instant(r.From), time.Duration(r.SlotMs)*time.Millisecond, sum)
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
	var caller caller
	var times cli.Times
	var since string
	cmd := &cobra.Command{
		Use:   "activity [SHARD]",
		Short: "Count the events of the last minutes, and the lateness of attempts",
		Long: `Count the events of the last quarter of an hour, and how late attempts began, in
steps of five seconds: of all shards, or of one. Steps without an event are left
out.`,
		Example: `  belfry shards activity --since 1m
  belfry shards activity --json | jq '[.steps[].fired] | add'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			shard, err := shardOf(args)
			if err != nil {
				return cli.WrongUsage(err)
			}
			var from time.Time
			if err := times.AtOrBefore(&from, "since", since); err != nil {
				return cli.WrongUsage(err)
			}
			var within time.Duration
			if !from.IsZero() {
				within = max(time.Since(from).Round(time.Second), time.Second)
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			activity, err := conn.Activity(cmd.Context(), shard, within)
			if err != nil {
				return err
			}
			return caller.show(cmd, activity, func(t *output.Table) { fillActivity(t, activity) })
		},
	}
	caller.addFlags(cmd)
	times.AddFlags(cmd)
	cmd.Flags().StringVar(&since, "since", "", "`time` of the oldest step: an instant, or a duration before now")
	return cmd
}

func fillActivity(t *output.Table, a *client.Activity) {
	t.Columns("AT", "SCHEDULED", "FIRED", "DELIVERED", "FAILED", "DEAD", "CANCELLED", "SKIPPED", "LATEST BEGIN").Add()
	for _, s := range a.Steps {
		t.Cells(instant.Stamp(s.At), s.Scheduled, s.Fired, s.Delivered, s.Failed, s.Dead, s.Cancelled, s.Skipped,
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
