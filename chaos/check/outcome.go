package check

import (
	"fmt"
	"slices"
)

// Outcome is the outcome of a check.
type Outcome string

// The outcomes of checks. A check without a breach has shown something only if it observed cases that could have been
// breaches.
const (
	Held         Outcome = "held"
	Breached     Outcome = "breached"
	NotExercised Outcome = "not exercised"
)

// Observed counts the cases of one kind that put an invariant to the test.
type Observed struct {
	Name  string `json:"name"` // name of the cases, in the plural
	Count int    `json:"count"`
}

func (o Observed) String() string { return fmt.Sprintf("%d %s", o.Count, o.Name) }

// Observe adds a kind of cases without which the invariant is not exercised, and the number of such cases observed.
func (f *Finding) Observe(count int, name string) {
	f.Observed = append(f.Observed, Observed{name, count})
}

// Broken reports whether there is a breach.
func (f *Finding) Broken() bool { return len(f.Breaches) > 0 }

// Outcome returns Breached with any breach, NotExercised unless every kind of cases was observed, and else Held. A
// check that names no kind of cases is not exercised.
func (f *Finding) Outcome() Outcome {
	switch {
	case f.Broken():
		return Breached
	case len(f.Observed) == 0 || len(f.Missing()) > 0:
		return NotExercised
	}
	return Held
}

// Missing returns the names of the kinds of cases that were not observed.
func (f *Finding) Missing() []string {
	var names []string
	for _, o := range f.Observed {
		if o.Count == 0 {
			names = append(names, o.Name)
		}
	}
	return names
}

// Plus returns the sum of two findings of different runs about the same invariant. It does not alter f.
func (f Finding) Plus(g Finding) Finding {
	sum := f
	sum.Figures = f.Figures.Plus(g.Figures)
	sum.Observed = append([]Observed(nil), f.Observed...)
	for _, o := range g.Observed {
		sum.observe(o)
	}
	sum.Breaches = append(f.Breaches[:len(f.Breaches):len(f.Breaches)], g.Breaches...)
	return sum
}

func (f *Finding) observe(o Observed) {
	for i := range f.Observed {
		if f.Observed[i].Name == o.Name {
			f.Observed[i].Count += o.Count
			return
		}
	}
	f.Observed = append(f.Observed, o)
}

// Beside returns the sum of the findings about two namespaces of one run. A kind of cases that one of them lacks counts
// as not observed, so that the invariant holds only if it was put to the test in both. It does not alter f.
func (f Finding) Beside(g Finding) Finding {
	sum := f.Plus(g)
	for i := range sum.Observed {
		o := &sum.Observed[i]
		if f.observed(o.Name) == 0 || g.observed(o.Name) == 0 {
			o.Count = 0
		}
	}
	return sum
}

func (f *Finding) observed(name string) int {
	for _, o := range f.Observed {
		if o.Name == name {
			return o.Count
		}
	}
	return 0
}

// In returns the finding with its breaches in a namespace. It does not alter f.
func (f Finding) In(namespace string) Finding {
	f.Breaches = slices.Clone(f.Breaches)
	for i := range f.Breaches {
		f.Breaches[i].Namespace = namespace
	}
	return f
}
