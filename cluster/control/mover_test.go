package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup"
)

// groups are the shards' groups of a test. A third of the calls fail: one half of these take effect all the same.
type groups struct {
	mu      sync.Mutex
	random  *rand.Rand
	state   func() *clusterpb.ControlState
	members map[uint32]*clusterpb.Membership
	errs    []error // breaches of the order of steps
	unaimed bool    // no node seems up, so the reconciler sets no targets
}

var errLost = errors.New("the answer is lost")

func (g *groups) Members(
	_ context.Context, shard uint32, ask *clusterpb.MembersCall,
) (*clusterpb.Membership, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	fate := g.random.IntN(6)
	if fate == 0 {
		return nil, errLost
	}
	now := g.group(shard)
	if ask.Change != nil {
		if !sameMembers(now, ask.Seen) {
			return nil, raftgroup.ErrUnfit
		}
		now = proto.CloneOf(now)
		g.change(shard, now, ask)
		g.members[shard] = now
	}
	if fate == 1 {
		return nil, errLost
	}
	return now, nil
}

// group returns a shard's group, which begins with the nodes on which the shard was placed.
func (g *groups) group(shard uint32) *clusterpb.Membership {
	if g.members[shard] == nil {
		first := Shard(g.state(), shard).Replicas
		g.members[shard] = &clusterpb.Membership{Term: 1, Leader: first[0]}
		for _, node := range first {
			g.members[shard].Members = append(g.members[shard].Members, &clusterpb.Member{Node: node, Voter: true})
		}
	}
	return g.members[shard]
}

func sameMembers(a, b *clusterpb.Membership) bool {
	return a.Term == b.Term && slices.EqualFunc(a.Members, b.Members, func(x, y *clusterpb.Member) bool {
		return x.Node == y.Node && x.Voter == y.Voter
	})
}

func (g *groups) change(shard uint32, now *clusterpb.Membership, ask *clusterpb.MembersCall) {
	is := func(id string) func(*clusterpb.Member) bool {
		return func(m *clusterpb.Member) bool { return m.Node == id }
	}
	switch c := ask.Change.(type) {
	case *clusterpb.MembersCall_AddNonvoter:
		if !slices.Contains(Shard(g.state(), shard).Replicas, c.AddNonvoter) {
			g.errs = append(g.errs, fmt.Errorf("shard %d: node %s joins without a replica", shard, c.AddNonvoter))
		}
		now.Members = append(now.Members, &clusterpb.Member{Node: c.AddNonvoter})
	case *clusterpb.MembersCall_AddVoter:
		now.Members[slices.IndexFunc(now.Members, is(c.AddVoter))].Voter = true
	case *clusterpb.MembersCall_Remove:
		if len(now.Members) <= 3 {
			g.errs = append(g.errs, fmt.Errorf("shard %d: node %s is removed from %v", shard, c.Remove, now))
		}
		now.Members = slices.DeleteFunc(now.Members, is(c.Remove))
	case *clusterpb.MembersCall_Transfer:
		now.Term, now.Leader = now.Term+1, c.Transfer
	}
}

// takeVote takes a node's vote, and gives the leadership to another node.
func (g *groups) takeVote(shard uint32, node, leader string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := proto.CloneOf(g.members[shard])
	now.Leader = leader
	for _, m := range now.Members {
		m.Voter = m.Voter && m.Node != node
	}
	g.members[shard] = now
}

func (g *groups) Applied(_ context.Context, node string, shard uint32, _ uint64) (uint64, error) {
	if Shard(g.state(), shard) == nil || !slices.Contains(Shard(g.state(), shard).Replicas, node) {
		return 0, fmt.Errorf("node %s has no replica of shard %d", node, shard)
	}
	return 100, nil
}

func (g *groups) Leader(shard uint32) string { return g.group(shard).Leader }

func (g *groups) Fit(uint32, string) bool { return true }

func (g *groups) Up(string) bool { return !g.unaimed }

func (g *groups) Faults(context.Context) []Fault { return nil }

func (g *groups) Commands(context.Context) map[uint32]uint64 { return nil }

func (g *groups) Census(context.Context) Census { return Census{} }

// TestShardsMoveToTheirTargets moves every shard from the nodes a, b, c to d, e, f, while a third of the calls fail and the
// target of one shard changes on the way. A first replica of another one gets its vote back before.
func TestShardsMoveToTheirTargets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shards := &groups{unaimed: true, random: rand.New(rand.NewPCG(1, 14)), members: make(map[uint32]*clusterpb.Membership)}
		g := single(t, shards)
		shards.mu.Lock()
		shards.state = g.State
		shards.mu.Unlock()
		for _, id := range []string{"b", "c", "d", "e", "f"} {
			assert.NoError(t, g.Register(t.Context(), &clusterpb.Node{Id: id, CommandVersion: Version, Boot: 1}))
		}
		retarget := func(target []string, ids ...uint32) {
			op := &clusterpb.Retarget{}
			for _, id := range ids {
				op.Shards = append(op.Shards, &clusterpb.Shard{Id: id, Target: target, Preferred: target[0]})
			}
			entry := &clusterpb.ControlEntry{Version: Version, Op: &clusterpb.ControlEntry_Retarget{Retarget: op}}
			_, err := g.propose(t.Context(), entry)
			assert.NoError(t, err)
		}
		all := []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
		retarget([]string{"a", "b", "c"}, all...)
		until(t, g, "three replicas each", func(s *clusterpb.ControlState) bool { return settled(s, []string{"a", "b", "c"}) })
		shards.takeVote(7, "a", "b") // a has one of the first replicas, and comes back to the group with the same folder
		retarget([]string{"a", "b", "d"}, 7)
		until(t, g, "a votes again", func(s *clusterpb.ControlState) bool {
			return slices.Equal(Shard(s, 7).Replicas, []string{"a", "b", "d"}) && len(Shard(s, 7).Target) == 0
		})
		retarget([]string{"b", "c", "d"}, 5)
		retarget([]string{"d", "e", "f"}, all...)
		until(t, g, "moved", func(s *clusterpb.ControlState) bool { return settled(s, []string{"d", "e", "f"}) })
		shards.mu.Lock()
		defer shards.mu.Unlock()
		for _, err := range shards.errs {
			t.Error(err)
		}
		for id, group := range shards.members {
			for _, m := range group.Members {
				if !m.Voter || m.Node < "d" {
					t.Errorf("shard %d ends with %v", id, group)
				}
			}
		}
	})
}

func settled(s *clusterpb.ControlState, nodes []string) bool {
	return !slices.ContainsFunc(s.Shards, func(one *clusterpb.Shard) bool {
		return len(one.Target) > 0 || !slices.Equal(one.Replicas, nodes)
	})
}

// oneLife is a node whose replica joined at a revision.
type oneLife struct {
	*groups
	joined uint64
}

func (l oneLife) Applied(_ context.Context, _ string, _ uint32, joined uint64) (uint64, error) {
	if joined != l.joined {
		return 0, errors.New("another replica runs")
	}
	return 100, nil
}

// TestEarlierReplicaGetsNoVote checks that a replica does not become a voter while its node runs the earlier replica that
// was removed: the node is going to delete it.
func TestEarlierReplicaGetsNoVote(t *testing.T) {
	record := &clusterpb.Shard{Id: 3, Joined: map[string]uint64{"d": 7}}
	group := &clusterpb.Membership{Members: []*clusterpb.Member{{Node: "d"}}, Committed: 50}
	for joined, want := range map[uint64]bool{5: false, 7: true} {
		m := NewMover(nil, oneLife{joined: joined}, slog.New(slog.DiscardHandler))
		m.caughtUp(t.Context(), record, "d", group)
		if got := m.caughtUp(t.Context(), record, "d", group); got != want {
			t.Errorf("the replica that joined at %d runs: caught up %v", joined, got)
		}
	}
}

// A shard is stuck for as long as it has waited for one reason. A wait for its turn does not count, and neither does
// one whose reason changes.
func TestStuckShards(t *testing.T) {
	const turn, silent = clusterpb.MoveWait_MOVE_WAIT_TURN, clusterpb.MoveWait_MOVE_WAIT_NODE_SILENT
	synctest.Test(t, func(t *testing.T) {
		m := NewMover(nil, nil, slog.New(slog.DiscardHandler))
		for second := range 10 {
			m.note(1, reshape.Wait{Class: silent, Reason: "node b is away"}, "")
			m.note(2, reshape.Wait{Class: turn, Reason: "4 copies are under way"}, "")
			m.note(3, reshape.Wait{Class: silent, Reason: fmt.Sprintf("it lacks %d entries", 90-second)}, "")
			m.note(4, reshape.Wait{}, "join")
			time.Sleep(time.Second)
		}
		var shape clusterpb.Shape
		m.fill(&shape)
		want := map[uint32]int64{1: 10_000, 3: 1_000}
		if len(shape.Shards) != 3 || shape.Shards[2] == "" || !maps.Equal(shape.StuckMs, want) {
			t.Errorf("waiting %v, stuck for %v, want %v", shape.Shards, shape.StuckMs, want)
		}
		if steps := m.taken(); !maps.Equal(steps, map[uint32]string{4: "join"}) {
			t.Errorf("steps under way: %v", steps)
		}
		if classes := map[uint32]clusterpb.MoveWait{1: silent, 2: turn, 3: silent}; !maps.Equal(shape.WaitsFor, classes) {
			t.Errorf("waits for %v, want %v", shape.WaitsFor, classes)
		}
		m.note(1, reshape.Wait{}, "place")
		if m.fill(&shape); shape.Shards[1] != "" || shape.WaitsFor[1] != 0 {
			t.Errorf("it goes on, and waits: %s", shape.Shards[1])
		}
	})
}
