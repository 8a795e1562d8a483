package reshape

import (
	"fmt"
	"slices"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Shard is a shard as the reconciler sees it.
type Shard struct {
	Record *clusterpb.Shard
	Group  *clusterpb.Membership // nil: no leader has answered
	// CaughtUp reports whether the replica on a node, a member without a vote, may become a voter.
	CaughtUp func(node string) bool
	// Well reports whether a node is fit to lead.
	Well func(node string) bool
	// MayAdd returns the reason why it is not the turn of a replica on a node, or "".
	MayAdd func(node string) string
}

// The names of the steps. A shard takes them about in this order; see the table of the package.
const (
	Place    = "place"    // a node gets an empty replica
	Join     = "join"     // the replica gets the log
	Promote  = "promote"  // the replica gets a vote
	Transfer = "transfer" // another replica gets the leadership
	Remove   = "remove"   // a replica leaves the group
	Drop     = "drop"     // a node deletes its replica
	Settle   = "settle"   // the target is reached
)

// Step is one step of a shard. Name and one of the other fields are set; none: the shard is where it should be, or
// waits.
type Step struct {
	Name   string
	Assign *clusterpb.Assign      // to be committed by the control group
	Change *clusterpb.MembersCall // to be made by the shard's leader
	Settle *clusterpb.Retarget    // to be committed by the control group: the target is reached
}

// String names the step for logs.
func (s Step) String() string {
	switch {
	case s.Assign != nil:
		return fmt.Sprintf("replicas on %v", s.Assign.Replicas)
	case s.Settle != nil:
		return "the target is reached"
	}
	switch c := s.Change.GetChange().(type) {
	case *clusterpb.MembersCall_AddNonvoter:
		return "node " + c.AddNonvoter + " gets the log"
	case *clusterpb.MembersCall_AddVoter:
		return "node " + c.AddVoter + " gets a vote"
	case *clusterpb.MembersCall_Remove:
		return "node " + c.Remove + " is removed"
	case *clusterpb.MembersCall_Transfer:
		return "node " + c.Transfer + " gets the leadership"
	}
	return "none"
}

// Wait is a reason why a shard takes no step. The zero Wait is none.
type Wait struct {
	Class  clusterpb.MoveWait
	Reason string // for people
}

func waitFor(class clusterpb.MoveWait, format string, args ...any) Wait {
	return Wait{class, fmt.Sprintf(format, args...)}
}

// Next returns the shard's next step. If it returns none, waits is the reason, or zero if none is left.
func Next(s Shard) (step Step, waits Wait) {
	if len(s.Record.Target) == 0 {
		return Step{}, Wait{}
	}
	if s.Group == nil {
		return Step{}, waitFor(clusterpb.MoveWait_MOVE_WAIT_NO_LEADER, "shard %d has no leader that answers", s.Record.Id)
	}
	rules := []rule{s.mend, s.drop, s.dismiss, s.join, s.promote, s.add, s.handOver, s.remove, s.settle}
	for _, next := range s.flawOrders(rules) {
		if step, waits = next(); step != (Step{}) || waits != (Wait{}) {
			return step, waits
		}
	}
	return Step{}, Wait{}
}

// rule returns the next step by one row of the table in the package's documentation, or why the shard waits. It returns
// neither if the row does not apply.
type rule func() (Step, Wait)

// mend takes a faulty replica out of the group and then out of the record, so that its node deletes it. The target has
// the node, and so gets a copy afterwards.
func (s Shard) mend() (Step, Wait) {
	node := s.Record.Mending
	if !slices.Contains(s.Record.Replicas, node) || s.Record.Joined[node] > s.Record.MendingSince {
		return Step{}, Wait{}
	}
	rest := slices.DeleteFunc(slices.Clone(s.Record.Replicas), func(id string) bool { return id == node })
	switch {
	case s.member(node) == nil:
		return s.assign(Drop, rest), Wait{}
	case s.Group.Leader == node:
		votes := func(id string) bool { return s.member(id) != nil && s.member(id).Voter }
		return s.transferTo(slices.DeleteFunc(rest, func(id string) bool { return !votes(id) }))
	}
	return s.change(Remove, &clusterpb.MembersCall{Change: &clusterpb.MembersCall_Remove{Remove: node}}), Wait{}
}

// drop takes a node that is no member any more, and should not be, out of the record.
func (s Shard) drop() (Step, Wait) {
	for _, node := range s.Record.Replicas {
		if !s.isTarget(node) && s.member(node) == nil {
			rest := slices.DeleteFunc(slices.Clone(s.Record.Replicas), func(id string) bool { return id == node })
			return s.assign(Drop, rest), Wait{}
		}
	}
	return Step{}, Wait{}
}

// dismiss removes a member without a vote that is not in the target: the target has changed on its way.
func (s Shard) dismiss() (Step, Wait) {
	for _, m := range s.Group.Members {
		if !m.Voter && !s.isTarget(m.Node) {
			return s.change(Remove, &clusterpb.MembersCall{Change: &clusterpb.MembersCall_Remove{Remove: m.Node}}), Wait{}
		}
	}
	return Step{}, Wait{}
}

// join makes the shard's leader send its log to a replica. After drop, every replica without membership is in the
// target.
func (s Shard) join() (Step, Wait) {
	for _, node := range s.Record.Replicas {
		if s.member(node) == nil {
			return s.change(Join, &clusterpb.MembersCall{Change: &clusterpb.MembersCall_AddNonvoter{AddNonvoter: node}}), Wait{}
		}
	}
	return Step{}, Wait{}
}

// promote gives a vote to a replica that has caught up. The shard waits for it: one copy of a shard is under way at a
// time.
func (s Shard) promote() (Step, Wait) {
	for _, m := range s.Group.Members {
		switch {
		case m.Voter:
		case s.CaughtUp(m.Node):
			return s.change(Promote, &clusterpb.MembersCall{Change: &clusterpb.MembersCall_AddVoter{AddVoter: m.Node}}), Wait{}
		case m.SilenceMs < 0:
			return Step{}, waitFor(clusterpb.MoveWait_MOVE_WAIT_NODE_SILENT,
				"node %s does not answer the leader of shard %d", m.Node, s.Record.Id)
		default:
			return Step{}, waitFor(clusterpb.MoveWait_MOVE_WAIT_COPY,
				"node %s has not caught up with shard %d: it lacks %d log entries", m.Node, s.Record.Id, m.Lag)
		}
	}
	return Step{}, Wait{}
}

// add gives a node of the target a replica.
func (s Shard) add() (Step, Wait) {
	for _, node := range s.Record.Target {
		if slices.Contains(s.Record.Replicas, node) {
			continue
		}
		if why := s.MayAdd(node); why != "" {
			return Step{}, Wait{clusterpb.MoveWait_MOVE_WAIT_TURN, why}
		}
		more := append(slices.Clone(s.Record.Replicas), node)
		slices.Sort(more)
		return s.assign(Place, more), Wait{}
	}
	return Step{}, Wait{}
}

// handOver gives the leadership to a node of the target.
func (s Shard) handOver() (Step, Wait) {
	if s.isTarget(s.Group.Leader) {
		return Step{}, Wait{}
	}
	heirs := slices.Clone(s.Record.Target)
	if slices.Contains(heirs, s.Record.Preferred) {
		heirs = append([]string{s.Record.Preferred}, heirs...)
	}
	return s.transferTo(heirs)
}

// transferTo gives the leadership to the first of the nodes that is fit to lead.
func (s Shard) transferTo(heirs []string) (Step, Wait) {
	for _, node := range heirs {
		if s.Well(node) {
			return s.change(Transfer, &clusterpb.MembersCall{Change: &clusterpb.MembersCall_Transfer{Transfer: node}}), Wait{}
		}
	}
	return Step{}, waitFor(clusterpb.MoveWait_MOVE_WAIT_NO_HEIR,
		"no node of shard %d's target is fit to lead", s.Record.Id)
}

// remove takes the vote from a node that is not in the target, first from the node with the longest silence: while a
// lost node votes, the shard can lose fewer others.
func (s Shard) remove() (Step, Wait) {
	var gone *clusterpb.Member
	for _, m := range s.Group.Members {
		if !s.isTarget(m.Node) && (gone == nil || silence(m) > silence(gone)) {
			gone = m
		}
	}
	if gone == nil {
		return Step{}, Wait{}
	}
	return s.change(Remove, &clusterpb.MembersCall{Change: &clusterpb.MembersCall_Remove{Remove: gone.Node}}), Wait{}
}

// settle ends the move.
func (s Shard) settle() (Step, Wait) {
	return Step{Name: Settle, Settle: &clusterpb.Retarget{Shards: []*clusterpb.Shard{{Id: s.Record.Id}}}}, Wait{}
}

func silence(m *clusterpb.Member) uint64 { return uint64(m.SilenceMs) } // -1, no contact, is the longest

func (s Shard) isTarget(node string) bool { return slices.Contains(s.Record.Target, node) }

func (s Shard) member(node string) *clusterpb.Member {
	for _, m := range s.Group.Members {
		if m.Node == node {
			return m
		}
	}
	return nil
}

func (s Shard) assign(name string, replicas []string) Step {
	return Step{Name: name, Assign: &clusterpb.Assign{Shard: s.Record.Id, Revision: s.Record.Revision, Replicas: replicas}}
}

func (s Shard) change(name string, call *clusterpb.MembersCall) Step {
	call.Seen = s.Group
	return Step{Name: name, Change: call}
}
