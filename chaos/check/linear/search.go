package linear

import (
	"context"
	"hash/maphash"
	"slices"

	"github.com/belfryhq/belfry/chaos/history"
)

// effort bounds the search of the events before a step. Few events explain most steps, and an order found with little
// effort is as good as any.
type effort struct {
	reach    int  // most events between two steps
	patience int  // most events to try beyond the number that explains the step
	together bool // search from all states at once, so that no path is left out
}

// efforts returns the efforts to try, the least first.
func efforts() []effort {
	return []effort{
		{reach: 1}, {reach: 2, patience: 1, together: true}, {reach: 3, patience: 2, together: true}, thorough(),
	}
}

// thorough returns the unbounded effort. Only it proves that there is no order.
func thorough() effort {
	const all = 1 << 30
	return effort{reach: all, patience: all, together: true}
}

// take returns the possible states after step x from the set, none if the step cannot be taken. It first checks the
// order of numbered steps, of which there is only one.
func (p *partition) take(ctx context.Context, from *set, x *step, e effort) []state {
	if x.bad != "" || !x.inOrder(from.number) {
		return nil
	}
	var to front
	if e.together {
		p.takeFrom(ctx, from.states, x, e, &to)
		return to.all()
	}
	for i := range from.states {
		p.takeFrom(ctx, from.states[i:i+1], x, e, &to)
	}
	return to.all()
}

// takeFrom adds the possible states after step x to the front. It first tries each state, and the states that drift
// leads to from it. Then it tries these states with one event more at a time. Once the events explain the step, it goes
// on for as many events as e.patience allows. A state that the step leaves unchanged needs no events: they can as well
// happen after the step.
func (p *partition) takeFrom(ctx context.Context, level []state, x *step, e effort, to *front) {
	var seen front
	for patience, reach := e.patience, 0; len(level) > 0; reach++ {
		var next []state
		explained := false
		try := func(t state) (same bool) {
			if t.after > x.end || x.number != 0 && t.rev > x.number || ctx.Err() != nil || !seen.add(t) {
				return true
			}
			p.finish(t, x, func(done state) {
				explained, same = true, same || done == t && x.looks()
				to.add(done.since(x.start))
			})
			if !same && reach < e.reach {
				p.happen(t, x.end, func(u state) { next = append(next, u) })
			}
			return same
		}
		for _, t := range level {
			if !try(t) {
				p.drift(t, func(u state) { try(u) })
			}
		}
		if explained = explained || patience < e.patience; explained {
			if patience == 0 {
				return
			}
			patience--
		}
		level = next
	}
}

// looks reports whether the step changes no task.
func (x *step) looks() bool {
	return x.read || x.answer == missing || x.answer == conflict || x.answer == unmet || x.answer == replaced
}

// since drops the bound after if the step's start holds it as well.
func (s state) since(start history.Instant) state {
	if s.after <= start {
		s.after = 0
	}
	return s
}

// set holds the possible states of a task at one point of the order. It is a state of porcupine's search.
type set struct {
	number uint64 // highest number of a step so far
	states []state
	sum    uint64 // sum of number and the states' hashes, whatever the order
}

// start returns the set that holds only the state of a task that was never made.
func start(seed maphash.Seed) *set { return newSet(0, []state{{exact: true}}, seed) }

func newSet(number uint64, states []state, seed maphash.Seed) *set {
	t := &set{number: number, states: states, sum: number}
	for _, s := range states {
		t.sum += maphash.Comparable(seed, s)
	}
	return t
}

func (t *set) equal(u *set) bool {
	if t.number != u.number || t.sum != u.sum || len(t.states) != len(u.states) {
		return false
	}
	for _, s := range t.states {
		if !slices.Contains(u.states, s) {
			return false
		}
	}
	return true
}

// front holds states. A state is left out if another state of the same core covers it.
type front struct {
	cores  []state // in the order of their first states
	states map[state][]state
}

// add adds a state and removes the states that it covers. It returns false if a state in the front covers s.
func (f *front) add(s state) bool {
	if f.states == nil {
		f.states = map[state][]state{}
	}
	core := s.core()
	beside := f.states[core]
	if slices.ContainsFunc(beside, func(t state) bool { return t.covers(&s) }) {
		return false
	}
	if len(beside) == 0 {
		f.cores = append(f.cores, core)
	}
	beside = slices.DeleteFunc(beside, func(t state) bool { return s.covers(&t) })
	f.states[core] = append(beside, s)
	return true
}

func (f *front) all() []state {
	var all []state
	for _, core := range f.cores {
		all = append(all, f.states[core]...)
	}
	return all
}
