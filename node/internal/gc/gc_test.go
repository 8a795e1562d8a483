package gc

import "testing"

func TestGarbageIsBounded(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 100, 10 << 20: 100, 28 << 20: 100, 56 << 20: 50, 280 << 20: 10, 700 << 20: 4, 100 << 30: 2,
	} {
		if got := percentFor(live); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live>>20, got, want)
		}
	}
	if differs(100, 100) || differs(95, 100) || !differs(89, 100) || !differs(111, 100) {
		t.Error("small changes are not passed over, or large ones are")
	}
}

// Memory is returned if there is enough of it and little was allocated for a while.
func TestTrim(t *testing.T) {
	var quiet trim
	allocated, due := uint64(0), 0
	for i, step := range []struct {
		each, returnable uint64 // bytes allocated between two looks, and bytes to return
		due              int
	}{
		{1 << 20, 100 << 20, 0}, {1000, trimBytes, 1}, {1000, trimBytes - 1, 0}, {1 << 30, 1 << 30, 0}, {0, 1 << 30, 1},
	} {
		due = 0
		for range trimLooks {
			allocated += step.each
			if quiet.due(allocated, step.returnable) {
				due++
			}
		}
		if due != step.due {
			t.Errorf("step %d: due %d times", i, due)
		}
	}
}

func TestHeapSamples(t *testing.T) {
	h := newHeapSamples()
	h.read()
	if h.allocated() == 0 || h.returnable() > 1<<40 {
		t.Errorf("%d bytes allocated, %d to give back", h.allocated(), h.returnable())
	}
}
