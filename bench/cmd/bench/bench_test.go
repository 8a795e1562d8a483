package main

import (
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/bench/report"
	"github.com/belfryhq/belfry/bench/workload"
	"github.com/belfryhq/belfry/internal/assert"
)

// TestReportShowsWhatWorkloadsGive checks that a workload provides every figure in the report's tables, and that the
// bench has every peer with which the report compares.
func TestReportShowsWhatWorkloadsGive(t *testing.T) {
	run := report.Run{Workloads: workload.All(workload.Full())}
	for _, e := range entries(builds{}, false) {
		run.Subjects = append(run.Subjects, report.Subject{Name: e.subject.Name})
	}
	if unknown := run.Unknown(); len(unknown) > 0 {
		t.Errorf("no workload gives %v", unknown)
	}
	if unknown := (&report.Run{}).Unknown(); len(unknown) == 0 {
		t.Error("without workloads everything is unknown")
	}
}

func TestQuickKeepsWhatIsGiven(t *testing.T) {
	o := options{sizes: workload.Full()}
	flags := pflag.NewFlagSet("bench", pflag.ContinueOnError)
	flags.IntVar(&o.rounds, "rounds", 3, "")
	sizeFlags(flags, &o.sizes)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" && f.Name != "rounds" {
			t.Errorf("the flag %s has no text", f.Name)
		}
	})
	assert.NoError(t, flags.Parse([]string{"--cancel-tasks", "77", "--pending", "5,50", "--touch-for", "9s"}))
	assert.NoError(t, o.makeQuick(flags))
	s, quick := o.sizes, workload.Quick()
	if s.CancelTasks != 77 || len(s.Pending) != 2 || s.Pending[1] != 50 || s.TouchFor != 9*time.Second {
		t.Errorf("sizes %+v", s)
	}
	if s.BurstTasks != quick.BurstTasks || o.rounds != 1 {
		t.Errorf("%d rounds, sizes %+v", o.rounds, s)
	}
}

func TestChoice(t *testing.T) {
	all := entries(builds{}, false)
	assert.Equal(t, all[0].subject.Name, report.Client, "others are compared to")
	if got := chosen(all, []string{"PUT a"}); len(got) != 1 || got[0].subject.Name != report.Single {
		t.Errorf("chosen %v", got)
	}
	if all[1].takes("lateness") || !all[1].takes("schedule") || !all[0].takes("lateness") {
		t.Error("single calls are measured by schedules and cancels")
	}
	peer := entry{subject: all[0].subject, peer: true}
	if peer.takes("repeating") || !peer.takes("lateness") || !all[0].takes("repeating") {
		t.Error("repeating schedules are measured with Belfry alone")
	}
	twice := chosen(entries(builds{baseline: "old", commit: "0123abc"}, false), []string{"0123abc"})
	if len(twice) != len(ours("", "", false)) {
		t.Errorf("of the baseline, %d subjects", len(twice))
	}
	o := options{sizes: workload.Quick(), workloads: []string{"idle", "burst"}}
	if got, err := o.chosenWorkloads(); err != nil || len(got) != 2 || got[1].Name != "burst" {
		t.Errorf("chosen %v, %v", got, err)
	}
	o.workloads = []string{"idel"}
	_, err := o.chosenWorkloads()
	assert.Error(t, err, "a workload that is not there was chosen")
}

func TestMachine(t *testing.T) {
	m, err := machine(t.Context(), t.TempDir())
	if err != nil || m.Cores < 1 || m.Fsync <= 0 || m.Echo <= 0 || m.CPU == "" || m.OS == "" || m.FileSystem == "" {
		t.Errorf("%+v, %v", m, err)
	}
}
