package control

import (
	"slices"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup"
)

// Plan describes a new cluster. The reconciler ignores it once the cluster is formed.
type Plan struct {
	ClusterID   string
	Shards      int
	Replication int // replicas of each shard; fewer if the cluster is smaller
}

// step is one action of the reconciler: to propose an entry, or to add a non-voter.
type step struct {
	what     string
	entry    *clusterpb.ControlEntry
	nonvoter string
}

// next compares the state and the membership with the plan. It returns the next step, or false if none is left. Every
// step may be repeated without harm, and no step depends on a memory of the last one.
func next(state *clusterpb.ControlState, members []raftgroup.Member, plan Plan) (step, bool, error) {
	if state.ClusterId == "" {
		s, err := initialise(plan)
		return s, err == nil, err
	}
	if unplaced := slices.IndexFunc(state.Shards, isUnplaced); unplaced >= 0 {
		s, err := place(state, members, plan)
		return s, err == nil, err
	}
	if version := raisable(state, members); version > 0 {
		return raise(version), true, nil
	}
	for _, n := range state.Nodes {
		known := func(m raftgroup.Member) bool { return m.NodeID == n.Id }
		if !slices.ContainsFunc(members, known) {
			return step{what: "add non-voter " + n.Id, nonvoter: n.Id}, true, nil
		}
	}
	return step{}, false, nil
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

// awaitsVoters reports whether the shards are to be placed next, and a voter has not registered.
func awaitsVoters(state *clusterpb.ControlState, members []raftgroup.Member) bool {
	unknown := func(m raftgroup.Member) bool { return m.Voter && Node(state, m.NodeID) == nil }
	return slices.ContainsFunc(state.Shards, isUnplaced) && slices.ContainsFunc(members, unknown)
}

// place places the new shards on the control group's voters, which are the nodes that formed the cluster.
func place(state *clusterpb.ControlState, members []raftgroup.Member, plan Plan) (step, error) {
	var voters []placement.Node
	for _, m := range members {
		if m.Voter {
			voters = append(voters, placementNode(state, m.NodeID))
		}
	}
	target, err := placement.Target(voters, present(state), plan.Replication)
	if err != nil {
		return step{}, err
	}
	op := &clusterpb.Place{}
	for i, s := range state.Shards {
		if isUnplaced(s) {
			op.Shards = append(op.Shards, &clusterpb.Shard{Id: s.Id, Replicas: target[i].Nodes, Preferred: target[i].Preferred})
		}
	}
	entry := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Place{Place: op}}
	return step{what: "place the shards", entry: entry}, nil
}

// present returns the placement of the shards.
func present(state *clusterpb.ControlState) []placement.Replicas {
	placed := make([]placement.Replicas, len(state.Shards))
	for i, s := range state.Shards {
		placed[i] = placement.Replicas{Nodes: s.Replicas, Preferred: s.Preferred}
	}
	return placed
}

// placementNode returns an active node with its zone and weight. A node that has not registered is a zone of its own
// and has the default weight, and so has a node of a build that does not know zones and weights.
func placementNode(state *clusterpb.ControlState, id string) placement.Node {
	record := Node(state, id)
	n := placement.Node{ID: id, Zone: record.GetZone(), Weight: int(record.GetWeight())}
	if n.Weight == 0 {
		n.Weight = placement.DefaultWeight
	}
	return n
}
