package control

import (
	"log/slog"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Number is the number of the control group among the Raft groups. The number of a shard's group is the shard's id.
const Number = 0

// lastPause is the longest pause between two tries to reach the group's leader. The group has a leader nearly always,
// and an election of it takes a second.
const lastPause = 200 * time.Millisecond

// Replica is this node's replica of the control group, which is missing until the node is in a cluster. Its methods are
// safe for concurrent use.
type Replica struct {
	cfg ReplicaConfig

	mu    sync.Mutex
	group *Group // nil: the node is in no cluster yet
}

// ReplicaConfig describes the node of a Replica.
type ReplicaConfig struct {
	Node   string // id
	Boot   uint64 // number of its present start
	Nodes  Nodes
	Logger *slog.Logger // nil: none
}

// NewReplica returns the replica of a node, without a group.
func NewReplica(cfg ReplicaConfig) *Replica {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Replica{cfg: cfg}
}

// Set gives the replica its running group.
func (r *Replica) Set(g *Group) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.group = g
}

// Group returns the running group, or nil if the node is in no cluster yet.
func (r *Replica) Group() *Group {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.group
}

// State returns the group's state, which is empty before the node is in a cluster. The caller must not change it.
func (r *Replica) State() *clusterpb.ControlState {
	state, _ := r.Watch()
	return state
}

// Watch returns State, and a channel that is closed at the next change. The channel is nil before the node is in a
// cluster.
func (r *Replica) Watch() (*clusterpb.ControlState, <-chan struct{}) {
	if g := r.Group(); g != nil {
		return g.Watch()
	}
	return &clusterpb.ControlState{}, nil
}

// IsCurrent reports whether a state of the group is the present one. A log that is read again after a restart shows old
// states first. The present state is reached once it contains this start of this node.
func (r *Replica) IsCurrent(state *clusterpb.ControlState) bool {
	return Node(state, r.cfg.Node).GetBoot() == r.cfg.Boot
}

// search begins a search for the group's leader. Every node has a replica of the group, so the search asks this node's
// replica if the leader is not known.
func (r *Replica) search() calls.Search {
	return calls.NewSearch(calls.SearchConfig{
		Shard: Number, Source: calls.RaftLeader(r.Leader), Placement: onlyHere(r.cfg.Node), LastPause: lastPause,
	})
}

// onlyHere is the placement of a group with a replica on one node.
type onlyHere string

func (h onlyHere) Placed(uint32) *clusterpb.Shard {
	return &clusterpb.Shard{Preferred: string(h), Replicas: []string{string(h)}}
}

func (onlyHere) Alive(string) bool { return true }

// Leader returns the group's leader as far as this node's replica knows, or "" if it knows none.
func (r *Replica) Leader() string {
	if g := r.Group(); g != nil {
		leader, _ := g.Leader()
		return leader
	}
	return ""
}

// Close closes the group if it runs.
func (r *Replica) Close() error {
	if g := r.Group(); g != nil {
		return g.Close()
	}
	return nil
}
