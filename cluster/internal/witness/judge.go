package witness

import (
	"fmt"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Replica describes a starting node's replica of a group.
type Replica struct {
	Term uint64 // its current term, on disk
	Last uint64 // index of the last entry of its log, or of its snapshot
	// Holds reports whether the replica's log has the entry of that index and term, or a snapshot stands for it.
	Holds  func(index, term uint64) bool
	Joined uint64   // revision at which the node got the replica
	Voters []string // node ids, by the newest configuration in its log or snapshot; empty: it knows none
}

// lacks reports whether a replica is older than a position that it was seen to hold; see the package comment.
func (r Replica) lacks(seen Position) bool {
	switch {
	case r.Term != seen.Term:
		return r.Term < seen.Term
	case seen.Index == 0:
		return false
	}
	return !r.Holds(seen.Index, seen.EntryTerm)
}

// Refusal is the error of a node that must not take part. Its text is for the operator.
type Refusal struct {
	Reason string // evidence that the folder is old, or in use twice
	Advice string // instructions to the operator
}

func (r *Refusal) Error() string { return r.Reason + ". " + r.Advice }

// Removed returns the refusal of a node that was removed from the cluster. The node is named by its label and id.
func Removed(node string) *Refusal {
	return &Refusal{Reason: "node " + node + " was removed from the cluster", Advice: adviceRemoved}
}

const (
	adviceRemoved = "Stop it. With an empty data folder it joins as a new node"
	adviceOld     = "This data folder is an older copy, or its disk went back in time: it lacks entries that were " +
		"acknowledged since, and with its vote a majority could undo them. Stop the node, keep this folder aside, and " +
		"put back the newest copy of the node's folder. Without a newer copy replace the node: `belfry node replace`, and " +
		"let it join with an empty data folder. Do NOT edit node.json, do NOT delete " +
		"the file \"witness\" or parts of the folder, and do NOT put other nodes' old copies back to get past this: " +
		"acknowledged tasks would be lost"
	adviceTwice = "The same data folder, or a copy of it, is in use as this node by another process. Stop this one. Do " +
		"NOT stop the other to start this one: the folder of the process that ran last is the newest"
)

// judge compares a starting node's data with another node's record of it. It returns nil if the record does not
// contradict the data.
func judge(cfg CheckConfig, reply *clusterpb.WitnessReply) *Refusal {
	if reply.Removed {
		return Removed(cfg.name(cfg.Node))
	}
	for _, p := range reply.Seen.GetPositions() {
		seen, own := Position{p.Term, p.Index, p.EntryTerm}, cfg.Replicas[p.Group]
		left, hasLeft := cfg.Left[p.Group]
		switch {
		case seen == Position{}:
			continue // the observer has seen nothing of that replica yet
		case cfg.Unread[p.Group]:
			continue // a replica that could not be read does not run
		case hasLeft && p.Joined <= left:
			continue // the replica was removed
		case p.Joined < own.Joined:
			continue // of an earlier replica, which was removed
		case p.Joined == own.Joined && !own.lacks(seen):
			continue
		}
		return &Refusal{
			Reason: fmt.Sprintf("the data folder of node %s ends at %v of %s, and node %s has seen this node acknowledge %v",
				cfg.Node, Position{Term: own.Term, Index: own.Last}, groupName(p.Group), cfg.name(reply.Node), seen),
			Advice: adviceOld,
		}
	}
	if known := runOf(reply.Seen.GetRun()); known.outdates(cfg.Run) {
		return &Refusal{
			Reason: fmt.Sprintf("this is start %d of node %s by its data folder, and node %s has seen it begin start %d "+
				"from another one", cfg.Run.Boot, cfg.Node, cfg.name(reply.Node), known.Boot),
			Advice: adviceOld,
		}
	}
	return nil
}

// controlGroup is the number of the control group; the number of a shard's group is the shard's id.
const controlGroup = 0

func groupName(group uint32) string {
	if group == controlGroup {
		return "the control group"
	}
	return fmt.Sprintf("shard %d", group)
}
