package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cmd/belfry/internal/capacity"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
	"github.com/belfryhq/belfry/node"
)

// planFlags describe a load and a machine on the command line.
type planFlags struct {
	tasks, rate, fires, payload, id string
	memory, disk, write, network    string
	load                            capacity.Workload
	machine                         capacity.Machine
	costs                           bool
}

func newPlan() *cobra.Command {
	f := planFlags{load: capacity.DefaultWorkload(), machine: capacity.DefaultMachine()}
	cmd := cli.LocalVerb(&cobra.Command{
		Use:   "plan",
		Short: "Compute the nodes and shards that a load needs, and its limit",
		Long: `Compute how many nodes and shards a load needs, and which resource limits it.

A plan is the fewest nodes that carry the busiest hour with room to spare, also
while one of them is lost. The costs of a task and of an entry were measured:
--costs lists them, with how and where. Numbers may be written as 200k, 1.5M or
1e9, sizes as 300, 2KiB or 64GiB.`,
		Example: `  belfry plan --tasks 10M --rate 5k
  belfry plan --tasks 1e9 --rate 200k --payload 300 --node-memory 128GiB`,
	}, f.run)
	f.addFlags(cmd.Flags())
	return cmd
}

func (f *planFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&f.tasks, "tasks", "1M", "`number` of tasks pending at once")
	flags.StringVar(&f.rate, "rate", "1k", "`number` of schedules a second")
	flags.StringVar(&f.fires, "fires", "",
		"`number` of fires a second; the rest is cancelled (default: as many as --rate)")
	flags.StringVar(&f.payload, "payload", "200", "`size` of a payload")
	flags.StringVar(&f.id, "id", "24", "`size` of an id")
	flags.IntVar(&f.load.Labels, "labels", f.load.Labels, "`number` of labels of a task that no other task has")
	flags.Float64Var(&f.load.Webhooks, "webhooks", f.load.Webhooks,
		"`share` of the fires that are pushed to webhooks; consumers pull the others")
	flags.Float64Var(&f.load.Batch, "batch", f.load.Batch, "average `number` of tasks that a call carries")
	flags.Var(cli.NewSpan(&f.load.KeepDone, f.load.KeepDone), "keep-done", "`duration` for which finished tasks are kept")
	flags.IntVar(&f.load.Replication, "replication", f.load.Replication, "replicas of each task: 1, 3 or 5")
	flags.IntVar(&f.load.Zones, "zones", f.load.Zones, "be ready to lose one zone of this many, rather than one node")
	flags.StringVar(&f.memory, "node-memory", "64GiB", "`size` of a node's memory")
	flags.Float64Var(&f.machine.Cores, "node-cores", f.machine.Cores, "`number` of a node's cores")
	flags.StringVar(&f.disk, "disk", "1TiB", "`size` of a node's disk")
	flags.StringVar(&f.write, "disk-write", "400MB", "`bytes` a second that its disk can write")
	flags.Float64Var(&f.machine.Syncs, "syncs", f.machine.Syncs, "`number` of fsyncs a second that it can do")
	flags.StringVar(&f.network, "network", "1.25GB", "`bytes` a second that its network carries, each way")
	flags.BoolVar(&f.costs, "costs", false, "print the measured costs instead of a plan")
}

func (f *planFlags) run(c *cli.Call) error {
	costs := capacity.Measured()
	if f.costs {
		return output.ShowEach(c.Out, costs[:], fillCosts)
	}
	if err := f.parse(); err != nil {
		return cli.WrongUsage(err)
	}
	plan, err := capacity.Make(f.load, f.machine, costs)
	if err != nil {
		return cli.WrongUsage(err)
	}
	return output.Show(c.Out, plan, fillPlan)
}

// parse reads the flags that are quantities.
func (f *planFlags) parse() error {
	if f.fires == "" {
		f.fires = f.rate
	}
	var payload, id float64
	err := cmp.Or( // the first one
		cli.Read(&f.load.Tasks, "tasks", f.tasks, capacity.ParseCount),
		cli.Read(&f.load.Rate, "rate", f.rate, capacity.ParseCount),
		cli.Read(&f.load.Fires, "fires", f.fires, capacity.ParseCount),
		cli.Read(&payload, "payload", f.payload, capacity.ParseBytes),
		cli.Read(&id, "id", f.id, capacity.ParseBytes),
		cli.Read(&f.machine.Memory, "node-memory", f.memory, capacity.ParseBytes),
		cli.Read(&f.machine.Disk, "disk", f.disk, capacity.ParseBytes),
		cli.Read(&f.machine.DiskWrite, "disk-write", f.write, capacity.ParseBytes),
		cli.Read(&f.machine.Network, "network", f.network, capacity.ParseBytes),
	)
	f.load.Payload, f.load.ID = int(payload), int(id)
	return err
}

func fillCosts(t *output.Table, costs []capacity.Cost) {
	for _, c := range costs {
		t.Row("%s\t%g %s\t%s", c.Name, c.Value, c.Unit, c.What)
		t.Row("\t\t%s", c.How)
		t.Row("\t\t%s", c.On)
	}
}

func fillPlan(t *output.Table, p capacity.Plan) {
	w, m, f := p.Workload, p.Machine, p.Facts
	t.Row("load\t%s tasks pending, %s schedules and %s fires a second, %s of them by webhook; %s a call",
		count(w.Tasks), count(w.Rate), count(w.Fires), percent(w.Webhooks), many(w.Batch, "task"))
	t.Row("a task\t%d bytes of payload, %d of id%s: %.0f in the memory of each replica%s", w.Payload, w.ID,
		labelled(w.Labels), f.TaskBytes, averageWait(f.Wait))
	t.Row("plan\t%s of %g cores, %s of memory, %s of disk", many(float64(p.Nodes), "node"), m.Cores,
		headroom.FormatBytes(m.Memory), headroom.FormatBytes(m.Disk))
	t.Row("shards\t%d, on %s each; a node leads %d and holds %d%s", p.Shards, many(float64(p.Replicas/p.Leads), "node"),
		p.Leads, p.Replicas, inherits(p))
	t.Row("limit\t%s, at %s of its limit", p.Needs[0].Resource, percent(p.Needs[0].Share()))
	t.Row("")
	fillNeeds(t, p)
	t.Row("")
	t.Row("in all\t%s of memory, %s of disk; %.0f µs of processor for each schedule and its fire",
		headroom.FormatBytes(f.Memory), headroom.FormatBytes(f.DiskSpace), f.PerSchedule)
	t.Row("idle\t%.0f messages a second and node (heartbeats %.0f, control group at most %.0f), %.1f %% of a core",
		messages(f.Idle), f.Idle.Beats, f.Idle.Control, 100*f.Idle.CPU)
	t.Row("restart\t%s until a node has its tasks back", capacity.Duration(f.Restart))
	if p.Nodes > 1 {
		seconds, bytes := p.Move(node.DefaultMoveRate)
		t.Row("move\tabout %s to a node that replaces another; %s at the default --move-rate", headroom.FormatBytes(bytes),
			capacity.Duration(seconds))
	}
	fillAdvice(t, p)
}

func fillAdvice(t *output.Table, p capacity.Plan) {
	for _, text := range p.Warnings {
		t.Row("")
		for i, line := range wrapped(text, 100) {
			t.Row("%s\t%s", [2]string{"note"}[min(i, 1)], line)
		}
	}
	for i, command := range p.Serve {
		if i == 0 {
			t.Row("")
		}
		t.Row("run\t%s", command)
	}
}

func fillNeeds(t *output.Table, p capacity.Plan) {
	lost := "-"
	if p.Lost > 0 {
		lost = fmt.Sprintf("%d LOST", p.Lost)
	}
	t.Row("BUSIEST NODE\tUSUALLY\t%s\tOF\tUSED OF ITS LIMIT\tMOSTLY", lost)
	for _, n := range p.Needs {
		after := quantity(n.Unit, n.Lost)
		if p.Lost == 0 {
			after = "-"
		}
		t.Row("%s\t%s\t%s\t%s\t%s\t%s", n.Resource, quantity(n.Unit, n.Usual), after, quantity(n.Unit, n.Have),
			percent(n.Share()), mostly(n.Parts))
	}
}

// mostly names the parts that make up most of the sum.
func mostly(parts []capacity.Part) string {
	if len(parts) < 2 {
		return ""
	}
	total := 0.0
	for _, p := range parts {
		total += p.Value
	}
	byValue := func(a, b capacity.Part) int { return cmp.Compare(b.Value, a.Value) }
	sorted := slices.SortedStableFunc(slices.Values(parts), byValue)
	var named []string
	for _, p := range sorted[:min(3, len(sorted))] {
		if share := p.Value / total; share >= 0.05 {
			named = append(named, fmt.Sprintf("%s %s", p.What, percent(share)))
		}
	}
	return strings.Join(named, ", ")
}

func messages(i capacity.Idle) float64 {
	return i.Beats + i.Appends + i.Control + i.Clocks + i.Compares + i.Gossip
}

func inherits(p capacity.Plan) string {
	if p.Lost == 0 {
		return ""
	}
	return fmt.Sprintf("; with %s lost one leads %.1f", many(float64(p.Lost), "node"), p.Facts.Inheritance)
}

func labelled(n int) string {
	if n == 0 {
		return ""
	}
	return ", " + many(float64(n), "label")
}

func averageWait(s float64) string {
	if s == 0 {
		return ""
	}
	return "; it waits " + capacity.Duration(s) + " on average"
}

func quantity(unit string, v float64) string {
	switch unit {
	case "bytes":
		return headroom.FormatBytes(v)
	case "bytes/s":
		return count(v/1e6) + " MB/s"
	case "cores":
		return significant(v) + " cores"
	case "1/s":
		return count(v) + "/s"
	}
	return significant(v)
}

// count formats a number with a separator between its thousands.
func count(n float64) string {
	if n < 100 {
		return significant(n)
	}
	return output.Grouped(int64(math.Round(n)))
}

// significant formats a number with three significant digits.
func significant(n float64) string {
	if n == 0 {
		return "0"
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(n)))))
	text := fmt.Sprintf("%.*f", min(decimals, 4), n)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func percent(share float64) string {
	if share > 0 && share < 0.005 {
		return "< 1 %"
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

func many(n float64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return count(n) + " " + thing + "s"
}
