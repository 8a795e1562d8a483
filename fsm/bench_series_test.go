package fsm

import (
	"runtime"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

const benchHour = 3_600_000

// benchSeries returns the command that makes a schedule with an expression, a payload of 100 bytes and a target that
// many share.
func benchSeries(i int) *fsmpb.Command {
	return &fsmpb.Command{Id: task.SeriesID(benchID(i)), Op: &fsmpb.Command_SetSeries{SetSeries: &fsmpb.SetSeries{
		Spec: &fsmpb.Spec{Payload: benchPayload, Target: &fsmpb.Target{Url: "https://shop.example/report"}},
		Series: &fsmpb.Series{
			Repeat: &fsmpb.Repeat{Cron: []string{"0 * * * *"}, TimeZone: "Europe/Berlin"}, Overlap: fsmpb.Overlap_OVERLAP_ALLOW,
		},
		ReceivedAtMs: benchStart,
	}}}
}

// benchInstants returns the leader's command for the schedule with its next two hours.
func benchInstants(m *Machine, i int) *fsmpb.Command {
	id := task.SeriesID(benchID(i))
	series := m.Get("", id).Series
	from := cursor(series)
	op := &fsmpb.ExtendSeries{Version: series.Version, FromMs: from}
	for n := range int64(2) {
		at := from + (n+1)*benchHour
		op.Next = append(op.Next, &fsmpb.Instant{ScheduledMs: at, FireMs: at})
	}
	return &fsmpb.Command{Id: id, Op: &fsmpb.Command_ExtendSeries{ExtendSeries: op}}
}

// benchSchedules returns a machine with n hourly schedules, each with the instants of two hours.
func benchSchedules(b *testing.B, n int) *Machine {
	m := New(0)
	benchEach(b, m, n, benchStart, benchSeries)
	benchEach(b, m, n, benchStart, func(i int) *fsmpb.Command { return benchInstants(m, i) })
	return m
}

// benchEach applies n commands in entries of 64 at an instant.
func benchEach(b *testing.B, m *Machine, n int, at int64, command func(i int) *fsmpb.Command) {
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: at}
	for i := range n {
		entry.Commands = append(entry.Commands, command(i))
		if len(entry.Commands) == 64 || i == n-1 {
			benchApply(b, m, mustMarshal(entry))
			entry.Commands = entry.Commands[:0]
		}
	}
}

// BenchmarkSeriesMemory reports the memory of a schedule without occurrences, and that of one with a full record of the
// last ones.
func BenchmarkSeriesMemory(b *testing.B) {
	const n = 20_000
	for b.Loop() {
		before := liveHeap()
		m := benchSchedules(b, n)
		b.ReportMetric(float64(liveHeap()-before)/n, "bytes/schedule")
		for range task.MaxPastOccurrences {
			benchHourPasses(b, m, n)
		}
		b.ReportMetric(float64(liveHeap()-before)/n, "bytes/used-schedule")
		runtime.KeepAlive(m)
	}
}

// BenchmarkOccurrence measures the whole life of an occurrence, per occurrence: its part of the Advance, its settle, the
// end of its tombstone, and the leader's instants for the next one.
func BenchmarkOccurrence(b *testing.B) {
	const n = 10_000
	m := benchSchedules(b, n)
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += n {
		benchHourPasses(b, m, n)
	}
}

// benchHourPasses lets each schedule have an occurrence, delivers it, drops its tombstone and gives the schedule
// further instants.
func benchHourPasses(b *testing.B, m *Machine, n int) {
	at := m.store.NowMs + benchHour
	for more := true; more; {
		applied := benchAdvance(b, m, at)
		more = applied.Results[0].More
		settle := func(i int) *fsmpb.Command {
			g := applied.Grants[i]
			op := &fsmpb.Settle{Fence: g.Fence, Occurrence: g.Occurrence, Verdict: fsmpb.Verdict_VERDICT_DELIVERED, StartedAtMs: at}
			return &fsmpb.Command{Id: g.ID, Op: &fsmpb.Command_Settle{Settle: op}}
		}
		benchEach(b, m, len(applied.Grants), at, settle)
	}
	for benchAdvance(b, m, at+2000).Results[0].More {
		continue
	}
	benchEach(b, m, n, at, func(i int) *fsmpb.Command { return benchInstants(m, i) })
}

func benchAdvance(b *testing.B, m *Machine, to int64) Applied {
	policy := &fsmpb.Policy{Window: 1 << 30, AttemptTimeoutMs: 15_000, LeaseMarginMs: 5_000, MaxAttempts: 3, KeepDoneMs: 1000}
	advance := &fsmpb.Command{Op: &fsmpb.Command_Advance{Advance: &fsmpb.Advance{ToMs: to, Max: 1000, Policy: policy}}}
	applied, err := m.Apply(mustMarshal(&fsmpb.Entry{Version: CommandVersion, AtMs: to, Commands: []*fsmpb.Command{advance}}), true)
	if err != nil {
		b.Fatal(err)
	}
	return applied
}
