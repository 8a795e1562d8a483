package control

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/raftgroup"
)

// join adds a registered node to the control group, without a vote.
func (l look) join() (step, error) {
	for _, n := range l.state.Nodes {
		if !l.isMember(n.Id) {
			return step{what: "add non-voter " + n.Id, change: raftgroup.MemberChange{AddNonvoter: n.Id}}, nil
		}
	}
	return step{}, nil
}

// replication writes the replication factor of a new cluster down. A cluster of an earlier build gets it so, too.
func (l look) replication() (step, error) {
	if l.state.Replication > 0 {
		return step{}, nil
	}
	factor := cmp.Or(l.plan.Replication, reshape.DefaultReplication)
	return step{what: fmt.Sprintf("set the replication factor to %d", factor), entry: &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_SetReplication{
			SetReplication: &clusterpb.SetReplication{Replication: uint32(factor)},
		},
	}}, nil
}

// applySetReplication sets the replication factor of a cluster that has none.
func applySetReplication(s *clusterpb.ControlState, set *clusterpb.SetReplication) error {
	if s.Replication == 0 {
		s.Replication = set.GetReplication()
	}
	return nil
}

// dismiss takes a removed node out of the control group.
func (l look) dismiss() (step, error) {
	for _, m := range l.group.Members {
		if IsRemoved(l.state, m.NodeID) {
			return step{what: "remove " + m.NodeID, change: raftgroup.MemberChange{Remove: m.NodeID}}, nil
		}
	}
	return step{}, nil
}

// vote brings the votes in the control group to the nodes that should have them. A vote is given before another one is
// taken away.
func (l look) vote() (step, error) {
	var present []string
	for _, m := range l.group.Members {
		if m.Voter {
			present = append(present, m.NodeID)
		}
	}
	wanted, err := reshape.Voters(l.nodes, present)
	if err != nil {
		return step{}, err
	}
	lacking := slices.DeleteFunc(slices.Clone(wanted), func(id string) bool { return slices.Contains(present, id) })
	surplus := slices.DeleteFunc(present, func(id string) bool { return slices.Contains(wanted, id) })
	switch {
	case len(lacking) > 0 && l.caughtUp(lacking[0]):
		return step{what: "give a vote to " + lacking[0], change: raftgroup.MemberChange{AddVoter: lacking[0]}}, nil
	case len(lacking) > 0:
		return step{waits: "node " + lacking[0] + " has not caught up with the control group"}, nil
	case len(surplus) == 0:
		return step{}, nil
	case surplus[0] == l.self:
		return l.handOver(wanted), nil
	default:
		return step{what: "take the vote from " + surplus[0], change: raftgroup.MemberChange{Demote: surplus[0]}}, nil
	}
}

// rest gives the leadership of the control group away if this node rests and another voter does not.
func (l look) rest() (step, error) {
	if l.state.Orders[l.self] != clusterpb.NodeOrder_NODE_ORDER_REST {
		return step{}, nil
	}
	if heirs := l.heirs(); len(heirs) > 0 {
		return l.handOver(heirs), nil
	}
	return step{}, nil
}

// heirs returns the other voters of the control group that may lead it.
func (l look) heirs() []string {
	var ids []string
	for _, m := range l.group.Members {
		if m.Voter && m.NodeID != l.self && l.state.Orders[m.NodeID] == clusterpb.NodeOrder_NODE_ORDER_WORK {
			ids = append(ids, m.NodeID)
		}
	}
	return ids
}

// handOver gives the leadership of the control group to one of the nodes.
func (l look) handOver(heirs []string) step {
	for _, id := range heirs {
		if l.caughtUp(id) {
			return step{what: "hand over to " + id, transfer: id}
		}
	}
	return step{waits: "no voter of the control group has caught up"}
}

func (l look) isMember(node string) bool {
	return slices.ContainsFunc(l.group.Members, func(m raftgroup.Member) bool { return m.NodeID == node })
}

func (l look) votes(node string) bool {
	return slices.Contains(l.group.Members, raftgroup.Member{NodeID: node, Voter: true})
}

// retarget sets where the replicas of the shards should be.
func (l look) retarget() (step, error) {
	op, waits, err := reshape.Targets(l.state, l.nodes)
	if err != nil || op == nil {
		return step{waits: waits}, err
	}
	return step{what: "aim the shards", entry: &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_Retarget{Retarget: op},
	}}, nil
}

// balance exchanges preferred leaders while their loads are uneven.
func (l look) balance() (step, error) {
	op := l.balanced(l.nodes)
	if op == nil {
		return step{}, nil
	}
	return step{what: "balance the leaders", entry: &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_Retarget{Retarget: op},
	}}, nil
}

// end ends an operation that is done.
func (l look) end() (step, error) {
	for _, op := range l.state.Operations {
		if op.State == clusterpb.OperationState_OPERATION_STATE_RUNNING && l.isDone(op) {
			return step{what: "end operation " + op.Id, entry: &clusterpb.ControlEntry{
				Op: &clusterpb.ControlEntry_End{
					End: &clusterpb.End{Id: op.Id, EndedMs: l.now.UnixMilli()},
				},
			}}, nil
		}
	}
	return step{}, nil
}

// isDone reports whether all is as the operation asked.
func (l look) isDone(op *clusterpb.Operation) bool {
	switch op.Kind {
	case clusterpb.OperationKind_OPERATION_KIND_RESUME:
		return true
	case clusterpb.OperationKind_OPERATION_KIND_DELETE_NAMESPACE:
		return false // EndNamespace ends it
	case splitShard, moveSlots, balance, keepSlots:
		return HaveMoved(l.state, op)
	case clusterpb.OperationKind_OPERATION_KIND_REPLICATION:
		return ReplicasLeft(l.state, op) == 0
	case clusterpb.OperationKind_OPERATION_KIND_REST:
		return !l.leads(op.Node) && (op.Node != l.self || len(l.heirs()) == 0)
	default:
		return ReplicasLeft(l.state, op) == 0 && !l.votes(op.Node)
	}
}

// Left returns the number of replicas that an operation has still to move, add or remove, or of slots that it has still
// to move. Of the tasks of a namespace it returns all, since the state does not tell how many are left: see
// clusterpb.Deletion.
func Left(state *clusterpb.ControlState, op *clusterpb.Operation) uint32 {
	switch {
	case onSlots(op):
		return SlotsLeft(state, op)
	case onNamespace(op):
		return op.Total
	}
	return ReplicasLeft(state, op)
}

// ReplicasLeft returns the number of replicas that an operation has still to move, add or remove.
func ReplicasLeft(state *clusterpb.ControlState, op *clusterpb.Operation) uint32 {
	left := 0
	for _, s := range state.Shards {
		switch {
		case op.Kind == clusterpb.OperationKind_OPERATION_KIND_RESUME, op.Kind == clusterpb.OperationKind_OPERATION_KIND_REST:
		case op.Kind == clusterpb.OperationKind_OPERATION_KIND_REPLICATION:
			lacks := len(s.Replicas) - int(op.Replication)
			left += max(lacks, -lacks)
			if lacks == 0 && len(s.Target) > 0 {
				left++ // a new replica does not vote yet
			}
		case slices.Contains(s.Replicas, op.Node) || slices.Contains(s.Target, op.Node):
			left++
		}
	}
	return uint32(left)
}
