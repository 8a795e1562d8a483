package report

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/bench/workload"
	"github.com/belfryhq/belfry/internal/assert"
)

// parts returns a run cut by workloads and rounds, so that no part is complete.
func parts() []*Run {
	var parts []*Run
	for round := 1; round <= 3; round++ {
		for _, workload := range []string{"schedule", "schedule-batch", "lateness"} {
			part := fixed()
			part.Machine.Fsync += 5
			part.Measured = nil
			for _, m := range fixedRound(round) {
				if m.Round = 1; m.Workload == workload {
					part.Measured = append(part.Measured, m)
				}
			}
			parts = append(parts, part)
		}
	}
	// The first part has fewer subjects and only one workload.
	parts[0].Subjects, parts[0].Workloads = parts[0].Subjects[:3], parts[0].Workloads[:1]
	return parts
}

func TestMergedPartsAreTheWhole(t *testing.T) {
	cut := parts()
	cut[0].Machine.Fsync = fixed().Machine.Fsync
	merged, err := Merge(cut...)
	assert.NoError(t, err)
	var got, want strings.Builder
	assert.NoError(t, merged.Markdown(&got))
	assert.NoError(t, fixed().Markdown(&want))
	assert.Equal(t, cmp.Diff(want.String(), got.String()), "", "(-whole +merged)")
	rounds := map[int]int{}
	for _, m := range merged.Measured {
		rounds[m.Round]++
	}
	if figures := len(fixedRound(1)); rounds[1] != figures || rounds[2] != figures || rounds[3] != figures {
		t.Errorf("measured in each round: %v, want %d", rounds, figures)
	}
}

func TestOnlyPartsOfOneRunAreMerged(t *testing.T) {
	for want, change := range map[string]func(*Run){
		"run 2: commit x":  func(r *Run) { r.Commit = "x" },
		"run 2: machine {": func(r *Run) { r.Machine.Cores = 64 },
		"run 2: sizes {":   func(r *Run) { r.Sizes = json.RawMessage(`{"payload":1}`) },
	} {
		other := fixed()
		change(other)
		if _, err := Merge(fixed(), other); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	_, err := Merge()
	assert.Error(t, err, "of no run a run was made")
}

// TestMergedServiceWasInstalledMeanwhile merges a part that lacks a service with one that measured it. The service is
// not missing.
func TestMergedServiceWasInstalledMeanwhile(t *testing.T) {
	before, after := fixed(), fixed()
	after.Subjects[3].Missing = ""
	merged, err := Merge(before, after)
	assert.NoError(t, err)
	assert.Equal(t, merged.Subjects[3].Missing, "", "missing")
}

func TestRoundsAreCounted(t *testing.T) {
	run := fixed()
	assert.Equal(t, run.rounds(), "3", "rounds")
	run.Measured = append(run.Measured, workload.Measured{Workload: "idle", Subject: Client, Round: 1})
	assert.Equal(t, run.rounds(), "1 to 3", "rounds")
	assert.Equal(t, (&Run{}).rounds(), "0", "rounds of nothing")
}
