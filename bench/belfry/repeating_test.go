package belfry

import (
	"slices"
	"testing"

	"github.com/belfryhq/belfry/bench/workload"
	"github.com/belfryhq/belfry/deploy/local/localtest"
)

// TestBelfryRepeats runs the workload of repeating schedules with a thousand of them, on a real cluster. The workload
// itself fails if a node lacks a schedule before the occurrences or after the restart.
func TestBelfryRepeats(t *testing.T) {
	needNodes(t)
	sizes := workload.Quick()
	all := workload.All(sizes)
	i := slices.IndexFunc(all, func(w workload.Workload) bool { return w.Name == "repeating" })
	cluster := Subject(Config{Name: "Belfry", Binary: localtest.Build(t)})
	m := all[i].Measure(t.Context(), cluster, sizes, t.TempDir(), func(said string) { t.Log(said) })
	if m.Failed != "" || m.Cannot != "" {
		t.Fatalf("failed %q, cannot %q", m.Failed, m.Cannot)
	}
	for key, want := range map[string]float64{
		"kept": 1000, "arrived": 2000, "early": 0, "lost": 0, "repeats": 0, // two occurrences of each schedule
	} {
		if got, ok := m.Values[key]; !ok || got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	for _, key := range []string{"rate", "fired", "late_p50", "late_max", "rss", "schedule", "ready", "first"} {
		if m.Values[key] <= 0 {
			t.Errorf("%s is %v", key, m.Values[key])
		}
	}
}
