package check

import (
	"fmt"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// large returns the history of n tasks, half of them pulled, with 100 killed leaders.
func large(n int) *history.History {
	s := &story{}
	for shard := range uint32(12) {
		for k := range int64(20) {
			s.h.Terms = append(s.h.Terms, history.Term{
				Shard: shard + 1, Term: uint64(k) + 1, Before: ms(6000*k - 100), At: ms(6000 * k),
			})
		}
	}
	for k := range int64(100) {
		s.fault(history.KillLeader, 1200*k, 1200*k+400, 1200*k+500)
	}
	for i := range int64(n) {
		id, at := fmt.Sprintf("bulk-%d", i), i*120_000/int64(n)
		c := s.schedule(id, at, at+1000)
		c.Answer.Shard = history.SlotOf(id)%12 + 1
		if i%2 == 0 {
			s.arrive(id, at+1001, at+1000, c.Op)
			continue
		}
		a := s.lease(id, at+1001, at+6000, c.Op)
		a.Shard = history.SlotOf(id)%12 + 1
		s.settle(ack, id, a.Fence, at+1002, 200)
	}
	return &s.h
}

// A siege's round has some hundred thousand tasks. The checks must judge it within seconds.
func BenchmarkJudge(b *testing.B) {
	h := large(330_000)
	b.ReportMetric(float64(len(h.Calls)), "calls")
	for b.Loop() {
		began := time.Now()
		x := NewIndex(h)
		b.ReportMetric(time.Since(began).Seconds(), "s/index")
		for _, f := range All(x, limits) {
			if f.Invariant == "1" && f.Broken() {
				b.Fatal(f.Breaches[0])
			}
		}
		FatesOf(x)
		Tolls(x)
	}
}
