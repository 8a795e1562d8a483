package fsm

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
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
	if _, err := m.Apply(data, false); err != nil {
		b.Fatal(err)
	}
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
