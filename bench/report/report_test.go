package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/bench/workload"
	"github.com/belfryhq/belfry/internal/assert"
)

var update = flag.Bool("update", false, "write what is made as what is wanted")

const peer = "A <peer> & co"

// fixed returns a run whose tables can be computed by hand.
func fixed() *Run {
	rate := workload.Figure{Key: "rate", Title: "acknowledged a second", Unit: "/s", Higher: true}
	cost := workload.Figure{Key: "task_cpu", Title: "processor time a task", Unit: "µs"}
	late := func(key string) workload.Figure { return workload.Figure{Key: key, Title: "late " + key, Unit: "ms"} }
	run := &Run{
		Commit: "abc1234", Date: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC),
		Machine: Machine{CPU: "Some CPU", Cores: 2, MemoryMB: 24_000, OS: "linux 6.1", Go: "go1.26", FileSystem: "ext4",
			Fsync: 48_300 * time.Nanosecond, Echo: 31_500},
		Sizes: json.RawMessage(`{}`),
		Subjects: []Subject{
			{Name: Client, Promise: subject.Promise{Nodes: 3, Replicated: true, Fsync: subject.FsyncEachWrite}},
			{Name: peer, Promise: subject.Promise{Nodes: 1, Fsync: subject.FsyncNone}},
			{Name: "Broken", Promise: subject.Promise{Nodes: 1, Fsync: subject.FsyncEachSecond}},
			{Name: "Absent", Missing: "absent-server:\n  apt-get install absent"},
			{Name: natsSynced, Promise: subject.Promise{Nodes: 3, Replicated: true, Fsync: subject.FsyncEachWrite}},
		},
		Workloads: []workload.Workload{
			{Name: "schedule", Title: "64 callers", Figures: []workload.Figure{rate, cost}},
			{Name: "schedule-batch", Title: "batches of 100", Figures: []workload.Figure{rate}},
			{Name: "lateness", Title: "pulled",
				Figures: []workload.Figure{late("p50"), late("p99"), late("max"), {Key: "early", Title: "early"}}},
		},
	}
	for round := 1; round <= 3; round++ {
		run.Measured = append(run.Measured, fixedRound(round)...)
	}
	return run
}

func fixedRound(round int) []workload.Measured {
	nth := func(values ...float64) float64 { return values[round-1] }
	used := func(load, service time.Duration) workload.Usage {
		return workload.Usage{Elapsed: time.Second, LoadCPU: load, ServiceCPU: service}
	}
	all := []workload.Measured{
		{Workload: "schedule", Subject: Client,
			Values: map[string]float64{"rate": nth(44_000, 50_000, 48_400), "task_cpu": nth(45, 40, 41.25)},
			Usage:  used(time.Second, 3*time.Second)},
		{Workload: "schedule", Subject: peer, Values: map[string]float64{"rate": nth(96_800, 90_000, 120_000)},
			Usage: used(2*time.Second, time.Second)},
		{Workload: "schedule", Subject: "Broken", Failed: "starting: it died:\n\tno room"},
		{Workload: "schedule-batch", Subject: Client, Values: map[string]float64{"rate": 250_000}},
		{Workload: "schedule-batch", Subject: peer, Cannot: "cannot schedule by batches"},
		{Workload: "lateness", Subject: Client,
			Values: map[string]float64{"p50": 0.41234, "p99": 1.9, "max": nth(9, 12, 11), "early": 0}},
		{Workload: "lateness", Subject: peer,
			Values: map[string]float64{"p50": 3430, "p99": 5211, "max": 5414, "early": 110}},
		{Workload: "schedule", Subject: natsSynced, Values: map[string]float64{"rate": 10_000, "task_cpu": 99}},
	}
	if round == 2 {
		all[6].Values, all[6].Failed = nil, "timed out" // one of three rounds
	}
	for i := range all {
		all[i].Round = round
	}
	return all
}

// golden compares generated text with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		assert.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	assert.NoError(t, err)
	assert.Equal(t, cmp.Diff(string(want), got), "", "%s (-want +got)", name)
}

func TestReportIsMadeOfItsFileAlone(t *testing.T) {
	dir := t.TempDir()
	assert.NoError(t, fixed().Write(dir))
	again, err := Read(filepath.Join(dir, "results.json"))
	assert.NoError(t, err)
	assert.NoError(t, again.Write(dir))
	for _, name := range []string{"RESULTS.md", "results.json", "schedule.svg", "lateness.svg"} {
		made, err := os.ReadFile(filepath.Join(dir, name))
		assert.NoError(t, err)
		golden(t, name, string(made))
	}
	if _, err := os.Stat(filepath.Join(dir, "burst.svg")); !os.IsNotExist(err) {
		t.Errorf("there is a picture of a workload that did not run: %v", err)
	}
}

// TestTableOfBelfryAloneSaysWhy checks the line above a table that has Belfry alone.
func TestTableOfBelfryAloneSaysWhy(t *testing.T) {
	run := fixed()
	rate := []workload.Figure{{Key: "rate", Title: "made"}}
	run.Workloads = []workload.Workload{{Name: "repeating", Title: "ten", Figures: rate}}
	run.Measured = []workload.Measured{{Workload: "repeating", Subject: Client, Values: map[string]float64{"rate": 7}}}
	var made bytes.Buffer
	assert.NoError(t, run.Markdown(&made))
	want := "## Repeating schedules\n\n" + alone["repeating"] + "\n\n| service |"
	if !Alone("repeating") || Alone("schedule") || strings.Count(made.String(), want) != 1 {
		t.Errorf("%s\nhas not once: %s", made.String(), want)
	}
}

func TestNumbers(t *testing.T) {
	for _, tt := range []struct {
		value float64
		unit  string
		want  string
	}{
		{0, "ms", "0"}, {0.04567, "ms", "0.0457"}, {9.5, "ms", "9.5"}, {123.4, "ms", "123"}, {5414, "ms", "5414"},
		{870.4, "/s", "870"}, {9949, "/s", "9949"}, {45_123, "/s", "45.1k"}, {300_000, "/s", "300k"},
		{110, "", "110"}, {1.04321, "", "1.04"}, {0.5, "%", "0.5"}, {-0.25, "ms", "-0.25"},
	} {
		assert.Equal(t, number(tt.value, tt.unit), tt.want, "%v %s is written", tt.value, tt.unit)
	}
}

func TestMedian(t *testing.T) {
	for want, values := range map[float64][]float64{0: nil, 1: {1}, 1.5: {1, 2}, 2: {1, 2, 9}} {
		assert.Equal(t, median(values), want, "median of %v", values)
	}
}

// TestGoalsAndTablesAgree checks that some table has the figure of each goal. A misspelt key would silently show
// nothing.
func TestGoalsAndTablesAgree(t *testing.T) {
	tabled := map[column]bool{}
	for _, table := range slices.Concat(samePromise, tables) {
		for _, c := range table.columns {
			tabled[c] = true
		}
	}
	for _, g := range goals {
		if !tabled[g.column] {
			t.Errorf("the goal of %v is in no table", g.column)
		}
	}
	for _, c := range contests {
		if !tabled[c.column] {
			t.Errorf("the contest of %v is in no table", c.column)
		}
	}
}

func TestGoalsAreJudged(t *testing.T) {
	least, most := goal{least: true, limit: 10}, goal{limit: 10}
	for _, tt := range []struct {
		goal goal
		cell cell
		want string
	}{
		{least, cell{present: true, values: []float64{10}}, "met"},
		{least, cell{present: true, values: []float64{9.9}}, "**missed**"},
		{most, cell{present: true, values: []float64{10}}, "met"},
		{most, cell{present: true, values: []float64{1, 10.1, 11}}, "**missed**"},
		{most, cell{present: true}, "**missed**: nothing was measured"},
		{most, cell{}, "not run"},
	} {
		assert.Equal(t, tt.goal.verdict(tt.cell), tt.want, "%+v of %+v", tt.goal, tt.cell)
	}
}

func TestScale(t *testing.T) {
	even := newScale([]bar{{"a", 50}, {"b", 100}})
	if a, b := even.width(50), even.width(100); a*2 != b || even.logarithmic {
		t.Errorf("lengths %v and %v", a, b)
	}
	wide := newScale([]bar{{"a", 0.5}, {"b", 5}, {"c", 5000}, {"d", 0}})
	a, b, c := wide.width(0.5), wide.width(5), wide.width(5000)
	if !wide.logarithmic || a <= shortestBar || b <= a || c <= b || wide.width(0) != shortestBar {
		t.Errorf("%+v: lengths %v, %v, %v", wide, a, b, c)
	}
	assert.Contains(t, fmt.Sprint(wide.note()), "logarithmic", "the note does not say that the scale is logarithmic")
}

// TestDearer checks that the costs of a build are compared with those of a baseline of the same run, by the medians.
func TestDearer(t *testing.T) {
	const suffix = " at 1234567"
	run := fixed()
	run.Subjects = append(run.Subjects, Subject{Name: Client + suffix})
	if err := run.Dearer(suffix, 10); err == nil || !strings.Contains(err.Error(), "nothing could be compared") {
		t.Errorf("without figures of the baseline: %v", err)
	}
	measure := func(subject, in string, cost float64) {
		run.Measured = append(run.Measured, workload.Measured{
			Workload: in, Subject: subject, Values: map[string]float64{"task_cpu": cost},
		})
	}
	for _, cost := range []float64{10, 37, 90} { // this build's median is 41.25
		measure(Client+suffix, "schedule", cost)
	}
	assert.Equal(t, run.Dearer(suffix, 12), nil, "11 %% more, and 12 are allowed")
	if err := run.Dearer(suffix, 10); err == nil || !strings.Contains(err.Error(), "schedule: a task costs 41 µs, 11 % more") {
		t.Errorf("11 %% more, and 10 are allowed: %v", err)
	}
	measure(Client+suffix, "lateness", 5)
	if err := run.Dearer(suffix, 12); err == nil || !strings.Contains(err.Error(), "lateness: the baseline was measured") {
		t.Errorf("a workload that failed in this build: %v", err)
	}
}
