package fsm

import (
	"encoding/binary"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// benchTasks is the environment variable with the number of tasks to measure memory with. The default is a million.
// Ten million take five gigabytes for a moment.
const benchTasks = "BELFRY_BENCH_TASKS"

// BenchmarkMemory reports the whole memory of a pending task, and the cost of the collector and of a snapshot beside
// it. A plain task is an id of 24 bytes, a payload of 100 and an instant. A full one is as the Go client sends a task
// with a target: with a key, and with a delay in place of an instant.
func BenchmarkMemory(b *testing.B) {
	n := benchmarkTasks(b)
	b.Run("plain", func(b *testing.B) { benchMemory(b, n, benchSchedule) })
	b.Run("full", func(b *testing.B) { benchMemory(b, n, benchFullSchedule) })
}

func benchMemory(b *testing.B, n int, schedule func(i int) *fsmpb.Command) {
	for b.Loop() {
		before := liveHeap()
		m := New(0)
		m.store.Number = 1 << 30 // numbers are longer in a shard that has been in use for a while
		for i := 0; i < n; i += 1000 {
			for _, data := range benchEntries(1000, func(j int) *fsmpb.Command { return schedule(i + j) }) {
				benchApply(b, m, data)
			}
		}
		b.ReportMetric(float64(liveHeap()-before)/float64(n), "bytes/task")
		began := time.Now()
		runtime.GC()
		b.ReportMetric(float64(time.Since(began).Microseconds())/1000, "ms/gc")
		began = time.Now()
		snapshot := m.Snapshot()
		b.ReportMetric(float64(time.Since(began).Microseconds()), "µs/freeze")
		began = time.Now()
		size, err := snapshot.WriteTo(io.Discard)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "ms/write")
		b.ReportMetric(float64(size)/float64(n), "snapshot-bytes/task")
		snapshot.Release()
		runtime.KeepAlive(m)
	}
}

func liveHeap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// benchFullSchedule is benchSchedule with a target that many tasks share, a delay, and a key.
func benchFullSchedule(i int) *fsmpb.Command {
	delay := rand.Int64N(48 * 3600 * 1000)
	spec := &fsmpb.Spec{Payload: benchPayload, Target: &fsmpb.Target{Url: "https://shop.example/close"}}
	return &fsmpb.Command{
		Id: benchID(i), Key: &fsmpb.Key{Hash: benchHash(i, 1), Call: benchHash(i, 2)},
		Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
			FireAtMs: benchStart + delay, ReceivedAtMs: benchStart, DelayMs: &delay, Spec: spec,
		}},
	}
}

func benchHash(i, salt int) uint64 {
	return xxhash.Sum64(binary.LittleEndian.AppendUint64(nil, uint64(i*3+salt)))
}
