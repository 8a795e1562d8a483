package task

import (
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// The contract limits leases to these values.
const (
	MaxLeaseTasks = 1000                   // tasks of one call
	MinLease      = 100 * time.Millisecond // a shorter lease would end on its way to the consumer
	MaxLease      = 12 * time.Hour         // from the grant or from an extension
	DefaultLease  = 30 * time.Second
)

// LeaseRequest is a consumer's request for up to Max due tasks of a queue that name no target, each for Lease.
type LeaseRequest struct {
	Namespace, Queue string
	Max              int
	Lease            time.Duration
	// Look ends the wait as soon as every shard's leader has reported an empty queue.
	Look bool
	// Holder is the boot number of the node that the tasks go to; 0 means unknown. A later leader asks that node
	// whether the tasks arrived.
	Holder uint32
}

// Leased is one shard's answer to a LeaseRequest.
type Leased struct {
	Tasks  []*fsmpb.Task // with payload, fence and lease end
	Ready  int           // number of further tasks that wait in the lane
	NextMs int64         // due time of the first of them; 0: not known
}
