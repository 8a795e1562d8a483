package control

import (
	"cmp"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup"
)

// Plan describes a new cluster. The reconciler ignores it once the cluster is formed.
type Plan struct {
	ClusterID   string
	Shards      int
	Replication int // replicas of each shard; fewer if the cluster is smaller
}

// look holds all that the reconciler needs to decide on a step.
type look struct {
	state    *clusterpb.ControlState
	group    raftgroup.Membership   // of the control group
	nodes    []placement.Node       // the registered ones
	caughtUp func(node string) bool // reports whether a member of the control group has caught up
	leads    func(node string) bool // reports whether a node leads a shard, as far as known
	self     string
	plan     Plan
	now      time.Time
	keys     *seal.Keys // of this node; nil: none
	// algorithms are those for which there should be keys of tokens, and clock is the time by which these end.
	algorithms []string
	clock      time.Time
	// balanced returns the shards that should have other preferred leaders because of their load, or nil.
	balanced func(nodes []placement.Node) *clusterpb.Retarget
	fresh    bool // the leadership has just begun: nodes of a new cluster may still be about to register
}

// step is one action of the reconciler. One of entry, change and transfer is set, or none.
type step struct {
	what     string
	entry    *clusterpb.ControlEntry // to be proposed
	change   raftgroup.MemberChange  // of the control group
	transfer string                  // node that gets the leadership of the control group
	waits    string                  // reason why there is no step yet; for people
	halts    bool                    // the later rules wait as well
}

// next returns the next step, which has no name if none is left. Every step may be repeated without harm, and no step
// depends on a memory of the last one.
func (l look) next() (step, error) {
	if l.state.ClusterId == "" {
		return initialise(l.plan)
	}
	waits := ""
	for _, rule := range []func() (step, error){
		l.raise, l.place, l.receipts, l.join, l.seals, l.jwtKeys, l.replication, l.dismiss, l.end, l.shift, l.rest, l.vote,
		l.retarget, l.balance,
	} {
		s, err := rule()
		if err != nil || s.what != "" || s.halts {
			return s, err
		}
		waits = cmp.Or(waits, s.waits)
	}
	return step{waits: waits}, nil
}

// raise writes down that a newer command version is in force.
func (l look) raise() (step, error) {
	if version := raisable(l.state, l.group.Members); version > 0 {
		return raise(version), nil
	}
	return step{}, nil
}

func initialise(plan Plan) (step, error) {
	ranges, err := placement.Split(task.Slots, plan.Shards)
	if err != nil {
		return step{}, err
	}
	op := &clusterpb.Init{ClusterId: plan.ClusterID}
	for i, r := range ranges {
		op.Slots = append(op.Slots, &clusterpb.SlotRange{First: r.First, End: r.End, Shard: uint32(i) + 1})
	}
	entry := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Init{Init: op}}
	return step{what: "initialise the cluster", entry: entry}, nil
}

func isUnplaced(s *clusterpb.Shard) bool { return len(s.Replicas) == 0 }

// awaitsVoters reports whether the shards are to be placed next, and a voter has not registered. Its zone and weight
// decide where the shards are placed.
func awaitsVoters(state *clusterpb.ControlState, members []raftgroup.Member) bool {
	unknown := func(m raftgroup.Member) bool { return m.Voter && Node(state, m.NodeID) == nil }
	return slices.ContainsFunc(state.Shards, isUnplaced) && slices.ContainsFunc(members, unknown)
}

// place places the new shards on the control group's voters, which are the nodes that formed the cluster. A fresh
// leader waits until all voters have registered.
func (l look) place() (step, error) {
	switch {
	case !slices.ContainsFunc(l.state.Shards, isUnplaced):
		return step{}, nil
	case l.fresh && awaitsVoters(l.state, l.group.Members):
		return step{halts: true, waits: "a voter of the new cluster has not registered yet"}, nil
	}
	var voters []placement.Node
	for _, m := range l.group.Members {
		if m.Voter {
			voters = append(voters, placementNode(l.state, m.NodeID))
		}
	}
	target, err := placement.Target(voters, reshape.Placement(l.state), l.plan.Replication)
	if err != nil {
		return step{}, err
	}
	op := &clusterpb.Place{}
	for i, s := range l.state.Shards {
		if isUnplaced(s) {
			op.Shards = append(op.Shards, &clusterpb.Shard{Id: s.Id, Replicas: target[i].Nodes, Preferred: target[i].Preferred})
		}
	}
	entry := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Place{Place: op}}
	return step{what: "place the shards", entry: entry}, nil
}

// placementNode returns an active node with its zone and weight. A node that has not registered is a zone of its own
// and has the default weight, and so has a node of a build that does not know zones and weights.
func placementNode(state *clusterpb.ControlState, id string) placement.Node {
	record := Node(state, id)
	return placement.Node{
		ID: id, Zone: record.GetZone(), Weight: cmp.Or(int(record.GetWeight()), placement.DefaultWeight),
	}
}
