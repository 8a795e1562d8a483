package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cmd/belfry/internal/capacity"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

// planFlags describe a load and a machine on the command line.
type planFlags struct {
	tasks, rate, fires, payload, id string
	memory, disk, write, network    string
	load                            capacity.Workload
	machine                         capacity.Machine
	costs                           bool
	output                          output.Flags
}

func newPlan() *cobra.Command {
	f := planFlags{load: capacity.DefaultWorkload(), machine: capacity.DefaultMachine()}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Compute the nodes and shards that a load needs, and its limit",
		Long: `Compute how many nodes and shards a load needs, and which resource limits it.

A plan is the fewest nodes that carry the busiest hour with room to spare, also
while one of them is lost. The costs of a task and of an entry were measured:
--costs lists them, with how and where. Numbers may be written as 200k, 1.5M or
1e9, sizes as 300, 2KiB or 64GiB.`,
		Example: `  belfry plan --tasks 10M --rate 5k
  belfry plan --tasks 1e9 --rate 200k --payload 300 --node-memory 128GiB`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runPlan(cmd, &f) },
	}
	f.addFlags(cmd)
	return cmd
}

func (f *planFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
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
	f.output.Add(cmd)
	flags.BoolVar(&f.costs, "costs", false, "print the measured costs instead of a plan")
}

func runPlan(cmd *cobra.Command, f *planFlags) error {
	costs := capacity.Measured()
	if f.costs {
		return output.ShowEach(cmd.OutOrStdout(), &f.output, costs[:], func(t *output.Table) { fillCosts(t, costs) })
	}
	if err := f.parse(); err != nil {
		return cli.WrongUsage(err)
	}
	plan, err := capacity.Make(f.load, f.machine, costs)
	if err != nil {
		return cli.WrongUsage(err)
	}
	return f.output.Show(cmd.OutOrStdout(), plan, func(t *output.Table) { fillPlan(t, plan) })
}

// parse reads the flags that are quantities.
func (f *planFlags) parse() error {
	if f.fires == "" {
		f.fires = f.rate
	}
	var payload, id float64
	for _, q := range []struct {
		flag, text string
		read       func(string) (float64, error)
		into       *float64
	}{
		{"--tasks", f.tasks, capacity.ParseCount, &f.load.Tasks},
		{"--rate", f.rate, capacity.ParseCount, &f.load.Rate},
		{"--fires", f.fires, capacity.ParseCount, &f.load.Fires},
		{"--payload", f.payload, capacity.ParseBytes, &payload},
		{"--id", f.id, capacity.ParseBytes, &id},
		{"--node-memory", f.memory, capacity.ParseBytes, &f.machine.Memory},
		{"--disk", f.disk, capacity.ParseBytes, &f.machine.Disk},
		{"--disk-write", f.write, capacity.ParseBytes, &f.machine.DiskWrite},
		{"--network", f.network, capacity.ParseBytes, &f.machine.Network},
	} {
		var err error
		if *q.into, err = q.read(q.text); err != nil {
			return fmt.Errorf("%s: %w", q.flag, err)
		}
	}
	f.load.Payload, f.load.ID = int(payload), int(id)
	return nil
}
