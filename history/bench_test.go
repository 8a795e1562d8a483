package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/internal/assert"
)

// lives returns the events of the entry at an index: a hundred tasks are scheduled, fired or delivered in turn.
func lives(index uint64) []*Event {
	events := make([]*Event, 100)
	for i := range events {
		task := index/3*100 + uint64(i)
		random := rand.New(rand.NewPCG(task, task))
		e := &Event{
			AtMs: 1_800_000_000_000 + int64(index)*10, Type: historypb.Type_TYPE_SCHEDULED,
			Namespace: fmt.Sprintf("tenant-%d", task%20), Task: fmt.Sprintf("order-%016x", random.Uint64()),
			Queue: fmt.Sprintf("queue-%d", task%7), DueMs: 1_800_000_000_000 + int64(random.Uint64N(10_000_000)),
			Labels: []*historypb.Label{{Name: "region", Value: "eu-west"}, {Name: "kind", Value: fmt.Sprint(task % 5)}},
		}
		if index%3 > 0 {
			e.Type, e.Attempt, e.Node, e.LatenessMs = historypb.Type_TYPE_FIRED, 1, "node-2", int64(random.Uint64N(40))
			e.WebhookId = fmt.Sprintf("msg_%016x", random.Uint64())
		}
		if index%3 > 1 {
			e.Type, e.Status = historypb.Type_TYPE_DELIVERED, 200
		}
		events[i] = e
	}
	return events
}

// fill appends events, and waits for the disk where the engine would drop them.
func fill(b *testing.B, sh *Shard, from, to uint64) {
	b.Helper()
	for i := from; i < to; i++ {
		sh.Append(i, slices.Values(lives(i)))
		if i%100 == 0 {
			assert.NoError(b, sh.Sync(i))
		}
	}
	assert.NoError(b, sh.Sync(to-1))
}

// BenchmarkAppend appends entries of 100 events and syncs once for 100 entries. The time of making the events is not
// counted.
func BenchmarkAppend(b *testing.B) {
	w := newWorld(b, nil)
	sh := w.shard(1)
	made := make([][]*Event, 100)
	var inside time.Duration
	next, events := uint64(1), 0
	for b.Loop() {
		b.StopTimer()
		for i := range made {
			made[i] = lives(next + uint64(i))
		}
		b.StartTimer()
		for _, e := range made {
			start := time.Now()
			sh.Append(next, slices.Values(e))
			inside += time.Since(start)
			next++
			events += len(e)
		}
		assert.NoError(b, sh.Sync(next-1))
	}
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
	b.ReportMetric(float64(inside.Nanoseconds())/float64(events), "append-ns/event")
	b.ReportMetric(float64(sh.size())/float64(events), "disk-B/event")
}

// BenchmarkRead looks at ten million events of 20 namespaces in one shard.
func BenchmarkRead(b *testing.B) {
	if testing.Short() {
		b.Skip("fills 10 million events")
	}
	w := newWorld(b, nil)
	sh := w.shard(1)
	const last = 100_000
	fill(b, sh, 1, last)
	b.Logf("%d events in %d MB", (last-1)*100, sh.size()>>20)
	b.Run("task", func(b *testing.B) { benchmarkTask(b, w.store, last) })
	b.Run("page", func(b *testing.B) {
		benchmarkPage(b, w.store, last, Filter{Queue: "queue-3", Types: []historypb.Type{historypb.Type_TYPE_DELIVERED}})
	})
	b.Run("tail", func(b *testing.B) {
		for b.Loop() {
			_, err := w.store.Read(b.Context(), 1, "tenant-1", Position{Index: last - 2}, Filter{}, 100)
			assert.NoError(b, err)
		}
	})
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			w.restart()
			w.shard(1)
		}
	})
}

func benchmarkTask(b *testing.B, s *Store, last uint64) {
	random := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		e := lives(3 * (1 + random.Uint64N(last/3-2)))[random.IntN(100)]
		story, err := s.Task(b.Context(), e.Namespace, e.Task, 10)
		if err != nil || len(story.Events) != 3 {
			b.Fatalf("%d events, error %v; want 3", len(story.Events), err)
		}
	}
}

func benchmarkPage(b *testing.B, s *Store, last uint64, f Filter) {
	random, found := rand.New(rand.NewPCG(1, 1)), 0
	for b.Loop() {
		page, err := s.Read(b.Context(), 1, "tenant-1", Position{Index: random.Uint64N(last)}, f, 100)
		assert.NoError(b, err)
		found += len(page.Events)
	}
	b.ReportMetric(float64(found)/float64(b.N), "events/page")
}
