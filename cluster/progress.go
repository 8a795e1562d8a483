package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/cluster/placement"
)

// The names of orders, kinds and states in answers are those of the enumerations, in lower case, without these
// beginnings.
const (
	orderPrefix   = "NODE_ORDER_"
	kindPrefix    = "OPERATION_KIND_"
	statePrefix   = "OPERATION_STATE_"
	movePrefix    = "SLOT_MOVE_STATE_"
	bulkPrefix    = "BULK_KIND_"
	outcomePrefix = "BULK_OUTCOME_"
	taskPrefix    = "STATE_"
)

// nameOf returns the name of a value of an enumeration in answers.
func nameOf(value fmt.Stringer, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(value.String(), prefix))
}

// OperationKind returns the kind of operation that has this name in the answers.
func OperationKind(name string) clusterpb.OperationKind {
	return clusterpb.OperationKind(clusterpb.OperationKind_value[kindPrefix+strings.ToUpper(name)])
}

// BulkKind returns the kind of bulk operation that has this name in the answers.
func BulkKind(name string) clusterpb.BulkKind {
	return clusterpb.BulkKind(clusterpb.BulkKind_value[bulkPrefix+strings.ToUpper(name)])
}

// fillShape adds the targets' side of the view: the state's, and that of the control group's leader.
func (v *View) fillShape(state *clusterpb.ControlState, shape *clusterpb.Shape, now time.Time) {
	names := namesOf(state)
	v.Replication.Wanted, v.Waits = reshape.Wanted(state), names.Replace(shape.GetWaits())
	if shape == nil {
		v.Waits = "no node that answers leads the control group"
	}
	for i := range v.Nodes {
		n := &v.Nodes[i]
		n.Order = nameOf(state.Orders[n.ID], orderPrefix)
		if away := time.Duration(shape.GetAwayMs()[n.ID]) * time.Millisecond; away > 0 {
			n.AwaySince = view.OptionalInstant(now.Add(-away).UnixMilli())
		}
		n.Replicas, n.Leads = v.held(n.ID)
	}
	for i, s := range v.Shards {
		v.Shards[i].Waits = names.Replace(s.Waits)
		if i == 0 || len(s.Replicas) < v.Replication.Fewest {
			v.Replication.Fewest = len(s.Replicas)
		}
	}
	v.SlotMoves = slotMovesOf(state, shape, names)
	if split := shape.GetAutoSplit(); split != nil {
		v.AutoSplit = &view.AutoSplit{
			Bytes: split.Bytes, Shards: int(split.Shards), Outgrown: append([]uint32{}, split.Outgrown...),
			Waits: names.Replace(split.Waits),
		}
	}
	for _, op := range state.Operations {
		o := v.progress(op, control.Left(state, op), state.SlotMoves)
		if op.Kind == clusterpb.OperationKind_OPERATION_KIND_DELETE_NAMESPACE && shape != nil {
			fillDeletion(&o, op, shape.GetDeletions()[op.Namespace], names)
		}
		v.Operations = append(v.Operations, o)
	}
	for _, op := range state.Bulks {
		v.Operations = append(v.Operations, *viewBulk(op, names.Replace(shape.GetBulkWaits()[op.Id])))
	}
	slices.SortStableFunc(v.Operations, func(a, b view.Operation) int { return a.BeganAt.Compare(b.BeganAt.Time) })
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
		if s.Replica(node) != nil {
			replicas++
		}
		if s.Leader == node {
			leads++
		}
	}
	return replicas, leads
}

// viewOperation describes an operation without its progress.
func viewOperation(op *clusterpb.Operation) view.Operation {
	o := view.Operation{
		ID: op.Id, Kind: view.OperationKind(nameOf(op.Kind, kindPrefix)), Node: op.Node, NodeName: op.Name,
		Replication: int(op.Replication), Namespace: op.Namespace,
		State: view.OperationState(nameOf(op.State, statePrefix)), BeganAt: view.InstantOf(op.BeganMs),
		EndedAt: view.OptionalInstant(op.EndedMs), Total: int(op.Total), Waits: []string{}, Detail: op.Detail,
		Cause: op.Cause,
	}
	o.Shard, o.To, o.Slots = slotFields(op)
	return o
}

// slotFields returns the fields of an operation on slots, as answers have them.
func slotFields(op *clusterpb.Operation) (shard, to int, slots string) {
	switch op.Kind {
	case clusterpb.OperationKind_OPERATION_KIND_BALANCE:
		return 0, int(op.Shards), ""
	case clusterpb.OperationKind_OPERATION_KIND_MOVE_SLOTS:
		var list view.SlotList
		for _, r := range op.Slots {
			list = append(list, view.Slots{First: r.First, End: r.End})
		}
		return 0, int(op.Shard), list.String()
	default:
		return int(op.Shard), 0, ""
	}
}

// Progress describes an operation as View does.
func (s *Operations) Progress(ctx context.Context, op *clusterpb.Operation) *view.Operation {
	for _, o := range s.viewer.view(ctx).Operations {
		if o.ID == op.Id {
			return &o
		}
	}
	o := viewOperation(op) // this node has not heard of it yet
	return &o
}

// Plan describes an operation that was begun as a preview, with the moves that it needs. A new replica costs about the
// bytes of its shard, and slots their part of the bytes of theirs.
func (s *Operations) Plan(ctx context.Context, began *clusterpb.ControlChanged) *view.Plan {
	v, op := s.viewer.view(ctx), began.Operation
	plan := &view.Plan{
		Kind: view.OperationKind(nameOf(op.Kind, kindPrefix)), Node: op.Node, NodeName: op.Name,
		Replication: int(op.Replication), Total: int(op.Total), Steps: []view.PlanStep{},
	}
	plan.Shard, plan.To, plan.Slots = slotFields(op)
	for _, m := range began.Moves {
		step := view.PlanStep{Shard: m.Shard, Action: m.Action, Node: m.Node, From: m.From, Slots: int(m.Slots)}
		if node := v.Node(m.Node); node != nil {
			step.NodeName = node.Name
		}
		switch {
		case m.Slots > 0:
			step.Bytes = bytesOf(v.shard(m.From), step.Slots)
		case m.Action == string(placement.Add):
			step.Bytes = v.shard(m.Shard).Bytes
		}
		plan.Bytes += step.Bytes
		plan.Steps = append(plan.Steps, step)
	}
	return plan
}

// progress describes an operation that has this number of replicas left to move.
func (v *View) progress(op *clusterpb.Operation, left uint32, moves []*clusterpb.SlotMove) view.Operation {
	o := viewOperation(op)
	switch op.State {
	case clusterpb.OperationState_OPERATION_STATE_DONE:
		o.Done, o.Percent = o.Total, 100
		return o
	case clusterpb.OperationState_OPERATION_STATE_STOPPED:
		return o
	}
	if op.Kind == clusterpb.OperationKind_OPERATION_KIND_REST {
		_, leads := v.held(op.Node)
		left = uint32(leads)
	}
	o.Done = int(op.Total - min(left, op.Total))
	parts := float64(o.Done)
	for _, s := range v.Shards {
		if concerns(&s, op) {
			parts += v.addCopies(&o, s)
		}
	}
	moving := false
	for i, m := range moves {
		if control.Concerns(op, m) {
			moving = true
			parts += v.addSlots(&o, v.SlotMoves[i], m.State)
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
func fillDeletion(o *view.Operation, op *clusterpb.Operation, d *clusterpb.Deletion, names *strings.Replacer) {
	if o.Waits = []string{}; d == nil || op.State != clusterpb.OperationState_OPERATION_STATE_RUNNING {
		return
	}
	o.Done = int(op.Total - uint32(min(d.Left, uint64(op.Total))))
	if o.Total > 0 {
		o.Percent = min(100*float64(o.Done)/float64(o.Total), 99)
	}
	if d.Waits != "" {
		o.Waits = []string{names.Replace(d.Waits)}
	}
}

// concerns reports whether the move of a shard is a part of an operation.
func concerns(s *view.Shard, op *clusterpb.Operation) bool {
	switch op.Kind {
	case clusterpb.OperationKind_OPERATION_KIND_REST:
		return false
	case clusterpb.OperationKind_OPERATION_KIND_REPLICATION:
		return len(s.Target) > 0
	default:
		return len(s.Target) > 0 && s.Replica(op.Node) != nil && !slices.Contains(s.Target, op.Node)
	}
}

// addCopies adds the move of a shard to an operation, and returns the part of it that is done.
func (v *View) addCopies(o *view.Operation, s view.Shard) (part float64) {
	if s.Waits != "" {
		o.Waits = append(o.Waits, s.Waits)
	}
	for _, node := range s.Target {
		r := s.Replica(node)
		switch {
		case r == nil:
			o.BytesLeft += s.Bytes
		case !r.Voter:
			report := v.statuses.replica(node, s.ID)
			here := copied(r, report.GetBytes(), s.Bytes)
			o.BytesLeft += uint64((1 - here) * float64(s.Bytes))
			o.BytesPerSecond += report.GetReceivedRate()
			part = max(part, here)
		}
	}
	return part
}

// copied returns the part of a shard's bytes that a new replica has.
func copied(r *view.Replica, bytes, whole uint64) float64 {
	switch {
	case r.Received != nil:
		return min(*r.Received, 1)
	case whole > 0:
		return min(float64(bytes)/float64(whole), 1)
	default:
		return 0
	}
}
