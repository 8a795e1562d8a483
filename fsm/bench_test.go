package fsm

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

const benchStart = 1_700_000_000_000

// benchID is 24 bytes, the payload 100, due times uniform over 48 h: the sizes that the numbers in doc.go are for.
func benchID(i int) string { return fmt.Sprintf("order-%018d", i) }

var benchPayload = bytes.Repeat([]byte("x"), 100)

func benchEntries(n int, op func(i int) *fsmpb.Command) [][]byte {
	const batch = 64
	var entries [][]byte
	for at := 0; at < n; at += batch {
		entry := &fsmpb.Entry{Version: CommandVersion, AtMs: benchStart}
		for i := at; i < min(at+batch, n); i++ {
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
	due := benchStart + rand.Int64N(48*3600*1000)
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
	if _, err := m.Apply(data, false); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkSchedule and BenchmarkCancel are per command, in entries of 64, decoding included, 1 million pending.
func BenchmarkSchedule(b *testing.B) {
	m := benchMachine(b, 1_000_000)
	entries := benchEntries(b.N, func(i int) *fsmpb.Command { return benchSchedule(1_000_000 + i) })
	b.ReportAllocs()
	b.ResetTimer()
	for _, data := range entries {
		benchApply(b, m, data)
	}
}

func BenchmarkCancel(b *testing.B) {
	m := benchMachine(b, max(1_000_000, b.N))
	entries := benchEntries(b.N, func(i int) *fsmpb.Command {
		return &fsmpb.Command{Id: benchID(i), Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{KeepUntilMs: benchStart + 600_000}}}
	})
	b.ReportAllocs()
	b.ResetTimer()
	for _, data := range entries {
		benchApply(b, m, data)
	}
}

// BenchmarkMemory reports what a pending task takes, all in, and what the collector and a snapshot cost beside them.
func BenchmarkMemory(b *testing.B) {
	const n = 1_000_000
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		m := New(0)
		for i := 0; i < n; i += 1000 {
			for _, data := range benchEntries(1000, func(j int) *fsmpb.Command { return benchSchedule(i + j) }) {
				benchApply(b, m, data)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/n, "bytes/task")
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
		b.ReportMetric(float64(size)/n, "snapshot-bytes/task")
		snapshot.Release()
		runtime.KeepAlive(m)
	}
}
