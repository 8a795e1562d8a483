package check

import "fmt"

// Outcome is the outcome of a check.
type Outcome string

// The outcomes. A check that saw no breach has only shown something if it observed the cases in which there could have
// been one.
const (
	Held         Outcome = "held"
	Breached     Outcome = "breached"
	NotExercised Outcome = "not exercised"
	NotBuilt     Outcome = "not built"
)

// Observed counts the cases of one kind that put an invariant to the test.
type Observed struct {
	Name  string `json:"name"` // of the cases, in the plural
	Count int    `json:"count"`
}

func (o Observed) String() string { return fmt.Sprintf("%d %s", o.Count, o.Name) }

// Observe adds a kind of cases without which the invariant is not exercised, and how many there were.
func (f *Finding) Observe(count int, name string) {
	f.Observed = append(f.Observed, Observed{name, count})
}

// Broken reports whether there is a breach.
func (f *Finding) Broken() bool { return len(f.Breaches) > 0 }

// Outcome is Breached with any breach, and NotExercised unless every kind of cases was observed. A check that names
// none has shown nothing.
func (f *Finding) Outcome() Outcome {
	switch {
	case f.NotBuilt:
		return NotBuilt
	case f.Broken():
		return Breached
	case len(f.Observed) == 0 || len(f.Missing()) > 0:
		return NotExercised
	}
	return Held
}

// Missing names the kinds of cases that were not observed.
func (f *Finding) Missing() []string {
	var names []string
	for _, o := range f.Observed {
		if o.Count == 0 {
			names = append(names, o.Name)
		}
	}
	return names
}

// Plus adds the finding of another run about the same invariant.
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
