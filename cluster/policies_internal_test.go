package cluster

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/identity"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/raftgroup/raftdisk"
)

// controlled returns a node with a control group of its own and no other part.
func controlled(t *testing.T) (*Node, *control.Group) {
	t.Helper()
	id, err := identity.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	_, transport := raft.NewInmemTransport(raft.ServerAddress(id.NodeID()))
	fatal := func(err error) { t.Error(err) }
	disk, err := control.OpenDisk(raftdisk.Config{Dir: t.TempDir(), Fatal: fatal, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	g, err := control.Open(control.Config{
		NodeID: id.NodeID(), Bootstrap: []string{id.NodeID()}, Storage: disk, Transport: transport,
		Plan: control.Plan{ClusterID: "c", Shards: 1, Replication: 1}, Heartbeat: 100 * time.Millisecond,
		Fatal: fatal,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(g.Close(), id.Close()); err != nil {
			t.Error(err)
		}
	})
	n := &Node{identity: id, control: g}
	n.replicas = n.newReplicas()
	for state, changed := g.Watch(); state.ClusterId == ""; state, changed = g.Watch() {
		<-changed
	}
	return n, g
}

// The policies count as known only after the log has brought this start's registration back.
func TestPoliciesAreKnownOnceRegistered(t *testing.T) {
	n, g := controlled(t)
	if now, _ := (policiesHere{n}).Watch(); now.Known {
		t.Error("known before it is registered")
	}
	for _, c := range []struct {
		boot  uint64
		known bool
	}{{n.identity.Boot() - 1, false}, {n.identity.Boot(), true}} {
		_, changed := policiesHere{n}.Watch()
		if err := g.Register(t.Context(), &clusterpb.Node{Id: n.ID(), CommandVersion: 1, Boot: c.boot}); err != nil {
			t.Fatal(err)
		}
		<-changed
		if now, _ := (policiesHere{n}).Watch(); now.Known != c.known {
			t.Errorf("registered for start %d of %d: known %v", c.boot, n.identity.Boot(), now.Known)
		}
	}
}

func TestInForceWaitsForTheVersion(t *testing.T) {
	n, g := controlled(t)
	short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := n.inForce(short, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a version that does not come: %v", err)
	}
	told := make(chan error, 1)
	go func() { told <- n.inForce(t.Context(), 2) }()
	for i := range 2 {
		select {
		case err := <-told:
			t.Fatalf("told after %d changes: %v", i, err)
		default:
		}
		if _, err := g.SetQueue(t.Context(), &clusterpb.SetQueue{Policy: &fsmpb.QueuePolicy{MaxInFlight: uint32(i + 1)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
	if got := (policiesHere{n}).Policy("", ""); got.GetMaxInFlight() != 2 || got.Version != 2 {
		t.Errorf("the policy is %v", got)
	}
}
