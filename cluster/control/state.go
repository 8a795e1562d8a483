package control

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// ErrRefused is the error of a change that the state does not allow.
var ErrRefused = errors.New("refused by the control group")

// refusal is an ErrRefused with its reason.
type refusal struct{ reason error }

func (r *refusal) Error() string { return ErrRefused.Error() + ": " + r.reason.Error() }

// Unwrap returns ErrRefused and the reason.
func (r *refusal) Unwrap() []error { return []error{ErrRefused, r.reason} }

// errUnreadable is the error of an entry that stops the group: replicas that guessed its meaning could differ.
var errUnreadable = errors.New("the control group's log has an entry that this build cannot read")

// Apply returns the state after an entry, to which it gives the version that the entry needs. It does not modify the
// given state. The error wraps ErrRefused if the state does not allow the entry.
func Apply(state *clusterpb.ControlState, entry *clusterpb.ControlEntry) (*clusterpb.ControlState, error) {
	entry.Version = versionOf(entry)
	data, err := proto.Marshal(entry)
	if err != nil {
		return state, err
	}
	next, _, err := apply(state, data)
	return next, err
}

// apply returns the state after the entry, and the answer to the node that asked for it. It does not modify the given
// state; the two states share all unchanged parts. After an error the state is unchanged: ErrRefused is the caller's
// answer, and errUnreadable ends the group on this node.
func apply(state *clusterpb.ControlState, data []byte) (*clusterpb.ControlState, *clusterpb.ControlChanged, error) {
	var entry clusterpb.ControlEntry
	if err := proto.Unmarshal(data, &entry); err != nil {
		return state, nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	if entry.Version > Version {
		return state, nil, fmt.Errorf("%w: it has command version %d, and this build reads %d at most: "+
			"upgrade this node", errUnreadable, entry.Version, Version)
	}
	k, op, known := kindOf(&entry)
	if !known {
		return state, nil, fmt.Errorf("%w: it has no operation known here", errUnreadable)
	}
	next := shallowCopy(state)
	if entry.Version > firstVersion {
		next.Version = max(next.Version, entry.Version)
	}
	changed := &clusterpb.ControlChanged{}
	switch err := k.apply(next, op); {
	case errors.Is(err, errConflict):
		next, changed.Conflict = state, true
	case err != nil:
		return state, nil, &refusal{err}
	}
	if k.answer != nil {
		k.answer(changed, state, next, op)
	}
	return next, changed, nil
}

// applyRaise changes nothing: the version of its entry is all that it brings.
func applyRaise(*clusterpb.ControlState, *clusterpb.Raise) error { return nil }

// shallowCopy returns a state that shares all parts with the given one, fields unknown to this build included. A
// function that changes a list of the copy, or an element of a list, must replace it first. So a change of one policy
// of thousands copies pointers only.
func shallowCopy(state *clusterpb.ControlState) *clusterpb.ControlState {
	next := &clusterpb.ControlState{}
	from, to := state.ProtoReflect(), next.ProtoReflect()
	from.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		to.Set(field, value)
		return true
	})
	to.SetUnknown(from.GetUnknown())
	return next
}

func applyInit(s *clusterpb.ControlState, init *clusterpb.Init) error {
	if s.ClusterId != "" {
		return nil // an earlier entry has decided
	}
	shards, err := shardsOf(init.Slots)
	if err != nil {
		return err
	}
	s.ClusterId, s.Slots, s.Shards = init.ClusterId, init.Slots, shards
	return nil
}

// shardsOf returns the shards of the ranges. It checks that the ranges cover every slot once, and that the shards are
// numbered from 1.
func shardsOf(slots []*clusterpb.SlotRange) ([]*clusterpb.Shard, error) {
	next := uint32(0)
	var ids []uint32
	for _, r := range slots {
		if r.First != next || r.End <= r.First || r.Shard == 0 {
			return nil, fmt.Errorf("the slot map is broken at %v", r)
		}
		next = r.End
		ids = append(ids, r.Shard)
	}
	if next != task.Slots {
		return nil, fmt.Errorf("the slot map ends at %d", next)
	}
	slices.Sort(ids)
	var shards []*clusterpb.Shard
	for i, id := range ids {
		if id != uint32(i)+1 {
			return nil, fmt.Errorf("the slot map names shards %v", ids)
		}
		shards = append(shards, &clusterpb.Shard{Id: id})
	}
	return shards, nil
}

func applyRegister(s *clusterpb.ControlState, register *clusterpb.Register) error {
	node := register.GetNode()
	switch {
	case s.ClusterId == "" || node.GetId() == "":
		return errors.New("a node registers by its id, with a cluster that has one")
	case IsRemoved(s, node.Id):
		return ErrRemoved
	}
	if node.CommandVersion < s.CommandVersion {
		return fmt.Errorf("node %s reads command version %d at most, and the logs may hold version %d already: "+
			"give the node a newer build, or lift its --hold-version", node.Id, node.CommandVersion, s.CommandVersion)
	}
	if err := applyAdmission(s, node, register.Admission); err != nil {
		return err
	}
	at, found := slices.BinarySearchFunc(s.Nodes, node.Id, byID)
	s.Nodes = slices.Clone(s.Nodes)
	switch {
	case !found:
		s.Nodes = slices.Insert(s.Nodes, at, node)
	case s.Nodes[at].Boot > node.Boot:
		return nil // the entry came late: the node has started again since
	default:
		s.Nodes[at] = node
	}
	setCommandVersion(s)
	return nil
}

// setCommandVersion raises the version of commands to the lowest of all nodes.
func setCommandVersion(s *clusterpb.ControlState) {
	lowest := s.Nodes[0].CommandVersion
	for _, n := range s.Nodes {
		lowest = min(lowest, n.CommandVersion)
	}
	s.CommandVersion = lowest
}

func byID(n *clusterpb.Node, id string) int { return strings.Compare(n.Id, id) }

// Node returns a node of the state, or nil if there is none.
func Node(s *clusterpb.ControlState, id string) *clusterpb.Node {
	if at, found := slices.BinarySearchFunc(s.Nodes, id, byID); found {
		return s.Nodes[at]
	}
	return nil
}

// URL returns the address of a node for callers, with its scheme, or "" if it has none.
func URL(n *clusterpb.Node) string {
	switch {
	case n.GetHttpAddr() == "":
		return ""
	case n.GetHttps():
		return "https://" + n.GetHttpAddr()
	}
	return "http://" + n.GetHttpAddr()
}
