package linear

import (
	"hash/maphash"
	"slices"
)

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
