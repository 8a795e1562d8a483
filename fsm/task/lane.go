package task

import "math"

// Lane names a receiver: one destination of a queue or, with an empty Destination, the receiver of the queue's tasks
// that name no target. That receiver is the queue's own target or its consumers. The tasks of each group have a lane of
// their own beside the lane of the receiver's other tasks. So have the tasks for an isolated path of the destination,
// which the leader judges as a receiver of its own. Path is empty for all other paths.
type Lane struct {
	Namespace, Queue, Destination, Path, Group string
}

// Destined returns the lane of the tasks for all other paths of the receiver's destination, without a group.
func (l Lane) Destined() Lane {
	l.Path, l.Group = "", ""
	return l
}

// The largest numbers of isolated paths of a receiver and of a shard.
const (
	MaxIsolatedPaths = 64
	MaxIsolated      = 4096
)

// Receiver returns the lane of the receiver's tasks without a group.
func (l Lane) Receiver() Lane {
	l.Group = ""
	return l
}

// LaneLoad holds the numbers of tasks in a lane.
type LaneLoad struct {
	Lane     Lane
	Ready    int  // tasks that wait for a grant
	Firing   int  // tasks with a grant, those of consumers included
	Retrying int  // tasks of a group or an isolated path that wait for their next attempt; otherwise 0
	Pulled   bool // the tasks wait for consumers; otherwise they are pushed to a target
	Isolated bool // the lane is of an isolated path, and has no group

	Waiting [LastPriority]int32 // the ready tasks of each priority, the first priority first
	FirstMs int64               // of a group: due time of the earliest ready task, or BegunMs; 0: none is ready
	NextMs  int64               // of a pulled lane without a group: due time of its first ready task; 0: none is known
}

// BegunMs stands for the due time of a task of which an attempt was made before. It comes before all others of its
// group.
const BegunMs = math.MinInt64

// Grant names a granted attempt. Its task is looked up again when the attempt starts.
type Grant struct {
	Namespace, ID     string
	Fence, Occurrence uint64
	StartMs           int64 // the attempt must not start before this instant on the leader's clock
	Lane              Lane
	Tag               uint64 // the tag of the LaneCredit or Grant that the grant answers; 0: a pushed task
	// Waited reports whether the task was ready before, and waited in its lane: a limit, a pause, a window, the receiver
	// or a missing consumer held it.
	Waited bool
	// Probe is set by the leader if the receiver's breaker is open. A failure then does not count as an attempt.
	Probe bool
	// Renewed is set by the leader for a grant that a Takeover made. The attempt may have started on another node, and is
	// not given back uncounted.
	Renewed bool
}

// LiveLease is a running lease and the boot number of the node that holds it.
type LiveLease struct {
	Grant
	Holder uint32
}
