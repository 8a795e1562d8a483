package workload

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
)

// TestRepeating has 200 schedules with an occurrence each second, which are measured for two seconds: one each 5 ms.
func TestRepeating(t *testing.T) {
	f := &fake{
		latency: time.Millisecond, outage: 300 * time.Millisecond, pids: []int{os.Getpid()},
		late: func(task subject.Task) time.Duration {
			if strings.HasSuffix(task.ID, "@2") {
				return 7 * time.Millisecond
			}
			return 3 * time.Millisecond
		},
	}
	m := measure(t, "repeating", f)
	expect(t, m, map[string]float64{
		"rate": 4000, "call_p50": 1, "call_max": 1, "fired": 400 / 1.999, "late_p50": 3, "late_p99": 7, "late_max": 7,
		"arrived": 400, "kept": 200, "early": 0, "lost": 0, "repeats": 0, "ready": 300,
	})
	// A second set of occurrences is lost, and a first one comes again.
	f = &fake{
		latency: time.Millisecond, pids: []int{os.Getpid()},
		loses:   func(task subject.Task) bool { return strings.HasSuffix(task.ID, "00@2") },
		repeats: func(task subject.Task) bool { return strings.HasSuffix(task.ID, "00@1") },
	}
	expect(t, measure(t, "repeating", f), map[string]float64{"lost": 2, "repeats": 2, "fired": 398 / 1.995})
}

// TestRepeatingCountsTheSchedules has a service that lacks a schedule, and one without a process.
func TestRepeatingCountsTheSchedules(t *testing.T) {
	for want, f := range map[string]*fake{
		"the service has 199 schedules, not 200": {pids: []int{os.Getpid()}, forgets: 1},
		"no process":                             {},
	} {
		var m Measured
		synctest.Test(t, func(t *testing.T) {
			m = repeating(sizes()).Measure(t.Context(), f.subject(), sizes(), t.TempDir(), func(s string) { t.Log(s) })
		})
		if !strings.Contains(m.Failed, want) || m.Values != nil {
			t.Errorf("failed %q, want %q; values %v", m.Failed, want, m.Values)
		}
	}
}
