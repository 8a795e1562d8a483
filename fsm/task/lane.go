package task

// Lane names a receiver: one destination of a queue or, with an empty Destination, the receiver of the queue's tasks
// that name no target. That receiver is the queue's own target or its consumers.
type Lane struct {
	Namespace, Queue, Destination string
}

// LaneLoad holds the numbers of tasks in a lane.
type LaneLoad struct {
	Lane   Lane
	Ready  int  // tasks that wait for a grant
	Firing int  // tasks with a grant, those of consumers included
	Pulled bool // the tasks wait for consumers; otherwise they are pushed to a target
}

// Grant names a granted attempt. Its task is looked up again when the attempt starts.
type Grant struct {
	Namespace, ID     string
	Fence, Occurrence uint64
	StartMs           int64 // the attempt must not start before this instant on the leader's clock
	Lane              Lane
	Tag               uint64 // the tag of the LaneCredit or Grant that the grant answers; 0: a pushed task
	// Renewed is set by the leader for a grant that a Takeover made. The attempt may have started on another node, and is
	// not given back uncounted.
	Renewed bool
}

// LiveLease is a running lease and the boot number of the node that holds it.
type LiveLease struct {
	Grant
	Holder uint32
}
