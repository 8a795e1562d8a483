package linear

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/chaos/history"
)

// tight returns limits for histories of a single clock.
func tight() Limits { return Limits{Skew: 1} }

// The check passes every history of a correct service, whatever calls its callers make.
func TestCorrectServicePasses(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		turns := rapid.IntRange(1, 150).Draw(rt, "turns")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		for range 20 {
			h := simulate(rng.IntN, turns)
			if r := Check(h, tight()); r.Finding.Broken() {
				rt.Fatalf("%s\n%s", r.Finding.Breaches[0].What, describeAll(h))
			}
		}
	})
}

// The check decides the histories of ids with many concurrent calls, many of them without an answer.
func TestHotIDsAreDecided(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 4))
	for range 10 {
		h := simulateAs(rng.IntN, 1300, 1, 3)
		if r := Check(h, tight()); r.Finding.Broken() {
			t.Errorf("%d calls: %s", len(h.Calls), r.Finding.Breaches[0].What)
		}
	}
}

// lie is the alteration of one answer.
type lie struct {
	name string
	to   func(c *history.Call) bool // false: the answer has nothing to alter
	rate float64                    // lowest share of altered histories that must fail
}

func lies() []lie {
	ok := func(c *history.Call) bool { return c.Outcome == history.OK }
	hasTask := func(c *history.Call) bool { return ok(c) && c.Answer.State != "" }
	return []lie{
		{"an older revision", func(c *history.Call) bool { c.Answer.Revision--; return hasTask(c) }, 0.45},
		{"a revision of long ago", func(c *history.Call) bool { c.Answer.Revision /= 2; return hasTask(c) }, 0.7},
		{"a later revision", func(c *history.Call) bool { c.Answer.Revision += 5; return hasTask(c) }, 0.65},
		{"another state", func(c *history.Call) bool {
			p, known := phaseOf(c.Answer.State)
			c.Answer.State = (p%cancelled + 1).String()
			return known && hasTask(c)
		}, 0.7},
		{"another due time", func(c *history.Call) bool { c.Answer.FireAt += 3; return hasTask(c) }, 0.55},
		{"another's payload", func(c *history.Call) bool {
			before := c.Answer.Wrote
			c.Answer.Wrote, c.Answer.Body = 1, body(1)
			return hasTask(c) && before > 1
		}, 0.9},
		{"an altered payload", func(c *history.Call) bool { c.Answer.Body++; return hasTask(c) && c.Answer.Wrote != 0 }, 0.9},
		{"an attempt more", func(c *history.Call) bool { c.Answer.Attempts++; return hasTask(c) }, 0.9},
		{"an attempt less", func(c *history.Call) bool { c.Answer.Attempts--; return hasTask(c) && c.Answer.Attempts >= 0 }, 0.8},
		{"another thing replaced", func(c *history.Call) bool {
			before := c.Answer.Previous
			c.Answer.Previous = map[bool]string{true: "", false: "scheduled"}[before == "scheduled"]
			return hasTask(c) && c.Kind == history.Schedule
		}, 0.8},
		{"another end", func(c *history.Call) bool {
			before := c.Answer.Cancel
			c.Answer.Cancel = map[bool]string{true: "stopped", false: "cancelled"}[before == "cancelled"]
			return ok(c) && c.Kind == history.Cancel
		}, 0.8},
		{"not found", func(c *history.Call) bool {
			before := c.Outcome
			c.Outcome, c.Answer = history.Failed, history.Answer{Status: 404}
			return before == history.OK && (c.Kind == history.Get || c.Kind.Changes())
		}, 0.9},
		{"refused", func(c *history.Call) bool {
			before := c.Outcome
			c.Outcome, c.Answer = history.Failed, history.Answer{Status: 409, State: "firing", Attempts: 1}
			return before == history.OK && c.Kind == history.Patch
		}, 0.6},
		{"done after all", func(c *history.Call) bool {
			before := c.Outcome
			c.Outcome, c.Answer = history.OK, history.Answer{Status: 200}
			return before == history.Failed && c.Ask.Fence != 0
		}, 0.8},
	}
}

// The check finds most histories with one altered answer. Some alterations are as possible as the true answer.
func TestLiesAreFound(t *testing.T) {
	for _, l := range lies() {
		t.Run(l.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			altered, found := 0, 0
			for altered < 150 {
				h := simulate(rng.IntN, 120)
				if !lieOnce(h, l, rng) {
					continue
				}
				altered++
				if r := Check(h, tight()); r.Finding.Broken() {
					found++
				}
			}
			rate := float64(found) / float64(altered)
			t.Logf("%.1f %%", 100*rate)
			if rate < l.rate {
				t.Errorf("the lie was found in %d of %d histories", found, altered)
			}
		})
	}
}

// The search with growing effort and the thorough search agree on every history.
func TestEffortsAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 6))
	all, c := lies(), clocks{apart: tight().Skew}
	for range 150 {
		h := simulate(rng.IntN, 80)
		lieOnce(h, all[rng.IntN(len(all))], rng)
		if len(h.Calls) == 0 {
			continue
		}
		p := newPartition(livesOf(h)[0], c)
		want := porcupine.CheckOperationsTimeout(p.model(thorough()), p.operations(), time.Minute)
		if v := judge(livesOf(h)[0], c, time.Minute); v.result != want {
			t.Errorf("%s, and thoroughly %s:\n%s", v.result, want, describeAll(h))
		}
	}
}

// The check finds a read that repeats an older read after a newer revision was seen.
func TestStaleReadsAreFound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for altered := 0; altered < 100; {
		h := simulate(rng.IntN, 120)
		if !readStale(h) {
			continue
		}
		altered++
		if r := Check(h, tight()); !r.Finding.Broken() {
			t.Errorf("a stale read is not found in\n%s", describeAll(h))
		}
	}
}

// readStale replaces the answer of the last possible read by an earlier read's answer, out of date when the read began.
func readStale(h *history.History) bool {
	for i := len(h.Calls) - 1; i > 0; i-- {
		c := &h.Calls[i]
		if c.Kind != history.Get || c.Outcome != history.OK {
			continue
		}
		newest := uint64(0)
		for _, p := range h.Calls {
			if p.Outcome == history.OK && p.End < c.Start {
				newest = max(newest, p.Answer.Revision)
			}
		}
		for _, p := range h.Calls[:i] {
			if p.Kind == history.Get && p.Outcome == history.OK && p.Answer.Revision < newest {
				c.Answer = p.Answer
				return true
			}
		}
	}
	return false
}

// lieOnce makes the lie in one random call, and reports whether a call allowed it.
func lieOnce(h *history.History, l lie, rng *rand.Rand) bool {
	for _, i := range rng.Perm(len(h.Calls)) {
		c := h.Calls[i]
		if l.to(&c) {
			h.Calls[i] = c
			return true
		}
	}
	return false
}
