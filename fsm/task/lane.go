package task

// Lane names who receives: one queue's destination, or, with an empty Destination, whoever gets the queue's tasks that
// name no target: the queue's own target or its consumers.
type Lane struct {
	Namespace, Queue, Destination string
}

// LaneLoad is what a lane holds.
type LaneLoad struct {
	Lane   Lane
	Ready  int  // tasks that wait for a grant
	Firing int  // granted ones, those with a consumer included
	Pulled bool // by consumers; otherwise its tasks are pushed to a target
}

// Grant names a granted attempt. Its task is looked up again when the attempt starts.
type Grant struct {
	Namespace, ID     string
	Fence, Occurrence uint64
	StartMs           int64 // not before this instant on the leader's clock
	Lane              Lane
	Tag               uint64 // whose demand it answers, as the LaneCredit or Grant said; 0: it is pushed
}

// LiveLease is a lease that runs, and the boot number of the node whose consumer it was given to.
type LiveLease struct {
	Grant
	Holder uint32
}
