package fsm

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// threadTime returns the processor time of this thread, without that of other processes. The goroutine must be locked
// to its thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}

// BenchmarkLongest measures how long one operation delays all others, with 1 million tasks of 200 bytes. It reports
// the longest of many operations, in processor time.
func BenchmarkLongest(b *testing.B) {
	const pending, group = 1_000_000, 1024
	const minute = 60_000
	payload, target := make([]byte, 200), &fsmpb.Target{Url: "http://x/"}
	task := func(id string, due int64) *fsmpb.Command {
		return &fsmpb.Command{Id: id, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
			FireAtMs: due, ReceivedAtMs: benchStart, Spec: &fsmpb.Spec{Payload: payload, Target: target},
		}}}
	}
	tasks := func(prefix string, n int, due func(i int) int64) [][]byte {
		return benchEntriesOf(n, group, func(i int) *fsmpb.Command {
			return task(fmt.Sprintf("%s-%018d", prefix, i), due(i))
		})
	}
	far := func(i int) int64 { return benchStart + 10*minute + int64(i)*170%(48*60*minute) }
	advance := func(to int64, most uint32) []byte {
		op := advanceCommand(to)
		op.GetAdvance().Max = most
		return mustMarshal(&fsmpb.Entry{Version: CommandVersion, AtMs: to, Commands: []*fsmpb.Command{op}})
	}
	for name, measure := range map[string]func(m *Machine, longest func(do func())){
		"schedule 1024": func(m *Machine, longest func(func())) {
			for _, data := range tasks("more", 50*group, far) {
				longest(func() { benchApply(b, m, data) })
			}
		},
		"schedule 1024 under a snapshot": func(m *Machine, longest func(func())) {
			snapshot := m.Snapshot()
			defer snapshot.Release()
			for _, data := range tasks("more", 50*group, far) {
				longest(func() { benchApply(b, m, data) })
			}
		},
		"snapshot": func(m *Machine, longest func(func())) {
			for range 20 {
				longest(func() { m.Snapshot().Release() })
				benchApply(b, m, tasks("more", group, far)[0])
			}
		},
		"pop 2048": func(m *Machine, longest func(func())) { popDue(b, m, tasks, advance, 2048, longest) },
		"pop 512":  func(m *Machine, longest func(func())) { popDue(b, m, tasks, advance, 512, longest) },
		"open a slot of 200000": func(m *Machine, longest func(func())) {
			opened := (int64(benchStart)>>18 + 1) << 18
			for _, data := range tasks("slot", 200_000, func(i int) int64 { return opened + 20_000 + int64(i) }) {
				longest(func() { benchApply(b, m, data) })
				longest(func() { m.Next() })
			}
			for to := opened - 5000; to < opened+20_000; to += 10 {
				longest(func() { benchApply(b, m, advance(to, 2048)) })
				longest(func() { m.Next() })
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var most time.Duration
			for b.Loop() {
				m := New(1)
				for _, data := range tasks("task", pending, far) {
					benchApply(b, m, data)
				}
				measure(m, func(do func()) {
					began := threadTime()
					do()
					most = max(most, threadTime()-began)
				})
			}
			b.ReportMetric(float64(most.Microseconds())/1000, "ms-longest")
		})
	}
}

// popDue makes many tasks come due in one millisecond and be granted at once.
func popDue(b *testing.B, m *Machine, tasks func(string, int, func(int) int64) [][]byte,
	advance func(int64, uint32) []byte, most uint32, longest func(func())) {
	const burst, due = 50_000, benchStart + 5000
	for _, data := range tasks("burst", burst, func(int) int64 { return due }) {
		benchApply(b, m, data)
	}
	for range burst/int(most) + 1 {
		data := advance(due, most)
		longest(func() {
			if _, err := m.Apply(data, true); err != nil {
				b.Fatal(err)
			}
		})
	}
}
