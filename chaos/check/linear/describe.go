package linear

import (
	"fmt"
	"strings"

	"github.com/belfryhq/belfry/chaos/history"
)

// String describes the step for a reader of a failed history: the request and its answer.
func (x *step) String() string {
	if g := x.grant; g != nil {
		kind := "attempt"
		if g.arrival.Pulled {
			kind = "lease"
		}
		return fmt.Sprintf("granted %d: %s %d with the payload of %d, due %s%s",
			x.number, kind, g.arrival.Attempt, g.wrote, clock(g.arrival.Due), x.impossible())
	}
	return fmt.Sprintf("%s → %s%s", asked(x.call), told(x.call), x.impossible())
}

func (x *step) impossible() string {
	if x.bad == "" {
		return ""
	}
	return " (" + x.bad + ")"
}

// asked describes a call without its answer.
func asked(c *history.Call) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s", c.Op, c.Kind)
	a := c.Ask
	add := func(on bool, format string, value any) {
		if on {
			fmt.Fprintf(&b, format, value)
		}
	}
	add(a.FireAt != 0, " at %s", clock(a.FireAt))
	add(a.Delay != 0, " in %v", a.Delay)
	add(a.Fence != 0, " lease %d", a.Fence)
	add(a.IfRevision != 0, " if revision %d", a.IfRevision)
	add(a.IfAbsent, " if %s", "absent")
	add(a.OrSchedule, " or %s", "schedule")
	add(c.Kind == history.Patch && a.Body != 0, " and swap the %s", "payload")
	return b.String()
}

// told describes a call's answer.
func told(c *history.Call) string {
	a := c.Answer
	var parts []string
	add := func(on bool, format string, value any) {
		if on {
			parts = append(parts, fmt.Sprintf(format, value))
		}
	}
	add(a.Status != 0, "%d", a.Status)
	add(a.Cancel != "", "%s", a.Cancel)
	add(a.Replaced, "%s", "replaced")
	add(a.State != "", "%s", a.State)
	add(a.Revision != 0, "revision %d", a.Revision)
	add(a.Previous != "", "replaced %s", a.Previous)
	add(a.Attempts != 0, "%d attempts", a.Attempts)
	add(a.FireAt != 0, "due %s", clock(a.FireAt))
	add(a.Wrote != 0, "payload of %d", a.Wrote)
	if len(parts) == 0 {
		return "done"
	}
	return strings.Join(parts, ", ")
}

// shownStates is the largest number of states that describe lists.
const shownStates = 12

// describe lists the states in a set.
func (p *partition) describe(t *set) string {
	var lines []string
	for i, s := range t.states {
		if i == shownStates {
			lines = append(lines, fmt.Sprintf("… or %d others", len(t.states)-i))
			break
		}
		lines = append(lines, p.tell(s))
	}
	return strings.Join(lines, "; or ")
}

// tell describes a state in words. A field that is not known is shown by its lower bound.
func (p *partition) tell(s state) string {
	if s.phase == absent {
		return "absent" + p.tellUsed(s)
	}
	parts := []string{
		s.phase.String(), "revision " + bound(s.exact, s.rev), bound(s.counted, s.attempts) + " attempts",
	}
	if s.fireAt != 0 {
		parts = append(parts, "due "+bound(s.known, clock(s.fireAt)))
	}
	if s.wrote != 0 {
		parts = append(parts, fmt.Sprintf("payload of %d", s.wrote))
	}
	if s.fence != 0 {
		parts = append(parts, fmt.Sprintf("fence %d", s.fence))
	}
	if s.outcome != none {
		parts = append(parts, "cancel answers "+s.outcome.String())
	}
	return strings.Join(parts, ", ") + p.tellUsed(s)
}

// tellUsed describes the calls of unknown outcome that must have happened for a state.
func (p *partition) tellUsed(s state) string {
	var parts []string
	for class := range len(s.used) {
		if n := s.used[class]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d × %s", n, p.events[class].String()))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (if these happened: " + strings.Join(parts, ", ") + ")"
}

func (e *event) String() string {
	return asked(&history.Call{Op: e.n, Kind: e.kind, Ask: e.ask})
}

func bound[T any](exact bool, value T) string {
	if exact {
		return fmt.Sprint(value)
	}
	return fmt.Sprintf("≥%v", value)
}

func clock(at history.Instant) string {
	if at == 0 {
		return "?"
	}
	return at.Time().Format("15:04:05.000")
}
