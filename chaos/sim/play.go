package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/chaos/verdict"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Result is the outcome of a run.
type Result struct {
	Config  Config
	Verdict *verdict.Verdict
	// Problems are broken promises that only the inside shows, each with the second of the run.
	Problems []string
	Figures  Figures
}

// OK reports whether every promise held.
func (r *Result) OK() bool { return len(r.Problems) == 0 && r.Verdict.OK() }

// String returns the report of the run: its config, at most 20 problems and the verdict.
func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintln(&b, r.Config)
	for i, p := range r.Problems {
		if i == 20 {
			fmt.Fprintf(&b, "FAIL  … and %d more\n", len(r.Problems)-i)
			break
		}
		fmt.Fprintln(&b, "FAIL ", p)
	}
	b.WriteString(r.Verdict.String())
	return b.String()
}

// Play plays one run to its end. The caller must be in a synctest bubble, at its beginning.
func Play(cfg Config) *Result {
	w := NewWorld(cfg)
	defer w.Close()
	begin := time.Now()
	course := drawCourse(cfg, w.rng("course", 0))
	course.drawShifts(cfg, w.rng("shifts", 0))
	l := newLoad(w, course)
	slots, schedules := newSplitter(w, l), l.newSchedules()
	c := &conductor{world: w, load: l}
	for _, p := range basePolicies() {
		w.decidePolicy(p)
	}
	w.start()
	w.seeOwners()
	l.placeProbes()
	c.recover()
	course.begin = time.Now()
	var wg sync.WaitGroup
	consumers := l.consumers()
	wg.Go(l.run)
	wg.Go(func() { schedules.Run(w.ctx, w.over()) })
	wg.Go(func() { c.conduct(course) })
	wg.Go(func() { slots.run(course) })
	wg.Go(func() { w.sleep(cfg.Span) })
	arrive := w.move(course)
	wg.Wait()
	c.heal()
	if slots.end() {
		c.recover()
		arrive()
		w.note(schedules.End(w.ctx))
		l.drain()
		consumers()
		l.readAll()
		w.note(schedules.Count(w.ctx))
		w.compare()
		w.judgeOwners()
		w.replay()
	}
	h := w.rec.History()
	w.figures.Simulated = time.Since(begin)
	return w.judge(h)
}

func (w *World) judge(h *history.History) *Result {
	r := &Result{Config: w.cfg, Verdict: verdict.Of("simulation", h, w.cfg.pace.limits())}
	w.mu.Lock()
	defer w.mu.Unlock()
	r.Problems, r.Figures = w.problems, w.figures
	r.Figures.Calls, r.Figures.Arrivals = len(h.Calls), len(h.Arrivals)
	r.Figures.Occurrences = len(h.Occurrences)
	r.Figures.Faults, r.Figures.Terms = len(h.Faults), len(h.Terms)
	for _, n := range w.nodes {
		for _, d := range n.files.all() {
			r.Figures.Torn += d.Stats().Torn
			r.Figures.Snapshots += d.Stats().Snapshots
		}
	}
	net := w.net.Stats()
	r.Figures.Lost, r.Figures.Late, r.Figures.Installed = net.Lost, net.Late+net.Duplicated, net.Snapshots
	r.Figures.Compared = w.prints.held
	r.Figures.SlotMoves = w.now().LastSlotMove
	return r
}

// consumers starts one to three consumers. end stops them and waits until they have settled their leases.
func (l *driver) consumers() (end func()) {
	ctx, cancel := context.WithCancel(l.world.ctx)
	var wg sync.WaitGroup
	for i := range 1 + l.world.rng("consumers", 0).IntN(3) {
		wg.Go(func() { l.player.Consume(ctx, l.world.rng("consumer", i)) })
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// probe is the task of one shard that no load touches, due long after the run.
type probe struct {
	shard uint32
	id    string
}

// placeProbes schedules the probes of all shards.
func (l *driver) placeProbes() {
	rng := l.world.rng("probes", 0)
	for _, p := range l.probed() {
		l.player.New(l.world.ctx, rng, p.id, load.Task{Delay: probeDelay})
	}
}

// probed returns the probe of each shard that has slots. The first call about a new probe schedules it.
func (l *driver) probed() []probe {
	probes := map[uint32]string{}
	for _, id := range l.probes {
		probes[l.world.shardOf(id)] = id
	}
	var all []probe
	for _, s := range l.world.now().Shards {
		if probes[s.Id] == "" {
			probes[s.Id] = l.newProbe(s.Id)
		}
		if probes[s.Id] != "" {
			all = append(all, probe{s.Id, probes[s.Id]})
		}
	}
	return all
}

// newProbe makes a probe of a shard. It returns "" if the shard has no slots.
func (l *driver) newProbe(shard uint32) string {
	owns := func(r *clusterpb.SlotRange) bool { return r.Shard == shard }
	for i := 0; slices.ContainsFunc(l.world.now().Slots, owns); i++ {
		if id := fmt.Sprintf("probe-%d", i); l.world.shardOf(id) == shard {
			l.probes = append(l.probes, id)
			return id
		}
	}
	return ""
}

// drain waits until every task has come to rest. A task that does not come to rest in time is a problem.
func (l *driver) drain() {
	w := l.world
	end := time.Now().Add(2*w.cfg.pace.maxDelay + 4*time.Hour)
	for pause := time.Second; time.Now().Before(end); pause = min(2*pause, w.cfg.pace.maxDelay/8) {
		if l.atRest() {
			return
		}
		w.sleep(pause)
	}
	w.problem("tasks have not come to rest")
}

// atRest reports whether every shard has a leader, all replicas have applied as much as the leader, and no task is
// unfinished except the probes.
func (l *driver) atRest() bool {
	scheduled := 0
	for _, s := range l.world.now().Shards {
		_, r := l.world.leading(s.Id)
		if r == nil {
			return false
		}
		status := r.Status()
		by := status.Counts.ByState
		scheduled += by[fsmpb.State_STATE_SCHEDULED]
		if by[fsmpb.State_STATE_READY] > 0 || by[fsmpb.State_STATE_FIRING] > 0 || by[fsmpb.State_STATE_RETRYING] > 0 ||
			!l.world.level(s, status.Applied) {
			return false
		}
	}
	return scheduled <= len(l.probes)
}

// Figures count the events of one run, or of several.
type Figures struct {
	Simulated time.Duration
	Calls     int
	Arrivals  int // without those of occurrences
	Faults    int
	Terms     int
	Crashes   int    // deaths of processes, orderly ends included
	Torn      uint64 // writes that a crash cut short
	Snapshots uint64 // begun, both local ones and those received
	Installed uint64 // installed by a follower and confirmed to its leader
	Moves     int    // shards that came to where they should be
	Changes   int    // of the members of the shards' groups
	Compared  uint64 // comparisons with another replica's state after as many commands
	Lost      uint64 // lost messages
	Late      uint64 // messages drawn to arrive after their sender gave up, or twice

	Occurrences int // arrivals of occurrences of schedules

	Operations int    // on slots
	SlotMoves  uint64 // moves of slots begun
	GivenUp    int    // of them
	Reigns     int    // times that a node began to drive moves of slots
}

// Add adds the figures of another run.
func (f *Figures) Add(o Figures) {
	f.Simulated += o.Simulated
	f.Calls += o.Calls
	f.Arrivals += o.Arrivals
	f.Faults += o.Faults
	f.Terms += o.Terms
	f.Crashes += o.Crashes
	f.Torn += o.Torn
	f.Snapshots += o.Snapshots
	f.Installed += o.Installed
	f.Moves += o.Moves
	f.Changes += o.Changes
	f.Compared += o.Compared
	f.Lost += o.Lost
	f.Late += o.Late
	f.Occurrences += o.Occurrences
	f.Operations += o.Operations
	f.SlotMoves += o.SlotMoves
	f.GivenUp += o.GivenUp
	f.Reigns += o.Reigns
}

func (f Figures) String() string {
	return fmt.Sprintf("%v simulated: %d calls, %d arrivals, %d of occurrences; %d faults, %d crashes, "+
		"%d terms, %d torn writes, %d snapshots, %d of them installed, %d messages lost, %d late or twice; "+
		"%d moves in %d changes of members; "+
		"%d operations on slots in %d moves, %d of them given up, driven %d times; %d states compared",
		f.Simulated.Round(time.Minute), f.Calls, f.Arrivals, f.Occurrences, f.Faults, f.Crashes, f.Terms, f.Torn,
		f.Snapshots, f.Installed, f.Lost, f.Late, f.Moves, f.Changes,
		f.Operations, f.SlotMoves, f.GivenUp, f.Reigns, f.Compared)
}
