package siege

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/netlab"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/internal/assert"
)

// A siege of ten minutes or more with all faults has drills. It must then exercise each invariant, unless it is limited
// to certain rounds.
func TestWhichSiegesAreThorough(t *testing.T) {
	for _, tt := range []struct {
		name             string
		cfg              Config
		drills, thorough bool
	}{
		{"ten minutes", Config{For: Thorough}, true, true},
		{"ten minutes of all faults by name", Config{For: Thorough, Faults: []string{"all"}}, true, true},
		{"less", Config{For: Thorough - time.Second}, false, false},
		{"one round of ten minutes", Config{For: Thorough, Round: 2}, true, false},
		{"some rounds of ten minutes", Config{For: Thorough, Rounds: 2}, true, false},
		{"rounds alone", Config{Rounds: 9}, false, false},
		{"some faults", Config{For: Thorough, Faults: []string{"disk"}}, false, false},
		{"a soak", Config{For: time.Hour, Soak: true}, false, false},
		{"a plan", Config{For: time.Hour, Plan: &Plan{}}, false, false},
	} {
		if tt.cfg.drills() != tt.drills || tt.cfg.thorough() != tt.thorough {
			t.Errorf("%s: drills %v, thorough %v", tt.name, tt.cfg.drills(), tt.cfg.thorough())
		}
	}
}

// The first rounds of a siege of ten minutes are drills. If the stand has a network, gossip is forged on a stand of its
// own.
func TestRoundsThatAreDrills(t *testing.T) {
	plans := func(cfg Config, network bool) (drills, apart []int) {
		s := &siege{cfg: cfg, stand: &stand.Stand{}}
		if network {
			s.stand.Network = &netlab.Network{}
		}
		for n := 1; n <= 2*drillEvery; n++ {
			switch p := s.planOf(n); {
			case p != nil && len(p.apart) > 0:
				apart = append(apart, n)
			case p != nil:
				drills = append(drills, n)
			}
		}
		return drills, apart
	}
	long := Config{For: Thorough}
	if drills, apart := plans(long, true); !slices.Equal(drills, []int{1, 9}) || !slices.Equal(apart, []int{2, 10}) {
		t.Errorf("with a network: %v, apart %v", drills, apart)
	}
	upgraded := long
	upgraded.Other = "belfry"
	if drills, apart := plans(upgraded, false); !slices.Equal(drills, []int{1, 9}) || !slices.Equal(apart, []int{3, 11}) {
		t.Errorf("with another build: %v, apart %v", drills, apart)
	}
	if drills, apart := plans(long, false); !slices.Equal(drills, []int{1, 9}) || apart != nil {
		t.Errorf("on loopback: %v, apart %v", drills, apart)
	}
	if drills, apart := plans(Config{For: time.Minute}, true); drills != nil || apart != nil {
		t.Errorf("of a minute: %v, apart %v", drills, apart)
	}
}

// A drill names faults that exist.
func TestDrilledFaultsExist(t *testing.T) {
	for _, name := range []string{
		history.SilentGossip, history.ForgedGossip, history.KillLeader, history.KillAll, history.OnePath,
		faults.RollingRestart, faults.LeaderClockAhead, faults.FailedSync,
		history.HalfSent, faults.DamagedFile, faults.KillMost,
	} {
		_, err := chosen([]string{name})
		assert.Equal(t, err, nil)
	}
}

// Idle lists the invariants that a thorough siege did not exercise, except those that this machine cannot.
func TestIdleInvariants(t *testing.T) {
	r := newReport(Config{For: Thorough})
	for _, invariant := range []string{"6", "13d"} {
		f := check.Finding{Invariant: invariant}
		f.Observe(0, "cases")
		r.addFinding(f)
	}
	names := func(findings []check.Finding) (names []string) {
		for _, f := range findings {
			names = append(names, f.Invariant)
		}
		return names
	}
	assert.EqualSlices(t, names(r.Idle()), []string{"6", "13d"})
	r.skip(faults.Kind{Name: faults.FailedSync, Group: "disk"}, errors.New("no FUSE"))
	assert.EqualSlices(t, names(r.Idle()), []string{"6"}, "without disks")
	r.Thorough = false
	if got := names(r.Idle()); got != nil || len(r.Unexercised()) != 2 {
		t.Errorf("of a short siege: %v, of %v", got, names(r.Unexercised()))
	}
}
