package check

import "testing"

// A repeat may arrive as late after a failover as first attempts on its shard waited.
func TestRepeatsWaitInLine(t *testing.T) {
	for _, crowded := range []bool{false, true} {
		s := &story{}
		s.term(1, 0, 10)
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
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
