package fsm

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// everySecond returns the command that makes a schedule with a webhook.
func everySecond(id string) *fsmpb.Command {
	return &fsmpb.Command{Id: task.SeriesID(id), Op: &fsmpb.Command_SetSeries{SetSeries: &fsmpb.SetSeries{
		Spec:         &fsmpb.Spec{Payload: []byte("p"), Target: &fsmpb.Target{Url: "http://x/"}},
		Series:       &fsmpb.Series{Repeat: &fsmpb.Repeat{EveryMs: 1000}, Overlap: fsmpb.Overlap_OVERLAP_QUEUE_ALL},
		ReceivedAtMs: 1000,
	}}}
}

// moreInstants returns the leader's command with further instants of a schedule.
func moreInstants(t *testing.T, m *Machine, id string, at ...int64) *fsmpb.Command {
	t.Helper()
	series := m.Get("", task.SeriesID(id)).GetSeries()
	if series == nil {
		t.Fatalf("no schedule %q", id)
	}
	op := &fsmpb.ExtendSeries{Version: series.Version, FromMs: cursor(series)}
	for _, ms := range at {
		op.Next = append(op.Next, &fsmpb.Instant{ScheduledMs: ms, FireMs: ms})
	}
	return &fsmpb.Command{Id: task.SeriesID(id), Op: &fsmpb.Command_ExtendSeries{ExtendSeries: op}}
}

// pushedEnd returns the command that settles a webhook's attempt as delivered.
func pushedEnd(g task.Grant) *fsmpb.Command {
	c := settleGiven(g, fsmpb.Verdict_VERDICT_DELIVERED)
	c.GetSettle().Consumer = false
	return c
}

// TestScheduleMoves checks that a schedule goes on in another shard: with its numbers, with an occurrence under way, and
// with one that waits.
func TestScheduleMoves(t *testing.T) {
	source, target := New(1), New(2)
	applyAll(t, source, 1000, everySecond("nightly"))
	applyAll(t, source, 1000, moreInstants(t, source, "nightly", 2000, 3000, 4000))
	attempt := applyAll(t, source, 2000, advanceCommand(2000)).Grants[0]
	applyAll(t, source, 3000, advanceCommand(3000))
	before := source.Get("", "nightly@")
	moved(t, source, target, 3001, 5, true)
	if source.Get("", "nightly@") != nil || source.Get("", "nightly@1") != nil {
		t.Error("the source has kept a part of the schedule")
	}
	after := target.Get("", "nightly@")
	if got, want := printSeries(after), printSeries(before); got != want {
		t.Fatalf("moved to\n%s\nand was\n%s", got, want)
	}
	assert.MustEqual(t, attempt.ID, "nightly@1", "the first attempt is of")
	applyAll(t, target, 3500, pushedEnd(attempt))
	grants := applyAll(t, target, 4000, advanceCommand(4000)).Grants
	if len(grants) != 1 || grants[0].ID != "nightly@2" {
		t.Errorf("after the end of the first occurrence: %v", grants)
	}
	series := target.Get("", "nightly@").Series
	if series.Last != 3 || series.Started != 2 || len(series.Queued) != 1 || len(target.WantingSeries(9)) != 1 {
		t.Errorf("the schedule goes on as %v", series)
	}
	audit(t, target)
}

// TestScheduleIsRebuilt checks that a schedule is the same after a restore into other shards.
func TestScheduleIsRebuilt(t *testing.T) {
	old := lives(t)
	source := old[task.Slot("", "nightly")*uint32(len(old))/task.Slots]
	applyAll(t, source, 2000, everySecond("nightly"))
	applyAll(t, source, 2000, moreInstants(t, source, "nightly", 3000, 4000))
	applyAll(t, source, 3000, advanceCommand(3000))
	before := source.Get("", "nightly@")
	m := rebuilt(t, old, shardOf("nightly", newShards))
	after := m.Get("", "nightly@")
	if got, want := printSeries(after), printSeries(before); got != want || after.State != fsmpb.State_STATE_REPEATING {
		t.Errorf("rebuilt as\n%s\nand was\n%s", got, want)
	}
	v := m.Get("", "nightly@1")
	assert.Equal(t, v.GetState(), fsmpb.State_STATE_READY, "the occurrence under way: %v", v)
}

// TestListsTellSchedulesFromTasks checks that a list has schedules only if it asks for their state.
func TestListsTellSchedulesFromTasks(t *testing.T) {
	m := New(1)
	applyAll(t, m, 1000, everySecond("nightly"), scheduleCommand("plain", 9000))
	ids := func(states ...fsmpb.State) string {
		var ids []string
		for _, v := range m.List(&fsmpb.ListQuery{Limit: 10, States: states}, task.Slots).Tasks {
			ids = append(ids, v.Id)
		}
		return strings.Join(ids, " ")
	}
	assert.Equal(t, ids(), "plain", "tasks")
	assert.Equal(t, ids(fsmpb.State_STATE_REPEATING), "nightly@", "schedules")
	use := m.NamespaceUse("")
	if use.Pending != 2 {
		t.Errorf("%d are pending, want the task and the schedule", use.Pending)
	}
}

// TestScheduleOverAnOlderOccurrence checks that a schedule made anew under the id of a deleted one takes over the ids of
// its occurrences, with new webhook ids.
func TestScheduleOverAnOlderOccurrence(t *testing.T) {
	m := New(1)
	var webhookIDs []string
	for at := int64(1000); at <= 11_000; at += 10_000 {
		applyAll(t, m, at, everySecond("nightly"))
		applyAll(t, m, at, moreInstants(t, m, "nightly", at+1000))
		grants := applyAll(t, m, at+1000, advanceCommand(at+1000), advanceCommand(at+1000)).Grants
		if len(grants) != 1 || grants[0].ID != "nightly@1" {
			t.Fatalf("grants %v", grants)
		}
		webhookIDs = append(webhookIDs, m.Get("", "nightly@1").WebhookId)
		applyAll(t, m, at+1001, pushedEnd(grants[0]),
			&fsmpb.Command{Id: "nightly@", Op: &fsmpb.Command_Erase{Erase: &fsmpb.Erase{}}})
	}
	if webhookIDs[0] == webhookIDs[1] {
		t.Errorf("both occurrences have the webhook id %s", webhookIDs[0])
	}
	audit(t, m)
}

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
