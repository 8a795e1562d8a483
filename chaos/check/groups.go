package check

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Groups checks invariant 16: the tasks of a group in an ordered queue come one at a time, by their due times.
//
//   - From the first attempt of a task to the end of its last one, no other task of its group arrives.
//   - A task that was acknowledged before another one of its group was due, and that is due earlier, arrives first.
//   - Each attempt names the group of its task.
//
// An attempt that came again is the business of Repeats. Of such a task, Groups judges the attempt with the highest
// fence alone: an earlier one may be that of a deposed leader, which the network held up.
func Groups(x *Index) Finding {
	g := groups{x: x}
	g.Invariant, g.Promise = "16", "groups keep their order, one task at a time"
	all := g.turns()
	for _, group := range slices.Sorted(maps.Keys(all)) {
		turns := all[group]
		slices.SortFunc(turns, func(a, b *turn) int { return cmp.Compare(a.from, b.from) })
		g.judge(group, turns)
	}
	g.Observe(g.waited, "tasks that were due while another one of their group was under way")
	g.Observe(g.handed, "groups' turns that passed from one task to another amid a fault")
	g.figures("%d groups, %d tasks, %d of them due while another one was under way; %v at most from the end of a task to "+
		"the next one that waited", len(all), g.tasks, g.waited, g.longest)
	return g.Finding
}

// groups is the check under way.
type groups struct {
	Finding

	x *Index

	tasks, waited, handed int
	longest               time.Duration
}

// turn is the time in which a task had its group for itself.
type turn struct {
	*task
	from, to history.Instant // from its first attempt to the end of its last one
	due      history.Instant
	since    history.Instant // from then on the service certainly had the task
}

// turns returns the turns of each group.
func (g *groups) turns() map[string][]*turn {
	all := map[string][]*turn{}
	for _, t := range g.x.order {
		for _, a := range t.arrivals {
			g.checkName(t, a)
		}
		i := slices.IndexFunc(t.arrivals, func(a *arrival) bool { return !a.Pulled && a.Group != "" })
		if i < 0 {
			continue
		}
		g.tasks++
		group := t.arrivals[i].Group
		all[group] = append(all[group], newTurn(t))
	}
	return all
}

// newTurn returns the turn of a task with a pushed attempt.
func newTurn(t *task) *turn {
	attempts := judged(t)
	one := &turn{task: t, from: attempts[0].At, due: attempts[0].Due, since: history.Forever}
	for _, a := range attempts {
		one.to = max(one.to, a.At.Add(a.Held))
	}
	if len(t.ops) == 1 && t.ops[0].outcome == history.OK {
		one.since = t.ops[0].end
	}
	return one
}

// judged returns the pushed attempts of a task that Groups judges.
func judged(t *task) (attempts []*arrival) {
	again := false
	for i, a := range t.arrivals {
		if !a.Pulled {
			attempts = append(attempts, a)
			again = again || repeated(t.arrivals[:i], a) != nil
		}
	}
	if again {
		last := slices.MaxFunc(attempts, func(a, b *arrival) int { return cmp.Compare(a.Fence, b.Fence) })
		return []*arrival{last}
	}
	return attempts
}

// checkName holds the group of a pushed attempt against that of the call that wrote its payload.
func (g *groups) checkName(t *task, a *arrival) {
	if w := g.x.writes[a.Wrote]; !a.Pulled && w != nil && w.ask.Group != a.Group {
		g.breach(a.At, t.id, "came in the group %q, and was given %q", a.Group, w.ask.Group)
	}
}

// judge compares the turns of a group, which are in the order of their first attempts.
func (g *groups) judge(group string, turns []*turn) {
	for i, next := range turns[min(1, len(turns)):] {
		before := turns[i]
		if next.from < before.to {
			g.breach(next.from, next.id, "came %v before the end of %s, which is in the group %s, too",
				before.to.Sub(next.from), before.id, group)
			continue
		}
		if next.due < before.to {
			g.waited++
			g.longest = max(g.longest, next.from.Sub(before.to))
		}
		if g.amidFault(before.from, next.from) {
			g.handed++
		}
	}
	g.judgeOrder(group, turns)
}

// amidFault reports whether a fault was under way in some part of a time.
func (g *groups) amidFault(from, to history.Instant) bool {
	return slices.ContainsFunc(g.x.h.Faults, func(f history.Fault) bool { return f.Struck < to && from < healed(&f) })
}

// judgeOrder finds tasks that came before an earlier one of their group.
func (g *groups) judgeOrder(group string, turns []*turn) {
	for i, early := range turns {
		for _, late := range turns[i+1:] {
			if late.due < early.due && late.since.Add(ahead) < g.x.clocks.Earliest(early.due) {
				g.breach(early.from, early.id, "is due at %s and came before %s, which is due at %s, in the group %s",
					g.x.clock(early.due), late.id, g.x.clock(late.due), group)
			}
		}
	}
}
