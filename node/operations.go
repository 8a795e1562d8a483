package node

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/httpapi"
)

// The API's names of orders, kinds and states are those of the enumerations, in lower case.
const (
	orderPrefix = "NODE_ORDER_"
	kindPrefix  = "OPERATION_KIND_"
	statePrefix = "OPERATION_STATE_"
	movePrefix  = "SLOT_MOVE_STATE_"
)

func nameOf(enum interface{ String() string }, prefix string) string {
	return strings.ToLower(strings.TrimPrefix(enum.String(), prefix))
}

// Begin begins an operation, or returns the plan of a preview.
func (b backend) Begin(
	ctx context.Context, r httpapi.OperationRequest,
) (*httpapi.OperationView, *httpapi.PlanView, error) {
	if op := b.begun(ctx, r); op != nil {
		return op, nil, nil
	}
	op := requested(r)
	if r.Node != "" {
		id, err := b.FindNode(r.Node)
		if err != nil {
			return nil, nil, refusal(err)
		}
		op.Node = id
	}
	began, err := b.Node.Begin(ctx, op, r.Preview)
	if err != nil {
		return nil, nil, refusal(err)
	}
	if r.Preview {
		return nil, planOf(b.View(ctx), began), nil
	}
	return b.progress(ctx, began.Operation), nil, nil
}

// requested returns the operation that a request asks for, without its node.
func requested(r httpapi.OperationRequest) *clusterpb.Operation {
	op := &clusterpb.Operation{
		Id: r.ID, Replication: r.Replication, Shard: r.Shard,
		Kind: clusterpb.OperationKind(clusterpb.OperationKind_value[kindPrefix+strings.ToUpper(r.Kind)]),
	}
	if op.Kind == clusterpb.OperationKind_OPERATION_KIND_BALANCE {
		op.Shards = r.To
		return op
	}
	op.Shard = cmp.Or(r.Shard, r.To)
	for _, slots := range r.Slots {
		op.Slots = append(op.Slots, &fsmpb.SlotRange{First: slots.First, End: slots.End})
	}
	return op
}

// slotsOf returns the fields of an operation on slots, as the API has them.
func slotsOf(op *clusterpb.Operation) (shard, to uint32, slots httpapi.SlotList) {
	for _, r := range op.Slots {
		slots = append(slots, httpapi.SlotRange{First: r.First, End: r.End})
	}
	switch op.Kind {
	case clusterpb.OperationKind_OPERATION_KIND_BALANCE:
		return 0, op.Shards, nil
	case clusterpb.OperationKind_OPERATION_KIND_MOVE_SLOTS:
		return 0, op.Shard, slots
	default:
		return op.Shard, 0, nil
	}
}

// begun returns the operation that an earlier request with the same id has begun, or nil.
func (b backend) begun(ctx context.Context, r httpapi.OperationRequest) *httpapi.OperationView {
	if r.ID == "" || r.Preview {
		return nil
	}
	op, _ := b.Operation(r.ID)
	if op == nil {
		return nil
	}
	return b.progress(ctx, op)
}

// progress returns an operation with its progress.
func (b backend) progress(ctx context.Context, op *clusterpb.Operation) *httpapi.OperationView {
	for _, o := range b.View(ctx).Operations {
		if o.Id == op.Id {
			view := operationView(o)
			return &view
		}
	}
	view := operationView(cluster.OperationView{Operation: op}) // this node has not heard of it yet
	return &view
}

// refusal returns an error of the cluster in the words of the API.
func refusal(err error) error {
	var impossible *control.ImpossibleError
	switch {
	case errors.As(err, &impossible):
		return &httpapi.ImpossibleError{Reason: impossible.Reason}
	case errors.Is(err, cluster.ErrNoNode):
		return &httpapi.NoNodeError{Reason: err.Error()}
	default:
		return err
	}
}

func operationView(o cluster.OperationView) httpapi.OperationView {
	view := httpapi.OperationView{
		ID: o.Id, Kind: nameOf(o.Kind, kindPrefix), Node: o.Node, NodeName: o.Name, Replication: o.Replication,
		Namespace: o.Namespace, State: nameOf(o.State, statePrefix), BeganAt: httpapi.Instant(o.BeganMs),
		Total: o.Total, Done: o.Done, Percent: o.Percent, BytesLeft: o.Left, BytesPerSecond: o.Rate,
		Waits: o.Waits, Detail: o.Detail, TasksCopied: o.Tasks, Cause: o.Cause,
	}
	view.Shard, view.To, view.Slots = slotsOf(o.Operation)
	if o.EndedMs > 0 {
		at := httpapi.Instant(o.EndedMs)
		view.EndedAt = &at
	}
	return view
}

// planOf returns the plan of an operation. A new replica costs about the bytes of its shard, and slots their part of
// the bytes of theirs.
func planOf(v cluster.View, began *clusterpb.ControlChanged) *httpapi.PlanView {
	op := began.Operation
	plan := &httpapi.PlanView{
		Kind: nameOf(op.Kind, kindPrefix), Node: op.Node, NodeName: op.Name, Replication: op.Replication, Total: op.Total,
	}
	plan.Shard, plan.To, plan.Slots = slotsOf(op)
	names, sizes := make(map[string]string), make(map[uint32]uint64)
	for _, n := range v.Nodes {
		names[n.ID] = n.Name
	}
	for _, s := range v.Shards {
		sizes[s.ID] = s.Bytes()
	}
	for _, m := range began.Moves {
		step := httpapi.PlanStep{
			Shard: m.Shard, Action: m.Action, Node: m.Node, NodeName: names[m.Node], From: m.From, Slots: m.Slots,
		}
		switch {
		case m.Slots > 0:
			step.Bytes = v.BytesOf(m.From, m.Slots)
		case m.Action == string(placement.Add):
			step.Bytes = sizes[m.Shard]
		}
		plan.Bytes += step.Bytes
		plan.Steps = append(plan.Steps, step)
	}
	return plan
}

func nodeView(n cluster.NodeView, now time.Time) httpapi.NodeView {
	view := httpapi.NodeView{
		ID: n.ID, Name: n.Name, HTTPAddr: n.HTTPAddr, HTTPURL: n.URL, PeerAddr: n.PeerAddr,
		Zone: n.Zone, Weight: n.Weight, Alive: n.Alive,
		DiskLow: n.DiskLow, MemoryFull: n.MemoryFull, CommandVersion: n.CommandVersion, Order: nameOf(n.Order, orderPrefix),
		Replicas: n.Replicas, Leads: n.Leads, Build: n.Build, DiskFree: n.DiskFree, DiskTotal: n.DiskTotal,
		ClockOffsetMs: float64(n.ClockOffset.Round(time.Microsecond)) / float64(time.Millisecond),
	}
	if n.Away > 0 {
		since := httpapi.Instant(now.Add(-n.Away).UnixMilli())
		view.AwaySince = &since
	}
	return view
}
