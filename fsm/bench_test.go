package fsm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// The tasks of benchmarks are due within two days, in milliseconds.
const benchStart, benchSpan = 1_700_000_000_000, 48 * 3600 * 1000

// benchID returns an id of 24 bytes. The benchmarks' payloads have 100 bytes, and their due times are uniform over 48
// h.
func benchID(i int) string { return fmt.Sprintf("order-%018d", i) }

var benchPayload = bytes.Repeat([]byte("x"), 100)

func benchEntries(n int, op func(i int) *fsmpb.Command) [][]byte { return benchEntriesOf(n, 64, op) }

// benchEntriesOf puts group commands into each entry.
func benchEntriesOf(n, group int, op func(i int) *fsmpb.Command) [][]byte {
	var entries [][]byte
	for at := 0; at < n; at += group {
		entry := &fsmpb.Entry{Version: CommandVersion, AtMs: benchStart}
		for i := at; i < min(at+group, n); i++ {
			entry.Commands = append(entry.Commands, op(i))
		}
		data, err := proto.Marshal(entry)
		if err != nil {
			panic(err)
		}
		entries = append(entries, data)
	}
	return entries
}

func benchSchedule(i int) *fsmpb.Command {
	due := benchStart + rand.Int64N(benchSpan)
	spec := &fsmpb.Spec{Payload: benchPayload}
	return &fsmpb.Command{Id: benchID(i), Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{FireAtMs: due, ReceivedAtMs: benchStart, Spec: spec}}}
}

func benchMachine(b *testing.B, n int) *Machine {
	m := New(0)
	for _, data := range benchEntries(n, benchSchedule) {
		benchApply(b, m, data)
	}
	return m
}

func benchApply(b *testing.B, m *Machine, data []byte) {
	_, err := m.Apply(data, false)
	assert.NoError(b, err)
}

// BenchmarkSchedule and BenchmarkCancel measure one command, in entries of 64, decoding included, with 1 million
// pending.
func BenchmarkSchedule(b *testing.B) {
	m := benchMachine(b, 1_000_000)
	entries := benchEntries(b.N, func(i int) *fsmpb.Command { return benchSchedule(1_000_000 + i) })
	benchApplyAll(b, m, entries)
}

// BenchmarkScheduleFull measures schedules as the Go client sends them: see BenchmarkMemory.
func BenchmarkScheduleFull(b *testing.B) {
	m := benchMachine(b, 1_000_000)
	entries := benchEntries(b.N, func(i int) *fsmpb.Command { return benchFullSchedule(1_000_000 + i) })
	benchApplyAll(b, m, entries)
}

func BenchmarkCancel(b *testing.B) {
	m := benchMachine(b, max(1_000_000, b.N))
	entries := benchEntries(b.N, func(i int) *fsmpb.Command {
		return &fsmpb.Command{Id: benchID(i), Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}}
	})
	benchApplyAll(b, m, entries)
}

// benchApplyAll measures the application of entries.
func benchApplyAll(b *testing.B, m *Machine, entries [][]byte) {
	b.ReportAllocs()
	b.ResetTimer()
	for _, data := range entries {
		benchApply(b, m, data)
	}
}

// BenchmarkLife measures the whole life of a task, per task, in entries of 64: its schedule, its part of the advance
// that grants it, its settle, and the end of its tombstone.
func BenchmarkLife(b *testing.B) { benchLife(b, nil) }

// BenchmarkLifeObserved is BenchmarkLife with a receiver of the task's three events.
func BenchmarkLifeObserved(b *testing.B) {
	events := 0
	benchLife(b, func(*task.Event) { events++ })
	if events < 3*b.N {
		b.Errorf("%d events of %d tasks", events, b.N)
	}
}

func benchLife(b *testing.B, observer func(*task.Event)) {
	const each = 64
	m := benchMachine(b, 100_000)
	m.Observe(observer)
	policy := &fsmpb.Policy{Window: 1 << 20, AttemptTimeoutMs: 15_000, LeaseMarginMs: 5_000, MaxAttempts: 3, HorizonMs: 20, KeepDoneMs: 1000}
	spec := &fsmpb.Spec{Payload: benchPayload, Target: &fsmpb.Target{Url: "http://x/"}}
	at := int64(benchStart)
	b.ReportAllocs()
	for n := 0; n < b.N; n += each {
		at++
		b.StopTimer()
		schedule := &fsmpb.Entry{Version: CommandVersion, AtMs: at}
		for i := range each {
			op := &fsmpb.Schedule{FireAtMs: at, ReceivedAtMs: at, Spec: spec}
			schedule.Commands = append(schedule.Commands, &fsmpb.Command{Id: fmt.Sprintf("l-%022d", n+i), Op: &fsmpb.Command_Schedule{Schedule: op}})
		}
		schedule.Commands = append(schedule.Commands, &fsmpb.Command{Op: &fsmpb.Command_Advance{Advance: &fsmpb.Advance{ToMs: at, Max: 2048, Policy: policy}}})
		data := mustMarshal(schedule)
		b.StartTimer()
		applied, err := m.Apply(data, true)
		assert.NoError(b, err)
		b.StopTimer()
		settle := &fsmpb.Entry{Version: CommandVersion, AtMs: at}
		for _, g := range applied.Grants {
			op := &fsmpb.Settle{Fence: g.Fence, Occurrence: g.Occurrence, Verdict: fsmpb.Verdict_VERDICT_DELIVERED, StartedAtMs: at, Node: "01jd3s9k2m4n6p8q"}
			settle.Commands = append(settle.Commands, &fsmpb.Command{Id: g.ID, Op: &fsmpb.Command_Settle{Settle: op}})
		}
		data = mustMarshal(settle)
		b.StartTimer()
		benchApply(b, m, data)
	}
}

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
		assert.NoError(b, err)
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

// BenchmarkEncode and BenchmarkDecode measure the log's encoding alone, per command, in entries of 64 schedules.
func BenchmarkEncode(b *testing.B) {
	const batch = 64
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: benchStart}
	for i := range batch {
		entry.Commands = append(entry.Commands, benchSchedule(i))
	}
	data := make([]byte, entry.SizeVT())
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += batch {
		_, err := entry.MarshalToSizedBufferVT(data[:entry.SizeVT()])
		assert.NoError(b, err)
	}
	b.SetBytes(int64(len(data) / batch))
}

func BenchmarkDecode(b *testing.B) {
	const batch = 64
	data := benchEntries(batch, benchSchedule)[0]
	b.SetBytes(int64(len(data) / batch))
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += batch {
		entry := fsmpb.EntryFromVTPool()
		assert.NoError(b, entry.UnmarshalVTUnsafe(data))
		entry.ReturnToVTPool()
	}
}

// BenchmarkTouch measures one heartbeat, in entries of 64, over 100 thousand tasks of a million.
func BenchmarkTouch(b *testing.B) {
	const beating = 100_000
	m := benchMachine(b, 1_000_000)
	delay := int64(30_000)
	entries := benchEntries(b.N, func(i int) *fsmpb.Command {
		return &fsmpb.Command{Id: benchID(i % beating), Op: &fsmpb.Command_Touch{
			Touch: &fsmpb.Touch{ReceivedAtMs: benchStart + int64(i/beating), DelayMs: &delay},
		}}
	})
	benchApplyAll(b, m, entries)
}

// BenchmarkRestore restores 100 thousand tasks from memory, as a replica does when it starts or was left behind.
func BenchmarkRestore(b *testing.B) {
	const n = 100_000
	snapshot := benchMachine(b, n).Snapshot()
	var data bytes.Buffer
	_, err := snapshot.WriteTo(&data)
	assert.NoError(b, err)
	snapshot.Release()
	b.ReportAllocs()
	for b.Loop() {
		assert.NoError(b, New(0).Restore(bytes.NewReader(data.Bytes())))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/task")
}

// BenchmarkSnapshot writes a snapshot of 100 thousand tasks to nowhere, as a replica does whenever its log is cut.
func BenchmarkSnapshot(b *testing.B) {
	const n = 100_000
	m := New(0)
	for _, data := range benchEntries(n, benchFullSchedule) {
		benchApply(b, m, data)
	}
	b.ReportAllocs()
	for b.Loop() {
		snapshot := m.Snapshot()
		_, err := snapshot.WriteTo(io.Discard)
		assert.NoError(b, err)
		snapshot.Release()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/task")
}
