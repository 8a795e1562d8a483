package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/aim"
)

// OperationView is an operation with its progress.
type OperationView struct {
	*clusterpb.Operation
	Done    uint32   // of Total
	Percent float64  // copies under way count in part; 100 only at the end
	Left    uint64   // bytes still to be copied, as far as known; of slots, by the moves under way
	Tasks   uint64   // tasks that the moves of slots under way have copied
	Rate    uint64   // bytes that arrive each second
	Waits   []string // reasons why it waits; empty: it goes on, or has ended
}

// fillShape adds the targets' side of the view: the state's, and that of the control group's leader.
func (v *View) fillShape(state *clusterpb.ControlState, shape *clusterpb.Shape) {
	names := namesOf(state)
	v.Replication, v.Waits = aim.Wanted(state), names.Replace(shape.GetWaits())
	if shape == nil {
		v.Waits = "no node that answers leads the control group"
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		n.Order = state.Orders[n.ID]
		n.Away = time.Duration(shape.GetAwayMs()[n.ID]) * time.Millisecond
		n.Replicas, n.Leads = v.held(n.ID)
	}
	for i, s := range v.Shards {
		v.Shards[i].Waits = names.Replace(s.Waits)
		if i == 0 || len(s.Replicas) < v.Fewest {
			v.Fewest = len(s.Replicas)
		}
	}
	v.Moves = slotMovesOf(state, shape)
	for i := range v.Moves {
		v.Moves[i].Waits = names.Replace(v.Moves[i].Waits)
	}
	if split := shape.GetAutoSplit(); split != nil {
		v.AutoSplit = proto.CloneOf(split)
		v.AutoSplit.Waits = names.Replace(split.Waits)
	}
	for _, op := range state.Bulks {
		v.Bulks = append(v.Bulks, bulkView(op, names.Replace(shape.GetBulkWaits()[op.Id])))
	}
	for _, op := range state.Operations {
		o := v.progress(op, control.Left(state, op))
		if op.Kind == clusterpb.OperationKind_OPERATION_KIND_DELETE_NAMESPACE && shape != nil {
			o.fillDeletion(shape.GetDeletions()[op.Namespace], names)
		}
		v.Operations = append(v.Operations, o)
	}
}

// namesOf replaces the ids of nodes by names, for people. A node keeps its id if another one has its name.
func namesOf(state *clusterpb.ControlState) *strings.Replacer {
	count := make(map[string]int)
	for _, n := range state.Nodes {
		count[n.Name]++
	}
	var pairs []string
	for _, n := range state.Nodes {
		if n.Name != "" && count[n.Name] == 1 {
			pairs = append(pairs, n.Id, n.Name)
		}
	}
	return strings.NewReplacer(pairs...)
}

// held counts the replicas on a node and the shards that it leads.
func (v *View) held(node string) (replicas, leads int) {
	for _, s := range v.Shards {
		if s.replica(node) != nil {
			replicas++
		}
		if s.Leader == node {
			leads++
		}
	}
	return replicas, leads
}

// progress describes an operation that has this number of replicas left to move.
func (v *View) progress(op *clusterpb.Operation, left uint32) OperationView {
	o := OperationView{Operation: op}
	switch op.State {
	case clusterpb.OperationState_OPERATION_STATE_DONE:
		o.Done, o.Percent = op.Total, 100
		return o
	case clusterpb.OperationState_OPERATION_STATE_STOPPED:
		return o
	}
	if op.Kind == clusterpb.OperationKind_OPERATION_KIND_REST {
		_, leads := v.held(op.Node)
		left = uint32(leads)
	}
	o.Done = op.Total - min(left, op.Total)
	parts := float64(o.Done)
	for _, s := range v.Shards {
		if s.concerns(op) {
			parts += o.add(s)
		}
	}
	moving := false
	for _, m := range v.Moves {
		if control.Concerns(op, m.move) {
			moving = true
			parts += o.addSlots(m, v)
		}
	}
	if op.Total > 0 {
		o.Percent = min(100*parts/float64(op.Total), 99)
	}
	if v.Waits != "" && !moving {
		o.Waits = append(o.Waits, v.Waits)
	}
	slices.Sort(o.Waits)
	o.Waits = slices.Compact(o.Waits)
	return o
}

// fillDeletion adds the progress of the deletion of a namespace, as the control group's leader tells it. The waits of
// the cluster's shape are none of the deletion's.
func (o *OperationView) fillDeletion(d *clusterpb.Deletion, names *strings.Replacer) {
	if o.Waits = nil; d == nil || o.State != clusterpb.OperationState_OPERATION_STATE_RUNNING {
		return
	}
	o.Done = o.Total - uint32(min(d.Left, uint64(o.Total)))
	if o.Total > 0 {
		o.Percent = min(100*float64(o.Done)/float64(o.Total), 99)
	}
	if d.Waits != "" {
		o.Waits = []string{names.Replace(d.Waits)}
	}
}

// concerns reports whether the move of a shard is a part of an operation.
func (s *ShardView) concerns(op *clusterpb.Operation) bool {
	switch op.Kind {
	case clusterpb.OperationKind_OPERATION_KIND_REST:
		return false
	case clusterpb.OperationKind_OPERATION_KIND_REPLICATION:
		return len(s.Target) > 0
	default:
		return len(s.Target) > 0 && s.replica(op.Node) != nil && !slices.Contains(s.Target, op.Node)
	}
}

// add adds the move of a shard to an operation, and returns the part of it that is done.
func (o *OperationView) add(s ShardView) (part float64) {
	if s.Waits != "" {
		o.Waits = append(o.Waits, s.Waits)
	}
	whole := s.Bytes()
	for _, node := range s.Target {
		r := s.replica(node)
		switch {
		case r == nil:
			o.Left += whole
		case !r.Voter:
			here := r.here(whole)
			o.Left += uint64((1 - here) * float64(whole))
			o.Rate += uint64(r.Arriving.Rate)
			part = max(part, here)
		}
	}
	return part
}

// Bytes returns the memory of the shard's tasks, on the replica where they take most. The size of a snapshot is close.
func (s *ShardView) Bytes() uint64 {
	if len(s.Replicas) == 0 {
		return 0
	}
	most := slices.MaxFunc(s.Replicas, func(a, b ReplicaView) int { return cmp.Compare(a.Bytes, b.Bytes) })
	return most.Bytes
}

func (s *ShardView) replica(node string) *ReplicaView {
	at := slices.IndexFunc(s.Replicas, func(r ReplicaView) bool { return r.Node == node })
	if at < 0 {
		return nil
	}
	return &s.Replicas[at]
}

// here returns the part of a shard's bytes that a new replica has.
func (r *ReplicaView) here(whole uint64) float64 {
	switch {
	case r.Arriving.Size > 0:
		return min(float64(r.Arriving.Received)/float64(r.Arriving.Size), 1)
	case whole > 0:
		return min(float64(r.Bytes)/float64(whole), 1)
	default:
		return 0
	}
}
