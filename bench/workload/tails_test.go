package workload

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestTails runs the parts on a service that takes a millisecond a call, and on one that takes 60 ms, which is 10 ms
// over the limit.
func TestTails(t *testing.T) {
	m := measure(t, "tails", &fake{latency: time.Millisecond})
	expect(t, m, map[string]float64{
		"rate": 100, "over": 0, "quiet_p50": 1, "snapshots_max": 1, "cascade_max": 1, "storm_max": 1, "moves_max": 1,
	})
	m = measure(t, "tails", &fake{latency: 60 * time.Millisecond})
	expect(t, m, map[string]float64{"over": 5 * 200, "moves_over": 200, "quiet_p50": 60, "storm_p99.9": 60})
}

func TestTailsTakeHalfOfWhatCanBeTaken(t *testing.T) {
	s := sizes()
	s.TailsRate, s.TailsParts = 0, []string{"storm"}
	w := tails(s)
	synctest.Test(t, func(t *testing.T) {
		f := &fake{latency: 10 * time.Millisecond}
		m := w.Measure(t.Context(), f.subject(), s, t.TempDir(), func(string) {})
		expect(t, m, map[string]float64{"rate": 8 * 100 / 2})
	})
}

func TestStalls(t *testing.T) {
	latencies := make([]time.Duration, 1000) // of one second
	for i, late := range map[int]time.Duration{100: 80, 101: 79, 140: 51, 500: 60, 600: 50} {
		latencies[i] = late * time.Millisecond
	}
	want := []stall{
		{100 * time.Millisecond, 3, 80 * time.Millisecond}, {500 * time.Millisecond, 1, 60 * time.Millisecond},
	}
	got := stallsIn(latencies, 1000)
	assert.EqualSlices(t, got, want, "stalls")
	assert.EqualSlices(t, longest(got, 1), want[:1], "the longest")
}

// TestRecordsAreKept checks that recordings are kept twice for one reason, and never during another write.
func TestRecordsAreKept(t *testing.T) {
	service := &recordingService{fake: &fake{}, going: make(chan struct{})}
	k := recorder{run: &run{service: service, say: t.Logf}}
	for range 3 { // the last two come during the first write
		k.keep(t.Context(), "storm")
	}
	close(service.going)
	k.close()
	for range 3 {
		k.keep(t.Context(), "storm")
		k.close()
	}
	k.keep(t.Context(), "moves")
	k.close()
	want := []string{"storm-1", "storm-2", "moves-1"}
	assert.EqualSlices(t, service.kept, want, "kept")
}

type recordingService struct {
	*fake
	going chan struct{} // closed: recordings can be written
	kept  []string
}

func (s *recordingService) Keep(_ context.Context, name string) (string, error) {
	<-s.going
	s.kept = append(s.kept, name)
	return name, nil
}
