package fsm

import (
	"fmt"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// BenchmarkLife measures the whole life of a task, per task, in entries of 64: its schedule, its part of the advance
// that grants it, its settle, and the end of its tombstone.
func BenchmarkLife(b *testing.B) { benchLife(b, nil) }

// BenchmarkLifeObserved is BenchmarkLife with a receiver of the task's three events.
func BenchmarkLifeObserved(b *testing.B) {
	events := 0
	benchLife(b, func(task.Event) { events++ })
	if events < 3*b.N {
		b.Errorf("%d events of %d tasks", events, b.N)
	}
}

func benchLife(b *testing.B, observer func(task.Event)) {
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
		if err != nil {
			b.Fatal(err)
		}
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
