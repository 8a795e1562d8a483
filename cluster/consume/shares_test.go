package consume

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestShares(t *testing.T) {
	for _, c := range []struct {
		need  int
		ready []int
		first int
		want  []int
	}{
		{0, []int{0, 3}, 0, []int{0, 0}},
		{1, []int{0, 0, 0}, 0, []int{1, 1, 1}},
		{100, []int{0, 0, 0}, 0, []int{34, 34, 34}},
		{1, []int{9, 9, 9}, 0, []int{1, 0, 0}},
		{1, []int{9, 9, 9}, 2, []int{0, 0, 1}},
		{1, []int{9, 0, 9}, 1, []int{0, 1, 1}},
		{12, []int{9, 9, 9}, 1, []int{0, 9, 3}},
		{100, []int{5000, 0, 10}, 0, []int{100, 34, 0}},
		{30, []int{5, 0, 5}, 0, []int{15, 10, 15}},
	} {
		if got := shares(c.need, slices.Clone(c.ready), make([]int64, len(c.ready)), c.first); !slices.Equal(got, c.want) {
			t.Errorf("%d of %v from %d: %v, want %v", c.need, c.ready, c.first, got, c.want)
		}
	}
}

func TestSharesCoverTheNeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		need := rapid.IntRange(1, 5000).Draw(t, "need")
		ready := rapid.SliceOfN(rapid.OneOf(rapid.Just(0), rapid.IntRange(0, 5000)), 1, 20).Draw(t, "ready")
		next := rapid.SliceOfN(rapid.Int64Range(0, 3), len(ready), len(ready)).Draw(t, "next")
		first := rapid.IntRange(0, len(ready)-1).Draw(t, "first")
		sum, known, backlogged := 0, 0, 0
		for i, n := range shares(need, ready, next, first) {
			if ready[i] == 0 && n == 0 {
				t.Fatalf("shard %d is not asked", i)
			}
			sum += n
			known += ready[i]
			if ready[i] > 0 {
				backlogged += n
			}
		}
		if sum < need || sum > 2*need+2*len(ready) {
			t.Fatalf("%d are asked for", sum)
		}
		if known >= need && backlogged != need {
			t.Fatalf("%d are asked of those that have more", backlogged)
		}
	})
}

// TestSharesGoByDueTime checks that the shard whose first task is due first is asked first.
func TestSharesGoByDueTime(t *testing.T) {
	for _, c := range []struct {
		need  int
		ready []int
		next  []int64
		first int
		want  []int
	}{
		{1, []int{9, 9, 9}, []int64{300, 100, 200}, 0, []int{0, 1, 0}},
		{1, []int{9, 9, 9}, []int64{100, 100, 200}, 1, []int{0, 1, 0}},
		{12, []int{9, 9, 9}, []int64{300, 100, 200}, 0, []int{0, 9, 3}},
		{1, []int{9, 0, 9}, []int64{300, 0, 200}, 0, []int{0, 1, 1}},
	} {
		if got := shares(c.need, c.ready, c.next, c.first); !slices.Equal(got, c.want) {
			t.Errorf("%d of %v, due at %v: %v, want %v", c.need, c.ready, c.next, got, c.want)
		}
	}
}
