package control

import (
	"bytes"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup"
)

// formed returns the state of a cluster of two nodes with a queue.
func formed(tb testing.TB) *clusterpb.ControlState {
	tb.Helper()
	s := &clusterpb.ControlState{}
	voters := []raftgroup.Member{voter("a"), voter("b")}
	apply := func(e *clusterpb.ControlEntry) { s = applied(tb, s, e) }
	for range 100 {
		todo, err := lookAt(s, voters).next()
		assert.NoError(tb, err)
		if todo.what == "" {
			break
		}
		apply(todo.entry)
	}
	apply(register("a", 1, 1))
	apply(register("b", 3, 2))
	apply(setQueue(policy("q", 7)))
	return withCallers(s)
}

// withCallers adds a key, a namespace, one that is being deleted, and a bulk operation with a pinned page.
func withCallers(s *clusterpb.ControlState) *clusterpb.ControlState {
	s = proto.CloneOf(s)
	s.KeysInForce = true
	s.ApiKeys = []*clusterpb.ApiKey{{
		Id: "k", Secrets: []*clusterpb.KeySecret{{Hash: []byte("1")}},
		Grants: []*clusterpb.KeyGrant{{Role: clusterpb.KeyRole_KEY_ROLE_ADMIN, Namespace: "*"}, {Namespace: "old"}},
	}}
	s.Namespaces = []*clusterpb.Namespace{
		{Name: "old", State: clusterpb.NamespaceState_NAMESPACE_STATE_DELETING}, {Name: "shop"},
	}
	s.Bulks = []*clusterpb.BulkOperation{{
		Id: "bulk", Kind: clusterpb.BulkKind_BULK_KIND_CANCEL, Namespace: "shop", Matched: 1, Pages: 1,
		Pinned: []*clusterpb.BulkTask{{Id: "t"}},
	}}
	return s
}

func applied(tb testing.TB, s *clusterpb.ControlState, e *clusterpb.ControlEntry) *clusterpb.ControlState {
	tb.Helper()
	next, _, err := apply(s, marshal(tb, e))
	assert.NoError(tb, err)
	return next
}

func marshal(tb testing.TB, m proto.Message) []byte {
	tb.Helper()
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	assert.NoError(tb, err)
	return data
}

// FuzzControlApply applies any bytes as an entry. Every replica must reach the same valid state, or refuse the entry
// and keep its state. A reader's state must never change.
func FuzzControlApply(f *testing.F) {
	for _, e := range []*clusterpb.ControlEntry{
		register("c", 1, 2), register("a", 9, 3), register("", 1, 1), setQueue(policy("r", 1)), setQueue(policy("q", 2)),
		setQueue(&fsmpb.QueuePolicy{}), deleteQueue("q"), deleteQueue("none"), {Version: Version}, {Version: Version + 1},
		raise(Version).entry,
		{Op: &clusterpb.ControlEntry_Init{Init: &clusterpb.Init{ClusterId: "c", Slots: []*clusterpb.SlotRange{
			{First: 0, End: 10, Shard: 2}, {First: 10, End: task.Slots, Shard: 1}}}}},
		{Op: &clusterpb.ControlEntry_Place{Place: &clusterpb.Place{Shards: []*clusterpb.Shard{
			{Id: 1, Replicas: []string{"a", "b"}, Preferred: "a"}, {Id: 99, Replicas: []string{"a"}, Preferred: "a"}}}}},
		{Op: &clusterpb.ControlEntry_Register{}}, {Op: &clusterpb.ControlEntry_SetQueue{}},
		{Op: &clusterpb.ControlEntry_AddKey{AddKey: &clusterpb.AddKey{Key: &clusterpb.ApiKey{
			Id: "k2", Secrets: []*clusterpb.KeySecret{{Hash: []byte("2")}},
			Grants: []*clusterpb.KeyGrant{{Role: clusterpb.KeyRole_KEY_ROLE_READ, Namespace: "shop"}}}}}},
		{Op: &clusterpb.ControlEntry_RemoveKey{RemoveKey: &clusterpb.RemoveKey{Id: "k"}}},
		{Op: &clusterpb.ControlEntry_RotateKey{RotateKey: &clusterpb.RotateKey{Id: "k", Hash: []byte("3"), AtMs: 9}}},
		{Op: &clusterpb.ControlEntry_UseKeys{UseKeys: &clusterpb.UseKeys{Ids: []string{"k", "none"}, HourMs: 3_600_000}}},
		{Op: &clusterpb.ControlEntry_EnforceKeys{}},
		{Op: &clusterpb.ControlEntry_SetNamespace{SetNamespace: &clusterpb.SetNamespace{
			Namespace: &clusterpb.Namespace{Name: "town", Quotas: &clusterpb.Quotas{MaxQueues: 3}}}}},
		{Op: &clusterpb.ControlEntry_DeleteNamespace{DeleteNamespace: &clusterpb.DeleteNamespace{Name: "shop", Operation: "op"}}},
		{Op: &clusterpb.ControlEntry_EndNamespace{EndNamespace: &clusterpb.EndNamespace{Name: "old", AtMs: 5}}},
		beginBulk("op-2", "shop"),
		{Op: &clusterpb.ControlEntry_PinBulk{PinBulk: &clusterpb.PinBulk{Id: "bulk", Number: 2, Walked: true}}},
		{Op: &clusterpb.ControlEntry_CountBulk{CountBulk: &clusterpb.CountBulk{Id: "bulk", Number: 1,
			Outcomes: []*clusterpb.BulkCount{{Outcome: clusterpb.BulkOutcome_BULK_OUTCOME_GONE, Tasks: 1}}}}},
		setCalendar("shop", "holidays", "--12-25"), deleteCalendar("shop", "holidays"),
		{Op: &clusterpb.ControlEntry_StopBulk{StopBulk: &clusterpb.StopBulk{Id: "bulk", AtMs: 5}}},
	} {
		whole := marshal(f, e)
		f.Add(whole, true)
		f.Add(whole, false)
		f.Add(whole[:len(whole)/2], true)
	}
	whole := formed(f)
	f.Fuzz(func(t *testing.T, entry []byte, onFormed bool) {
		before := &clusterpb.ControlState{}
		if onFormed {
			before = whole
		}
		kept := proto.CloneOf(before)
		after, changed, err := apply(before, entry)
		again, changedAgain, errAgain := apply(proto.CloneOf(before), entry)
		if !proto.Equal(before, kept) {
			t.Fatal("the state that readers hold was changed")
		}
		if !proto.Equal(after, again) || !proto.Equal(changed, changedAgain) || (err == nil) != (errAgain == nil) {
			t.Fatalf("%v, %+v, %v on one replica, and %v, %+v, %v on another", after, changed, err, again, changedAgain, errAgain)
		}
		if err != nil && after != before {
			t.Fatalf("refused with %v, and the state is another", err)
		}
		inOrder(t, after)
	})
}

// inOrder checks that a state reached by entries satisfies the rules in ControlState's comments.
func inOrder(t *testing.T, s *clusterpb.ControlState) {
	t.Helper()
	for _, n := range s.Nodes {
		if Node(s, n.Id) != n || n.CommandVersion < s.CommandVersion {
			t.Errorf("node %v of %v", n, s)
		}
	}
	for i, shard := range s.Shards {
		if shard.Id != uint32(i)+1 || len(shard.Replicas) > 0 && !slices.Contains(shard.Replicas, shard.Preferred) {
			t.Errorf("shard %d: %v", i+1, shard)
		}
	}
	if next := uint32(0); len(s.Slots) > 0 {
		for _, r := range s.Slots {
			if r.First != next || r.End <= r.First || Shard(s, r.Shard) == nil {
				t.Errorf("slots %v", s.Slots)
			}
			next = r.End
		}
		assert.Equal(t, next, task.Slots, "slots end at")
	}
	for i, k := range s.ApiKeys {
		if Key(s, k.Id) != k || len(k.Grants) == 0 || len(k.Secrets) == 0 || !s.KeysInForce ||
			i > 0 && s.ApiKeys[i-1].Id >= k.Id {
			t.Errorf("key %v of %v", k, s.ApiKeys)
		}
	}
	for i, n := range s.Namespaces {
		if Namespace(s, n.Name) != n || i > 0 && s.Namespaces[i-1].Name >= n.Name {
			t.Errorf("namespace %v of %v", n, s.Namespaces)
		}
	}
	for i, q := range s.Queues {
		if at, found := findQueue(s, q.Namespace, q.Queue); at != i || !found || i > 0 && proto.Equal(q, s.Queues[i-1]) {
			t.Errorf("queue %d is found at %d", i, at)
		}
	}
}

// FuzzControlRestore restores any bytes as a snapshot, with or without a valid checksum. The state must survive another
// snapshot unchanged, or the bytes must be refused and the old state kept.
func FuzzControlRestore(f *testing.F) {
	body := marshal(f, formed(f))
	whole := sealed(body, 0)
	f.Add(body, true)
	f.Add([]byte{}, true)
	f.Add(body[:len(body)-3], true)
	f.Add([]byte("\x1a\x00\x22\x00\x2a\x00\x32\x00"), true) // empty nodes, slots, shards, queues
	f.Add([]byte("\x18\x01\xf8\x07\x01"), true)             // another type, and an unknown field
	for _, data := range [][]byte{whole, whole[:len(whole)-1], whole[:snapshotHeaderBytes], whole[:5], body, {}} {
		f.Add(data, false)
	}
	f.Fuzz(func(t *testing.T, data []byte, seal bool) {
		if seal {
			data = sealed(data, 0)
		}
		m := newMachine()
		if _, err := m.Apply(entry(1, marshal(t, setQueue(policy("kept", 1))))); err != nil {
			t.Fatal(err)
		}
		before, changed := m.watch()
		err := m.Restore(bytes.NewReader(data))
		after, _ := m.watch()
		if err != nil {
			select {
			case <-changed:
				t.Fatalf("refused with %v, and readers are told of a change", err)
			default:
			}
			assert.MustEqual(t, after, before, "refused with %v, and the state is another", err)
			return
		}
		<-changed
		var out bytes.Buffer
		if _, err := (snapshot{after}).WriteTo(&out); err != nil {
			t.Fatal(err)
		}
		again := newMachine()
		assert.NoError(t, again.Restore(&out))
		if restored, _ := again.watch(); !proto.Equal(restored, after) {
			t.Fatalf("%v became %v", after, restored)
		}
		if _, err := again.Apply(entry(2, marshal(t, register("z", 1, 1)))); err != nil { // the answer may be a refusal
			t.Error(err)
		}
	})
}

// A truncated snapshot, or one with a wrong byte, is refused.
func TestDamagedSnapshotIsRefused(t *testing.T) {
	whole := sealed(marshal(t, formed(t)), 0)
	restore := func(data []byte) error {
		return newMachine().Restore(bytes.NewReader(data))
	}
	assert.NoError(t, restore(whole))
	for n := range whole {
		if restore(whole[:n]) == nil {
			t.Errorf("cut at byte %d of %d: restored", n, len(whole))
		}
		wrong := bytes.Clone(whole)
		wrong[n] ^= 0x10
		assert.Error(t, restore(wrong), "with a wrong byte at %d: restored", n)
	}
	assert.Error(t, restore(append(bytes.Clone(whole), 0x18)), "with a byte too much: restored")
}
