package gc

import "testing"

func TestGarbageIsBounded(t *testing.T) {
	const mib = 1 << 20
	for _, test := range []struct {
		live, perSecond uint64
		want            int
	}{
		{0, 0, 100}, {10 * mib, 0, 100}, {28 * mib, 0, 100}, {56 * mib, 0, 50}, {280 * mib, 0, 10}, {700 * mib, 0, 4},
		{100 << 30, 0, 2}, {0, 1 << 30, 100}, {10 * mib, 8 * mib, 100}, {10 * mib, 32 * mib, 320},
		{10 * mib, 1 << 30, 640}, {128 * mib, 1 << 30, 50}, {100 << 30, 1 << 30, 2},
	} {
		if got := percentFor(test.live, test.perSecond); got != test.want {
			t.Errorf("%d MiB live, %d MiB a second: %d %%, want %d", test.live/mib, test.perSecond/mib, got, test.want)
		}
	}
	if differs(100, 100) || differs(95, 100) || !differs(89, 100) || !differs(111, 100) {
		t.Error("small changes are not passed over, or large ones are")
	}
}

// The rate rises with the first look that finds more, and falls slowly.
func TestAllocating(t *testing.T) {
	a, allocated := allocating{mark: 1000}, uint64(1000)
	for i, step := range []struct{ more, want uint64 }{{0, 0}, {1 << 20, 4 << 20}, {0, 4<<20 - 4<<17}, {1 << 20, 4 << 20}} {
		allocated += step.more
		if got := a.perSecond(allocated); got != step.want {
			t.Errorf("look %d: %d bytes a second, want %d", i, got, step.want)
		}
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
