// Command bench measures Belfry side by side with other services for delayed tasks, on this machine, and writes tables,
// pictures and the raw figures. Its exit status is 1 when it could not measure. A missed goal and a failing peer are
// results, not errors.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/bench/belfry"
	"github.com/belfryhq/belfry/bench/belfry/storm"
	"github.com/belfryhq/belfry/bench/report"
	"github.com/belfryhq/belfry/bench/workload"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags of the command.
type options struct {
	out, dir, binary    string
	from                []string
	subjects, workloads []string
	rounds              int
	limit               time.Duration
	quick, keep, list   bool
	flight              bool
	sizes               workload.Sizes
}

func command() *cobra.Command {
	o := options{sizes: workload.Full()}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure Belfry side by side with its peers",
		Long: `Starts each service on this machine, fresh for each workload, puts it under the workload, and stops it. In each
round every workload meets all services in turn. Writes RESULTS.md, results.json and pictures after each workload;
Ctrl-C ends the run, and what was measured is there. A round of everything takes more than an hour; it can be
measured in parts, of one commit and with the same sizes, that --from makes one of.

Peers that this machine does not have are named and left out: make bench-peers installs them.`,
		Example: `  go run -C bench ./cmd/bench --out .
  go run -C bench ./cmd/bench --quick --subjects belfry --out /tmp/bench
  go run -C bench ./cmd/bench --workloads growth --pending 10000,100000,1000000,10000000 --subjects "Go client"
  go run -C bench ./cmd/bench --from a/results.json,b/results.json --out .     # the tables of both`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.quick {
				if err := o.makeQuick(cmd.Flags()); err != nil {
					return err
				}
			}
			return o.run(cmd)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.out, "out", "bench-results", "folder for the results")
	f.StringVar(&o.dir, "dir", "", "folder for the services' data, best on a disk (default: a temporary one)")
	f.StringVar(&o.binary, "binary", "", "of belfry (default: built here)")
	f.StringSliceVar(&o.from, "from", nil, "measure nothing: make tables and pictures of these results.json, as one run")
	f.StringSliceVar(&o.subjects, "subjects", nil, "only services whose name has one of these words in it")
	f.StringSliceVar(&o.workloads, "workloads", nil, "only these workloads")
	f.IntVar(&o.rounds, "rounds", 3, "how often everything is measured")
	f.DurationVar(&o.limit, "limit", 20*time.Minute, "how long one workload may take with one service: past it, it failed")
	f.BoolVar(&o.quick, "quick", false, "one round with small sizes, to see that everything works")
	f.BoolVar(&o.keep, "keep", false, "keep the services' data and logs")
	f.BoolVar(&o.flight, "flight", false, "have Belfry's nodes record execution traces, and keep them beside the logs\n"+
		"(with --keep) if a schedule of the workload of tails took long. The traces cost processor time")
	f.BoolVar(&o.list, "list", false, "only list workloads and services")
	sizeFlags(f, &o.sizes)
	cmd.AddCommand(stormCommand())
	return cmd
}

// stormCommand is the process of a storm in the workload of neighbours.
func stormCommand() *cobra.Command {
	return &cobra.Command{
		Use: belfry.StormCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return storm.Serve(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// sizeFlags defines a flag for each size.
func sizeFlags(f *pflag.FlagSet, s *workload.Sizes) {
	f.IntVar(&s.Payload, "payload", s.Payload, "bytes of a payload")
	f.IntVar(&s.Callers, "callers", s.Callers, "concurrent callers")
	f.IntVar(&s.ManyCallers, "many-callers", s.ManyCallers, "concurrent callers, in the workload with many")
	f.IntVar(&s.Batch, "batch", s.Batch, "tasks in a batch")
	f.IntVar(&s.Consumers, "consumers", s.Consumers, "concurrent consumers")
	f.DurationVar(&s.ScheduleFor, "schedule-for", s.ScheduleFor, "how long to schedule")
	f.IntVar(&s.ScheduleTasks, "schedule-tasks", s.ScheduleTasks, "tasks to schedule at most")
	f.IntVar(&s.SteadyRate, "steady-rate", s.SteadyRate, "tasks scheduled and fired a second in the steady workload")
	f.DurationVar(&s.SteadyFor, "steady-for", s.SteadyFor, "how long the steady workload schedules")
	f.IntVar(&s.LatenessTasks, "lateness-tasks", s.LatenessTasks, "tasks whose lateness is measured")
	f.DurationVar(&s.LatenessOver, "lateness-over", s.LatenessOver, "the time within which they are due")
	f.IntVar(&s.WebhookTasks, "webhook-tasks", s.WebhookTasks, "tasks whose lateness as webhooks is measured")
	f.DurationVar(&s.WebhookOver, "webhook-over", s.WebhookOver, "the time within which they are due")
	f.DurationVar(&s.Patience, "patience", s.Patience, "how long to wait for tasks that are overdue")
	f.IntVar(&s.BurstTasks, "burst-tasks", s.BurstTasks, "tasks due in one millisecond")
	f.IntVar(&s.CancelTasks, "cancel-tasks", s.CancelTasks, "tasks to cancel")
	f.IntVar(&s.TouchIDs, "touch-ids", s.TouchIDs, "ids that send heartbeats")
	f.DurationVar(&s.TouchDelay, "touch-delay", s.TouchDelay, "how long after a heartbeat its task is due")
	f.DurationVar(&s.TouchFor, "touch-for", s.TouchFor, "how long heartbeats are sent; at least twice --touch-delay")
	f.IntVar(&s.MemoryTasks, "memory-tasks", s.MemoryTasks, "pending tasks whose memory is measured")
	f.IntVar(&s.MemoryMany, "memory-many", s.MemoryMany, "pending tasks in memory-many, where snapshots are written")
	f.IntVar(&s.SmallPayload, "small-payload", s.SmallPayload, "bytes of the payloads of memory-small")
	f.DurationVar(&s.Settle, "settle", s.Settle, "quiet time before memory or idle cost is read")
	f.IntVar(&s.RepeatSchedules, "repeat-schedules", s.RepeatSchedules, "repeating schedules")
	f.DurationVar(&s.RepeatEvery, "repeat-every", s.RepeatEvery, "interval of each repeating schedule")
	f.DurationVar(&s.RepeatFor, "repeat-for", s.RepeatFor, "the time within which the measured occurrences are due")
	f.IntVar(&s.RestartTasks, "restart-tasks", s.RestartTasks, "tasks that must survive a kill of everything")
	f.IntVar(&s.FailoverRate, "failover-rate", s.FailoverRate, "tasks due a second while the leader is taken away")
	f.IntVar(&s.FailoverWrites, "failover-writes", s.FailoverWrites, "tasks scheduled a second meanwhile")
	f.DurationVar(&s.FailoverFor, "failover-for", s.FailoverFor, "how long; the leader goes after a third of it")
	f.IntVar(&s.TailsRate, "tails-rate", s.TailsRate, "tasks scheduled a second in the workload of tails; 0: half of\n"+
		"what the service can take, which is measured first")
	f.IntVar(&s.TailsPending, "tails-pending", s.TailsPending, "tasks that are there before")
	f.DurationVar(&s.TailsFor, "tails-for", s.TailsFor, "how long each of its parts takes")
	f.IntVar(&s.TailsRewrite, "tails-rewrite", s.TailsRewrite, "bytes a second that are replaced for the log to grow")
	f.IntVar(&s.TailsCascade, "tails-cascade", s.TailsCascade, "tasks that lie in one slot of a wheel")
	f.DurationVar(&s.TailsSpan, "tails-span", s.TailsSpan, "that the slot spans; it begins at a multiple of that")
	f.IntVar(&s.TailsConsumers, "tails-consumers", s.TailsConsumers, "consumers that come and go")
	f.StringSliceVar(&s.TailsParts, "tails-parts", s.TailsParts, "only these: quiet, snapshots, cascade, storm, moves")
	f.IntVar(&s.NeighbourRate, "neighbour-rate", s.NeighbourRate, "tasks that the neighbour of a storm schedules a second")
	f.DurationVar(&s.NeighbourFor, "neighbour-for", s.NeighbourFor, "how long, alone and beside a storm")
	f.IntVar(&s.NeighbourTurns, "neighbour-turns", s.NeighbourTurns, "how often each storm comes")
	f.StringSliceVar(&s.NeighbourStorms, "neighbour-storms", s.NeighbourStorms,
		"only these: batches, calls, due, silent")
	f.IntVar(&s.StormConnections, "storm-connections", s.StormConnections, "connections of a storm")
	f.IntVar(&s.StormBatch, "storm-batch", s.StormBatch, "tasks in a batch of a storm")
	f.IntVar(&s.StormDue, "storm-due", s.StormDue, "tasks of a storm that are due at one instant")
	f.IntVar(&s.StormSilent, "storm-silent", s.StormSilent, "tasks of a storm for a receiver that never answers")
	f.IntVar(&s.StormQuota, "storm-quota", s.StormQuota, "schedules a second that a storm's tenant may make; 0: no limit")
	f.DurationVar(&s.IdleFor, "idle-for", s.IdleFor, "how long to measure a service that has nothing to do")
	f.IntSliceVar(&s.Pending, "pending", s.Pending, "numbers of pending tasks of the growth workload, rising")
	f.IntVar(&s.Probe, "probe", s.Probe, "tasks by which it measures at each of them")
	f.IntSliceVar(&s.Queues, "queues", s.Queues, "numbers of queues of the growth-queues workload, rising")
}

// makeQuick takes the small sizes, except for those set by flags.
func (o *options) makeQuick(flags *pflag.FlagSet) error {
	if !flags.Changed("rounds") {
		o.rounds = 1
	}
	small := workload.Quick()
	kept := pflag.NewFlagSet("quick", pflag.ContinueOnError)
	sizeFlags(kept, &small)
	var err error
	flags.Visit(func(f *pflag.Flag) {
		if kept.Lookup(f.Name) != nil {
			err = errors.Join(err, kept.Set(f.Name, strings.Trim(f.Value.String(), "[]")))
		}
	})
	o.sizes = small
	return err
}

func (o *options) run(cmd *cobra.Command) error {
	if len(o.from) > 0 {
		return o.merge()
	}
	workloads, err := o.chosenWorkloads()
	if err != nil {
		return err
	}
	if o.list {
		return o.tell(cmd, workloads)
	}
	b, err := newBench(cmd, o, workloads)
	if err != nil {
		return err
	}
	defer b.clean()
	return b.rounds(cmd.Context())
}

// merge makes tables and pictures from the results of earlier runs.
func (o *options) merge() error {
	runs := make([]*report.Run, len(o.from))
	for i, path := range o.from {
		run, err := report.Read(path)
		if err != nil {
			return err
		}
		runs[i] = run
	}
	all, err := report.Merge(runs...)
	if err != nil {
		return err
	}
	return all.Write(o.out)
}

func (o *options) chosenWorkloads() ([]workload.Workload, error) {
	all := workload.All(o.sizes)
	if len(o.workloads) == 0 {
		return all, nil
	}
	var chosen []workload.Workload
	for _, name := range o.workloads {
		i := slices.IndexFunc(all, func(w workload.Workload) bool { return w.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no workload %q; see --list", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

func (o *options) tell(cmd *cobra.Command, workloads []workload.Workload) error {
	for _, w := range workloads {
		if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%-18s %s\n", w.Name, w.Title); err != nil {
			return err
		}
	}
	for _, e := range entries("", false) {
		line := e.subject.Name()
		if missing := e.subject.Missing(); missing != "" {
			line += ": missing: " + missing
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	return nil
}
