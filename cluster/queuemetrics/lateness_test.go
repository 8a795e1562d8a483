package queuemetrics

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/belfryhq/belfry/internal/assert"
)

type latenessWorld struct {
	*Lateness
	t *testing.T
	fake
}

func newLateness(t *testing.T, bound int) *latenessWorld {
	w := &latenessWorld{t: t}
	w.Lateness = NewLateness(bound, &w.fake)
	return w
}

func (w *latenessWorld) begin(queue string, attempts int) {
	for range attempts {
		w.Began("default", queue, 3*time.Millisecond)
	}
}

// shown returns the attempts of each queue that has a series.
func (w *latenessWorld) shown() map[string]uint64 {
	w.t.Helper()
	found := map[string]uint64{}
	for _, series := range all(w) {
		var m dto.Metric
		assert.NoError(w.t, series.Write(&m))
		found[m.Label[1].GetValue()] = m.Histogram.GetSampleCount()
	}
	return found
}

func (w *latenessWorld) expect(step string, want map[string]uint64) {
	w.t.Helper()
	if got := w.shown(); fmt.Sprint(got) != fmt.Sprint(want) { // maps are printed in the order of their keys
		w.t.Errorf("%s: %v are shown, want %v", step, got, want)
	}
}

// A queue of a deleted namespace is not shown any more, and its place is free.
func TestLatenessOfADeletedNamespace(t *testing.T) {
	w := newLateness(t, 1)
	w.Began("shop", "orders", time.Millisecond)
	w.begin("mails", 2)
	w.expect("at first", map[string]uint64{"orders": 1, Other: 2})
	w.gone = "shop"
	w.expect("after the deletion", map[string]uint64{Other: 2})
	w.begin("bills", 3)
	w.expect("after another queue", map[string]uint64{Other: 2, "bills": 3})
}

func TestLatenessOfQueues(t *testing.T) {
	w := newLateness(t, 10)
	w.Began("default", "mails", 3*time.Millisecond)
	w.Began("default", "mails", 1200*time.Millisecond)
	w.Began("billing", "mails", 2*time.Hour)
	assert.Equal(t, testutil.CollectAndCount(w), 3, "series")
	want := map[string][]uint64{"default": {1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2}, "billing": make([]uint64, 13)}
	for _, series := range all(w) {
		var m dto.Metric
		assert.NoError(t, series.Write(&m))
		var counts []uint64
		for _, b := range m.Histogram.Bucket {
			counts = append(counts, b.GetCumulativeCount())
		}
		namespace := m.Label[0].GetValue()
		if c, ok := want[namespace]; ok && !slices.Equal(counts, c) {
			t.Errorf("%s: %v", namespace, counts)
		}
		if m.Histogram.Schema == nil {
			t.Errorf("%s has no native buckets", namespace)
		}
	}
}

// A queue of the rest takes the place of another one when it is much busier, and not before. The two do not take turns
// afterwards, though now one of them is busy and now the other.
func TestBusiestQueuesHaveSeries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLateness(t, 2)
		w.begin("a", 1000)
		w.begin("b", 2000)
		w.begin("c", 1500)
		w.expect("at first", map[string]uint64{"a": 1000, "b": 2000, Other: 1500})
		time.Sleep(reviewPeriod)
		w.expect("after a review", map[string]uint64{"a": 1000, "b": 2000, Other: 1500})
		w.begin("c", 3000)
		time.Sleep(reviewPeriod)
		w.expect("busy", map[string]uint64{"b": 2000, "c": 0, Other: 4500})
		w.begin("c", 1)
		w.expect("later", map[string]uint64{"b": 2000, "c": 1, Other: 4500})

		changes, before := 0, w.shown()
		for hour := range 10 * 24 { // a and c are busy by turns, for half a day each
			busy := "a"
			if hour%24 < 12 {
				busy = "c"
			}
			w.begin(busy, 1000)
			w.begin("b", 3000)
			time.Sleep(time.Hour)
			now := w.shown()
			_, was := before["c"]
			if _, is := now["c"]; is != was {
				changes++
			}
			before = now
		}
		if changes > 0 {
			t.Errorf("the series changed %d times", changes)
		}
	})
}

// A queue with a policy has a series from the next review on, also while it has no attempts, and keeps it.
func TestPoliciesComeBeforeBusyQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLateness(t, 2)
		w.begin("a", 1000)
		w.begin("b", 2000)
		w.policies = []string{"p"}
		time.Sleep(reviewPeriod)
		w.expect("with a policy", map[string]uint64{"b": 2000, "p": 0, Other: 0})
		w.begin("p", 1)
		w.begin("c", 10_000)
		time.Sleep(reviewPeriod)
		w.expect("with a busy queue", map[string]uint64{"c": 0, "p": 1, Other: 10_000})
		w.policies = []string{"p", "q", "r"}
		time.Sleep(reviewPeriod)
		w.expect("with many policies", map[string]uint64{"p": 1, "q": 0, Other: 10_000})
		w.policies = nil
		w.begin("c", 10_000)
		time.Sleep(reviewPeriod)
		w.expect("without policies", map[string]uint64{"b": 0, "c": 0, Other: 20_000})
	})
}

// Neither series nor memory grow with the names of queues, and a queue that becomes busy later still gets a series.
func TestNamesOfQueuesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, names = 5, 20 * maxCandidates
		w := newLateness(t, bound)
		for i := range names {
			w.begin(fmt.Sprint("q-", i), 1)
		}
		check := func() {
			t.Helper()
			if n := len(w.queues); n > bound+maxCandidates {
				t.Errorf("%d queues are remembered", n)
			}
			assert.Equal(t, len(w.shown()), bound+1, "series")
		}
		check()
		time.Sleep(reviewPeriod)
		check()
		for i := range names {
			if i%10 == 0 {
				w.begin("busy", 1)
			}
			w.begin(fmt.Sprint("r-", i), 1)
		}
		time.Sleep(reviewPeriod)
		check()
		if _, ok := w.shown()["busy"]; !ok {
			t.Error("a busy queue has no series")
		}
	})
}

func BenchmarkLateness(b *testing.B) {
	l := NewLateness(10, &fake{})
	b.ReportAllocs()
	for b.Loop() {
		l.Began("default", "mails", 3*time.Millisecond)
	}
}
