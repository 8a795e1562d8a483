package linear

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/belfryhq/belfry/chaos/history"
)

// many returns the history of a round: ten thousand ids with a few calls, and twenty ids with two hundred.
func many() *history.History {
	rng := rand.New(rand.NewPCG(1, 3))
	h := &history.History{}
	add := func(id string, one *history.History) {
		for _, c := range one.Calls {
			c.ID = id
			h.Calls = append(h.Calls, c)
		}
		for _, a := range one.Arrivals {
			a.ID = id
			h.Arrivals = append(h.Arrivals, a)
		}
	}
	for i := range 10_000 {
		add(fmt.Sprint("cold-", i), simulateAs(rng.IntN, 25, 1, 1))
	}
	for i := range 20 {
		add(fmt.Sprint("hot-", i), simulateAs(rng.IntN, 1300, 1, 3))
	}
	return h
}

func BenchmarkCheck(b *testing.B) {
	h := many()
	for b.Loop() {
		if r := Check(h, tight()); r.Finding.Broken() {
			b.Fatal(r.Finding.Breaches[0].What)
		}
	}
	b.ReportMetric(float64(len(h.Calls)), "calls")
}
