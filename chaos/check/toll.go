package check

import (
	"maps"
	"slices"

	"github.com/belfryhq/belfry/chaos/history"
)

// Toll is the cost of the faults of one kind, alone or beside other faults. An arrival counts for a fault if it came,
// or was owed, during the fault or shortly after it.
type Toll struct {
	Kind    string `json:"kind"`
	Count   int    `json:"count"`
	Held    Spread `json:"held"`    // from the start of each fault until it was mended
	Late    Spread `json:"late"`    // lateness of the first pushed attempts
	Pulled  Spread `json:"pulled"`  // lateness of the first leases
	Repeats int    `json:"repeats"` // number of repeated arrivals
	Heal    Spread `json:"heal"`    // from the mending until every shard took a write; without other faults only
	Calls   Spread `json:"calls"`   // duration of single schedule calls that succeeded
	Refused int    `json:"refused"` // changing calls that nodes which were not struck answered 5xx
}

// Plus returns the toll of t and u together, with the kind of u.
func (t Toll) Plus(u Toll) Toll {
	return Toll{
		Kind: u.Kind, Count: t.Count + u.Count, Held: t.Held.Plus(u.Held), Late: t.Late.Plus(u.Late),
		Pulled: t.Pulled.Plus(u.Pulled), Repeats: t.Repeats + u.Repeats, Heal: t.Heal.Plus(u.Heal),
		Calls: t.Calls.Plus(u.Calls), Refused: t.Refused + u.Refused,
	}
}

// Calm is the kind under which Tolls counts arrivals while no fault was under way.
const Calm = "no fault"

// PlannedAlone is the kind of the tolls of planned changes without any other fault at the time.
const PlannedAlone = "planned moves alone"

// Tolls returns the tolls of all kinds of faults that struck, and of the calm between them, sorted by kind.
func Tolls(x *Index) []Toll {
	tolls := map[string]*Toll{}
	of := func(kind string) *Toll {
		if tolls[kind] == nil {
			tolls[kind] = &Toll{Kind: kind}
		}
		return tolls[kind]
	}
	x.tollOfFaults(of)
	for _, t := range x.order {
		for i, a := range t.arrivals {
			repeat := repeated(t.arrivals[:i], a) != nil
			since, owed := x.owedSince(a)
			first := a.Attempt <= 1 && !seenBefore(t.arrivals[:i], a)
			if !owed {
				since = a.At
			}
			for _, kind := range x.kindsIn(since, a.At) {
				if repeat {
					of(kind).Repeats++
				}
				switch late := a.At.Sub(since); {
				case !first || !owed:
				case a.Pulled:
					of(kind).Pulled.Add(late)
				default:
					of(kind).Late.Add(late)
				}
			}
		}
	}
	for i := range x.h.Calls {
		c := &x.h.Calls[i]
		timed := c.Kind == history.Schedule && c.Outcome == history.OK && !c.Batch
		refused := c.Kind.Changes() && c.Answer.Status >= 500 && !x.struckNode(c)
		if !timed && !refused {
			continue
		}
		for _, kind := range x.kindsIn(c.Start, c.End) {
			if timed {
				of(kind).Calls.Add(c.End.Sub(c.Start))
			} else {
				of(kind).Refused++
			}
		}
	}
	var all []Toll
	for _, kind := range slices.Sorted(maps.Keys(tolls)) {
		all = append(all, *tolls[kind])
	}
	return all
}

// struckNode reports whether a fault had struck the node of a call. A node that starts refuses calls until it is ready.
func (x *Index) struckNode(c *history.Call) bool {
	return slices.ContainsFunc(x.h.Faults, func(f history.Fault) bool {
		return f.Struck <= c.End && c.Start <= healed(&f).Add(settleDown) && slices.Contains(f.Nodes, c.Node)
	})
}

func (x *Index) tollOfFaults(of func(kind string) *Toll) {
	writes := x.writesByShard()
	for i := range x.h.Faults {
		f := &x.h.Faults[i]
		toll := of(f.Kind)
		toll.Count++
		if f.Mended == 0 {
			continue
		}
		toll.Held.Add(f.Mended.Sub(f.Struck))
		healed := f.Mended
		whole := true
		for _, ws := range writes {
			took, ok := firstAfter(ws, f.Mended)
			healed = max(healed, f.Mended.Add(took))
			whole = whole && ok
		}
		if whole && x.aloneUntil(f, healed) {
			toll.Heal.Add(healed.Sub(f.Mended))
		}
	}
}

// aloneUntil reports whether no other fault was under way from the start of f's mending to an instant.
func (x *Index) aloneUntil(f *history.Fault, until history.Instant) bool {
	for i := range x.h.Faults {
		other := &x.h.Faults[i]
		if other != f && other.Struck <= until && healed(other) >= f.Mending {
			return false
		}
	}
	return true
}

// kindsIn returns the kinds of the faults that were under way between two instants or shortly before, Calm if none was.
func (x *Index) kindsIn(from, to history.Instant) []string {
	var kinds []string
	planned := true
	for i := range x.h.Faults {
		f := &x.h.Faults[i]
		if to < f.Struck || from > healed(f).Add(settleDown) {
			continue
		}
		planned = planned && f.Planned
		if !slices.Contains(kinds, f.Kind) {
			kinds = append(kinds, f.Kind)
		}
	}
	switch {
	case kinds == nil:
		return []string{Calm}
	case planned:
		return append(kinds, PlannedAlone)
	}
	return kinds
}
