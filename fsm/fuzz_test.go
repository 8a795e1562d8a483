package fsm

import (
	"bytes"
	"encoding/binary"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// An entry of any bytes is either refused whole or applied to a state that still passes the audit.
func FuzzApply(f *testing.F) {
	for _, entry := range []*fsmpb.Entry{
		{Version: 1, AtMs: 9, Commands: []*fsmpb.Command{scheduleCommand("a", 5), advanceCommand(10)}},
		{Version: 1, Commands: []*fsmpb.Command{{Id: "a", Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{Fence: 3, Occurrence: 1, Verdict: 4}}}}},
		{Version: 1, Commands: []*fsmpb.Command{{Id: "a", Op: &fsmpb.Command_Patch{Patch: &fsmpb.Patch{Clear: []string{"target"}}}}}},
		{Version: CommandVersion, Commands: []*fsmpb.Command{{Id: "a", Op: &fsmpb.Command_Erase{Erase: &fsmpb.Erase{}}}}},
		{Version: 1, Commands: []*fsmpb.Command{{Id: "a", Op: &fsmpb.Command_Replay{Replay: &fsmpb.Replay{}}}, {Id: "a", Op: &fsmpb.Command_Drop{Drop: &fsmpb.Drop{}}}}},
		{Version: 1, Commands: []*fsmpb.Command{{Id: "a", Op: &fsmpb.Command_Extend{Extend: &fsmpb.Extend{Fence: 3, Occurrence: 1, LeaseMs: 1 << 62}}}}},
		{Version: 1, Commands: []*fsmpb.Command{
			{Op: &fsmpb.Command_SetRules{SetRules: &fsmpb.SetRules{Rules: []*fsmpb.QueueRule{{Queue: "q", Pushed: true, KeepDoneMs: -1}, {Queue: "q"}}}}},
			{Id: "b", Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{FireAtMs: 3}}},
			advanceCommand(12),
			{Op: &fsmpb.Command_Grant{Grant: &fsmpb.Grant{Max: 2, LeaseMs: 5, Tag: 1}}},
			{Id: "b", Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{Fence: 8, Occurrence: 4, Verdict: 2, Consumer: true}}},
		}},
		{Version: 2, AtMs: 9, Commands: []*fsmpb.Command{
			expectSome(5, 40, 50), importOf(5, snapshotTask()), advanceCommand(90), {Op: &fsmpb.Command_ReadySlots{
				ReadySlots: &fsmpb.ReadySlots{Move: 5, Inherited: []*fsmpb.Inherited{{EndSlot: 9, Last: 4, Origin: 3}}},
			}}, openOf(5, 3), dropOf(5, 3), abandonOf(5),
		}},
		{Version: 2, AtMs: 9, Commands: []*fsmpb.Command{sealAll(5), advanceCommand(90_000), unsealOf(5), dropOf(5, 1)}},
		// A command without an id was once carried out, and made a task that no call can name.
		{Version: 1, Commands: []*fsmpb.Command{{Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{FireAtMs: 3}}}}},
	} {
		data, err := proto.Marshal(entry)
		assert.NoError(f, err)
		f.Add(data)
	}
	for _, data := range [][]byte{
		{0x80}, {0x0b}, {0x00}, {0x0a, 0}, {0x18, 1}, {0xf8, 7, 1}, {0x08, CommandVersion + 1}, {0x1a, 9}, {0x1a, 1, 0x80},
		{0x1a, 3, 0xf8, 7, 1}, {0x1a, 2, 0x0a, 9}, {0x1a, 2, 0x2a, 0}, {0x1a, 5, 0x2a, 3, 0xf8, 7, 1},
	} {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := New(1)
		if _, err := m.Apply(mustMarshal(&fsmpb.Entry{Version: 1, AtMs: 9, Commands: []*fsmpb.Command{scheduleCommand("a", 5), advanceCommand(10)}}), true); err != nil {
			t.Fatal(err)
		}
		if _, err := m.Apply(data, true); err != nil {
			return
		}
		audit(t, m)
	})
}

// expectSome expects slots and those of snapshotTask.
func expectSome(move uint64, first, end uint32) *fsmpb.Command {
	slot := task.Slot("", "copy")
	ranges := []*fsmpb.SlotRange{{First: first, End: end}, {First: slot, End: slot + 1}}
	return &fsmpb.Command{Op: &fsmpb.Command_ExpectSlots{ExpectSlots: &fsmpb.ExpectSlots{Move: move, Ranges: ranges}}}
}

func snapshotTask() []byte {
	return mustMarshal(&fsmpb.SnapshotTask{
		Task: &fsmpb.Task{
			Id: "copy", State: fsmpb.State_STATE_FIRING, FireAtMs: 7, Revision: 4, Fence: 4, Occurrence: 2, Leased: true,
			Attempts: 1, History: []*fsmpb.Past{{Attempt: 1, Fence: 3, Error: "e"}}, Spec: &fsmpb.Spec{Payload: []byte("p")},
		},
		InWheel: true, WheelDueMs: 8, WheelSeq: 4, Order: 9, DelayMs: proto.Int64(1),
		Remembered: &fsmpb.Remembered{Keys: []*fsmpb.RememberedKey{{Key: &fsmpb.Key{Hash: 1, Call: 2}, Code: 1, Revision: 3}}},
	})
}

// A snapshot of any bytes is either restored to a state that passes the audit, or refused with the old state intact.
func FuzzRestore(f *testing.F) {
	m := New(1)
	applyBytes(f, m, mustMarshal(&fsmpb.Entry{Version: 1, AtMs: 9, Commands: []*fsmpb.Command{scheduleCommand("a", 5), advanceCommand(10), scheduleCommand("b", 99)}}))
	var whole bytes.Buffer
	snapshot := m.Snapshot()
	_, err := snapshot.WriteTo(&whole)
	assert.NoError(f, err)
	snapshot.Release()
	f.Add(whole.Bytes())
	f.Add(whole.Bytes()[:whole.Len()-3])
	f.Add(everyField(f))
	header := &fsmpb.SnapshotHeader{Version: 1, Shard: 1, Origin: 3}
	task := func(t *fsmpb.SnapshotTask) *fsmpb.SnapshotRecord {
		return &fsmpb.SnapshotRecord{Record: &fsmpb.SnapshotRecord_Task{Task: t}}
	}
	for _, records := range [][]byte{
		nil, {0xff, 0xff, 0xff, 0x7f}, {9}, {1, 0x80}, {3, 0xf8, 7, 1}, {2, 0x20, 1},
		framed(&fsmpb.SnapshotHeader{Version: 1, Shard: 2}),
		framed(&fsmpb.SnapshotHeader{Version: CommandVersion + 1, Shard: 1}),
		framed(&fsmpb.SnapshotHeader{Version: 1, Shard: 1, NowMs: -1}), framed(header, &fsmpb.SnapshotRecord{}),
		framed(header, task(&fsmpb.SnapshotTask{})), framed(header, task(&fsmpb.SnapshotTask{Task: &fsmpb.Task{Id: "a"}})),
		framed(header, task(&fsmpb.SnapshotTask{Task: &fsmpb.Task{Id: "a", Spec: &fsmpb.Spec{}, CreatedAtMs: -1}})),
		append(framed(header), 3, 0xf8, 7, 1), append(framed(header), 5, 0x12, 3, 0xf8, 7, 1),
		append(framed(header), 3, 0x12, 1, 0x80),
	} {
		f.Add(records)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		m := New(1)
		applyBytes(t, m, mustMarshal(&fsmpb.Entry{Version: 1, Commands: []*fsmpb.Command{scheduleCommand("kept", 5)}}))
		before := m.store.Hash()
		err := m.Restore(bytes.NewReader(data))
		if err != nil && m.store.Hash() != before {
			t.Fatalf("refused with %v, and the state is another", err)
		}
		audit(t, m)
	})
}

// framed returns the messages as in a snapshot, each preceded by its length.
func framed(messages ...message) []byte {
	var b []byte
	for _, m := range messages {
		data := mustMarshal(m)
		b = append(binary.AppendUvarint(b, uint64(len(data))), data...)
	}
	return b
}

// everyField returns the snapshot of a machine with a rule, an attempt, and a task that sets every field.
func everyField(tb testing.TB) []byte {
	tb.Helper()
	spec := &fsmpb.Spec{
		Queue: "q", Payload: []byte("p"), PayloadIsBytes: true, ContentType: "text/plain", ExpiresAfterMs: 9,
		Traceparent: "t",
		Target:      &fsmpb.Target{Url: "http://x/", Headers: []*fsmpb.Header{{Name: "a", Value: "b"}}, TimeoutMs: 5},
		Retry:       &fsmpb.Retry{MaxAttempts: 2, DelaysMs: []int64{1, 2}}, Labels: []*fsmpb.Label{{Name: "l", Value: "v"}},
	}
	m := New(1)
	applyBytes(tb, m, mustMarshal(&fsmpb.Entry{Version: 1, AtMs: 9, Commands: []*fsmpb.Command{
		{Op: &fsmpb.Command_SetRules{SetRules: &fsmpb.SetRules{Rules: []*fsmpb.QueueRule{{
			Namespace: "n", Queue: "q", Pushed: true, Held: true, AttemptTimeoutMs: 1, MaxAttempts: 2,
			KeepDoneMs: 3, KeepDeadMs: 4,
		}}}}},
		{Id: "a", Namespace: "n", Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
			Spec: spec, FireAtMs: 99, DelayMs: proto.Int64(90), ReceivedAtMs: 9, GeneratedId: true,
		}}},
		scheduleCommand("b", 5), advanceCommand(10),
	}}))
	var whole bytes.Buffer
	snapshot := m.Snapshot()
	defer snapshot.Release()
	_, err := snapshot.WriteTo(&whole)
	assert.NoError(tb, err)
	return whole.Bytes()
}

// A snapshot cut off anywhere is refused.
func TestTruncatedSnapshotIsRefused(t *testing.T) {
	m := New(1)
	applyBytes(t, m, mustMarshal(&fsmpb.Entry{Version: 1, AtMs: 9, Commands: []*fsmpb.Command{scheduleCommand("a", 5), scheduleCommand("b", 99)}}))
	var whole bytes.Buffer
	snapshot := m.Snapshot()
	_, err := snapshot.WriteTo(&whole)
	assert.NoError(t, err)
	snapshot.Release()
	for n := range whole.Len() {
		if err := New(1).Restore(bytes.NewReader(whole.Bytes()[:n])); err == nil {
			t.Fatalf("cut at byte %d of %d: restored", n, whole.Len())
		}
	}
	if err := New(2).Restore(&whole); err == nil {
		t.Fatal("a snapshot of another shard was restored")
	}
}

// A snapshot damaged in a few places is refused and leaves the state untouched, or restores the same state.
func TestDamagedSnapshotIsRefused(t *testing.T) { rapid.Check(t, damagedSnapshotIsRefused) }

func FuzzDamagedSnapshot(f *testing.F) {
	addRandom(f)
	f.Fuzz(rapid.MakeFuzz(damagedSnapshotIsRefused))
}

func damagedSnapshotIsRefused(t *rapid.T) {
	g := logGenerator{t: t, now: 1_700_000_000_000, m: New(3)}
	for range rapid.IntRange(1, 30).Draw(t, "entries") {
		g.learn(applyTo(t, g.m, g.entry(), true))
	}
	snapshot := g.m.Snapshot()
	defer snapshot.Release()
	var b bytes.Buffer
	_, err := snapshot.WriteTo(&b)
	assert.NoError(t, err)
	data := b.Bytes()
	for range rapid.IntRange(1, 4).Draw(t, "damages") {
		data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
	}
	m := New(3)
	applyTo(t, m, mustMarshal(&fsmpb.Entry{Version: 1, Commands: []*fsmpb.Command{scheduleCommand("kept", 5)}}), true)
	before := m.store.Hash()
	switch err := m.Restore(bytes.NewReader(data)); {
	case err != nil && m.store.Hash() != before:
		t.Fatalf("refused with %v, and the state is another", err)
	case err == nil && m.store.Hash() != g.m.store.Hash():
		t.Fatal("restored to other tasks")
	}
	audit(t, m)
}
