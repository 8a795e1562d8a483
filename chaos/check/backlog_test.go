package check

import "testing"

// A repeat may arrive as late after a failover as first attempts on its shard waited.
func TestRepeatsWaitInLine(t *testing.T) {
	for _, crowded := range []bool{false, true} {
		s := &story{}
		s.term(1, 0, 10)
		s.arrived()
		s.term(2, 110, 400)
		if crowded {
			s.schedule("b", 20, 150)
			s.arrive("b", 11_900, 150, 2)
		}
		s.arrive("a", 12_000, 100, 1).Fence++
		if f := Repeats(NewIndex(&s.h), DefaultLimits()); f.Broken() == crowded {
			t.Errorf("others waited as long: %v; breaches: %v", crowded, f.Breaches)
		}
	}
}

// A probe of a broken receiver that fails counts as no attempt, so the next attempt has its number again.
func TestProbesAreNoRepeats(t *testing.T) {
	for _, answer := range []int{200, 503} {
		s := &story{}
		s.term(1, 0, 10)
		s.arrived().Answer = answer
		s.arrive("a", 1000, 100, 1).Fence++
		if f := Repeats(NewIndex(&s.h), DefaultLimits()); f.Broken() != (answer == 200) {
			t.Errorf("after an answer of %d: %v", answer, f.Breaches)
		}
	}
}
