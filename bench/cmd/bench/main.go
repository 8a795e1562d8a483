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
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/bench/belfry"
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
	baseline            string
	dearer              float64
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
  go run -C bench ./cmd/bench --workloads schedule,burst --subjects belfry --baseline HEAD~1 --rounds 5
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
	f.StringVar(&o.baseline, "baseline", "", "a commit: Belfry as it was then is measured too, by turns")
	f.Float64Var(&o.dearer, "dearer", 0, "fail if a task costs this many percent more processor time than at\n"+
		"--baseline, in any workload (default: do not judge)")
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
			return belfry.ServeStorm(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

// sizeFlags defines a flag for each size: the name is that in results.json, the text is the field's help.
func sizeFlags(f *pflag.FlagSet, s *workload.Sizes) {
	sizes := reflect.ValueOf(s).Elem()
	for i, field := range reflect.VisibleFields(sizes.Type()) {
		name := strings.ReplaceAll(strings.TrimSuffix(field.Tag.Get("json"), "_ns"), "_", "-")
		help := field.Tag.Get("help")
		switch v := sizes.Field(i).Addr().Interface().(type) {
		case *int:
			f.IntVar(v, name, *v, help)
		case *time.Duration:
			f.DurationVar(v, name, *v, help)
		case *[]int:
			f.IntSliceVar(v, name, *v, help)
		case *[]string:
			f.StringSliceVar(v, name, *v, help)
		default:
			panic(fmt.Sprintf("no flag for the size %s of type %T", field.Name, v))
		}
	}
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
	if o.dearer != 0 && (o.dearer < 0 || o.baseline == "") {
		return fmt.Errorf("--dearer %v: it takes a number above 0, and --baseline", o.dearer)
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
	if err := b.rounds(cmd.Context()); err != nil || o.dearer == 0 {
		return err
	}
	return b.run.Dearer(b.suffix, o.dearer)
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
	for _, e := range entries(builds{}, false) {
		line := e.subject.Name
		if missing := e.subject.Missing(); missing != "" {
			line += ": missing: " + missing
		}
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), line); err != nil {
			return err
		}
	}
	return nil
}
