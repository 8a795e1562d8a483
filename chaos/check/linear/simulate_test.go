package linear

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// simulation plays callers, consumers and a network around a machine. The function choose makes all its choices.
type simulation struct {
	machine
	choose  func(n int) int // 0 <= result < n
	pulled  bool
	h       history.History
	op      int64
	flying  []*flight
	lost    []*flight // calls that were given up and may still happen
	wire    []history.Arrival
	fences  []uint64 // fences that consumers know
	atOnce  int
	hostile int // number of calls in 10 that have no known outcome
}

// flight is a call under way.
type flight struct {
	n       int // index in the history's calls
	did     bool
	outcome history.Outcome
	answer  history.Answer
}

// simulate plays the given number of turns on one id.
func simulate(choose func(n int) int, turns int) *history.History {
	return simulateAs(choose, turns, choose(3), 1+choose(4))
}

// simulateAs plays with at most atOnce calls at once. Of ten calls, hostile have an unknown outcome.
func simulateAs(choose func(n int) int, turns, hostile, atOnce int) *history.History {
	s := &simulation{choose: choose, pulled: choose(3) == 0, atOnce: atOnce, hostile: hostile}
	for range turns {
		s.turn()
	}
	for len(s.flying) > 0 {
		s.land(0)
	}
	return &s.h
}

func (s *simulation) turn() {
	s.now += int64(s.choose(3))
	switch n := s.choose(16); {
	case n < 4 && len(s.flying) < s.atOnce:
		s.begin(s.next())
	case n < 8 && len(s.flying) > 0:
		s.happen(s.flying[s.choose(len(s.flying))])
	case n < 11 && len(s.flying) > 0:
		s.land(s.choose(len(s.flying)))
	case n == 11 && len(s.lost) > 0:
		s.happen(s.lost[s.choose(len(s.lost))])
	case n == 12:
		s.now += int64(s.choose(60))
	case n == 13 && len(s.wire) > 0:
		s.arrive(s.choose(len(s.wire)))
	default:
		s.drift()
	}
}

// next returns a new call, or another try of an earlier one.
func (s *simulation) next() history.Call {
	if again := s.retriable(); len(again) > 0 && s.choose(3) == 0 {
		c := again[s.choose(len(again))]
		return history.Call{Op: c.Op, Kind: c.Kind, ID: c.ID, Ask: c.Ask}
	}
	s.op++
	c := history.Call{Op: s.op, ID: "a"}
	if s.pulled && len(s.fences) > 0 && s.choose(3) == 0 {
		c.Kind = []history.Kind{history.Ack, history.Nack, history.Extend, history.Release}[s.choose(4)]
		c.Ask.Fence = s.fences[len(s.fences)-1-s.choose(min(2, len(s.fences)))]
		if c.Kind == history.Extend {
			c.Ask.Delay = time.Duration(1+s.choose(50)) * time.Millisecond
		}
		return c
	}
	kinds := []history.Kind{history.Schedule, history.Get, history.Cancel, history.Touch, history.Patch, history.Fire, history.Get}
	c.Kind = kinds[s.choose(len(kinds))]
	s.ask(&c)
	return c
}

func (s *simulation) ask(c *history.Call) {
	switch c.Kind {
	case history.Schedule, history.Patch, history.Touch:
		c.Ask.Delay = time.Duration(1+s.choose(120)) * time.Millisecond
	}
	switch {
	case c.Kind == history.Schedule:
		c.Ask.Body = body(c.Op)
		switch s.choose(6) {
		case 0:
			c.Ask.IfAbsent = true
		case 1:
			c.Ask.IfRevision = max(1, s.number-uint64(s.choose(4)))
		case 2:
			c.Ask.FireAt, c.Ask.Delay = ms(s.now+int64(s.choose(100))), 0
		}
	case c.Kind == history.Touch && s.choose(2) == 0:
		c.Ask.OrSchedule, c.Ask.Body = true, body(c.Op)
	case c.Kind == history.Patch && s.choose(2) == 0:
		c.Ask.Body = body(c.Op)
	}
}

// retriable returns a call of each operation whose last try has no certain answer.
func (s *simulation) retriable() []history.Call {
	last := map[int64]history.Call{}
	for _, c := range s.h.Calls {
		last[c.Op] = c
	}
	var again []history.Call
	for _, c := range s.h.Calls {
		known := last[c.Op].Outcome == history.OK || last[c.Op].Outcome == history.Open ||
			last[c.Op].Outcome == history.Failed && last[c.Op].Answer.Status < 500
		if c.Kind.Changes() && c.Ask.Fence == 0 && !known {
			again = append(again, c)
			last[c.Op] = history.Call{Outcome: history.OK} // list each operation once
		}
	}
	return again
}

func (s *simulation) begin(c history.Call) {
	c.Start = ms(s.now)
	s.h.Calls = append(s.h.Calls, c)
	s.flying = append(s.flying, &flight{n: len(s.h.Calls) - 1})
}

func (s *simulation) happen(f *flight) {
	if f.did {
		return
	}
	f.did = true
	f.outcome, f.answer = s.do(s.h.Calls[f.n])
}

// land ends a call: it is answered, refused without having happened, or given up.
func (s *simulation) land(i int) {
	f := s.flying[i]
	s.flying = slices.Delete(s.flying, i, i+1)
	c := &s.h.Calls[f.n]
	c.End = ms(s.now)
	switch giveUp := s.choose(10) < s.hostile; {
	case giveUp:
		c.Outcome = history.Unknown
		s.lost = append(s.lost, f)
		return
	case !f.did && s.choose(4) == 0:
		c.Outcome, c.Answer = history.Failed, history.Answer{Status: http.StatusServiceUnavailable}
		return
	}
	s.happen(f)
	c.Outcome, c.Answer = f.outcome, f.answer
}

// drift makes the task change by itself, or begins the attempt that was granted.
func (s *simulation) drift() {
	if t := s.task; t != nil && t.state == "firing" && !t.running && t.outcome == "" && s.choose(2) == 0 {
		t.running, t.started = true, true
		a := history.Arrival{
			ID: "a", WebhookID: t.webhook, Attempt: t.attempts, Fence: t.fence, Due: ms(t.fireAt), Wrote: t.wrote,
			Body: body(t.wrote), Pulled: s.pulled,
		}
		if s.pulled {
			a.LeaseEnds = ms(t.lease)
		}
		s.wire = append(s.wire, a)
		return
	}
	moves := s.moves(s.pulled)
	if len(moves) == 0 {
		return
	}
	s.number += 1 + uint64(s.choose(2))
	moves[s.choose(len(moves))]()
}

func (s *simulation) arrive(i int) {
	a := s.wire[i]
	s.wire = slices.Delete(s.wire, i, i+1)
	if s.choose(5) == 0 {
		return // the arrival is lost
	}
	a.At = ms(s.now)
	s.h.Arrivals = append(s.h.Arrivals, a)
	s.fences = append(s.fences, a.Fence)
}

// describeAll describes a history for the message of a failed test.
func describeAll(h *history.History) string {
	var text string
	for _, c := range h.Calls {
		text += fmt.Sprintf("%4d–%4d  %s %v → %s\n", at(c.Start), at(c.End), describeAsk(&c), c.Outcome, describeAnswer(&c))
	}
	for _, a := range h.Arrivals {
		text += fmt.Sprintf("%4d  arrived %+v\n", at(a.At), a)
	}
	return text
}

func at(i history.Instant) int64 { return int64(i)/int64(time.Millisecond) - 1_000_000 }
