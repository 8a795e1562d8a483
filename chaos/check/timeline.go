package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/chaos/history"
)

// Timeline returns the calls and arrivals of a task, the faults and the changes of its shard's leader, a line each. It
// returns at most `most` lines, those around an instant. Instants are seconds since the first call of the run.
func (x *Index) Timeline(id string, around history.Instant, most int) []string {
	events := x.eventsOf(id)
	middle := slices.IndexFunc(events, func(e event) bool { return e.at >= around })
	if middle < 0 {
		middle = len(events)
	}
	from := max(0, min(middle-most/2, len(events)-most))
	events = events[from:min(len(events), from+most)]
	lines := make([]string, len(events))
	for i, e := range events {
		lines[i] = x.clock(e.at) + "  " + e.text
	}
	return lines
}

type event struct {
	at   history.Instant
	text string
}

// eventsOf returns all events of a task and of its surroundings, in order.
func (x *Index) eventsOf(id string) []event {
	t := x.tasks[id]
	if t == nil {
		return nil
	}
	var events []event
	add := func(at history.Instant, format string, args ...any) {
		events = append(events, event{at, fmt.Sprintf(format, args...)})
	}
	for i := range x.h.Calls {
		if c := &x.h.Calls[i]; c.ID == id {
			add(c.Start, "%s", x.describe(c))
		}
	}
	for _, a := range t.arrivals {
		add(a.At, "ARRIVED %s attempt %d fence %d due %s, body of operation %d, answered %d",
			a.WebhookID, a.Attempt, a.Fence, x.clock(a.Due), a.Wrote, a.Answer)
	}
	x.tellFaults(t, add)
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return events
}

func (x *Index) tellFaults(t *task, add func(at history.Instant, format string, args ...any)) {
	for _, f := range x.h.Faults {
		add(f.Struck, "FAULT %s: %v, leading %v; mending %s, mended %s",
			f.Kind, f.Nodes, f.Shards, x.clock(f.Mending), x.clock(f.Mended))
	}
	for _, o := range x.h.Owners {
		if o.First <= t.slot && t.slot < o.End {
			add(o.At, "shard %d owns the slot", o.Shard)
		}
	}
	for _, term := range x.h.Terms {
		if t.heldBy([]uint32{term.Shard}) {
			add(term.At, "shard %d: term %d, leader %s (the term before was last seen %s)",
				term.Shard, term.Term, term.Leader, x.clock(term.Before))
		}
	}
}

// describe describes a call in one line.
func (x *Index) describe(c *history.Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "operation %d: %s via %s", c.Op, c.Kind, c.Node)
	if c.Ask.FireAt != 0 {
		fmt.Fprintf(&b, " at %s", x.clock(c.Ask.FireAt))
	}
	if c.Ask.Delay != 0 {
		fmt.Fprintf(&b, " in %v", c.Ask.Delay)
	}
	if c.Batch {
		b.WriteString(" (batch)")
	}
	if c.Outcome == history.Open {
		return b.String() + " → never answered"
	}
	a := c.Answer
	fmt.Fprintf(&b, " → %s %s", x.clock(c.End), c.Outcome)
	if a.State != "" || a.Revision != 0 {
		fmt.Fprintf(&b, ", %s revision %d due %s, payload of %d", a.State, a.Revision, x.clock(a.FireAt), a.Wrote)
	}
	for _, text := range []string{a.Cancel, a.Error} {
		if text != "" {
			b.WriteString(", " + text)
		}
	}
	return b.String()
}

func (x *Index) clock(at history.Instant) string {
	switch at {
	case 0:
		return "-"
	case history.Forever:
		return "never"
	}
	return fmt.Sprintf("%.4f", at.Sub(x.first).Seconds())
}
