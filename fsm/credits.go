package fsm

import (
	"cmp"
	"math"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// taker is the receiver of a grant: a consumer or, for the zero taker, the target that the lane pushes to.
type taker struct {
	leaseMs int64
	tag     uint64
	holder  uint32
	ready   bool // takes from the lane's ready tasks, and not a task in the moment in which it comes due
}

// credits holds the grants that an advance may make.
type credits struct {
	policy *fsmpb.Policy
	named  map[task.Lane][]*fsmpb.LaneCredit // credits of the lanes that the leader named
	pushes int                               // grants that pushed lanes may still take, over all of them
}

func newCredits(op *fsmpb.Advance) *credits {
	c := &credits{policy: op.Policy, pushes: cmp.Or(int(op.Attempts), math.MaxInt)}
	if len(op.Credits) > 0 {
		c.named = make(map[task.Lane][]*fsmpb.LaneCredit, len(op.Credits))
	}
	for _, credit := range op.Credits {
		key := laneOf(credit.Lane)
		c.named[key] = append(c.named[key], credit)
	}
	return c
}

// take uses up the credit for one grant in a lane and reports whether there was any. A pushed lane that the leader did
// not name has the credit of the policy's window, unless its queue is held. A pulled lane has its consumers' demand. A
// group's lane has none.
func (c *credits) take(l *store.Lane) (taker, bool) {
	switch {
	case l.Group != "":
		return taker{}, false
	case l.Pulled():
		return c.takeLease(l)
	case c.pushes == 0 || !c.takePush(l):
		return taker{}, false
	}
	c.pushes--
	return taker{}, true
}

func (c *credits) takePush(l *store.Lane) bool {
	for _, credit := range c.named[l.Lane] {
		if credit.LeaseMs == 0 {
			if credit.Grants == 0 {
				return false
			}
			credit.Grants--
			return true
		}
	}
	return !l.Rule().Held && l.Firing() < int(c.policy.GetWindow())
}

func (c *credits) takeLease(l *store.Lane) (taker, bool) {
	for _, credit := range c.named[l.Lane] {
		t := taker{credit.LeaseMs, credit.Tag, credit.Holder, false}
		if t.mayTakeFrom(l) && credit.Grants > 0 {
			credit.Grants--
			return t, true
		}
	}
	return taker{}, false
}

// mayTakeFrom reports whether the taker suits the kind of the lane. Consumers take from pulled lanes only, targets
// from pushed lanes only.
func (t taker) mayTakeFrom(l *store.Lane) bool {
	if l.Pulled() {
		return t.leaseMs > 0 && t.tag != 0
	}
	return t.leaseMs == 0
}

func laneOf(l *fsmpb.Lane) task.Lane {
	return task.Lane{
		Namespace: task.CanonicalNamespace(l.GetNamespace()), Queue: cmp.Or(l.GetQueue(), task.DefaultQueue),
		Destination: l.GetDestination(), Path: l.GetPath(), Group: l.GetGroup(),
	}
}
