package fsm

import (
	"fmt"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

const (
	moveID, nextMoveID = 5, 6
	intoNewShard       = true

	// The consumers that lease before a move and after it.
	formerHolder, laterHolder = 7, 8
)

// Tasks in all states move with their receipts: an attempt and a lease of the source end at the target, once.
func TestRunningAttemptsMove(t *testing.T) {
	source, target := lives(t)[0], New(2)
	before := map[string]*fsmpb.Task{}
	var leased, pushed *fsmpb.Task
	for _, v := range allOf(source) {
		before[v.Id] = v
		switch {
		case v.Leased && v.Outcome == 0:
			leased = v
		case v.State == fsmpb.State_STATE_FIRING && v.Outcome == 0:
			pushed = v
		}
	}
	moved(t, source, target, 2001, moveID, intoNewShard)
	for _, v := range allOf(target) {
		want := before[v.Id]
		delete(before, v.Id)
		if v.WebhookId != want.WebhookId || v.Revision != want.Revision || v.Fence != want.Fence || v.State != want.State ||
			fmt.Sprint(unnumbered(v)) != fmt.Sprint(unnumbered(want)) {
			t.Errorf("moved to\n%v, and was\n%v", v, want)
		}
	}
	if len(before) != 0 || len(allOf(source)) != 0 {
		t.Errorf("%d tasks did not arrive, and %d are left", len(before), len(allOf(source)))
	}
	end := func(v *fsmpb.Task, consumer bool) *fsmpb.Command {
		c := endOf(task.Grant{ID: v.Id, Fence: v.Fence, Occurrence: v.Occurrence}, fsmpb.Verdict_VERDICT_DELIVERED)
		c.GetSettle().Consumer = consumer
		return c
	}
	applied := applyAll(t, target, 2002, end(leased, true), end(pushed, false), scheduleCommand(pushed.Id, 9000))
	for i, r := range applied.Results {
		if r.Code != fsmpb.Code_CODE_OK && r.Code != fsmpb.Code_CODE_CREATED {
			t.Errorf("command %d: %v", i, r)
		}
	}
	if v := target.Get("", leased.Id); v.State != fsmpb.State_STATE_DELIVERED || len(v.History) != 1 {
		t.Errorf("after the ack: %v", v)
	}
	if v := target.Get("", pushed.Id); v.Revision <= pushed.Revision || v.WebhookId == pushed.WebhookId {
		t.Errorf("scheduled anew: %v, and was %v", v, pushed)
	}
	audit(t, target)
}

// In a new shard, tasks keep their numbers, and so need no progress record. In a shard with tasks of its own they get
// new numbers in the wheel, so that all replicas pop equal dues in one order.
func TestNumbersInTheWheel(t *testing.T) {
	own := task.Slot("", "own")
	others := []*fsmpb.SlotRange{{First: 0, End: own}, {First: own + 1, End: task.Slots}}
	for _, fresh := range []bool{true, false} {
		source, target := New(1), New(2)
		var cmds []*fsmpb.Command
		for i := range 50 {
			cmds = append(cmds, scheduleCommand(fmt.Sprint("task-", i), 5000))
		}
		applyAll(t, source, 1000, cmds...)
		revision := source.Get("", "task-7").Revision
		if !fresh {
			applyAll(t, target, 1000, scheduleCommand("own", 5000))
		}
		importAll(t, source, target, others, fresh)
		if v := target.Get("", "task-7"); v.Revision != revision {
			t.Errorf("revision %d became %d", revision, v.Revision)
		}
		if counts := target.Counts(); fresh != (counts.Coming > 1000) {
			t.Errorf("fresh %v: %d bytes of progress records are still to come", fresh, counts.Coming)
		}
		audit(t, target)
		if got := applyAll(t, target, 5000, advanceCommand(5000)).Grants; len(got) < 49 {
			t.Errorf("%d grants", len(got))
		}
	}
}

func importAll(t *testing.T, source, target *Machine, ranges []*fsmpb.SlotRange, fresh bool) {
	t.Helper()
	expect := expectAll(moveID, fresh)
	expect.GetExpectSlots().Ranges = ranges
	w := source.Watch(rangesOf(ranges))
	tasks, done, _, err := w.Copy(1 << 20)
	if !done || err != nil {
		t.Fatal(err)
	}
	seal := sealAll(moveID)
	seal.GetSealSlots().Ranges = ranges
	applyAll(t, source, 1000, seal)
	sealed, err := w.Sealed()
	assert.NoError(t, err)
	imported := applyAll(t, target, 1000, expect, importOf(moveID, tasks...), readyOf(sealed, moveID), openOf(moveID, 100))
	for i, r := range imported.Results {
		if r.Code != fsmpb.Code_CODE_OK || r.More {
			t.Fatalf("command %d: %v", i, r)
		}
	}
}

// Openings and drops go on in bounded steps. Scheduled tasks are open at once, however many there are.
func TestMoveIsBounded(t *testing.T) {
	source, target := New(1), New(2)
	var cmds []*fsmpb.Command
	for i := range 400 {
		cmds = append(cmds, scheduleCommand(fmt.Sprint("task-", i), 5000))
	}
	applyAll(t, source, 1000, cmds...)
	opened, dropped := moved(t, source, target, 1000, moveID, intoNewShard)
	if opened != 1 || dropped < 30 || dropped > 41 {
		t.Errorf("400 scheduled tasks: opened in %d entries, dropped in %d", opened, dropped)
	}
	applyAll(t, target, 5000, advanceCommand(5000)) // all begin
	opened, _ = moved(t, target, New(3), 5000, nextMoveID, intoNewShard)
	if opened < 30 || opened > 41 {
		t.Errorf("400 firing tasks: opened in %d entries", opened)
	}
}

// A task that comes due between the seal and the opening fires at the target as soon as it is open, and not before.
func TestOverdueFiresAtOpening(t *testing.T) {
	source, target := New(1), New(2)
	applyAll(t, source, 1000, scheduleCommand("a", 5000))
	w := source.Watch(rangesOf(allSlots))
	tasks, done, _, err := w.Copy(1 << 20)
	if !done || err != nil {
		t.Fatalf("done %v, %v", done, err)
	}
	sealed := applyAll(t, source, 4000, sealAll(moveID), advanceCommand(6000))
	ends, err := w.Sealed()
	assert.NoError(t, err)
	copied := applyAll(t, target, 6000, expectAll(moveID, intoNewShard), importOf(moveID, tasks...), advanceCommand(6000),
		readyOf(ends, moveID))
	assert.MustEqual(t, len(sealed.Grants)+len(copied.Grants), 0, "grants before the opening")
	if _, ok := target.Next(); ok || target.Get("", "a") != nil || target.Counts().Tasks != 0 {
		t.Errorf("a copy waits in the wheel after its instant, or is shown: %v", target.Counts())
	}
	opened := applyAll(t, target, 6001, openOf(moveID, 1), advanceCommand(6001))
	if len(opened.Grants) != 1 || opened.Grants[0].StartMs > 6001 {
		t.Errorf("grants at the opening: %v", opened.Grants)
	}
	audit(t, target)
}

// Only the state of the shards' own tasks counts for the bound of the tombstones.
func TestSealedTombstonesStay(t *testing.T) {
	source := New(1)
	tight := advanceCommand(1000)
	tight.GetAdvance().Policy.TombstoneBytes = 1
	applyAll(t, source, 1000, scheduleCommand("a", 5000), scheduleCommand("b", 5000),
		&fsmpb.Command{Id: "a", Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}}, sealAll(moveID), tight)
	if v := source.Get("", "a"); v == nil {
		t.Error("a sealed tombstone was dropped")
	}
	audit(t, source)
	applyAll(t, source, 1000, unsealOf(moveID), tight)
	if v := source.Get("", "a"); v != nil || source.Get("", "b") == nil {
		t.Errorf("after the seal: %v", v)
	}
	audit(t, source)
}

// A Watch ends when another one begins, and when a snapshot replaces the state.
func TestWatchEnds(t *testing.T) {
	m := New(1)
	first := m.Watch(rangesOf(allSlots))
	m.Watch(rangesOf(allSlots))
	_, _, _, err := first.Copy(1)
	assert.Error(t, err, "the first Watch goes on beside the second")
	w := m.Watch(rangesOf(allSlots))
	restoredInto(t, m)
	_, _, _, err = w.Changes(1)
	assert.Error(t, err, "the Watch outlives the state")
	_, err = w.Sealed()
	assert.Error(t, err, "the Watch outlives the state")
}

// A backup that was cut during a move has all tasks of a sealed shard.
func TestRebuildWakesTasks(t *testing.T) {
	old := lives(t)
	want := len(allOf(old[0])) + len(allOf(old[1]))
	for _, m := range old {
		applyAll(t, m, 90_000, sealAll(moveID), advanceCommand(90_000))
	}
	got := 0
	for shard := uint32(1); shard <= newShards; shard++ {
		m := rebuilt(t, old, shard)
		got += len(allOf(m))
		if due, ok := m.Next(); !ok || due > 90_000 {
			t.Errorf("the next task of shard %d is due at %d", shard, due)
		}
	}
	assert.Equal(t, got, want, "tasks")
}

// A lease whose end came while its slot was sealed runs for a moment after the opening, at the target or, if the move is
// given up, at the source. A settle that has been waiting for the slot comes in time. A longer lease keeps its end.
func TestLeasesOutliveTheSeal(t *testing.T) {
	const sealedAt, openAt, rest = 59_000, 70_000, 1000
	for _, givenUp := range []bool{false, true} {
		source, target := New(1), New(2)
		applyAll(t, source, 1000, toLease("acked"), toLease("lost"), leaseAll(1000, formerHolder))
		applyAll(t, source, sealedAt, toLease("long"), leaseAll(sealedAt, formerHolder))
		leased, owner := grantOf(source.Get("", "acked")), target
		if givenUp {
			owner = source
			applyAll(t, source, sealedAt, sealAll(moveID))
		} else {
			copyAll(t, source, target, sealedAt)
		}
		acked := endOf(leased, fsmpb.Verdict_VERDICT_DELIVERED)
		acked.GetSettle().Consumer = true
		applyAll(t, owner, openAt, leaseAll(openAt, laterHolder)) // the ends of the leases wait for the slots
		open, unseal := openOf(moveID, 100), unsealOf(moveID)
		open.GetOpenSlots().LeaseMs, unseal.GetUnsealSlots().LeaseMs = rest, rest
		if givenUp {
			applyAll(t, source, openAt, unseal)
		} else {
			applyAll(t, target, openAt, open)
		}
		early := applyAll(t, owner, openAt, leaseAll(openAt+rest-1, laterHolder))
		assert.Equal(t, len(early.Grants), 0, "given up %v: leased again too early: %v", givenUp, early.Grants)
		r := applyAll(t, owner, openAt+1, acked).Results[0]
		assert.Equal(t, r.Code, fsmpb.Code_CODE_OK, "given up %v: the ack is answered %v", givenUp, r)
		late := applyAll(t, owner, openAt+rest, leaseAll(openAt+rest, laterHolder)).Grants
		if len(late) != 1 || late[0].ID != "lost" {
			t.Errorf("given up %v: leased again: %v", givenUp, late)
		}
		if v := owner.Get("", "acked"); v.State != fsmpb.State_STATE_DELIVERED || len(v.History) != 1 {
			t.Errorf("given up %v: %v", givenUp, v)
		}
		if v := owner.Get("", "long"); v.Attempts != 1 || v.State != fsmpb.State_STATE_FIRING {
			t.Errorf("given up %v: %v", givenUp, v)
		}
		audit(t, owner)
	}
}

// copyAll moves all slots up to their opening.
func copyAll(t *testing.T, source, target *Machine, at int64) {
	t.Helper()
	w := source.Watch(rangesOf(allSlots))
	defer w.Stop()
	tasks, done, _, err := w.Copy(1 << 20)
	if !done || err != nil {
		t.Fatal(err)
	}
	applyAll(t, source, at, sealAll(moveID))
	sealed, err := w.Sealed()
	assert.NoError(t, err)
	imported := applyAll(t, target, at, expectAll(moveID, intoNewShard), importOf(moveID, tasks...), readyOf(sealed, moveID))
	for i, r := range imported.Results {
		assert.MustEqual(t, r.Code, fsmpb.Code_CODE_OK, "command %d: %v", i, r)
	}
}

func grantOf(v *fsmpb.Task) task.Grant {
	return task.Grant{ID: v.Id, Fence: v.Fence, Occurrence: v.Occurrence}
}
