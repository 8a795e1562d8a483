package fsm

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// oldShards are the shards that the tests rebuild from: shard 1 has the lower half of the slots.
const oldShards, newShards = 2, 3

func shardOf(id string, shards uint32) uint32 { return task.Slot("", id)*shards/task.Slots + 1 }

// slotsOf returns the slots that shardOf gives to a shard.
func slotsOf(shard, shards uint32) SlotRange {
	return SlotRange{
		First: ((shard-1)*task.Slots + shards - 1) / shards, End: (shard*task.Slots + shards - 1) / shards,
	}
}

// lives returns two shards with tasks in every state. Both have made the same steps, so their numbers are equal.
func lives(t *testing.T) []*Machine {
	t.Helper()
	var old []*Machine
	for shard := uint32(1); shard <= oldShards; shard++ {
		var ids []string
		for i := 0; len(ids) < 60; i++ {
			if id := fmt.Sprint("task-", i); shardOf(id, oldShards) == shard {
				ids = append(ids, id)
			}
		}
		m := New(shard)
		applyAll(t, m, 1000, &fsmpb.Command{Op: &fsmpb.Command_Takeover{Takeover: &fsmpb.Takeover{Origin: uint64(shard) << 40}}})
		var due []*fsmpb.Command
		for i, id := range ids {
			due = append(due, lifeOf(id, i))
		}
		applyAll(t, m, 1000, due...)
		grants := applyAll(t, m, 2000, leaseSome(2000, 20)).Grants
		if len(grants) < 24 {
			t.Fatalf("%d grants", len(grants))
		}
		applyAll(t, m, 2001, endOf(grants[0], fsmpb.Verdict_VERDICT_DELIVERED), endOf(grants[1], fsmpb.Verdict_VERDICT_DEAD),
			endOf(grants[2], fsmpb.Verdict_VERDICT_RETRY), endOf(grants[3], fsmpb.Verdict_VERDICT_RELEASED),
			&fsmpb.Command{Id: ids[59], Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}},
			&fsmpb.Command{Id: grants[5].ID, Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}})
		old = append(old, m)
	}
	return old
}

// lifeOf schedules tasks of consumers, webhooks, and of a later time.
func lifeOf(id string, i int) *fsmpb.Command {
	c := toLease(id)
	c.Key = &fsmpb.Key{Hash: uint64(i + 1), Call: 9}
	switch {
	case i >= 40:
		c.GetSchedule().FireAtMs = 50_000
	case i >= 30:
		c.GetSchedule().Spec = &fsmpb.Spec{Payload: []byte("p"), Target: &fsmpb.Target{Url: "https://shop.example"}}
	}
	return c
}

func leaseSome(to int64, grants uint32) *fsmpb.Command {
	c := leaseAll(to, 7)
	c.GetAdvance().Policy.Window = 16
	c.GetAdvance().Credits[0].Grants = grants
	return c
}

func endOf(g task.Grant, verdict fsmpb.Verdict) *fsmpb.Command {
	c := settleGiven(g, verdict)
	c.GetSettle().RetryAtMs, c.GetSettle().Error = 60_000, "refused"
	return c
}

func rebuilt(t *testing.T, old []*Machine, shard uint32) *Machine {
	t.Helper()
	slots := slotsOf(shard, newShards)
	b := NewRebuild(shard, nil, 2000)
	for _, m := range old {
		had := slotsOf(m.applier.shard, uint32(len(old)))
		both := SlotRange{First: max(slots.First, had.First), End: min(slots.End, had.End)}
		var state bytes.Buffer
		snapshot := m.Snapshot()
		if _, err := snapshot.WriteTo(&state); err != nil {
			t.Fatal(err)
		}
		snapshot.Release()
		begin := func(h *fsmpb.SnapshotHeader) error { return b.From(h, []SlotRange{both}) }
		err := ReadTasks(&state, begin, func(task *fsmpb.SnapshotTask) error {
			if shardOf(task.Task.Id, newShards) != shard {
				return nil
			}
			return b.Add(task)
		})
		assert.NoError(t, err)
	}
	m := b.Machine()
	audit(t, m)
	return m
}

func allOf(m *Machine) []*fsmpb.Task {
	return m.List(&fsmpb.ListQuery{Limit: 1 << 20, IncludePayload: true}, task.Slots).Tasks
}

// given returns the task as it must be after its attempt was given back.
func given(v *fsmpb.Task) *fsmpb.Task {
	v.Shard = 0
	if v.State != fsmpb.State_STATE_FIRING {
		return v
	}
	v.Revision, v.Leased, v.LeaseEndMs = 0, false, 0
	v.State, v.Attempts = fsmpb.State_STATE_READY, v.Attempts-1
	if v.Outcome != 0 {
		v.State = fsmpb.State_STATE_CANCELLED
	}
	return v
}

func TestRebuildKeepsTasks(t *testing.T) {
	old := lives(t)
	var want []*fsmpb.Task
	for _, m := range old {
		want = append(want, allOf(m)...)
	}
	states := map[fsmpb.State]int{}
	var got []*fsmpb.Task
	for shard := uint32(1); shard <= newShards; shard++ {
		m := rebuilt(t, old, shard)
		assert.Equal(t, len(allOf(restored(t, m))), len(allOf(m)), "a snapshot of the shard has other tasks")
		got = append(got, allOf(m)...)
	}
	assert.MustEqual(t, len(got), len(want), "tasks")
	byID := map[string]*fsmpb.Task{}
	for _, v := range got {
		byID[v.Id] = v
	}
	for _, before := range want {
		states[before.State]++
		after, firing := byID[before.Id], before.State == fsmpb.State_STATE_FIRING
		before, after = given(before), given(after)
		if firing {
			after.Revision = 0
		}
		if !proto.Equal(before, after) {
			t.Errorf("before %v\nafter  %v", before, after)
		}
	}
	assert.Equal(t, len(states), 7, "the tasks were in states %v only", states)
}

// Tasks of two shards with one due time and one number come due in the same order on every replica.
func TestRebuildOrdersEqualTasks(t *testing.T) {
	old := lives(t)
	for shard := uint32(1); shard <= newShards; shard++ {
		m := rebuilt(t, old, shard)
		places := map[[2]int64]string{}
		for _, v := range waiting(t, m) {
			at := [2]int64{v.WheelDueMs, int64(v.WheelSeq)}
			if places[at] != "" {
				t.Errorf("%s and %s have the same place in the wheel", v.Task.Id, places[at])
			}
			places[at] = v.Task.Id
		}
		for i, other := range []*Machine{restored(t, m), restored(t, restored(t, m))} {
			applyAll(t, other, 70_000, leaseAll(70_000, 1))
			if i == 0 {
				applyAll(t, m, 70_000, leaseAll(70_000, 1))
			}
			_, a := m.Hash()
			if _, b := other.Hash(); a != b || m.Counts().ByState[fsmpb.State_STATE_SCHEDULED] > 0 {
				t.Errorf("shard %d: replica %d hashes to %x, the first one to %x", shard, i, b, a)
			}
		}
	}
}

// waiting returns the tasks in the wheel, as a snapshot has them.
func waiting(t *testing.T, m *Machine) (tasks []*fsmpb.SnapshotTask) {
	t.Helper()
	var state bytes.Buffer
	snapshot := m.Snapshot()
	defer snapshot.Release()
	if _, err := snapshot.WriteTo(&state); err != nil {
		t.Fatal(err)
	}
	err := ReadTasks(&state, func(*fsmpb.SnapshotHeader) error { return nil }, func(v *fsmpb.SnapshotTask) error {
		if v.InWheel {
			tasks = append(tasks, proto.CloneOf(v))
		}
		return nil
	})
	assert.NoError(t, err)
	return tasks
}

// No occurrence of any shard ever has the webhook id of another one, also after a second rebuild.
func TestRebuildKeepsWebhookIDsApart(t *testing.T) {
	old := lives(t)
	seen := map[string]string{} // occurrences by webhook id
	note := func(m *Machine) {
		for _, v := range allOf(m) {
			name := fmt.Sprint(v.Id, " ", v.Occurrence)
			if before := seen[v.WebhookId]; before != "" && before != name {
				t.Errorf("%s and %s have the webhook id %s", before, name, v.WebhookId)
			}
			seen[v.WebhookId] = name
		}
	}
	for range 2 {
		var next []*Machine
		for shard := uint32(1); shard <= newShards; shard++ {
			m := rebuilt(t, old, shard)
			note(m)
			for i := range 200 {
				if id := fmt.Sprint("task-", i); shardOf(id, newShards) == shard && i%3 == 0 {
					applyAll(t, m, 3000, lifeOf(id, 50))
				}
			}
			note(m)
			next = append(next, m)
		}
		old = next
	}
}

// A revision from before still counts, and a fire moves the task, also one that shares its due time and number with
// another one.
func TestRebuiltTasksCanBeChanged(t *testing.T) {
	old := lives(t)
	ties := 0
	for shard := uint32(1); shard <= newShards; shard++ {
		m, seen := rebuilt(t, old, shard), map[uint64]int{}
		for _, v := range allOf(m) {
			if v.State != fsmpb.State_STATE_SCHEDULED {
				continue
			}
			seen[v.Revision]++
			ties = max(ties, seen[v.Revision]-1)
			fire := &fsmpb.Command{Id: v.Id, Op: &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}},
				Condition: &fsmpb.Condition{Revisions: []uint64{v.Revision}}}
			r := applyAll(t, m, 3000, fire).Results[0]
			assert.Equal(t, r.Code, fsmpb.Code_CODE_OK, "%s: %v", v.Id, r)
			if now := m.Get("", v.Id); now.FireAtMs != 3000 || now.Revision == v.Revision {
				t.Errorf("fired: %v", now)
			}
		}
		audit(t, m)
	}
	if ties == 0 {
		t.Error("no two tasks shared their due time and number")
	}
}

func TestBuryOverdue(t *testing.T) {
	old := lives(t)
	for shard := uint32(1); shard <= newShards; shard++ {
		m := rebuilt(t, old, shard)
		before := m.Counts().ByState
		waited := before[fsmpb.State_STATE_SCHEDULED] + before[fsmpb.State_STATE_RETRYING]
		assert.Equal(t, m.BuryOverdue(49_999, "late"), 0, "tasks were buried before they were due")
		if n := m.BuryOverdue(70_000, "late"); n != waited || n == 0 {
			t.Errorf("%d of %d tasks were buried", n, waited)
		}
		audit(t, m)
		dead := 0
		for _, v := range allOf(restored(t, m)) {
			if v.State == fsmpb.State_STATE_DEAD && v.LastError == "late" {
				dead++
			}
		}
		assert.Equal(t, dead, waited, "dead letters")
	}
}

// Writing a snapshot makes next to no garbage a task. The collector would otherwise have a million tasks' garbage to
// collect while calls wait.
func TestSnapshotMakesLittleGarbage(t *testing.T) {
	const tasks = 1000
	m := New(1)
	for i := range tasks {
		schedule := scheduleCommand(fmt.Sprint("task-", i), 5)
		schedule.Key = &fsmpb.Key{Hash: uint64(i), Call: 1}
		schedule.GetSchedule().Spec = &fsmpb.Spec{Payload: []byte("p"), Target: &fsmpb.Target{Url: "https://shop.example"}}
		applyBytes(t, m, mustMarshal(&fsmpb.Entry{Version: 1, Commands: []*fsmpb.Command{schedule}}))
	}
	snapshot := m.Snapshot()
	defer snapshot.Release()
	const rest = 100 // buffers, the header, the trailer
	made := testing.AllocsPerRun(1, func() {
		_, err := snapshot.WriteTo(io.Discard)
		assert.NoError(t, err)
	})
	if made > tasks+rest { // one for the id of each task
		t.Errorf("%.0f allocations for a snapshot of %d tasks", made, tasks)
	}
}
