package linear

import (
	"context"

	"github.com/belfryhq/belfry/chaos/history"
)

// effort bounds the search before a step: what explains it mostly lies near. An order that is found so is as good as
// any.
type effort struct {
	reach    int  // that many events may come before it since the last one
	patience int  // that many more than explain it are looked at
	together bool // all states at once: nothing is left out
}

// efforts are the least first.
func efforts() []effort {
	return []effort{
		{reach: 1}, {reach: 2, patience: 1, together: true}, {reach: 3, patience: 2, together: true}, thorough(),
	}
}

// thorough is the only effort that can tell that there is no order.
func thorough() effort {
	const all = 1 << 30
	return effort{reach: all, patience: all, together: true}
}

// take gives what a task may be after a step, nothing if the step cannot be taken. Steps with numbers have one order:
// that is looked at first.
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

// takeFrom adds to the set what a task may be after the step. First it looks at what it may have become by itself;
// then, one event more at a time, at what it may be if calls of unknown outcome have happened. Once that explains the
// step, it goes on for as many events as there is patience. A state that a step only looks at, and learns nothing of,
// can do all that after the step as well.
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

// looks: the step changes no task, whatever it may be.
func (x *step) looks() bool {
	return x.read || x.answer == missing || x.answer == conflict || x.answer == unmet || x.answer == replaced
}

// since drops a bound that the step, or one before it, holds as well.
func (s state) since(start history.Instant) state {
	if s.after <= start {
		s.after = 0
	}
	return s
}
