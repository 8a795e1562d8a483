package check

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Int64Range(0, int64(100*time.Hour)), 1, 200).Draw(t, "values")
		var s, a, b Spread
		for i, v := range values {
			s.Add(time.Duration(v))
			half := &a
			if i%3 == 0 {
				half = &b
			}
			half.Add(time.Duration(v))
		}
		slices.Sort(values)
		for _, q := range []int{1, 50, 99, 100} {
			want := float64(values[(len(values)*q+99)/100-1])
			got := float64(s.Quantile(q))
			if got < want || got > want*1.04 {
				t.Errorf("p%d is %v, should be %v", q, got, want)
			}
			if both := a.Plus(b); both.Quantile(q) != s.Quantile(q) || both.Count != s.Count || both.Mean() != s.Mean() {
				t.Errorf("%v and %v are %v, should be %v", a, b, both, s)
			}
		}
	})
	if s := (Spread{}); s.Quantile(50) != 0 || s.Mean() != 0 {
		t.Errorf("an empty spread is %v", s)
	}
}

func TestFiguresOfSeveralRuns(t *testing.T) {
	figuresOf := func(n int, longest, late time.Duration) Figures {
		var f Finding
		var kill Spread
		kill.Add(late)
		f.figures("%d tasks, at most %v; %v", n, longest, kill)
		return f.Figures
	}
	var sum Figures
	sum = sum.Plus(figuresOf(1, time.Second, time.Millisecond))
	sum = sum.Plus(figuresOf(2, time.Minute, 3*time.Millisecond))
	const want = "3 tasks, at most 1m0s; 2, p50 1ms, p99 3ms, max 3ms"
	if sum.String() != want {
		t.Errorf("%s, want %s", sum, want)
	}
}
