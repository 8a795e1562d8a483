package fsm

import (
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// TestScheduleAndOccurrenceHaveNumbersOfTheirOwn checks that a schedule and the occurrence that it has just made do not
// wait in the wheel under one number. A replica that was restored from a snapshot would pop them in another order.
func TestScheduleAndOccurrenceHaveNumbersOfTheirOwn(t *testing.T) {
	m := New(1)
	// The lease of the attempt that begins at 2000 ends at 22,000: 15,000 ms of timeout and 5,000 ms of margin.
	applyAll(t, m, 1000, everySecond("s"))
	applyAll(t, m, 1000, moreInstants(t, m, "s", 2000, 22_000))
	applyAll(t, m, 2000, advanceCommand(2000))
	follower := restored(t, m)
	for _, one := range []*Machine{m, follower} {
		applyAll(t, one, 22_000, advanceCommand(22_000))
	}
	if a, b := m.store.Hash(), follower.store.Hash(); a != b {
		t.Errorf("the replicas differ: s@1 has the fence %d, and %d on the restored one", m.Get("", "s@1").Fence,
			follower.Get("", "s@1").Fence)
	}
}

// TestNewRuleAfterSkip checks that a new rule begins now, and not behind an occurrence of the old rule that a caller has
// skipped.
func TestNewRuleAfterSkip(t *testing.T) {
	m := New(1)
	const year = 365 * 24 * 3600 * 1000
	applyAll(t, m, 1000, everySecond("s"))
	applyAll(t, m, 1000, moreInstants(t, m, "s", 1000+year, 1000+2*year))
	applyAll(t, m, 1000, &fsmpb.Command{Id: "s@", Op: &fsmpb.Command_SkipOccurrence{SkipOccurrence: &fsmpb.SkipOccurrence{}}})
	again := everySecond("s")
	again.GetSetSeries().Series.Repeat.EveryMs = 2000
	applyAll(t, m, 5000, again)
	if after := m.Get("", "s@").Series.AfterMs; after > 5000 {
		t.Errorf("the new rule goes on after %d, a year later than its receipt at 5000", after)
	}
}

// TestBackfillOfExpiringTasks checks that an occurrence of a backfill has its whole time to begin: the time of its rule's
// instant is long over.
func TestBackfillOfExpiringTasks(t *testing.T) {
	m := New(1)
	c := everySecond("s")
	c.GetSetSeries().Spec.ExpiresAfterMs = 60_000
	applyAll(t, m, 10_000_000, c)
	applyAll(t, m, 10_000_000, &fsmpb.Command{Id: "s@", Op: &fsmpb.Command_Backfill{
		Backfill: &fsmpb.Backfill{ScheduledMs: []int64{1000}},
	}})
	grants := applyAll(t, m, 10_000_010, advanceCommand(10_000_010)).Grants
	if v := m.Get("", "s@1"); len(grants) != 1 {
		t.Errorf("no attempt: the occurrence is %v, %q", v.State, v.LastError)
	}
}

// TestBuryOverdueCoversSchedules checks that a restore that makes dead letters of what is overdue does so with the
// occurrences of schedules, too: those that begin at its instant, and those that wait for them.
func TestBuryOverdueCoversSchedules(t *testing.T) {
	m := New(1)
	applyAll(t, m, 1000, everySecond("s"))
	applyAll(t, m, 1000, moreInstants(t, m, "s", 2000, 3000, 4000))
	now := int64(5000)
	m.BuryOverdue(now, "overdue at the restore")
	for _, id := range []string{"s@1", "s@2", "s@3"} {
		if v := m.Get("", id); v != nil && v.State != fsmpb.State_STATE_DEAD {
			t.Errorf("%s is %v, due at %d", id, v.State, v.FireAtMs)
		}
	}
}

// TestBuryOverdueCoversTheQueue checks that the occurrences which wait for a buried one do not begin at the restore.
func TestBuryOverdueCoversTheQueue(t *testing.T) {
	m := New(1)
	applyAll(t, m, 1000, everySecond("s"))
	applyAll(t, m, 1000, moreInstants(t, m, "s", 2000, 3000, 4000))
	first := applyAll(t, m, 2000, advanceCommand(2000)).Grants[0]
	applyAll(t, m, 3000, advanceCommand(3000))
	failed := settleGiven(first, fsmpb.Verdict_VERDICT_RETRY)
	failed.GetSettle().Consumer = false
	applyAll(t, m, 3100, failed)
	if v := m.Get("", "s@1"); v.State != fsmpb.State_STATE_RETRYING {
		t.Fatalf("s@1 is %v", v.State)
	}
	m.BuryOverdue(3_600_000, "overdue at the restore")
	for _, id := range []string{"s@1", "s@2"} {
		if v := m.Get("", id); v != nil && v.State != fsmpb.State_STATE_DEAD {
			t.Errorf("%s is %v, due at %d", id, v.State, v.FireAtMs)
		}
	}
}

// TestBuryOverdueCoversScheduleWithoutInstants checks that a schedule whose coming instants were not in the log yet at
// the backup does not make up for the time until the restore.
func TestBuryOverdueCoversScheduleWithoutInstants(t *testing.T) {
	m := New(1)
	applyAll(t, m, 1000, everySecond("s"))
	m.BuryOverdue(3_600_000, "overdue at the restore")
	if after := m.Get("", "s@").Series.AfterMs; after < 3_600_000 {
		t.Errorf("the rule goes on after %d, which the leader treats as an hour of missed occurrences", after)
	}
}
