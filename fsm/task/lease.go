package task

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The contract's limits of a lease.
const (
	MaxLeaseTasks = 1000                   // of one call
	MinLease      = 100 * time.Millisecond // shorter ones would end on their way to the consumer
	MaxLease      = 12 * time.Hour         // from the grant, or from an extension
	DefaultLease  = 30 * time.Second
)

// LeaseRequest is what a consumer asks for: up to Max due tasks of a queue that name no target, each for Lease.
type LeaseRequest struct {
	Namespace, Queue string
	Max              int
	Lease            time.Duration
	// Look has the answer come as soon as every shard's leader has said that nothing is there, and not at the end of the
	// wait.
	Look bool
	// Holder is the run of a node that the tasks go to, which a leader to come asks whether they arrived. 0: not known.
	Holder uint32
}

// Leased is what one shard answers to a LeaseRequest.
type Leased struct {
	Tasks []*fsmpb.Task // with payload, fence and lease end
	Ready int           // how many more wait in the lane
}
