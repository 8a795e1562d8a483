package linear

import (
	"hash/maphash"
	"slices"
)

// set is what a task may be at one point of the order: a state of the search.
type set struct {
	number uint64 // the highest number of a step until here
	states []state
	sum    uint64 // of the states' hashes, whatever their order
}

// start is the set of the task that never was.
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

// front holds states, and of those with one core only such that no other one covers.
type front struct {
	cores  []state // in the order in which they came
	states map[state][]state
}

// add adds a state, unless one that is there covers it.
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
