package linear

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// story is a handmade history of one id. A call takes two milliseconds, and operations are numbered from 1.
type story struct {
	h  history.History
	op int64
}

const took = 2

// call adds a call of a new operation that begins at an instant, and returns it for alteration.
func (s *story) call(at int64, kind history.Kind, ask history.Ask, outcome history.Outcome, a history.Answer) *history.Call {
	s.op++
	return s.try(s.op, at, kind, ask, outcome, a)
}

// try adds another call of operation op.
func (s *story) try(
	op, at int64, kind history.Kind, ask history.Ask, outcome history.Outcome, a history.Answer,
) *history.Call {
	s.h.Calls = append(s.h.Calls, history.Call{
		Op: op, Kind: kind, ID: "a", Ask: ask, Start: ms(at), End: ms(at + took), Outcome: outcome, Answer: a,
	})
	return &s.h.Calls[len(s.h.Calls)-1]
}

// until sets a later end of a call.
func until(c *history.Call, end int64) { c.End = ms(end) }

func (s *story) due(at int64) history.Ask { return history.Ask{FireAt: ms(at), Body: body(s.op + 1)} }

// task returns the answer that shows a waiting task with the payload of operation wrote.
func task(rev uint64, due, wrote int64) history.Answer {
	a := history.Answer{Revision: rev, State: "scheduled", FireAt: ms(due), Wrote: wrote}
	if wrote != 0 {
		a.Body = body(wrote)
	}
	return a
}

// in returns the answer for a task in another state. A delivered or cancelled task carries no payload.
func in(state string, attempts int, a history.Answer) history.Answer {
	a.State, a.Attempts = state, attempts
	if state == "delivered" || state == "cancelled" {
		a.Wrote, a.Body = 0, 0
	}
	return a
}

func ending(outcome string, a history.Answer) history.Answer { a.Cancel = outcome; return a }

func over(previous string, a history.Answer) history.Answer { a.Previous = previous; return a }

// schedule adds a schedule that was done at revision rev.
func (s *story) schedule(at int64, rev uint64, due int64) *history.Call {
	return s.call(at, history.Schedule, s.due(due), history.OK, task(rev, due, s.op+1))
}

// maybe adds a schedule of unknown outcome.
func (s *story) maybe(at, due int64) *history.Call {
	return s.call(at, history.Schedule, s.due(due), history.Unknown, history.Answer{})
}

func (s *story) get(at int64, a history.Answer) *history.Call {
	return s.call(at, history.Get, history.Ask{}, history.OK, a)
}

func (s *story) cancel(at int64, outcome string) *history.Call {
	return s.call(at, history.Cancel, history.Ask{}, history.OK, history.Answer{Cancel: outcome})
}

func (s *story) refused(at int64, kind history.Kind, ask history.Ask, status int, a history.Answer) *history.Call {
	a.Status = status
	return s.call(at, kind, ask, history.Failed, a)
}

// patch adds a patch that moves the task and leaves its payload, that of operation wrote.
func (s *story) patch(at int64, rev uint64, due, wrote int64) *history.Call {
	return s.call(at, history.Patch, history.Ask{FireAt: ms(due)}, history.OK, task(rev, due, wrote))
}

func (s *story) arrive(at int64, fence uint64, attempt int, due, wrote int64) *history.Arrival {
	s.h.Arrivals = append(s.h.Arrivals, history.Arrival{
		At: ms(at), ID: "a", WebhookID: "w", Attempt: attempt, Fence: fence, Due: ms(due), Wrote: wrote, Body: body(wrote),
	})
	return &s.h.Arrivals[len(s.h.Arrivals)-1]
}

// lease adds the arrival of a lease that ends at the given instant.
func (s *story) lease(at int64, fence uint64, attempt int, due, wrote, ends int64) {
	a := s.arrive(at, fence, attempt, due, wrote)
	a.Pulled, a.LeaseEnds = true, ms(ends)
}

// settle adds a consumer's call about the lease with the given fence, answered with the given status.
func (s *story) settle(at int64, kind history.Kind, fence uint64, status int) *history.Call {
	outcome := history.OK
	if status != 200 {
		outcome = history.Failed
	}
	return s.call(at, kind, history.Ask{Fence: fence, Delay: time.Second}, outcome, history.Answer{Status: status})
}

// replaced adds a settle of a lease whose occurrence was replaced.
func (s *story) replaced(at int64, kind history.Kind, fence uint64) *history.Call {
	c := s.settle(at, kind, fence, 200)
	c.Outcome, c.Answer.Replaced = history.Failed, true
	return c
}
