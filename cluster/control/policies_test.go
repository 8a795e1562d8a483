package control

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
	"github.com/belfryhq/belfry/shard"
)

// boot is the number of the present start of the node in these tests.
const boot = 2

// controlled returns the policies of a node with a control group of its own and no shards.
func controlled(t *testing.T) (*Policies, *Group) {
	t.Helper()
	_, transport := raft.NewInmemTransport("a")
	fatal := func(err error) { t.Error(err) }
	disk, err := OpenDisk(raftdisk.Config{Dir: t.TempDir(), Fatal: fatal, Logger: slog.New(slog.DiscardHandler)})
	assert.NoError(t, err)
	g, err := Open(Config{
		NodeID: "a", Bootstrap: []string{"a"}, Storage: disk, Transport: transport,
		Plan: Plan{ClusterID: "c", Shards: 1, Replication: 1}, Heartbeat: 100 * time.Millisecond,
		Shards: idleShards{}, Fatal: fatal,
	})
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, g.Close(), nil)
	})
	for state, changed := g.Watch(); state.ClusterId == ""; state, changed = g.Watch() {
		<-changed
	}
	here := NewReplica(ReplicaConfig{Node: "a", Boot: boot})
	here.Set(g)
	return NewPolicies(here, func() []*shard.Shard { return nil }, nil, nil), g
}

// The policies count as known only after the log has brought this start's registration back.
func TestPoliciesAreKnownOnceRegistered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := controlled(t)
		if now, _ := p.Watch(); now.Known {
			t.Error("known before it is registered")
		}
		for _, c := range []struct {
			boot  uint64
			known bool
		}{{boot - 1, false}, {boot, true}} {
			_, changed := p.Watch()
			assert.NoError(t, g.Register(t.Context(), &clusterpb.Node{Id: "a", CommandVersion: 1, Boot: c.boot}))
			<-changed
			now, _ := p.Watch()
			assert.Equal(t, now.Known, c.known, "registered for start %d of %d: known", c.boot, boot)
		}
	})
}

func TestInForceWaitsForTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, g := controlled(t)
		short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, p.InForce(short, 1), context.DeadlineExceeded, "a version that does not come")
		told := make(chan error, 1)
		go func() { told <- p.InForce(t.Context(), 2) }()
		for i := range 2 {
			synctest.Wait()
			select {
			case err := <-told:
				t.Fatalf("told after %d changes: %v", i, err)
			default:
			}
			policy := &fsmpb.QueuePolicy{MaxInFlight: uint32(i + 1)}
			set := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_SetQueue{SetQueue: &clusterpb.SetQueue{Policy: policy}}}
			_, err := g.Change(t.Context(), &clusterpb.ControlChange{Entry: set})
			assert.NoError(t, err)
		}
		assert.Equal(t, <-told, nil)
		if got := p.Policy("", ""); got.GetMaxInFlight() != 2 || got.Version != 2 {
			t.Errorf("the policy is %v", got)
		}
	})
}
