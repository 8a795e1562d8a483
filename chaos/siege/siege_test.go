package siege

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/check"
	"github.com/belfryhq/belfry/chaos/faults"
	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/netlab"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestChosenFaults(t *testing.T) {
	all := faults.Kinds()
	count := func(names ...string) int {
		kinds, err := chosen(names)
		assert.NoError(t, err)
		return len(kinds)
	}
	if count() != len(all) || count("all") != len(all) || count("none") != 0 {
		t.Errorf("%d, %d, %d of %d", count(), count("all"), count("none"), len(all))
	}
	assert.Equal(t, count("memory", history.KillAll), 2, "kinds")
	if _, err := chosen([]string{"process", "weather"}); err == nil || !strings.Contains(err.Error(), `"weather"`) ||
		!strings.Contains(err.Error(), "network") {
		t.Errorf("%v", err)
	}
}

// Kinds have different names, and every kind belongs to a group that the stage knows.
func TestKindsAreWhole(t *testing.T) {
	names := map[string]bool{}
	for _, k := range faults.Kinds() {
		if names[k.Name] || k.Name == "" || k.Weight <= 0 {
			t.Errorf("%+v", k)
		}
		if !slices.Contains([]string{
			"process", "network", "disk", "clock", "gossip", "memory", "receiver", "attack", "upgrade", "shape",
		}, k.Group) {
			t.Errorf("%s is of group %q, which no stage knows", k.Name, k.Group)
		}
		names[k.Name] = true
	}
}

// A seed makes the same choices again, and each kind is chosen as often as its weight says.
func TestChoicesRepeat(t *testing.T) {
	kinds := []faults.Kind{{Name: "a", Weight: 1}, {Name: "b", Weight: 3}}
	draw := func() (names []string) {
		rng := rand.New(rand.NewPCG(7, 1))
		for range 1000 {
			names = append(names, choose(rng, kinds).Name)
		}
		return names
	}
	first := draw()
	assert.EqualSlices(t, first, draw(), "the same seed makes different choices")
	b := 0
	for _, name := range first {
		if name == "b" {
			b++
		}
	}
	if b < 700 || b > 800 {
		t.Errorf("a kind with 3/4 of the weight is chosen %d times in 1000", b)
	}
}

// A disk fault explains a node's death from the blow until a while after the mending. A signal explains none.
func TestDeathsAreExplained(t *testing.T) {
	second := history.Instant(time.Second)
	disk := history.Fault{Kind: faults.PowerLoss, Nodes: []string{"node-1"}, Struck: 10 * second, Mended: 20 * second}
	kill := disk
	kill.Kind = history.KillLeader
	for _, c := range []struct {
		fault history.Fault
		node  string
		at    history.Instant
		want  bool
	}{
		{disk, "node-1", 15 * second, true},
		{disk, "node-1", 22 * second, true},
		{disk, "node-1", 60 * second, false},
		{disk, "node-1", 9 * second, false},
		{disk, "node-2", 15 * second, false},
		{kill, "node-1", 15 * second, false},
	} {
		if got := explains([]history.Fault{c.fault}, c.node, c.at); got != c.want {
			t.Errorf("%s of %s at %v: %v", c.fault.Kind, c.node, c.at, got)
		}
	}
}

// A log can contradict a snapshot only after a fault may have deposed a leader.
func TestCutLogsAreExplained(t *testing.T) {
	struck := []history.Fault{{Kind: history.KillLeader, Struck: 10}}
	if mayHaveDeposed(nil, 20) || mayHaveDeposed(struck, 9) || !mayHaveDeposed(struck, 10) {
		t.Error("a fault explains a death before it struck, or does not explain one after it")
	}
}

// A node may die of a failing disk and of a lack of memory, but not of a disk that is only slow.
func TestWhatMayKill(t *testing.T) {
	mild := map[string]bool{"slow fsync": true, "slow fsync on all nodes": true}
	for _, k := range faults.Kinds() {
		want := k.Group == "memory" || k.Group == "disk" && !mild[k.Name]
		if got := explains([]history.Fault{{Kind: k.Name, Nodes: []string{"n"}, Struck: 1}}, "n", 2); got != want {
			t.Errorf("%s explains that a node ends by itself: %v", k.Name, got)
		}
		delete(mild, k.Name)
	}
	if len(mild) > 0 {
		t.Errorf("unknown kinds of faults: %v", mild)
	}
}

func TestConfig(t *testing.T) {
	if _, err := (Config{Binary: "b", Dir: "d"}).withDefaults(); err == nil {
		t.Error("a siege without For, Rounds and Round is accepted")
	}
	if _, err := (Config{Rounds: 1}).withDefaults(); err == nil {
		t.Error("a siege without Binary and Dir is accepted")
	}
	cfg, err := (Config{Binary: "b", Dir: "d", Rounds: 1, Plan: &Plan{}}).withDefaults()
	if err != nil || !slices.Equal(cfg.Faults, []string{noFaults}) || cfg.Nodes != 3 {
		t.Errorf("%+v, %v", cfg, err)
	}
	cfg, err = (Config{Binary: "b", Dir: "d", Soak: true}).withDefaults()
	if err != nil || cfg.For != time.Hour || !slices.Equal(cfg.Faults, []string{noFaults}) {
		t.Errorf("a soak: %+v, %v", cfg, err)
	}
}

// report returns a report of two rounds, the second of which broke invariant 1.
func report() *Report {
	r := newReport(Config{Seed: 7, Nodes: 3, Shards: 6, Faults: []string{"process", "disk"},
		Flags: []string{"--rate=300", "--race"}})
	for n := 1; n <= 2; n++ {
		round := &RoundReport{
			N: n, OK: n == 1, Took: time.Minute,
		}
		round.Sum = Sum{
			Struck: 5, Arrivals: 10, Tasks: check.Fates{Acknowledged: 100, Delivered: 90, Dead: 10},
			Calls: map[history.Kind]CallCount{history.Schedule: {OK: 100, Failed: 3, Unknown: 1}},
			Tolls: []check.Toll{{Kind: history.KillLeader, Count: 5, Repeats: 2}},
			Findings: []check.Finding{
				{Invariant: "1", Promise: "nothing is lost", Figures: check.NewFigures("%d acknowledged", 100)},
				{Invariant: "6", Promise: "failovers are quick", Figures: check.NewFigures("%d deaths", 0)},
				{Invariant: "7", Promise: "fences rise", Figures: check.NewFigures("%d fell", 0)},
				check.Occurrences(check.NewIndex(&history.History{}), check.DefaultLimits()),
				{Invariant: "11", Figures: check.NewFigures("pushed: %d", 2)},
			},
		}
		round.Findings[1].Observe(0, "leaders killed alone")
		round.Findings[2].Observe(n-1, "repeats across a failover")
		if n == 2 {
			round.Findings[0].Breaches = []check.Breach{{ID: "r2-5", What: "nothing came of it"}}
			round.Dir, round.Verdict = "/siege/round-2", "the whole story\n"
		}
		r.add(round)
	}
	r.skip(faults.Kind{Name: "full disk", Group: "disk"}, errors.New("no FUSE"))
	r.skip(faults.Kind{Name: "failed fsync", Group: "disk"}, errors.New("no FUSE"))
	return r
}

func TestReport(t *testing.T) {
	r := report()
	text := r.Markdown()
	for _, want := range []string{
		"# Siege, seed 7: FAILED", "2 rounds, 1 of them failed; 10 faults. Of 200 acknowledged tasks 180 were delivered",
		"| 1 | nothing is lost | **1 breaches** |  | 200 acknowledged |",
		"| 6 | failovers are quick | **not exercised** | 0 leaders killed alone | 0 deaths |",
		"| 7 | fences rise | held | 1 repeats across a failover | 0 fell |",
		"| **not exercised** |  | pushed: 4 |",
		"| 10 | repeating tasks neither skip nor double | **not exercised** | 0 occurrences that arrived",
		"| kill -9 of a leader | 10 | – |",
		"| schedule | 200 | 6 | 2 |", "20 attempts arrived", "## Round 2 failed", "the whole story",
		`go run ./chaos/cmd/siege --seed 7 --round 2 --nodes 3 --shards 6 --faults "process,disk" --rate=300 --race`,
		`2 faults of group "disk" (full disk, failed fsync): no FUSE`,
	} {
		assert.Contains(t, text, want)
	}
	if strings.Contains(text, "Round 1 failed") || r.OK() || (&Report{}).OK() {
		t.Error("the report calls a held round failed, or a failed siege held")
	}
	var short bytes.Buffer
	if err := r.Tell(&short); err != nil || !strings.Contains(short.String(), "  NOT TESTED: 2 faults") ||
		!strings.Contains(short.String(), "invariant 1, nothing is lost: 1 breaches") ||
		!strings.Contains(short.String(), "invariant 6, failovers are quick: not exercised, no leaders killed alone") {
		t.Errorf("%s, %v", short.String(), err)
	}
	r.skip(faults.Kind{Group: "network", Name: "minority"}, fmt.Errorf("%w: 4 at least, not 3", faults.ErrFewNodes))
	short.Reset()
	if err := r.Tell(&short); err != nil || !strings.Contains(short.String(), "  left out: 1 faults of group") {
		t.Errorf("%s, %v", short.String(), err)
	}
	if line := r.Rounds[1].String(); line !=
		"round 2: 60 s, 5 faults, 100 acknowledged, 10 arrivals, FAILED: invariants 1; see /siege/round-2" {
		t.Error(line)
	}
}

// A forbidden event of a node after the last verdict counts, too.
func TestAfterTheLastVerdict(t *testing.T) {
	r := newReport(Config{Seed: 7, Nodes: 3, Shards: 6})
	r.add(&RoundReport{N: 1, OK: true})
	if !r.OK() {
		t.Error("a siege that held is not OK")
	}
	r.After = []string{"node-2: WARNING: DATA RACE"}
	var short bytes.Buffer
	if err := r.Tell(&short); err != nil || r.OK() ||
		!strings.Contains(short.String(), "verdict: node-2: WARNING: DATA RACE") ||
		!strings.Contains(r.Markdown(), "after the last verdict: node-2: WARNING: DATA RACE") {
		t.Errorf("%s, %v", short.String(), err)
	}
}

// A soak that was long enough must have seen everything. A soak that was too short says so.
func TestSoakMustBeJudged(t *testing.T) {
	for _, test := range []struct {
		unjudged []string
		watched  time.Duration
		ok       bool
		want     string // expected part of the short report; empty: no mention
	}{
		{nil, time.Hour, true, ""},
		{[]string{"heap of node-2 was never seen"}, time.Hour, false, "not judged: heap of node-2 was never seen"},
		{nil, 10 * time.Minute, true, "not judged: too short a soak"},
	} {
		r := newReport(Config{Soak: true, Nodes: 3, Shards: 6})
		r.add(&RoundReport{N: 1, OK: true})
		r.Unjudged, r.Watched = test.unjudged, test.watched
		var short bytes.Buffer
		assert.Equal(t, r.Tell(&short), nil)
		text := short.String() + r.Markdown()
		if n := strings.Count(text, "not judged"); r.OK() != test.ok || (n == 2) != (test.want != "") ||
			strings.Count(text, test.want) < n {
			t.Errorf("%v: held %v, and it says %s", test, r.OK(), text)
		}
	}
}

// take returns each death once, whenever it happened.
func TestDeathsAreTakenOnce(t *testing.T) {
	d := &deaths{}
	d.note(local.Event{Kind: local.Died, Node: "node-1"})
	if first, again := d.take(), d.take(); len(first) != 1 || first[0].node != "node-1" || len(again) != 0 {
		t.Errorf("%v, %v", first, again)
	}
}

func TestReportIsWritten(t *testing.T) {
	dir := t.TempDir()
	assert.NoError(t, report().Write(dir))
	if text, err := os.ReadFile(filepath.Join(dir, "report.md")); err != nil || string(text) != report().Markdown() {
		t.Errorf("%v: %s", err, text)
	}
}

func TestOutcomes(t *testing.T) {
	got := map[string]check.Outcome{}
	for _, invariant := range []string{"1", "6", "7", "10", "11", "none"} {
		got[invariant] = report().Outcome(invariant)
	}
	want := map[string]check.Outcome{
		"1": check.Breached, "6": check.NotExercised, "7": check.Held, "10": check.NotExercised, "11": check.NotExercised,
		"none": check.NotExercised,
	}
	if !maps.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
}

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
