package fsm

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The contract's limits of a lease.
const (
	MaxLeaseTasks = 1000           // of one call
	MinLease      = time.Second    // shorter ones would end on their way to the consumer
	MaxLease      = 12 * time.Hour // from the grant, or from an extension
	DefaultLease  = 30 * time.Second
)

// LeaseRequest is what a consumer asks for: up to Max due tasks of a queue that name no target, each for Lease.
type LeaseRequest struct {
	Namespace, Queue string
	Max              int
	Lease            time.Duration
}

// Leased is what one shard answers to a LeaseRequest.
type Leased struct {
	Tasks []*fsmpb.Task // with payload, fence and lease end
	Ready int           // how many more wait in the lane
}

// Queue is a queue as its callers see it.
type Queue struct {
	Policy *fsmpb.QueuePolicy // nil: it has none of its own
	Counts *fsmpb.QueueCounts
}
