package control

import (
	"fmt"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup"
)

// Version is the newest command version that this build writes and reads. The control group and the shards share the
// numbers, so that one number of a node describes all logs that it can read.
const Version = fsm.CommandVersion

const firstVersion = fsm.FirstVersion

// versionOf returns the lowest command version at which an entry may be written. An operation that is not known here
// needs the newest.
func versionOf(entry *clusterpb.ControlEntry) uint32 {
	if raise := entry.GetRaise(); raise != nil {
		return raise.Version
	}
	if entry.GetBeginBulk().GetOperation().GetSchedules() {
		return Version
	}
	if k, _, known := kindOf(entry); known {
		return k.since
	}
	return Version
}

// InForce returns the newest command version that the shards and the control group may write.
func InForce(state *clusterpb.ControlState) uint32 { return max(state.CommandVersion, firstVersion) }

// BehindError refuses an entry or a command because nodes of the cluster do not read its command version. It wraps
// task.ErrNotProposed.
type BehindError struct {
	Needed uint32   // the command version of the entry
	Nodes  []string // names of the nodes that read only older versions; empty: no node has registered yet
}

func (e *BehindError) Error() string {
	if len(e.Nodes) == 0 {
		return fmt.Sprintf("it needs command version %d, and no node is registered yet", e.Needed)
	}
	return fmt.Sprintf("it needs command version %d, which all nodes must read: upgrade %s, or lift the node's "+
		"--hold-version", e.Needed, strings.Join(e.Nodes, " and "))
}

// Unwrap returns task.ErrNotProposed.
func (e *BehindError) Unwrap() error { return task.ErrNotProposed }

// MayWrite returns a *BehindError if the command version may not be written yet. The version in force never falls, so
// an answer of nil stays valid.
func MayWrite(state *clusterpb.ControlState, version uint32) error {
	if version <= InForce(state) {
		return nil
	}
	behind := &BehindError{Needed: version}
	for _, n := range state.Nodes {
		if n.CommandVersion < version {
			behind.Nodes = append(behind.Nodes, fmt.Sprintf("node %s (%s)", n.Name, n.Id))
		}
	}
	return behind
}

// raisable returns the command version in force if no entry of it was written yet, and 0 otherwise. All members of the
// group must be registered, since a member without a registration may read less.
func raisable(state *clusterpb.ControlState, members []raftgroup.Member) uint32 {
	unknown := func(m raftgroup.Member) bool { return Node(state, m.NodeID) == nil }
	if state.CommandVersion <= max(state.Version, firstVersion) || slices.ContainsFunc(members, unknown) {
		return 0
	}
	return state.CommandVersion
}

func raise(version uint32) step {
	entry := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_Raise{Raise: &clusterpb.Raise{Version: version}}}
	return step{what: fmt.Sprintf("raise the command version to %d", version), entry: entry}
}
