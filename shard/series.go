package shard

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/shard/recur"
)

// The limits of the ExtendSeries commands in one entry, and on the time for which an extender computes before it
// requests those that it has. A command with 64 instants has about a kilobyte.
const (
	maxExtensions     = 256
	maxExtensionBytes = maxEntryBytes / 2
	maxComputing      = 20 * time.Millisecond
)

// A schedule is costly if its computation takes at least minCostly, or finds only exclusions. An extender forgets the
// costly schedules over maxCostly that want no instants at the time.
const (
	minCostly = time.Millisecond
	maxCostly = 4096
)

// The pauses of an extender: after commands that have found only exclusions, and between looks for memory.
const (
	searchPause = 20 * time.Millisecond
	memoryPause = time.Second
)

// extender keeps the schedules of the shard supplied with coming instants. It adds none while the shard lacks memory:
// instants that pass meanwhile are missed, and the misfire policies decide on them once there is memory.
type extender struct {
	lead    *leadership
	shard   *Shard
	changed chan struct{} // capacity 1: a schedule may want instants

	mu    sync.Mutex
	known map[seriesKey]knownSeries
	turn  uint64 // of the last costly computation
}

// seriesKey names a schedule by the id of its record.
type seriesKey struct{ namespace, id string }

// knownSeries is the result of a schedule's last computation, if that must not be repeated at once.
type knownSeries struct {
	broken bool        // no instant can be computed for the settings of state
	idle   bool        // there is no command for state
	state  seriesState // of the schedule that was computed
	turn   uint64      // of a costly computation; 0: it was not costly
}

// seriesState is the part of a schedule on which its commands depend.
type seriesState struct {
	version           uint64 // of the settings
	calendar          uint64 // version of the present calendar
	next              int
	afterMs, judgedMs int64
}

func (x *extender) stateOf(view *fsmpb.Task) seriesState {
	s := view.Series
	return seriesState{
		version: s.Version, calendar: x.calendarVersion(view.Namespace, s.Repeat.GetCalendar()),
		next: len(s.Next), afterMs: s.AfterMs, judgedMs: s.JudgedMs,
	}
}

// calendarVersion returns the version of a calendar as this node knows it, and 0 if there is none.
func (x *extender) calendarVersion(namespace, name string) uint64 {
	if name == "" {
		return 0
	}
	return x.shard.cfg.Policies.CalendarVersion(namespace, name)
}

// calendarOf returns the calendar of a schedule as this node knows it.
func (x *extender) calendarOf(view *fsmpb.Task) recur.Calendar {
	name := view.Series.Repeat.GetCalendar()
	if name == "" {
		return recur.Calendar{}
	}
	c, version := x.shard.cfg.Policies.Calendar(view.Namespace, name)
	return recur.Calendar{Calendar: c, Version: version}
}

// rests reports whether a schedule in a state has no command.
func (k knownSeries) rests(state seriesState) bool {
	return k.broken && k.state.version == state.version && k.state.calendar == state.calendar ||
		k.idle && k.state == state
}

func newExtender(l *leadership) *extender {
	return &extender{
		lead: l, shard: l.shard, changed: make(chan struct{}, 1), known: map[seriesKey]knownSeries{},
	}
}

// look wakes the extender. The proposer calls it after each entry that leaves a schedule without enough instants.
func (x *extender) look() { wake(x.changed) }

// run extends schedules until the leadership ends.
func (x *extender) run(ctx context.Context) {
	for ctx.Err() == nil {
		if x.lacksMemory() {
			wait.For(ctx, memoryPause)
			continue
		}
		views := x.wanting(maxExtensions)
		change, computed := x.compute(ctx, views)
		if change.commands == 0 && computed < len(views) {
			continue
		}
		var news <-chan struct{} = x.changed
		if change.commands > 0 {
			news = x.lead.proposer.intake.requestSeries(change)
		}
		select {
		case <-news:
		case <-ctx.Done():
		}
		if change.commands > 0 && !change.found {
			wait.For(ctx, searchPause)
		}
	}
}

func (x *extender) lacksMemory() bool { return errors.Is(x.shard.lacking(), task.ErrNoMemory) }

// wanting returns at most limit schedules that want coming instants, without those that rest. The cheap ones are first,
// and the costly ones follow by their turns.
func (x *extender) wanting(limit int) (views []*fsmpb.Task) {
	x.mu.Lock()
	defer x.mu.Unlock()
	most, seen := limit+len(x.known), map[seriesKey]knownSeries{}
	all := x.candidates(most)
	for _, view := range all {
		known, ok := x.known[keyOf(view)]
		if ok {
			seen[keyOf(view)] = known
		}
		if !known.rests(x.stateOf(view)) {
			views = append(views, view)
		}
	}
	if len(all) < most {
		x.forget(seen)
	}
	slices.SortStableFunc(views, func(a, b *fsmpb.Task) int {
		return cmp.Compare(x.known[keyOf(a)].turn, x.known[keyOf(b)].turn)
	})
	return views[:min(len(views), limit)]
}

// candidates returns at most limit schedules that want coming instants, or whose calendar has changed, each once. The
// latter wait until this node knows the newest calendars.
func (x *extender) candidates(limit int) []*fsmpb.Task {
	all := x.shard.machine.WantingSeries(limit)
	if policed, _ := x.shard.cfg.Policies.Watch(); !policed.Known {
		return all
	}
	outdated := x.shard.machine.OutdatedSeries(limit-len(all), x.calendarVersion)
	if len(outdated) == 0 {
		return all
	}
	seen := make(map[seriesKey]bool, len(all))
	for _, view := range all {
		seen[keyOf(view)] = true
	}
	return append(all, slices.DeleteFunc(outdated, func(view *fsmpb.Task) bool { return seen[keyOf(view)] })...)
}

// forget drops what is known of the schedules that want nothing or are gone, given the others. The costly ones stay
// known while they are few. The caller holds mu.
func (x *extender) forget(others map[seriesKey]knownSeries) {
	for key, known := range x.known {
		if known.turn > 0 && len(others) < maxCostly {
			others[key] = known
		}
	}
	x.known = others
}

func keyOf(view *fsmpb.Task) seriesKey { return seriesKey{view.Namespace, view.Id} }

// compute returns the next commands of schedules, at most as many as one entry may have, and the number of schedules
// computed. It ends after maxComputing, or with ctx.
func (x *extender) compute(ctx context.Context, views []*fsmpb.Task) (change *seriesChange, computed int) {
	change = &seriesChange{done: make(chan struct{})}
	for began := time.Now(); computed < len(views) && ctx.Err() == nil; computed++ {
		if len(change.framed) >= maxExtensionBytes || time.Since(began) >= maxComputing {
			break
		}
		x.extend(change, views[computed])
	}
	return change, computed
}

// extend adds the next command of a schedule to a change. A schedule without a command is broken, or rests until it
// changes.
func (x *extender) extend(change *seriesChange, view *fsmpb.Task) {
	began := time.Now()
	now, _ := x.shard.clock.now()
	extension, err := recur.Extension(view.Series, x.calendarOf(view), now, rand.Int64N)
	costly := time.Since(began) >= minCostly || extension != nil && !hasFound(extension)
	if err == nil && extension != nil {
		err = change.add(view, extension)
	}
	x.learn(view, knownSeries{broken: err != nil, idle: err == nil && extension == nil}, costly)
	if err != nil {
		x.reportBroken(view, err)
	}
	if err != nil || extension == nil {
		x.shard.dev.stir()
	}
}

// hasFound reports whether a command has more than the end of a search among exclusions.
func hasFound(x *fsmpb.ExtendSeries) bool {
	return len(x.Next)+len(x.Passed) > 0 || x.Complete || x.RedoAfterMs != nil
}

// learn keeps the result of a schedule's computation.
func (x *extender) learn(view *fsmpb.Task, result knownSeries, costly bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	result.state = x.stateOf(view)
	if costly {
		x.turn++
		result.turn = x.turn
	}
	if costly || result.broken || result.idle {
		x.known[keyOf(view)] = result
	} else {
		delete(x.known, keyOf(view))
	}
}

func (x *extender) reportBroken(view *fsmpb.Task, err error) {
	id, _ := task.SplitSeries(view.Id)
	x.shard.cfg.Logger.Warn("a schedule is stuck: its next occurrence cannot be computed",
		"namespace", view.Namespace, "schedule", id, "err", err)
}

// isBehind reports whether a schedule is about to get instants, for a dev clock.
func (x *extender) isBehind() bool { return !x.lacksMemory() && len(x.wanting(1)) > 0 }

// seriesChange is a request to extend schedules.
type seriesChange struct {
	framed   []byte
	commands int
	found    bool          // a command has more than the end of a search among exclusions
	version  uint32        // command version of the commands
	done     chan struct{} // closed when the commands are applied
}

// add adds the command of a schedule.
func (c *seriesChange) add(view *fsmpb.Task, extension *fsmpb.ExtendSeries) (err error) {
	cmd := &fsmpb.Command{
		Namespace: view.Namespace, Id: view.Id, Op: &fsmpb.Command_ExtendSeries{ExtendSeries: extension},
	}
	if c.framed, err = frame(c.framed, cmd); err != nil {
		return err
	}
	c.commands++
	c.found = c.found || hasFound(extension)
	c.version = max(c.version, fsm.VersionOf(cmd))
	return nil
}
