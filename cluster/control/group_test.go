package control

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup"
	"github.com/belfryhq/belfry/raftgroup/logstore"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
)

// replica opens a replica on an in-memory transport, connected to the others' transports.
func replica(t *testing.T, dir, id string, existing bool, bootstrap []string,
	others ...*raft.InmemTransport) (*Group, *raft.InmemTransport) {
	t.Helper()
	return replicaWith(t, dir, id, existing, bootstrap, idleShards{}, others...)
}

// idleShards are shards that get no call.
type idleShards struct{ Shards }

func (idleShards) Up(string) bool { return true }

func (idleShards) Faults(context.Context) []Fault { return nil }

func (idleShards) Commands(context.Context) map[uint32]uint64 { return nil }

// single opens a group of one replica that moves shards, and waits until they are placed on it.
func single(t *testing.T, shards Shards) *Group {
	t.Helper()
	g, _ := replicaWith(t, t.TempDir(), "a", false, []string{"a"}, shards)
	t.Cleanup(func() { closeGroup(t, g) })
	until(t, g, "placed", placed)
	assert.NoError(t, g.Register(t.Context(), &clusterpb.Node{Id: "a", CommandVersion: Version, Boot: 1}))
	return g
}

func replicaWith(t *testing.T, dir, id string, existing bool, bootstrap []string, shards Shards,
	others ...*raft.InmemTransport) (*Group, *raft.InmemTransport) {
	t.Helper()
	_, tr := raft.NewInmemTransport(raft.ServerAddress(id))
	for _, o := range others {
		tr.Connect(o.LocalAddr(), o)
		o.Connect(tr.LocalAddr(), tr)
	}
	fatal := func(err error) { t.Error(err) }
	disk, err := OpenDisk(raftdisk.Config{
		Dir: filepath.Join(dir, id), Existing: existing, Fatal: fatal, Logger: slog.New(slog.DiscardHandler),
	})
	assert.NoError(t, err)
	slots, _ := shards.(Slots)
	g, err := Open(Config{
		NodeID: id, Bootstrap: bootstrap, Plan: plan, Storage: disk, Transport: tr, Heartbeat: 150 * time.Millisecond,
		Shards: shards, Slots: slots, Fatal: fatal,
	})
	assert.NoError(t, err)
	return g, tr
}

// asking returns the change by which a node asks for an entry.
func asking(e *clusterpb.ControlEntry) *clusterpb.ControlChange {
	return &clusterpb.ControlChange{Entry: e}
}

func closeGroup(t *testing.T, g *Group) {
	t.Helper()
	assert.Equal(t, g.Close(), nil)
}

// until waits for a state that satisfies the condition. It runs in a bubble, as every test of a group does.
func until(t *testing.T, g *Group, what string, ok func(*clusterpb.ControlState) bool) {
	t.Helper()
	timeout := time.After(10 * time.Second) // of the bubble's clock
	for {
		state, changed := g.Watch()
		if ok(state) {
			return
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("%s: not within ten seconds; the state is %v", what, state)
		}
	}
}

func placed(s *clusterpb.ControlState) bool {
	return len(s.Shards) == 12 && len(s.Shards[11].Replicas) > 0
}

func TestLaterNodeReadsTheStateAsANonVoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		voter, tr := replica(t, dir, "a", false, []string{"a"})
		defer closeGroup(t, voter)
		until(t, voter, "placed", placed)
		joiner, _ := replica(t, dir, "b", false, nil, tr)
		defer closeGroup(t, joiner)

		var notLeader *task.NotLeaderError
		node := &clusterpb.Node{Id: "b", PeerAddr: "b:1", CommandVersion: 1, Boot: 1}
		if err := joiner.Register(t.Context(), node); !errors.As(err, &notLeader) {
			t.Fatalf("registered by itself: %v", err)
		}
		assert.NoError(t, voter.Register(t.Context(), node))
		until(t, joiner, "readable at the joiner", func(s *clusterpb.ControlState) bool {
			return placed(s) && Node(s, "b") != nil
		})
		servers := voter.group.Members()
		if len(servers) != 2 || servers[1] != (raftgroup.Member{NodeID: "b"}) {
			t.Fatalf("servers %v", servers)
		}
	})
}

func TestGroupOutlivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		g, _ := replica(t, dir, "a", false, []string{"a"})
		until(t, g, "placed", placed)
		before := g.State().ClusterId
		closeGroup(t, g)
		again, _ := replica(t, dir, "a", true, nil)
		defer closeGroup(t, again)
		until(t, again, "still placed", placed)
		if again.State().ClusterId != before {
			t.Fatalf("cluster %s became %s", before, again.State().ClusterId)
		}
	})
}

func TestPoliciesThroughTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		leader, tr := replica(t, dir, "a", false, []string{"a"})
		defer closeGroup(t, leader)
		until(t, leader, "placed", placed)
		other, _ := replica(t, dir, "b", false, nil, tr)
		defer closeGroup(t, other)
		assert.NoError(t, leader.Register(t.Context(), &clusterpb.Node{Id: "b", CommandVersion: 1}))
		ctx, given := t.Context(), &fsmpb.QueuePolicy{MaxInFlight: 3, Version: 99}
		for i := range 2 {
			got, err := leader.Change(ctx, asking(setQueue(given)))
			if err != nil || got.Existed != (i > 0) || got.QueuesVersion != 1 || got.Index == 0 {
				t.Errorf("set, time %d: %v, %v", i+1, got, err)
			}
		}
		if given.Namespace != "" || given.Version != 99 {
			t.Errorf("the caller's policy is %v", given)
		}
		until(t, other, "the policy is known", func(s *clusterpb.ControlState) bool {
			return s.QueuesVersion == 1 && Queue(s, "", "").GetMaxInFlight() == 3 && Queue(s, "", "").Version == 1
		})
		var notLeader *task.NotLeaderError
		if _, err := other.Change(ctx, asking(setQueue(given))); !errors.As(err, &notLeader) || notLeader.Leader != "a" {
			t.Errorf("set at a follower: %v", err)
		}
		if _, err := other.Change(ctx, asking(deleteQueue("default"))); !errors.As(err, &notLeader) {
			t.Errorf("deleted at a follower: %v", err)
		}
		var field *task.FieldError
		if _, err := leader.Change(ctx, asking(setQueue(&fsmpb.QueuePolicy{Queue: "not a name"}))); !errors.As(err, &field) {
			t.Errorf("a name that is none: %v", err)
		}
		for i := range 2 {
			got, err := leader.Change(ctx, asking(deleteQueue("")))
			if err != nil || got.Existed != (i == 0) || got.QueuesVersion != 2 {
				t.Errorf("deleted, time %d: %v, %v", i+1, got, err)
			}
		}
	})
}

func TestWipedFolderIsNoticed(t *testing.T) {
	_, err := OpenDisk(raftdisk.Config{
		Dir: t.TempDir(), Existing: true, Fatal: func(error) {}, Logger: slog.New(slog.DiscardHandler),
	})
	if !errors.Is(err, logstore.ErrLostLog) {
		t.Fatal("a replica that forgot its vote was opened")
	}
}

func TestLeadershipMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, ids := t.TempDir(), []string{"a", "b", "c"}
		a, ta := replica(t, dir, "a", false, ids)
		b, tb := replica(t, dir, "b", false, nil, ta)
		c, _ := replica(t, dir, "c", false, nil, ta, tb)
		groups := map[string]*Group{"a": a, "b": b, "c": c}
		until(t, c, "placed", placed)
		leader, _ := c.Leader()
		if groups[leader] == nil {
			t.Fatalf("led by %q", leader)
		}
		closeGroup(t, groups[leader])
		delete(groups, leader)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		node := &clusterpb.Node{Id: "z", CommandVersion: 1}
		for registered := false; !registered && ctx.Err() == nil; {
			time.Sleep(10 * time.Millisecond) // of the bubble's clock
			for _, g := range groups {
				registered = registered || g.Register(ctx, node) == nil
			}
		}
		for _, g := range groups {
			until(t, g, "registered", func(s *clusterpb.ControlState) bool { return Node(s, "z") != nil })
			defer closeGroup(t, g)
		}
	})
}
