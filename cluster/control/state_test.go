package control

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup"
)

func voter(id string) raftgroup.Member { return raftgroup.Member{NodeID: id, Voter: true} }

var plan = Plan{ClusterID: "cluster123456789", Shards: 12, Replication: 3}

func mustApply(t *testing.T, s *clusterpb.ControlState, e *clusterpb.ControlEntry) *clusterpb.ControlState {
	t.Helper()
	e.Version = versionOf(e)
	data, err := proto.Marshal(e)
	assert.NoError(t, err)
	before := proto.CloneOf(s)
	next, _, err := apply(s, data)
	if !proto.Equal(before, s) {
		t.Fatalf("the state that readers hold was changed by %v", e)
	}
	assert.NoError(t, err, "%v", e)
	return next
}

func register(id string, boot uint64, version uint32) *clusterpb.ControlEntry {
	node := &clusterpb.Node{Id: id, Boot: boot, CommandVersion: version, PeerAddr: fmt.Sprintf("%s:%d", id, boot)}
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Register{
		Register: &clusterpb.Register{Node: node}}}
}

// lookAt returns the look of a reconciler on node "a". All registered nodes have been up for long.
func lookAt(s *clusterpb.ControlState, servers []raftgroup.Member) look {
	long := func(string) reshape.Sight { return reshape.Sight{Up: true, For: time.Hour} }
	return look{
		state: s, group: raftgroup.Membership{Members: servers}, nodes: reshape.Nodes(s, long, reshape.Limits{}), self: "a",
		caughtUp: func(string) bool { return true }, plan: plan, now: time.UnixMilli(1),
		balanced: func([]placement.Node) *clusterpb.Retarget { return nil },
	}
}

// changed returns the members after a change.
func changed(t *testing.T, servers []raftgroup.Member, c raftgroup.MemberChange) []raftgroup.Member {
	t.Helper()
	id := c.AddNonvoter + c.AddVoter + c.Demote + c.Remove
	at := slices.IndexFunc(servers, func(m raftgroup.Member) bool { return m.NodeID == id })
	servers = slices.Clone(servers)
	switch {
	case (at < 0) != (c.AddNonvoter != ""):
		t.Fatalf("%+v of %v", c, servers)
	case at < 0:
		return append(servers, raftgroup.Member{NodeID: id})
	case c.Remove != "":
		return slices.Delete(servers, at, at+1)
	}
	servers[at].Voter = c.AddVoter != ""
	return servers
}

// settle takes every step twice, as after a crash or a change of leader, until none is left.
func settle(t *testing.T, s *clusterpb.ControlState, servers []raftgroup.Member) (*clusterpb.ControlState, []raftgroup.Member) {
	for range 100 {
		todo, err := lookAt(s, servers).next()
		assert.NoError(t, err)
		if todo.what == "" {
			return s, servers
		}
		if todo.entry == nil {
			servers = changed(t, servers, todo.change)
			continue
		}
		s = mustApply(t, s, todo.entry)
		if again := mustApply(t, s, todo.entry); !proto.Equal(s, again) {
			t.Fatalf("%s, twice: %v then %v", todo.what, s, again)
		}
	}
	t.Fatal("the reconciler does not come to an end")
	return nil, nil
}

// The shards of a new cluster are spread over the zones of its nodes, which register first.
func TestReconcilerSpreadsOverZones(t *testing.T) {
	voters := []raftgroup.Member{voter("a"), voter("b"), voter("c"), voter("d")}
	first, err := lookAt(&clusterpb.ControlState{}, voters).next()
	assert.NoError(t, err)
	s := mustApply(t, &clusterpb.ControlState{}, first.entry)
	zones := map[string]string{"a": "x", "b": "x", "c": "y", "d": "z"}
	for id, zone := range zones {
		fresh := lookAt(s, voters)
		fresh.fresh = true
		if next, err := fresh.next(); err != nil || !next.halts {
			t.Errorf("before %s has registered: %+v, %v", id, next, err)
		}
		entry := register(id, 1, 1)
		entry.GetRegister().Node.Zone, entry.GetRegister().Node.Weight = zone, 10
		s = mustApply(t, s, entry)
	}
	s, _ = settle(t, s, voters)
	for _, shard := range s.Shards {
		in := make(map[string]bool)
		for _, n := range shard.Replicas {
			in[zones[n]] = true
		}
		if len(in) != 3 || len(shard.Replicas) != 3 {
			t.Errorf("shard %d is on %v", shard.Id, shard.Replicas)
		}
	}
}

func TestReconcilerFormsACluster(t *testing.T) {
	voters := []raftgroup.Member{voter("c"), voter("a"), voter("b")}
	s, servers := settle(t, &clusterpb.ControlState{}, voters)
	if s.ClusterId != plan.ClusterID || len(s.Shards) != 12 || len(s.Slots) != 12 {
		t.Fatalf("formed %v", s)
	}
	for _, shard := range s.Shards {
		if !slices.Equal(shard.Replicas, []string{"a", "b", "c"}) {
			t.Fatalf("shard %v", shard)
		}
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		s = mustApply(t, s, register(id, 1, 1))
	}
	if _, servers = settle(t, s, servers); len(servers) != 4 || servers[3] != (raftgroup.Member{NodeID: "d"}) {
		t.Fatalf("servers %v", servers)
	}
}

func TestRegistrations(t *testing.T) {
	s, _ := settle(t, &clusterpb.ControlState{}, []raftgroup.Member{voter("a")})
	s = mustApply(t, s, register("b", 3, 2))
	s = mustApply(t, s, register("a", 1, 3))
	if s.CommandVersion != 2 || s.Nodes[0].Id != "a" || s.Nodes[1].Id != "b" {
		t.Fatalf("registered %v", s)
	}
	s = mustApply(t, s, register("b", 2, 2)) // late: from an earlier start
	assert.Equal(t, Node(s, "b").Boot, 3, "an earlier start replaced a later one")
	s = mustApply(t, s, register("b", 4, 3))
	if s.CommandVersion != 3 || Node(s, "b").PeerAddr != "b:4" {
		t.Errorf("after a new start: %v", s)
	}
	data, err := proto.Marshal(register("c", 1, 2))
	assert.NoError(t, err)
	if same, _, err := apply(s, data); !errors.Is(err, ErrRefused) || !proto.Equal(same, s) {
		t.Errorf("a node that cannot read the log was let in: %v", err)
	}
}

func TestBrokenEntriesAreRefused(t *testing.T) {
	entries := map[string]*clusterpb.ControlEntry{
		"gap": {Op: &clusterpb.ControlEntry_Init{Init: &clusterpb.Init{ClusterId: "c", Slots: []*clusterpb.SlotRange{
			{First: 0, End: 10, Shard: 1}, {First: 11, End: 4096, Shard: 2}}}}},
		"short": {Op: &clusterpb.ControlEntry_Init{Init: &clusterpb.Init{ClusterId: "c", Slots: []*clusterpb.SlotRange{
			{First: 0, End: 10, Shard: 1}}}}},
		"numbers": {Op: &clusterpb.ControlEntry_Init{Init: &clusterpb.Init{ClusterId: "c", Slots: []*clusterpb.SlotRange{
			{First: 0, End: 4096, Shard: 2}}}}},
		"early":   register("a", 1, 1),
		"unknown": {Op: &clusterpb.ControlEntry_Place{Place: &clusterpb.Place{Shards: []*clusterpb.Shard{{Id: 1}}}}},
	}
	for name, e := range entries {
		data, err := proto.Marshal(e)
		assert.NoError(t, err)
		if _, _, err := apply(&clusterpb.ControlState{}, data); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestUnreadableEntryStopsTheGroup(t *testing.T) {
	newer, err := proto.Marshal(&clusterpb.ControlEntry{Version: Version + 1})
	assert.NoError(t, err)
	for name, data := range map[string][]byte{"newer": newer, "no operation": {}, "garbage": {0xff, 0xff}} {
		if answer, err := newMachine().Apply(entry(7, data)); !isUnreadable(err) {
			t.Errorf("%s: %v, %v", name, answer, err)
		}
	}
}

func entry(index uint64, data []byte) raftgroup.Entry {
	return raftgroup.Entry{Index: index, Data: data, Command: true}
}

func anyEntry(t *rapid.T) *clusterpb.ControlEntry {
	queue := rapid.StringMatching("[a-d]").Draw(t, "queue")
	switch rapid.SampledFrom([]string{"register", "set", "delete"}).Draw(t, "op") {
	case "set":
		return setQueue(policy(queue, rapid.Uint32Range(0, 2).Draw(t, "limit")))
	case "delete":
		return deleteQueue(queue)
	default:
		return register(rapid.StringMatching("[a-f]").Draw(t, "node"), rapid.Uint64Range(1, 5).Draw(t, "boot"),
			rapid.Uint32Range(1, 3).Draw(t, "version"))
	}
}

// Two replicas of one log are equal, also if one of them began from a snapshot at any index.
func TestReplicasAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		one := newMachine()
		two := newMachine()
		voters := []raftgroup.Member{voter("a"), voter("b"), voter("c")}
		steps := rapid.IntRange(1, 30).Draw(t, "steps")
		at := rapid.IntRange(0, steps-1).Draw(t, "snapshot")
		for i := range steps {
			state, _ := one.watch()
			todo, err := lookAt(state, voters).next()
			op := todo.entry
			if err != nil || op == nil {
				op = anyEntry(t)
			}
			data, err := proto.Marshal(op)
			assert.NoError(t, err)
			a, errA := one.Apply(entry(uint64(i+1), data))
			b, errB := two.Apply(entry(uint64(i+1), data))
			if errA != nil || errB != nil || fmt.Sprint(a) != fmt.Sprint(b) {
				t.Fatalf("answers %v, %v and %v, %v", a, errA, b, errB)
			}
			if i == at {
				two = restored(t, one)
			}
		}
		a, _ := one.watch()
		b, _ := two.watch()
		if !proto.Equal(a, b) {
			t.Fatalf("%v and %v", a, b)
		}
	})
}

func restored(t *rapid.T, from *machine) *machine {
	snap, err := from.Snapshot()
	assert.NoError(t, err)
	var out bytes.Buffer
	if _, err := snap.WriteTo(&out); err != nil {
		t.Fatal(err)
	}
	m := newMachine()
	assert.NoError(t, m.Restore(&out))
	return m
}
