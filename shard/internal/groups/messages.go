package groups

import (
	"cmp"
	"time"
)

// MaxWants is the limit on the wants, on the ended groups and on those with unused permits of one Ask.
const MaxWants = 1000

// patience is how long an Ask may wait for a permit.
const patience = 500 * time.Millisecond

// poll is the pause before a round for asks that wait although nothing was heard.
const poll = 250 * time.Millisecond

// Owner identifies a leadership of a queue's owner. Later ones are greater.
type Owner struct {
	Epoch, Term uint64 // of the slot that makes the shard the owner, and of its leader
}

// Compare orders owners by the time of their leaderships.
func (o Owner) Compare(other Owner) int {
	return cmp.Or(cmp.Compare(o.Epoch, other.Epoch), cmp.Compare(o.Term, other.Term))
}

// Limit is what a queue's policy says about each of its groups.
type Limit struct {
	InFlight  int     // attempts and leases under way in the whole cluster; 0: no limit
	InOrder   bool    // in the order of due times; InFlight is 1
	PerSecond float64 // attempts and leases that begin in the whole cluster; 0: no limit
}

// Ask is a leader's request for permits of groups of one queue.
type Ask struct {
	Namespace, Queue string
	Shard            uint32
	Term, Number     uint64   // of the asking leadership, and of the ask in it; later asks have higher numbers
	Wants            []Want   // at most MaxWants
	Ended            []string // groups with fewer attempts under way than before: others may wait for them
	Unused           []Want   // permits of earlier answers that begin no attempt; at most MaxWants
	Lost             uint64   // number of the ask before, if its answer has not arrived; 0: it has
	Wait             bool     // the answer waits for a permit; otherwise it comes after one round
	Epoch            uint64   // of the slot that makes the asked shard the owner, as the asker's node knows it
}

// Want is a number of permits of a group.
type Want struct {
	Group   string
	Permits int
}

// Answer is the answer to an Ask.
type Answer struct {
	Owner Owner
	Given []Given
}

// Given is the permits that a group gets.
type Given struct {
	Group   string
	Permits int
	FirstMs int64 // in order: due time of the task that the permit is for
}

// Look asks a shard's leader where groups of a queue stand.
type Look struct {
	Owner            Owner
	Namespace, Queue string
	Groups           []string
}

// Standing is the answer to a Look.
type Standing struct {
	Shard uint32
	Term  uint64
	Done  uint64 // number of the last ask of the queue whose outcome is in Groups
	// ClearMs is the last instant for which no task waits in the wheel: all tasks that are due by then are in Groups.
	ClearMs int64
	Groups  []Count // in the order of Look.Groups
}

// Count is where a group stands in one shard.
type Count struct {
	UnderWay int   // attempts and leases, and permits not yet used
	Retrying int   // tasks that wait for their next attempts
	Waiting  bool  // a task waits for a permit
	Priority int   // of the best waiting task
	FirstMs  int64 // due time of the earliest waiting task, or task.BegunMs
}
