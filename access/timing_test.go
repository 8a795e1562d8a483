package access

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/gated"
)

// A judged key costs no memory.
func TestJudgedKeyAllocatesNothing(t *testing.T) {
	record, text := newKey(time.Now().Add(time.Hour))
	a := newAuthority(t, Config{Source: newKeys(record)})
	c := withKey(text)
	if n := testing.AllocsPerRun(1000, func() { passes(t, a, c) }); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}

// The time of a refusal does not tell why a key is refused. Each reason is measured in many short rounds, in turns, and
// the shortest round of each counts: other processes only lengthen rounds.
func TestRefusalsTakeTheSameTime(t *testing.T) {
	gated.Need(t, gated.Timed)
	const tolerance, tries = 0.05, 10
	var spread float64
	for range tries {
		if spread = spreadOfRefusals(t); spread < tolerance {
			return
		}
	}
	t.Errorf("the slowest reason takes %.0f %% longer than the fastest", 100*spread)
}

// Each refusal of a wrong key takes the same steps, which are too short to be measured: one look for the key, and one
// comparison whose result and end are judged by the clock.
func TestRefusalsTakeTheSameSteps(t *testing.T) {
	a, wrong, right := wrongKeys(t)
	source, now, reads := a.cfg.Source.(*keys), a.cfg.Now(), 0
	a.cfg.Now = func() time.Time { reads++; return now }
	steps := func(text string) [2]int {
		source.looked, reads = 0, 0
		if _, err := a.Caller(t.Context(), withKey(text)); (err == nil) != (text == right) {
			t.Errorf("%v", err)
		}
		return [2]int{source.looked, reads}
	}
	want := steps(wrong["wrong secret"])
	if want[0] != 1 || want[1] == 0 {
		t.Errorf("a wrong secret takes %d looks and %d reads of the clock", want[0], want[1])
	}
	for name, text := range wrong {
		if got := steps(text); got != want {
			t.Errorf("%s: %d looks and %d reads of the clock, a wrong secret %d and %d", name, got[0], got[1], want[0], want[1])
		}
	}
	steps(right)
}

// spreadOfRefusals returns by how much the slowest refusal of a wrong key exceeds the fastest, as a part of the latter.
func spreadOfRefusals(t *testing.T) float64 {
	const rounds, calls = 300, 50
	a, wrong, _ := wrongKeys(t)
	now := time.Unix(1_000_000, 0)
	a.cfg.Now = func() time.Time { now = now.Add(time.Second); return now } // keeps the address below its limit
	shortest := map[string]time.Duration{}
	for range rounds {
		for name, text := range wrong {
			took := timeOf(a, withKey(text), calls)
			if best, measured := shortest[name]; !measured || took < best {
				shortest[name] = took
			}
		}
	}
	low, high := math.Inf(1), 0.0
	for _, took := range shortest {
		low, high = min(low, float64(took)), max(high, float64(took))
	}
	return high/low - 1
}

func timeOf(a *Authority, c Credentials, calls int) time.Duration {
	began := time.Now()
	for range calls {
		if _, err := a.Caller(context.Background(), c); err == nil {
			panic("a wrong key passes")
		}
	}
	return time.Since(began)
}
