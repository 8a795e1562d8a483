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
