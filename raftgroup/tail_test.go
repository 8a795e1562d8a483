package raftgroup

import "testing"

func TestTailWithinBytes(t *testing.T) {
	tl := newTail(4)
	for i, step := range []struct {
		add  int
		want uint64 // within 100 bytes
	}{
		{10, 4}, // unused places take no bytes
		{40, 4}, {50, 4}, {1, 3}, {60, 2}, {100, 1}, {101, 1}, {0, 1}, {0, 2}, {0, 3}, {0, 4}, {0, 4},
	} {
		tl.add(step.add)
		if got := tl.within(100); got != step.want {
			t.Errorf("step %d: %d entries, want %d", i, got, step.want)
		}
	}
}
