package fsm

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Whatever the bytes of an entry are: refused whole, or applied to a state that still passes the audit.
func FuzzApply(f *testing.F) {
	for _, entry := range []*fsmpb.Entry{
		{Version: 1, AtMs: 9, Commands: []*fsmpb.Command{scheduleCommand("a", 5), advanceCommand(10)}},
		{Version: 1, Commands: []*fsmpb.Command{{Id: "a", Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{Fence: 3, Occurrence: 1, Verdict: 4}}}}},
		{Version: 1, Commands: []*fsmpb.Command{{Id: "a", Op: &fsmpb.Command_Patch{Patch: &fsmpb.Patch{ClearTarget: true}}}}},
		{Version: 1, Commands: []*fsmpb.Command{{Id: "a", Op: &fsmpb.Command_Replay{Replay: &fsmpb.Replay{}}}, {Id: "a", Op: &fsmpb.Command_Drop{Drop: &fsmpb.Drop{}}}}},
		{Version: 1, Commands: []*fsmpb.Command{{Id: "a", Op: &fsmpb.Command_Extend{Extend: &fsmpb.Extend{Fence: 3, Occurrence: 1, LeaseMs: 1 << 62}}}}},
		{Version: 1, Commands: []*fsmpb.Command{
			{Op: &fsmpb.Command_SetRules{SetRules: &fsmpb.SetRules{Rules: []*fsmpb.QueueRule{{Queue: "q", Pushed: true, KeepDoneMs: -1}, {Queue: "q"}}}}},
			{Id: "b", Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{FireAtMs: 3}}},
			advanceCommand(12),
			{Op: &fsmpb.Command_Grant{Grant: &fsmpb.Grant{Max: 2, LeaseMs: 5, Tag: 1}}},
			{Id: "b", Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{Fence: 8, Occurrence: 4, Verdict: 2, Consumer: true}}},
		}},
		// A command without an id was carried out, and made a task that no call can name.
		{Version: 1, Commands: []*fsmpb.Command{{Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{FireAtMs: 3}}}}},
	} {
		data, err := proto.Marshal(entry)
		if err != nil {
			f.Fatal(err)
		}
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

// Whatever the bytes of a snapshot are: restored to a state that passes the audit, or refused with the old one intact.
func FuzzRestore(f *testing.F) {
	m := New(1)
	applyBytes(f, m, mustMarshal(&fsmpb.Entry{Version: 1, AtMs: 9, Commands: []*fsmpb.Command{scheduleCommand("a", 5), advanceCommand(10), scheduleCommand("b", 99)}}))
	var whole bytes.Buffer
	snapshot := m.Snapshot()
	if _, err := snapshot.WriteTo(&whole); err != nil {
		f.Fatal(err)
	}
	snapshot.Release()
	f.Add(whole.Bytes())
	f.Add(whole.Bytes()[:whole.Len()-3])
	f.Fuzz(func(t *testing.T, data []byte) {
		m := New(1)
		applyBytes(t, m, mustMarshal(&fsmpb.Entry{Version: 1, Commands: []*fsmpb.Command{scheduleCommand("kept", 5)}}))
		before := m.hash()
		err := m.Restore(bytes.NewReader(data))
		if err != nil && m.hash() != before {
			t.Fatalf("refused with %v, and the state is another", err)
		}
		audit(t, m)
	})
}

// A snapshot cut off anywhere is refused.
func TestTruncatedSnapshotIsRefused(t *testing.T) {
	m := New(1)
	applyBytes(t, m, mustMarshal(&fsmpb.Entry{Version: 1, AtMs: 9, Commands: []*fsmpb.Command{scheduleCommand("a", 5), scheduleCommand("b", 99)}}))
	var whole bytes.Buffer
	snapshot := m.Snapshot()
	if _, err := snapshot.WriteTo(&whole); err != nil {
		t.Fatal(err)
	}
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

// A snapshot of any state, damaged in a few places, is refused and leaves the state as it was, or says the same.
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
	if _, err := snapshot.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	data := b.Bytes()
	for range rapid.IntRange(1, 4).Draw(t, "damages") {
		data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
	}
	m := New(3)
	applyTo(t, m, mustMarshal(&fsmpb.Entry{Version: 1, Commands: []*fsmpb.Command{scheduleCommand("kept", 5)}}), true)
	before := m.hash()
	switch err := m.Restore(bytes.NewReader(data)); {
	case err != nil && m.hash() != before:
		t.Fatalf("refused with %v, and the state is another", err)
	case err == nil && m.state.sum != g.m.state.sum:
		t.Fatal("restored to other tasks")
	}
	audit(t, m)
}
