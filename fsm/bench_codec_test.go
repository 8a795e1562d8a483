package fsm

import (
	"bytes"
	"io"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

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
