package check

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

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
