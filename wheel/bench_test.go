package wheel

import (
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"
)

const (
	horizon = 48 * hour
	batch   = 64 // operations that one log entry might bring
)

// population returns the number of pending tasks: WHEEL_BENCH_TASKS, or a million.
func population(b *testing.B) int {
	s := os.Getenv("WHEEL_BENCH_TASKS")
	if s == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

type peer struct {
	name  string
	make  func(capacity int) queue
	timed bool // fires by a clock of its own
}

var peers = []peer{
	{name: "wheel", make: newWheelQueue},
	{name: "container-heap", make: newHeapQueue},
	{name: "btree", make: newBTreeQueue},
	{name: "AfterFunc", make: newTimerQueue, timed: true},
}

// forEach runs f for the wheel and its peers, with the population due uniformly over 48 hours.
func forEach(b *testing.B, fires bool, f func(b *testing.B, q queue, n int, random *rand.Rand)) {
	for _, p := range peers {
		if fires && p.timed {
			continue
		}
		b.Run(p.name, func(b *testing.B) {
			n := population(b)
			f(b, filled(p, n, 0, horizon), n, rand.New(rand.NewPCG(3, 4)))
		})
	}
}

// filled returns a queue with n tasks due within span ms after first, and with room for as many more.
func filled(p peer, n int, first, span int64) queue {
	random := rand.New(rand.NewPCG(1, 2))
	q := p.make(2 * n)
	for id := range n {
		q.insert(uint32(id), first+1+random.Int64N(span))
	}
	runtime.GC()
	return q
}

func BenchmarkInsert(b *testing.B) {
	forEach(b, false, func(b *testing.B, q queue, n int, random *rand.Rand) {
		inserted := make([]uint32, 0, n)
		b.ResetTimer()
		for i := range b.N {
			if len(inserted) == cap(inserted) {
				b.StopTimer()
				q.cancel(inserted)
				inserted = inserted[:0]
				b.StartTimer()
			}
			id := uint32(n + i%n)
			q.insert(id, 1+random.Int64N(horizon))
			inserted = append(inserted, id)
		}
	})
}

func BenchmarkCancel(b *testing.B) {
	forEach(b, false, func(b *testing.B, q queue, n int, random *rand.Rand) {
		ids := random.Perm(n)
		batched := make([]uint32, 0, batch)
		var gone []uint32
		b.ResetTimer()
		for i := range b.N {
			if i%(n/2) == 0 && i > 0 {
				b.StopTimer()
				for _, id := range gone {
					q.insert(id, 1+random.Int64N(horizon))
				}
				gone = gone[:0]
				b.StartTimer()
			}
			batched = append(batched, uint32(ids[i%n]))
			if len(batched) == batch || (i+1)%(n/2) == 0 || i == b.N-1 {
				q.cancel(batched)
				gone = append(gone, batched...)
				batched = batched[:0]
			}
		}
	})
}

func BenchmarkReschedule(b *testing.B) {
	for _, c := range []struct {
		name string
		due  func(random *rand.Rand) int64
	}{
		{"anywhere", func(random *rand.Rand) int64 { return 1 + random.Int64N(horizon) }},
		{"later", func(random *rand.Rand) int64 { return horizon + random.Int64N(horizon) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			forEach(b, false, func(b *testing.B, q queue, n int, random *rand.Rand) {
				ids := make([]uint32, batch)
				due := func() int64 { return c.due(random) }
				b.ResetTimer()
				for done := 0; done < b.N; done += batch {
					for i := range ids {
						ids[i] = uint32(random.IntN(n))
					}
					q.reschedule(ids, due)
				}
			})
		})
	}
}

// BenchmarkPacedFire advances the time from task to task. Each task fires in its own millisecond and is inserted again
// 48 hours later.
func BenchmarkPacedFire(b *testing.B) {
	forEach(b, true, func(b *testing.B, q queue, _ int, _ *rand.Rand) {
		b.ResetTimer()
		for fired := 0; fired < b.N; {
			fired += fireNext(q)
		}
	})
}

// BenchmarkPacedStall is BenchmarkPacedFire and reports the longest call.
func BenchmarkPacedStall(b *testing.B) {
	forEach(b, true, func(b *testing.B, q queue, _ int, _ *rand.Rand) {
		watch := newStopwatch()
		b.ResetTimer()
		for fired := 0; fired < b.N; {
			watch.start()
			fired += fireNext(q)
			watch.stop()
		}
		watch.report(b)
	})
}

func fireNext(q queue) (fired int) {
	now := q.next()
	for q.fire(now, 1000, func(id uint32) {
		fired++
		q.insert(id, now+horizon)
	}) {
	}
	return fired
}

// BenchmarkCatchUp fires all overdue tasks, in slices as the log's entries would.
func BenchmarkCatchUp(b *testing.B) {
	for _, c := range []struct {
		name        string
		first, span int64
	}{
		{"hour", 0, hour},
		{"hour-far-ahead", 9 * hour, hour},
		{"millisecond-far-ahead", 9 * hour, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			for _, p := range peers {
				if !p.timed {
					b.Run(p.name, func(b *testing.B) { catchUp(b, p, c.first, c.span) })
				}
			}
		})
	}
}

func catchUp(b *testing.B, p peer, first, span int64) {
	const slice = 4096
	n := population(b)
	watch := newStopwatch()
	for range b.N {
		b.StopTimer()
		q := filled(p, n, first, span)
		b.StartTimer()
		for more := true; more; {
			watch.start()
			more = q.fire(first+span, slice, func(uint32) {})
			watch.stop()
		}
	}
	watch.report(b)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/task")
	b.ReportMetric(float64(watch.totalCPU.Nanoseconds())/float64(b.N*n), "cpu-ns/task")
}

// BenchmarkGC measures one forced collection with the whole population pending.
func BenchmarkGC(b *testing.B) {
	forEach(b, false, func(b *testing.B, q queue, _ int, _ *rand.Rand) {
		b.ResetTimer()
		for range b.N {
			runtime.GC()
		}
		runtime.KeepAlive(q)
	})
}

// stopwatch keeps the longest of many spells, in real time and in processor time. A busy machine does not lengthen the
// latter.
type stopwatch struct {
	begin, beginCPU time.Duration
	worst, worstCPU time.Duration
	totalCPU        time.Duration
	epoch           time.Time
}

// newStopwatch returns a stopwatch and locks the calling goroutine to its thread.
func newStopwatch() *stopwatch {
	runtime.LockOSThread()
	return &stopwatch{epoch: time.Now()}
}

func (s *stopwatch) start() { s.begin, s.beginCPU = time.Since(s.epoch), threadTime() }

func (s *stopwatch) stop() {
	took := threadTime() - s.beginCPU
	s.worstCPU = max(s.worstCPU, took)
	s.totalCPU += took
	s.worst = max(s.worst, time.Since(s.epoch)-s.begin)
}

func (s *stopwatch) report(b *testing.B) {
	runtime.UnlockOSThread()
	b.ReportMetric(milliseconds(s.worst), "worst-ms")
	b.ReportMetric(milliseconds(s.worstCPU), "worst-cpu-ms")
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
