// Command siege lays siege to a cluster of real processes on this machine, and reports the outcome.
//
//	exit status 0   no invariant was broken
//	exit status 1   an invariant was broken
//	exit status 2   the stand failed, so that the siege has shown nothing
//	exit status 3   no invariant was broken, but a siege of ten minutes or more with all faults
//	                did not put an invariant to the test that it could have
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/chaos/siege"
)

// The findings that decide the exit status. The report has the details.
var (
	errBroken = errors.New("an invariant was broken")
	errIdle   = errors.New("an invariant was not exercised")
)

// The exit statuses.
const (
	statusBroken = 1
	statusFailed = 2 // the stand failed
	statusIdle   = 3
)

func main() {
	debug.SetGCPercent(relaxed)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second interrupt ends the program and its nodes at once. An interrupt from timeout(1) comes twice and counts once.
	context.AfterFunc(ctx, func() { time.AfterFunc(twice, stop) })
	err := command().ExecuteContext(ctx)
	status := statusOf(err)
	if status == statusFailed {
		fmt.Fprintln(os.Stderr, "siege:", err)
	}
	os.Exit(status)
}

func statusOf(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errBroken):
		return statusBroken
	case errors.Is(err, errIdle):
		return statusIdle
	}
	return statusFailed
}

// relaxed is the growth of this program's heap between two collections, in percent. The record of a round is large and
// lives until the round ends. Each collection of it takes processor time from the nodes.
const relaxed = 400

// twice is the time within which two interrupts count as one.
const twice = time.Second

func command() *cobra.Command {
	var cfg siege.Config
	var race, noKeys bool
	var logStore string
	cmd := &cobra.Command{
		Use:   "siege",
		Short: "Break a cluster until nothing breaks",
		Long: `Starts a cluster of real processes, and puts it under load and random faults, round after round. Each round is
judged by itself. Ctrl-C ends the round under way, which is still judged and reported.

The siege skips faults that need root, or a part of the kernel that is missing here. The report names them.

An invariant is held if the run had each kind of case that could break it, and none did. An invariant that lacks a kind
of case is not exercised. From --for 10m on, with all faults, two of eight rounds are drills (one of eight without a
network of its own for the siege). In a drill one fault comes alone, so that every invariant is exercised for which this
machine has the faults. Shorter sieges report the invariants that they did not exercise.

In such a siege one more of eight rounds is a rolling upgrade, on nodes of its own: they change to a build with the next
command version, which it holds, and back, while leaders are killed. --faults upgrade,process makes it one of the random
faults.

Exit status: 0 no invariant was broken; 1 an invariant was broken; 2 the siege could not be finished; 3 no invariant was
broken, but a siege with drills did not exercise each invariant for which this machine has the faults.`,
		Example: `  siege --for 1h --faults all --seed 7
  siege --seed 7 --round 12        # the choices of that round again
  siege --soak --for 1h            # no faults; is it flat?`,
		Args: cobra.NoArgs, SilenceUsage: true, SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Progress = cmd.OutOrStdout()
			cfg.Args = []string{"--log-store", logStore}
			cfg.Keys = !noKeys && !cfg.Soak
			cfg.Flags = again(cmd.Flags())
			return run(cmd, cfg, race)
		},
	}
	f := cmd.Flags()
	f.DurationVar(&cfg.For, "for", 0, "how long the siege begins new rounds")
	f.IntVar(&cfg.Rounds, "rounds", 0, "how many rounds at most")
	f.IntVar(&cfg.Round, "round", 0, "only this round")
	f.StringSliceVar(&cfg.Faults, "faults", []string{"all"}, "groups or names of faults; all or none")
	f.Uint64Var(&cfg.Seed, "seed", 1, "seed of all random choices")
	f.IntVar(&cfg.Nodes, "nodes", 3, "number of nodes")
	f.IntVar(&cfg.Spare, "spare", 0, "further nodes, which join and leave by the faults of group shape")
	f.IntVar(&cfg.Shards, "shards", 6, "number of shards")
	f.IntVar(&cfg.Zones, "zones", 0, "zones over which the nodes are spread; 0: each node is a zone of its own")
	f.DurationVar(&cfg.ReplaceAfter, "replace-after", 0,
		"time after which others make the replicas of an absent node anew; 0: the nodes' default")
	f.IntVar(&cfg.PerSecond, "rate", 200, "scripts of the load that are begun each second")
	f.IntVar(&cfg.Bulk, "bulk", 1000, "plain tasks that are scheduled by batch each second")
	f.IntVar(&cfg.Strikers, "strikers", 3, "faults at once")
	f.DurationVar(&cfg.Strike, "strike", 40*time.Second, "how long faults strike in a round")
	f.StringVar(&cfg.Dir, "dir", "", "folder for data, logs, records and the report (default: a new temporary one)")
	f.StringVar(&cfg.Binary, "binary", "", "path of belfry (default: built here)")
	f.StringVar(&cfg.Other, "other", "", "path of a newer build with the tag chaos, for rolling upgrades (default: built "+
		"here with the tag next if a rolling upgrade can strike)")
	f.BoolVar(&cfg.NoNetwork, "no-network", false, "leave the nodes on loopback, without faults of the network")
	f.BoolVar(&cfg.NoDisks, "no-disks", false, "leave the nodes' data on this machine's disk, without faults of disks")
	f.BoolVar(&cfg.NoClocks, "no-clocks", false, "leave the nodes' clocks alone")
	f.BoolVar(&cfg.NoGossip, "no-gossip", false, "leave the nodes' gossip alone")
	f.BoolVar(&cfg.NoMemory, "no-memory", false, "leave the nodes' memory alone")
	f.BoolVar(&noKeys, "no-keys", false, "leave the calls without keys, all in one namespace")
	f.BoolVar(&cfg.Soak, "soak", false,
		"load alone, in long rounds; over half an hour or more memory, descriptors and disk must stay flat")
	f.StringVar(&logStore, "log-store", "wal", "log store of the nodes: wal or boltdb")
	f.StringVar(&cfg.Snapshots, "snapshots", "",
		"bytes of log after which a node takes a snapshot, and entries kept (default 524288,32; of a soak 2097152,256)")
	f.BoolVar(&race, "race", false, "build the nodes with the race detector")
	f.BoolVar(&cfg.Keep, "keep", false, "keep the records of rounds that held, too")
	return cmd
}

// again returns the given flags that a replay needs for the same choices under the same load. It leaves out the flags
// that the report names itself, and those that only set the length of a siege or the files to keep.
func again(given *pflag.FlagSet) (flags []string) {
	own := []string{"seed", "round", "nodes", "shards", "faults", "for", "rounds", "dir", "keep"}
	given.Visit(func(f *pflag.Flag) {
		switch {
		case slices.Contains(own, f.Name):
		case f.Value.Type() == "bool" && f.Value.String() == "true":
			flags = append(flags, "--"+f.Name)
		default:
			flags = append(flags, "--"+f.Name+"="+f.Value.String())
		}
	})
	return flags
}

func run(cmd *cobra.Command, cfg siege.Config, race bool) (err error) {
	ctx := cmd.Context()
	if cfg.Dir == "" {
		if cfg.Dir, err = os.MkdirTemp("", "siege-"); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return err
	}
	if cfg.Binary == "" {
		if cfg.Binary, err = build(ctx, cfg.Dir, race, "chaos"); err != nil {
			return err
		}
	}
	if cfg.Other == "" && cfg.Upgrades() {
		if cfg.Other, err = build(ctx, cfg.Dir, race, "chaos", "next"); err != nil {
			return err
		}
	}
	report, err := siege.Run(ctx, cfg)
	if report == nil {
		return err
	}
	err = errors.Join(err, report.Write(cfg.Dir), report.Tell(cmd.OutOrStdout()))
	if _, printErr := fmt.Fprintln(cmd.OutOrStdout(), "report:", filepath.Join(cfg.Dir, "report.md")); printErr != nil {
		err = errors.Join(err, printErr)
	}
	if err == nil {
		err = found(report)
	}
	return err
}

func found(report *siege.Report) error {
	switch {
	case !report.OK():
		return errBroken
	case len(report.Idle()) > 0:
		return errIdle
	}
	return nil
}

const program = "github.com/belfryhq/belfry/cmd/belfry"

// build builds the nodes' program with tags. With chaos its clock can be set, and mistakes can be seeded.
func build(ctx context.Context, dir string, race bool, tags ...string) (string, error) {
	binary := filepath.Join(dir, "belfry-"+strings.Join(tags, "-"))
	args := []string{"build", "-tags", strings.Join(tags, ","), "-o", binary}
	if race {
		args = append(args, "-race")
	}
	out, err := exec.CommandContext(ctx, "go", append(args, program)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the nodes' program: %w\n%s", err, strings.TrimSpace(string(out)))
	}
	return binary, nil
}
