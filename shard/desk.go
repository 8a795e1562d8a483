package shard

import (
	"time"

	"github.com/belfryhq/belfry/fsm"
)

// Demand is what one consumer asks of a pulled lane: at most Max tasks more.
type Demand struct {
	Tag   uint64 // of the demand; never 0, and not used again in a leadership
	Max   int
	Lease time.Duration
}

// desk is where consumers wait for tasks, as far as the workers of a leadership know. Its calls must not block.
//
// Whoever implements it calls leadership.demand when a lane's demand appears, grows or goes.
type desk interface {
	// Demands returns what is asked of a lane, in the order in which it is to be served. The proposer asks while it puts
	// an entry together, which may name any of these: until Granted, tasks may come for each, also if it is withdrawn
	// meanwhile. The slice is the caller's.
	Demands(lane fsm.Lane) []Demand
	// Granted ends that, also when the entry was not proposed or did not commit: these are the grants that it made for
	// demands, in order. Each is followed by Start or GivenBack, unless the leadership ends before.
	Granted(grants []fsm.Grant)
	// Start hands over granted tasks whose instants have come.
	Start(grants []fsm.Grant)
	// GivenBack says that these are not started after all; the tasks go back to their lane.
	GivenBack(grants []fsm.Grant)
}

// demand has the proposer look at what a lane's consumers ask for.
func (l *leadership) demand(lane fsm.Lane) {
	l.proposer.queue.tell(func(b *book) { b.demandChanged(lane) })
}

// closedDesk has no consumers.
type closedDesk struct{}

func (closedDesk) Demands(fsm.Lane) []Demand { return nil }
func (closedDesk) Granted([]fsm.Grant)       {}
func (closedDesk) Start([]fsm.Grant)         {}
func (closedDesk) GivenBack([]fsm.Grant)     {}
