package siege

import (
	"testing"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/workload"
)

// A check beside the record is not exercised until it has observed a case.
func TestOutcomesBesideTheRecord(t *testing.T) {
	struck := []history.Fault{{Kind: history.KillLeader, Struck: 1, Mended: 2}}
	cases := map[string]func(r *Round, h *history.History, a *stand.Alarms){
		"+":   func(_ *Round, _ *history.History, a *stand.Alarms) { a.Lines = 7 },
		"9b":  func(r *Round, _ *history.History, _ *stand.Alarms) { r.siege.rested = 7 },
		"13c": func(r *Round, h *history.History, _ *stand.Alarms) { r.waited, h.Faults = true, struck },
		"13d": func(_ *Round, h *history.History, _ *stand.Alarms) {
			h.Faults = []history.Fault{{Kind: "failed fsync"}}
		},
	}
	findings := func(observe func(*Round, *history.History, *stand.Alarms)) []check.Finding {
		r := &Round{siege: &siege{deaths: &deaths{}, receiver: &workload.Receiver{}, report: newReport(Config{})}}
		h, alarms := &history.History{}, stand.Alarms{}
		observe(r, h, &alarms)
		return r.findingsBeyondRecord(h, alarms)
	}
	for _, f := range findings(func(*Round, *history.History, *stand.Alarms) {}) {
		if f.Outcome() != check.NotExercised {
			t.Errorf("invariant %s without an observed case: outcome %s", f.Invariant, f.Outcome())
		}
		observe := cases[f.Invariant]
		if observe == nil {
			t.Errorf("invariant %s: the test has no case that exercises it", f.Invariant)
			continue
		}
		for _, g := range findings(observe) {
			if want := map[bool]check.Outcome{true: check.Held, false: check.NotExercised}[g.Invariant == f.Invariant]; g.Outcome() != want {
				t.Errorf("invariant %s after a case of %s: outcome %s", g.Invariant, f.Invariant, g.Outcome())
			}
		}
	}
}

// The finding about the healed cluster is not exercised if no fault struck, or if the round did not wait for the
// cluster.
func TestWholeNeedsFaultsAndAHeal(t *testing.T) {
	for _, r := range []*Round{{waited: true}, {}} {
		h := &history.History{}
		if !r.waited {
			h.Faults = []history.Fault{{Kind: history.KillLeader}}
		}
		if f := r.whole(h); f.Outcome() != check.NotExercised {
			t.Errorf("waited %v, %d faults: %s", r.waited, len(h.Faults), f.Outcome())
		}
	}
}
