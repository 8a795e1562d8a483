package main

import "testing"

func TestGarbageIsBounded(t *testing.T) {
	for live, want := range map[uint64]int{
		0: 100, 10 << 20: 100, 28 << 20: 100, 56 << 20: 50, 280 << 20: 10, 700 << 20: 4, 100 << 30: 2,
	} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d MiB live: %d %%, want %d", live>>20, got, want)
		}
	}
	if differs(100, 100) || differs(95, 100) || !differs(89, 100) || !differs(111, 100) {
		t.Error("small changes are not passed over, or large ones are")
	}
}
