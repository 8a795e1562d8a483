package control

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// ErrRemoved is the error of the registration of a node that was removed from the cluster.
var ErrRemoved = errors.New("the node was removed from the cluster; with an empty data folder it joins as a new node")

// keptOperations is the number of ended operations that stay in the state.
const keptOperations = 64

// applyBegun begins the operation of an entry, and stops waiting for a newer build of its node if the leader says so.
// If that node returns with its old build, it stops at the first entry that it cannot read.
func applyBegun(s *clusterpb.ControlState, begin *clusterpb.Begin) error {
	op := begin.GetOperation()
	if begunBefore(s, op) != nil {
		return nil
	}
	if err := applyBegin(s, op); err != nil {
		return err
	}
	at, found := slices.BinarySearchFunc(s.Nodes, op.Node, byID)
	if !found || s.Nodes[at].CommandVersion >= begin.Waive {
		return nil
	}
	waived := proto.CloneOf(s.Nodes[at])
	waived.CommandVersion = begin.Waive
	s.Nodes = slices.Clone(s.Nodes)
	s.Nodes[at] = waived
	setCommandVersion(s)
	return nil
}

// applyBegin begins an operation, and stops the one under way that it contradicts. An operation that has begun before,
// or an equal one that is under way, changes nothing.
func applyBegin(s *clusterpb.ControlState, op *clusterpb.Operation) error {
	switch {
	case op.GetId() == "":
		return errors.New("an operation has an id")
	case begunBefore(s, op) != nil:
		return nil
	case onNode(op) && Node(s, op.Node) == nil:
		return fmt.Errorf("node %s is not registered", op.Node)
	case onSlots(op):
		if err := checkSlots(s, op); err != nil {
			return err
		}
	}
	if err := applyOrder(s, op); err != nil {
		return err
	}
	s.Operations = slices.Clone(s.Operations)
	for i, old := range s.Operations {
		if old.State == clusterpb.OperationState_OPERATION_STATE_RUNNING && contradicts(op, old) {
			stopped := proto.CloneOf(old)
			stopped.State = clusterpb.OperationState_OPERATION_STATE_STOPPED
			stopped.EndedMs, stopped.Detail = op.BeganMs, "operation "+op.Id+" took its place"
			s.Operations[i] = stopped
		}
	}
	s.Operations = append(s.Operations, op)
	forgetOperations(s)
	return nil
}

// applyOrder sets the order or the replication factor of an operation.
func applyOrder(s *clusterpb.ControlState, op *clusterpb.Operation) error {
	order, ordered := orderOf[op.Kind]
	switch {
	case ordered:
		setOrder(s, op.Node, order)
	case op.Kind == clusterpb.OperationKind_OPERATION_KIND_REPLICATION && op.Replication == 0:
		return errors.New("the replication factor is 0")
	case op.Kind == clusterpb.OperationKind_OPERATION_KIND_REPLICATION:
		s.Replication = op.Replication
	case !onSlots(op):
		return fmt.Errorf("an operation of kind %v is not known", op.Kind)
	}
	return nil
}

// orderOf holds the orders that operations on nodes give.
var orderOf = map[clusterpb.OperationKind]clusterpb.NodeOrder{
	clusterpb.OperationKind_OPERATION_KIND_DRAIN:   clusterpb.NodeOrder_NODE_ORDER_DRAIN,
	clusterpb.OperationKind_OPERATION_KIND_REMOVE:  clusterpb.NodeOrder_NODE_ORDER_REMOVE,
	clusterpb.OperationKind_OPERATION_KIND_REPLACE: clusterpb.NodeOrder_NODE_ORDER_REPLACE,
	clusterpb.OperationKind_OPERATION_KIND_REST:    clusterpb.NodeOrder_NODE_ORDER_REST,
	clusterpb.OperationKind_OPERATION_KIND_RESUME:  clusterpb.NodeOrder_NODE_ORDER_WORK,
}

// setOrder gives a node an order. A node without one works.
func setOrder(s *clusterpb.ControlState, node string, order clusterpb.NodeOrder) {
	orders := maps.Clone(s.Orders)
	if orders == nil {
		orders = make(map[string]clusterpb.NodeOrder)
	}
	if orders[node] = order; order == clusterpb.NodeOrder_NODE_ORDER_WORK {
		delete(orders, node)
	}
	s.Orders = orders
}

// begunBefore returns the operation with the id of op, or else an equal one that is under way, or nil.
func begunBefore(s *clusterpb.ControlState, op *clusterpb.Operation) *clusterpb.Operation {
	if old := FindOperation(s, op.Id); old != nil {
		return old
	}
	at := slices.IndexFunc(s.Operations, func(old *clusterpb.Operation) bool {
		return old.State == clusterpb.OperationState_OPERATION_STATE_RUNNING && SameRequest(old, op)
	})
	if at < 0 {
		return nil
	}
	return s.Operations[at]
}

// SameRequest reports whether two operations ask for the same.
func SameRequest(a, b *clusterpb.Operation) bool {
	return a.Kind == b.Kind && a.Node == b.Node && a.Replication == b.Replication && a.Shard == b.Shard &&
		a.Shards == b.Shards && slices.EqualFunc(a.Slots, b.Slots, func(x, y *fsmpb.SlotRange) bool {
		return x.First == y.First && x.End == y.End
	})
}

// onNode reports whether an operation is about one node.
func onNode(op *clusterpb.Operation) bool {
	return op.GetKind() != clusterpb.OperationKind_OPERATION_KIND_REPLICATION && !onSlots(op) && !onNamespace(op)
}

// contradicts reports whether a new operation stops an old one.
func contradicts(op, old *clusterpb.Operation) bool {
	return onNode(old) == onNode(op) && onSlots(old) == onSlots(op) && old.Node == op.Node && !onNamespace(old)
}

// applyEnd ends an operation. The node of a removal leaves the cluster.
func applyEnd(s *clusterpb.ControlState, end *clusterpb.End) error {
	at := slices.IndexFunc(s.Operations, func(op *clusterpb.Operation) bool { return op.Id == end.Id })
	if at < 0 || s.Operations[at].State != clusterpb.OperationState_OPERATION_STATE_RUNNING {
		return nil // an earlier entry has ended it
	}
	done := proto.CloneOf(s.Operations[at])
	done.State, done.EndedMs = clusterpb.OperationState_OPERATION_STATE_DONE, end.EndedMs
	if Leaves(s.Orders[done.Node]) {
		if err := removeNode(s, done.Node); err != nil {
			return err
		}
	}
	s.Operations = slices.Clone(s.Operations)
	s.Operations[at] = done
	forgetOperations(s)
	return nil
}

// Leaves reports whether a node with the order leaves the cluster.
func Leaves(order clusterpb.NodeOrder) bool {
	return order == clusterpb.NodeOrder_NODE_ORDER_REMOVE || order == clusterpb.NodeOrder_NODE_ORDER_REPLACE
}

// empties reports whether a node with the order gives its replicas away.
func empties(order clusterpb.NodeOrder) bool {
	return order == clusterpb.NodeOrder_NODE_ORDER_DRAIN || Leaves(order)
}

// removeNode takes a node out of the cluster. No shard may need it.
func removeNode(s *clusterpb.ControlState, id string) error {
	for _, shard := range s.Shards {
		if slices.Contains(shard.Replicas, id) || slices.Contains(shard.Target, id) {
			return fmt.Errorf("node %s has a replica of shard %d", id, shard.Id)
		}
	}
	setOrder(s, id, clusterpb.NodeOrder_NODE_ORDER_WORK)
	s.Nodes = slices.DeleteFunc(slices.Clone(s.Nodes), func(n *clusterpb.Node) bool { return n.Id == id })
	if at, found := slices.BinarySearch(s.Removed, id); !found {
		s.Removed = slices.Insert(slices.Clone(s.Removed), at, id)
	}
	setCommandVersion(s)
	return nil
}

// forgetOperations drops the oldest ended operations beyond keptOperations.
func forgetOperations(s *clusterpb.ControlState) {
	ended := 0
	for _, op := range s.Operations {
		if op.EndedMs > 0 {
			ended++
		}
	}
	s.Operations = slices.DeleteFunc(s.Operations, func(op *clusterpb.Operation) bool {
		if op.EndedMs == 0 || ended <= keptOperations {
			return false
		}
		ended--
		return true
	})
}

// NewOperationID returns an id that no operation has.
func NewOperationID() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails: see its documentation
	return "op-" + hex.EncodeToString(random[:])
}

// FindOperation returns an operation of the state, or nil if there is none.
func FindOperation(s *clusterpb.ControlState, id string) *clusterpb.Operation {
	at := slices.IndexFunc(s.Operations, func(op *clusterpb.Operation) bool { return op.Id == id })
	if at < 0 {
		return nil
	}
	return s.Operations[at]
}

// IsRemoved reports whether a node was removed from the cluster.
func IsRemoved(s *clusterpb.ControlState, id string) bool {
	_, found := slices.BinarySearch(s.Removed, id)
	return found
}
