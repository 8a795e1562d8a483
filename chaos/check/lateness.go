package check

import (
	"maps"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Lateness checks invariant 6: at most one in a hundred tasks that became due during a leader's death alone comes later
// than limits.Failover. Other lateness budgets depend on the machine. Tolls has the lateness of each kind of fault.
func Lateness(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "6", Promise: "a failover keeps its lateness budget"}
	all, judged := Spread{}, 0
	for fault, late := range x.lateInDeaths(limits.Failover) {
		if late.Count == 0 {
			continue
		}
		judged++
		all = all.Plus(*late)
		if p99 := late.Quantile(99); limits.Failover > 0 && p99 > limits.Failover {
			f.breach(fault.Struck, "", "of %d tasks due within the %s the latest in a hundred came %v late, more than %v",
				late.Count, fault.Kind, round(p99), limits.Failover)
		}
	}
	if limits.Failover > 0 {
		f.Observe(judged, "leaders killed with nothing else broken and tasks due meanwhile")
		f.Observe(all.Count, "tasks due meanwhile")
	}
	f.figures("due within a leader's death alone: %v", all)
	return f
}

// lateInDeaths returns, for each killed leader with nothing else broken, the lateness of the tasks that became due on
// its shards while it was dead. Nothing else may break before the time allowed for the last of these tasks is over.
func (x *Index) lateInDeaths(allowed time.Duration) map[*history.Fault]*Spread {
	late := map[*history.Fault]*Spread{}
	for i := range x.h.Faults {
		f := &x.h.Faults[i]
		if f.Kind == history.KillLeader && x.nothingBeside(f, f.Struck, f.Mending.Add(allowed)) {
			late[f] = new(Spread)
		}
	}
	if len(late) == 0 {
		return late
	}
	for _, t := range x.order {
		for i, a := range t.arrivals {
			if a.Pulled || a.Attempt > 1 || seenBefore(t.arrivals[:i], a) {
				continue
			}
			since, ok := x.owedSince(a)
			for f, spread := range late {
				if ok && f.Struck <= since && since < f.Mending && t.heldBy(f.Shards) {
					spread.Add(a.At.Sub(since))
				}
			}
		}
	}
	return late
}

// nothingBeside reports whether no fault but f was under way between two instants, or shortly before.
func (x *Index) nothingBeside(f *history.Fault, from, to history.Instant) bool {
	return !slices.ContainsFunc(x.h.Faults, func(other history.Fault) bool {
		return other.Struck != f.Struck && other.Struck <= to && from <= healed(&other).Add(settleDown)
	})
}

// seenBefore reports whether an attempt of the same occurrence came before.
func seenBefore(before []*arrival, a *arrival) bool {
	return slices.ContainsFunc(before, func(p *arrival) bool { return p.WebhookID == a.WebhookID })
}

// settleDown is the time after the mending of a fault in which lateness still counts as the fault's.
const settleDown = 2 * time.Second

// owedSince returns the instant from which the lateness of an arrival counts: its due time, or the answer to the call
// that wrote its payload, whichever is later. ok is false for an arrival before that answer, which cannot be late.
func (x *Index) owedSince(a *arrival) (_ history.Instant, ok bool) {
	w := x.writes[a.Wrote]
	if w == nil || w.end >= a.At {
		return 0, false
	}
	return max(a.Due, w.end), true
}

// pathGrace is the time in which a failing path may hold up the others, until its failures tell it apart.
const pathGrace = 5 * time.Second

// Paths checks that a failing path of a receiver holds up no other path of it (invariant 6b). While one path fails and
// nothing else is broken, the first attempts at other paths come at most limits.Path late, if they are owed after
// pathGrace.
func Paths(x *Index, limits Limits) Finding {
	f := Finding{Invariant: "6b", Promise: "a failing path holds up no other path of its receiver"}
	late, failed := Spread{}, 0
	faults := x.pathsAlone(limits.Path)
	for _, t := range x.order {
		for i, a := range t.arrivals {
			if a.Pulled || a.Path == "" {
				continue
			}
			if fault := faultAt(faults, a.At); fault != nil && a.Path == fault.Path {
				failed++
				continue
			}
			since, ok := x.owedSince(a)
			fault := faultAt(faults, since.Add(-pathGrace))
			if !ok || fault == nil || since > fault.Mending || a.Attempt > 1 || seenBefore(t.arrivals[:i], a) {
				continue
			}
			took := a.At.Sub(since)
			late.Add(took)
			if limits.Path > 0 && took > limits.Path {
				f.breach(a.At, t.id, "an attempt at %s came %v late, more than %v, while %s failed", a.Path, round(took),
					limits.Path, fault.Path)
			}
		}
	}
	if limits.Path > 0 {
		f.Observe(len(faults), "times that one path failed and nothing else was broken")
		f.Observe(failed, "attempts at a path that failed alone")
		f.Observe(late.Count, "first attempts at other paths meanwhile")
	}
	f.figures("%d times alone, %d attempts at the failing path; first attempts at the others: %v", len(faults), failed,
		late)
	return f
}

// pathsAlone returns the faults of one path with nothing else broken. Nothing else may break before the time allowed
// for the last task that was owed meanwhile is over.
func (x *Index) pathsAlone(allowed time.Duration) []*history.Fault {
	var alone []*history.Fault
	for i := range x.h.Faults {
		if f := &x.h.Faults[i]; f.Kind == history.OnePath && x.nothingBeside(f, f.Struck, f.Mending.Add(allowed)) {
			alone = append(alone, f)
		}
	}
	return alone
}

// faultAt returns the fault that is under way at an instant, or nil.
func faultAt(faults []*history.Fault, at history.Instant) *history.Fault {
	for _, f := range faults {
		if f.Struck <= at && at <= f.Mending {
			return f
		}
	}
	return nil
}

// Toll is the cost of the faults of one kind, alone or beside other faults. An arrival counts for a fault if it came,
// or was owed, during the fault or shortly after it.
type Toll struct {
	Kind    string
	Count   int
	Held    Spread // from the start of each fault until it was mended
	Late    Spread // lateness of the first pushed attempts
	Pulled  Spread // lateness of the first leases
	Repeats int    // number of repeated arrivals
	Heal    Spread // from the mending until every shard took a write; without other faults only
	Calls   Spread // duration of single schedule calls that succeeded
	Refused int    // changing calls that nodes which were not struck answered 5xx
}

// Plus returns the toll of t and u together, with the kind of u.
func (t Toll) Plus(u Toll) Toll {
	return Toll{
		Kind: u.Kind, Count: t.Count + u.Count, Held: t.Held.Plus(u.Held), Late: t.Late.Plus(u.Late),
		Pulled: t.Pulled.Plus(u.Pulled), Repeats: t.Repeats + u.Repeats, Heal: t.Heal.Plus(u.Heal),
		Calls: t.Calls.Plus(u.Calls), Refused: t.Refused + u.Refused,
	}
}

// AddToll adds a toll to that of its kind, and appends it if there is none.
func AddToll(tolls []Toll, t Toll) []Toll {
	i := slices.IndexFunc(tolls, func(known Toll) bool { return known.Kind == t.Kind })
	if i < 0 {
		return append(tolls, t)
	}
	tolls[i] = tolls[i].Plus(t)
	return tolls
}

// Calm is the kind under which Tolls counts arrivals while no fault was under way.
const Calm = "no fault"

// PlannedAlone is the kind of the tolls of planned changes without any other fault at the time.
const PlannedAlone = "planned moves alone"

// Tolls returns the tolls of all kinds of faults that struck, and of the calm between them, sorted by kind.
func Tolls(x *Index) []Toll {
	tolls := map[string]*Toll{}
	tollOf := func(kind string) *Toll {
		if tolls[kind] == nil {
			tolls[kind] = &Toll{Kind: kind}
		}
		return tolls[kind]
	}
	x.addFaultTolls(tollOf)
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
					tollOf(kind).Repeats++
				}
				switch late := a.At.Sub(since); {
				case !first || !owed:
				case a.Pulled:
					tollOf(kind).Pulled.Add(late)
				default:
					tollOf(kind).Late.Add(late)
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
				tollOf(kind).Calls.Add(c.End.Sub(c.Start))
			} else {
				tollOf(kind).Refused++
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

func (x *Index) addFaultTolls(tollOf func(kind string) *Toll) {
	writes := x.writesByShard()
	for i := range x.h.Faults {
		f := &x.h.Faults[i]
		toll := tollOf(f.Kind)
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

// Spell counts and times the calls and deliveries of a namespace in a part of a run.
type Spell struct {
	Took      time.Duration
	Late      Spread // lateness of the first attempts that were due in it, pushed and pulled
	Calls     Spread // duration of single schedule calls that began in it and succeeded
	Failed    int    // schedule calls that began in it and did not succeed, single ones and lines
	Scheduled int    // tasks whose schedule began in it and succeeded
}

// SpellOf returns the spell of a history between two instants.
func SpellOf(h *history.History, from, to history.Instant) Spell {
	s := Spell{Took: to.Sub(from)}
	for i := range h.Calls {
		c := &h.Calls[i]
		switch {
		case c.Kind != history.Schedule || c.Start < from || c.Start >= to:
		case c.Outcome != history.OK:
			s.Failed++
		default:
			s.Scheduled++
			if !c.Batch {
				s.Calls.Add(c.End.Sub(c.Start))
			}
		}
	}
	seen := map[string]bool{} // by webhook-id
	for i := range h.Arrivals {
		a := &h.Arrivals[i]
		if first := !seen[a.WebhookID]; first && a.Due >= from && a.Due < to {
			s.Late.Add(max(a.At.Sub(a.Due), 0))
		}
		seen[a.WebhookID] = true
	}
	return s
}

// PerSecond returns the number of tasks that were scheduled in a second.
func (s Spell) PerSecond() float64 { return float64(s.Scheduled) / s.Took.Seconds() }
