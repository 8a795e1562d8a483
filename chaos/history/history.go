package history

import "time"

// Instant is a reading of the run's clock in nanoseconds of Unix time; 0: none.
type Instant int64

// Forever is after every instant of a run.
const Forever Instant = 1<<63 - 1

// At converts a time that carries no monotonic reading of its own, such as a due time.
func At(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.UnixNano())
}

// Time is the instant on the machine's clock.
func (i Instant) Time() time.Time { return time.Unix(0, int64(i)).UTC() }

// Add is the instant d later. Forever stays.
func (i Instant) Add(d time.Duration) Instant {
	if i == Forever {
		return i
	}
	return i + Instant(d)
}

// Sub is the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Kind is what a call asks for.
type Kind string

// The kinds of calls. Get is linearizable, Stale is what one node's replica holds. Ack, Nack, Extend and Release settle
// the lease whose fence they ask with.
const (
	Schedule Kind = "schedule"
	Patch    Kind = "patch"
	Touch    Kind = "touch"
	Cancel   Kind = "cancel"
	Fire     Kind = "fire"
	Ack      Kind = "ack"
	Nack     Kind = "nack"
	Extend   Kind = "extend"
	Release  Kind = "release"
	Get      Kind = "get"
	Stale    Kind = "stale"
)

// Changes tells whether a call of that kind may change a task.
func (k Kind) Changes() bool { return k != Get && k != Stale }

// Settles tells whether a call of that kind is about a lease.
func (k Kind) Settles() bool { return k == Ack || k == Nack || k == Extend || k == Release }

// Outcome is what is known of a call.
type Outcome string

// The outcomes. Failed is known not to have happened: refused, not committed, or never sent.
const (
	Open    Outcome = "" // no answer was recorded: as Unknown
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Unknown Outcome = "unknown"
)

// Call is one request, or one line of a batch.
type Call struct {
	Op    int64  `json:"op"` // the operation that it tries to carry out; all tries share the idempotency key
	Kind  Kind   `json:"kind"`
	ID    string `json:"id"`
	Node  string `json:"node"`
	Batch bool   `json:"batch,omitempty"`
	Final bool   `json:"final,omitempty"` // a read after everything was healed and had come to rest
	Ask   Ask    `json:"ask,omitzero"`

	Start   Instant `json:"-"`
	End     Instant `json:"-"` // 0: never answered
	Outcome Outcome `json:"-"`
	Answer  Answer  `json:"-"`
}

// Ending is what a call came to.
type Ending struct {
	Outcome Outcome `json:"outcome"`
	Answer  Answer  `json:"answer,omitzero"`
}

// Ask is what a changing call wants.
type Ask struct {
	FireAt     Instant       `json:"fire_at,omitempty"`
	Delay      time.Duration `json:"delay,omitempty"` // in place of FireAt; of a nack to the retry, of an extend its lease
	Body       uint64        `json:"body,omitempty"`  // hash of the payload that it carries; the payload names Op
	OrSchedule bool          `json:"or_schedule,omitempty"`
	IfAbsent   bool          `json:"if_absent,omitempty"`
	IfRevision uint64        `json:"if_revision,omitempty"`
	Expires    bool          `json:"expires,omitempty"` // what is not begun in time shall become a dead letter
	Fence      uint64        `json:"fence,omitempty"`   // of the lease that a consumer settles or extends
}

// Answer is what came back. Which fields are set depends on the call.
type Answer struct {
	Status   int     `json:"status,omitempty"` // HTTP's; 0: there was no answer, or the client hides that of a success
	Revision uint64  `json:"revision,omitempty"`
	Shard    uint32  `json:"shard,omitempty"`
	State    string  `json:"state,omitempty"`
	Previous string  `json:"previous,omitempty"` // of a schedule: the state that it replaced; empty: there was no task
	FireAt   Instant `json:"fire_at,omitempty"`
	Attempts int     `json:"attempts,omitempty"`
	Body     uint64  `json:"body,omitempty"`  // hash of the task's payload
	Wrote    int64   `json:"wrote,omitempty"` // the operation that the payload names
	Cancel   string  `json:"cancel,omitempty"`
	Replaced bool    `json:"replaced,omitempty"` // of a settle: the task was scheduled anew since, and nothing was settled
	Error    string  `json:"error,omitempty"`

	Misjudged bool `json:"misjudged,omitempty"` // the client called it not done, which it could not know
	Resent    bool `json:"resent,omitempty"`    // the request went out more than once: this may repeat an earlier answer
}

// Arrival is one attempt as the receiver saw it, or one lease as its consumer got it.
type Arrival struct {
	At        Instant `json:"-"`
	ID        string  `json:"id"`
	WebhookID string  `json:"webhook_id"`
	Attempt   int     `json:"attempt"`
	Fence     uint64  `json:"fence"`
	Due       Instant `json:"due"`
	Body      uint64  `json:"body"`
	Wrote     int64   `json:"wrote"`  // the operation that the body names; 0: it names none
	Answer    int     `json:"answer"` // the status that the receiver gave, 0 if none,

	Held time.Duration `json:"held,omitempty"` // after so long

	Pulled    bool    `json:"pulled,omitempty"`     // it is a lease, and its settling is calls of its own
	Shard     uint32  `json:"shard,omitempty"`      // of a lease
	Asked     Instant `json:"asked,omitempty"`      // of a lease: when the call that brought it began
	LeaseEnds Instant `json:"lease_ends,omitempty"` // of a lease: when it ends by the service's word
	// LeaseFor is for how long a lease was asked for; 0: that was not recorded.
	LeaseFor time.Duration `json:"lease_for,omitempty"`
}

// Delivered tells whether the receiver took it by its answer. A lease is taken by an ack.
func (a Arrival) Delivered() bool { return a.Answer >= 200 && a.Answer <= 299 }

// The kinds of faults whose names the checks know. The others are named by package faults alone.
const (
	KillLeader  = "kill -9 of a leader"
	KillAll     = "kill -9 of all nodes"
	PauseLeader = "pause of a leader"

	SilentGossip = "silent gossip"
	ForgedGossip = "forged gossip"
)

// Fault is something that was broken and mended. Several may be under way at once.
type Fault struct {
	Kind   string   `json:"kind"`
	Detail string   `json:"detail,omitempty"` // how much, how long, in words
	Nodes  []string `json:"nodes"`            // those that it struck
	Shards []uint32 `json:"shards"`           // those that the nodes led

	// Skew is by how much the nodes' clocks were moved, ahead if it is positive, 0 if they were not.
	Skew time.Duration `json:"skew,omitempty"`
	// Alone: each of the nodes is all of its cluster, so that no other clock can contradict its own.
	Alone bool `json:"alone,omitempty"`
	// Deaf: the nodes may not have heard what receivers answered, while they led on, so that they made attempts again.
	Deaf bool `json:"deaf,omitempty"`
	// Restarted: the nodes' processes ended, and were started again.
	Restarted bool `json:"restarted,omitempty"`

	Struck  Instant `json:"-"`
	Mending Instant `json:"-"` // when the nodes were started again, or let go on
	Mended  Instant `json:"-"` // when they were ready again
}

// Term is a change of a shard's leadership as it was seen from outside, or, with the term of the one before, that this
// was still seen.
type Term struct {
	Shard  uint32  `json:"shard"`
	Term   uint64  `json:"term"`
	Leader string  `json:"leader"` // a node's name
	Before Instant `json:"before"` // when the term before was last seen; 0: it is the first that was seen
	At     Instant `json:"-"`
}

// Replica is how far one copy of a shard was, at the end, by its own node's word; or, at any time, that it was said to
// have diverged.
type Replica struct {
	At       Instant `json:"-"`
	Shard    uint32  `json:"shard"`
	Node     string  `json:"node"`
	Applied  uint64  `json:"applied"`
	Hash     string  `json:"hash,omitempty"` // of its state; empty: nobody says
	Diverged bool    `json:"diverged,omitempty"`
}

// History is a run. Each list is in the order of its first instants.
type History struct {
	Calls    []Call
	Arrivals []Arrival
	Faults   []Fault
	Terms    []Term
	Replicas []Replica
}
