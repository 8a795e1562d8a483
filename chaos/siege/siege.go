package siege

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/lossyfs"
	"github.com/belfryhq/belfry/chaos/netlab"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/workload"
	"github.com/belfryhq/belfry/deploy/local"
)

// siege is a siege under way.
type siege struct {
	cfg      Config
	kinds    []faults.Kind // kinds that can strike on this stage
	stand    *stand.Stand
	receiver *workload.Receiver
	deaths   *deaths
	report   *Report

	rested    int // acknowledged tasks of former rounds
	strangers int // attempts of former rounds' tasks that came until the last verdict
}

// Run lays siege. When ctx ends, Run completes the round under way and begins no other. An error means that the stand
// failed. The report then covers the rounds before; it is nil only if the siege did not begin.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	kinds, err := chosen(cfg.Faults)
	if err != nil {
		return nil, err
	}
	s := &siege{cfg: cfg, report: newReport(cfg)}
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, err
	}
	if err := s.open(ctx, kinds); err != nil {
		return nil, errors.Join(err, s.close())
	}
	watch := beginWatch(s.stand.Cluster, cfg.lookEvery())
	err = s.rounds(ctx)
	s.report.watched(s.stand.Names(), watch)
	if ctx.Err() != nil {
		s.report.Thorough = false // the siege was cut short
	}
	return s.report, errors.Join(err, s.close(), s.epilogue())
}

// epilogue adds forbidden events of the nodes to the report: those between the last verdict and the nodes' stop.
func (s *siege) epilogue() error {
	for _, d := range s.deaths.take() {
		s.report.After = append(s.report.After, d.cause+"; the end of its log:\n"+s.stand.Logs.Tail(d.node))
	}
	alarms, err := s.stand.Logs.Alarms()
	s.report.Errors += alarms.Errors
	s.report.After = append(s.report.After, alarms.Worse...)
	return err
}

func (s *siege) close() error {
	var err error
	if s.receiver != nil {
		err = s.receiver.Close()
	}
	if s.stand != nil {
		err = errors.Join(err, s.stand.Close())
	}
	if s.deaths != nil {
		s.deaths.close()
	}
	return err
}

// rounds plays the rounds one after the other.
func (s *siege) rounds(ctx context.Context) error {
	if s.cfg.Round > 0 {
		return s.next(ctx, s.cfg.Round)
	}
	began := time.Now()
	for n := 1; s.cfg.Rounds == 0 || n <= s.cfg.Rounds; n++ {
		if ctx.Err() != nil || s.cfg.For > 0 && time.Since(began) >= s.cfg.For {
			return nil
		}
		if err := s.next(ctx, n); err != nil {
			return err
		}
		if rounds := s.report.Rounds; s.cfg.Stop != nil && s.cfg.Stop(rounds[len(rounds)-1]) {
			return nil
		}
	}
	return nil
}

// next plays round n and adds it to the report.
func (s *siege) next(ctx context.Context, n int) error {
	r, err := s.play(ctx, n)
	if err != nil {
		return fmt.Errorf("round %d: %w", n, err)
	}
	s.report.add(r)
	_, err = fmt.Fprintln(s.cfg.Progress, r)
	return err
}

const dataFolder = "cluster"

// open sets up the part of the stage that the chosen faults need and this machine supports.
func (s *siege) open(ctx context.Context, kinds []faults.Kind) (err error) {
	missing := map[string]error{} // by group
	want := func(group string, off bool, supported func() error) bool {
		if !slices.ContainsFunc(kinds, func(k faults.Kind) bool { return k.Group == group }) {
			return false
		}
		if off {
			missing[group] = fmt.Errorf("switched off")
		} else if err := supported(); err != nil {
			missing[group] = err
		}
		return missing[group] == nil
	}
	always := func() error { return nil }
	other, descriptors := s.otherBuild(kinds), 0
	if want("attack", false, always) {
		descriptors = fewDescriptors
	}
	s.stand, err = stand.Open(ctx, stand.Config{
		Binary: s.cfg.Binary, Dir: filepath.Join(s.cfg.Dir, dataFolder), Nodes: s.cfg.Nodes,
		Spare: s.cfg.Spare, Shards: s.cfg.Shards, Zones: s.cfg.Zones, ReplaceAfter: s.cfg.ReplaceAfter,
		Args: s.cfg.Args, Env: append([]string{"BELFRY_SNAPSHOTS=" + s.cfg.Snapshots}, s.cfg.Env...), Seed: s.cfg.Seed,
		Other: other, Keys: s.cfg.Keys,
		Network: want("network", s.cfg.NoNetwork, netlab.Supported),
		Disks:   want("disk", s.cfg.NoDisks, lossyfs.Supported),
		Clocks:  want("clock", s.cfg.NoClocks, always),
		Gossip:  want("gossip", s.cfg.NoGossip, always),
		Memory:  want("memory", s.cfg.NoMemory, stand.MemorySupported),

		Descriptors: descriptors,
	})
	if err != nil {
		return err
	}
	s.deaths = watchDeaths(s.stand.Cluster)
	unheard := history.NewRecorder(nil) // until the first round
	if s.receiver, err = workload.Listen(ctx, unheard, s.stand.ReceiverHost()); err != nil {
		return err
	}
	s.choose(kinds, missing)
	return nil
}

// fewDescriptors is the number of files that a node under attack may open: enough for the load, and few enough to be
// exhausted.
const fewDescriptors = 4096

// Upgrades reports whether a rolling upgrade can strike in the siege, if it has another build.
func (c Config) Upgrades() bool {
	kinds, err := chosen(c.Faults)
	named := err == nil && slices.ContainsFunc(kinds, func(k faults.Kind) bool { return k.Name == faults.RollingUpgrade })
	return c.drills() || named && !c.all()
}

// otherBuild returns the other build of the stand, or "" if the nodes keep their own. A siege with all faults has it in
// a drill alone, on a stand of its own.
func (s *siege) otherBuild(kinds []faults.Kind) (program string) {
	upgrades := slices.ContainsFunc(kinds, func(k faults.Kind) bool { return k.Name == faults.RollingUpgrade })
	if !upgrades || s.cfg.all() {
		return ""
	}
	return s.cfg.Other
}

// choose keeps the kinds that can strike on this stage and reports the others as skipped.
func (s *siege) choose(kinds []faults.Kind, missing map[string]error) {
	for _, k := range kinds {
		err := missing[k.Group]
		if err == nil && k.Needs != nil {
			err = k.Needs(s.stand)
		}
		switch {
		case errors.Is(err, faults.ErrKeys) && s.cfg.drills():
			continue // the kind strikes in a drill on a stand of its own
		case errors.Is(err, stand.ErrOneBuild) && s.cfg.Other != "" && s.cfg.drills():
			continue // this one, too
		case err != nil:
			s.report.skip(k, err)
			continue
		}
		s.kinds = append(s.kinds, k)
	}
}

// death is the end of a node's process that the harness did not bring about directly.
type death struct {
	at    time.Time
	node  string
	cause string
}

// deaths watches the cluster's events for deaths.
type deaths struct {
	stop chan struct{}
	done chan struct{}

	mu     sync.Mutex // guards untold
	untold []death    // deaths that take has not returned yet
}

func watchDeaths(cluster *local.Cluster) *deaths {
	d := &deaths{stop: make(chan struct{}), done: make(chan struct{})}
	go d.watch(cluster.Events())
	return d
}

func (d *deaths) watch(events <-chan local.Event) {
	defer close(d.done)
	for {
		select {
		case <-d.stop:
			return
		case e := <-events:
			if e.Kind == local.Died {
				d.note(e)
			}
		}
	}
}

func (d *deaths) note(e local.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.untold = append(d.untold, death{time.Now(), e.Node, e.String()})
}

// take returns each death once.
func (d *deaths) take() []death {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.untold
	d.untold = nil
	return taken
}

func (d *deaths) close() {
	close(d.stop)
	<-d.done
}
