package history

import "time"

// Instant is a reading of the run's clock, in nanoseconds of Unix time. 0 stands for no instant.
type Instant int64

// Forever is later than every instant of a run.
const Forever Instant = 1<<63 - 1

// At converts a time without a monotonic reading, such as a due time. It returns 0 for the zero time.
func At(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.UnixNano())
}

// Time returns the instant as UTC time on the machine's clock.
func (i Instant) Time() time.Time { return time.Unix(0, int64(i)).UTC() }

// Add returns the instant d after i. Adding to Forever returns Forever.
func (i Instant) Add(d time.Duration) Instant {
	if i == Forever {
		return i
	}
	return i + Instant(d)
}

// Sub returns the time from j to i.
func (i Instant) Sub(j Instant) time.Duration { return time.Duration(i - j) }

// Kind is the kind of request that a call makes.
type Kind string

// The kinds of calls. Get is a linearizable read, Stale reads the replica of one node. Ack, Nack, Extend and Release
// settle the lease that has the fence in Ask.Fence.
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

// Changes reports whether a call of that kind may change a task.
func (k Kind) Changes() bool { return k != Get && k != Stale }

// Settles reports whether a call of that kind is about a lease.
func (k Kind) Settles() bool { return k == Ack || k == Nack || k == Extend || k == Release }

// Outcome says whether a call took effect, as far as the caller knows.
type Outcome string

// The outcomes. A Failed call certainly had no effect: it was refused, not committed, or never sent.
const (
	Open    Outcome = "" // no answer was recorded; means the same as Unknown
	OK      Outcome = "ok"
	Failed  Outcome = "failed"
	Unknown Outcome = "unknown"
)

// Call is one try of an operation: one request, or one line of a batch request.
type Call struct {
	Op   int64  `json:"op"` // number of the operation; all its tries share the idempotency key
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
	Node string `json:"node"`
	// Namespace is the namespace of the call; empty: the default one.
	Namespace string `json:"namespace,omitempty"`
	Batch     bool   `json:"batch,omitempty"`
	Final     bool   `json:"final,omitempty"` // a read made after all faults were healed and the cluster was at rest
	Ask       Ask    `json:"ask,omitzero"`

	Start   Instant `json:"-"`
	End     Instant `json:"-"` // 0: the call was never answered
	Outcome Outcome `json:"-"`
	Answer  Answer  `json:"-"`
}

// Ending is the outcome and the answer of a call.
type Ending struct {
	Outcome Outcome `json:"outcome"`
	Answer  Answer  `json:"answer,omitzero"`
}

// Ask holds the parameters of a changing call.
type Ask struct {
	FireAt     Instant       `json:"fire_at,omitempty"`
	Delay      time.Duration `json:"delay,omitempty"` // delay to the fire time, to a nack's retry, or to an extended end
	Body       uint64        `json:"body,omitempty"`  // hash of the call's payload, which names Op
	Group      string        `json:"group,omitempty"`
	OrSchedule bool          `json:"or_schedule,omitempty"`
	IfAbsent   bool          `json:"if_absent,omitempty"`
	IfRevision uint64        `json:"if_revision,omitempty"`
	Expires    bool          `json:"expires,omitempty"` // the task becomes a dead letter if no attempt begins in time
	Fence      uint64        `json:"fence,omitempty"`   // of a settle: fence of the lease
}

// Answer is the answer to a call. Which fields are set depends on the kind of the call.
type Answer struct {
	Status   int     `json:"status,omitempty"` // HTTP status; 0: no answer, or the client hides the status of a success
	Revision uint64  `json:"revision,omitempty"`
	Shard    uint32  `json:"shard,omitempty"`
	State    string  `json:"state,omitempty"`
	Previous string  `json:"previous,omitempty"` // of a schedule: state of the replaced task; empty: there was no task
	FireAt   Instant `json:"fire_at,omitempty"`
	Attempts int     `json:"attempts,omitempty"`
	Body     uint64  `json:"body,omitempty"`  // hash of the task's payload
	Wrote    int64   `json:"wrote,omitempty"` // number of the operation that the payload names
	Cancel   string  `json:"cancel,omitempty"`
	Replaced bool    `json:"replaced,omitempty"` // of a settle: not done, the task was rescheduled since the lease
	Error    string  `json:"error,omitempty"`

	Misjudged bool `json:"misjudged,omitempty"` // the client reported the call as not done without being able to know that
	Resent    bool `json:"resent,omitempty"`    // the request was sent several times: this may repeat an earlier answer
}

// Arrival is a delivery attempt as the receiver saw it, or a lease as its consumer got it.
type Arrival struct {
	At Instant `json:"-"`
	ID string  `json:"id"`
	// Namespace is the one that the request names, or that of the consumer; empty: the default one.
	Namespace string  `json:"namespace,omitempty"`
	WebhookID string  `json:"webhook_id"`
	Attempt   int     `json:"attempt"`
	Fence     uint64  `json:"fence"`
	Due       Instant `json:"due"`
	// Scheduled is the instant of the rule, of an occurrence; 0: not shown.
	Scheduled Instant `json:"scheduled,omitempty"`
	Group     string  `json:"group,omitempty"`
	Path      string  `json:"path,omitempty"` // of the target's URL, below the receiver's
	Body      uint64  `json:"body"`
	Wrote     int64   `json:"wrote"`  // number of the operation that the body names; 0: none
	Answer    int     `json:"answer"` // HTTP status that the receiver answered; 0: none

	Held time.Duration `json:"held,omitempty"` // time that the receiver took to answer

	Pulled    bool    `json:"pulled,omitempty"`     // the arrival is a lease; calls of their own settle it
	Shard     uint32  `json:"shard,omitempty"`      // of a lease: its task's shard
	Asked     Instant `json:"asked,omitempty"`      // of a lease: start of the call that returned it
	LeaseEnds Instant `json:"lease_ends,omitempty"` // of a lease: its end as the service announced it
	// LeaseFor is the requested length of a lease; 0: not recorded.
	LeaseFor time.Duration `json:"lease_for,omitempty"`
}

// Delivered reports whether the receiver's answer accepted the attempt. It is false for a lease without an Answer: a
// consumer accepts a lease with an ack.
func (a Arrival) Delivered() bool { return a.Answer >= 200 && a.Answer <= 299 }

// The fault kinds whose names the checks know. Package faults alone names the other kinds.
const (
	KillLeader  = "kill -9 of a leader"
	KillAll     = "kill -9 of all nodes"
	PauseLeader = "pause of a leader"

	OnePath = "one path of the receiver fails"

	SilentGossip = "silent gossip"
	ForgedGossip = "forged gossip"

	HalfSent = "half-sent requests"
)

// Fault is one injected fault, from its start until it is mended. Several faults may be under way at once.
type Fault struct {
	Kind   string   `json:"kind"`
	Detail string   `json:"detail,omitempty"` // size and length of the fault, in words
	Path   string   `json:"path,omitempty"`   // the one path of the receiver that the fault struck, as Arrival.Path
	Nodes  []string `json:"nodes"`            // names of the nodes that the fault struck
	Shards []uint32 `json:"shards"`           // shards that these nodes led when it struck

	// Skew is the offset that the fault gave the nodes' clocks, positive if ahead; 0: it left the clocks alone.
	Skew time.Duration `json:"skew,omitempty"`
	// Alone is set if each of the nodes is a cluster of one, so that no other clock contradicts its own.
	Alone bool `json:"alone,omitempty"`
	// Deaf is set if the nodes may have missed receivers' answers while they kept leading, and so repeated attempts.
	Deaf bool `json:"deaf,omitempty"`
	// Planned is set if an operator may do the same to a healthy cluster at any time.
	Planned bool `json:"planned,omitempty"`
	// Asked is set if the nodes were asked to stop, one after the other. They end their attempts and give their
	// leaderships away before they stop.
	Asked bool `json:"asked,omitempty"`
	// Survivable is set if a majority of each shard's replicas stays up, so that every shard must take writes again before
	// the fault is mended.
	Survivable bool `json:"survivable,omitempty"`
	// Spared is set if the nodes' processes went on all the time, as in a fault of the network.
	Spared bool `json:"spared,omitempty"`
	// Restarted is set if the nodes' processes ended and were started again.
	Restarted bool `json:"restarted,omitempty"`

	Struck  Instant `json:"-"`
	Mending Instant `json:"-"` // when the nodes were started again or resumed; 0: never
	Mended  Instant `json:"-"` // when the nodes were ready again; 0: never
}

// Term is an observation of a shard's leader from outside the cluster. It records a new term, or, if its number is that
// of the shard's record before it, the last sight of that same term.
type Term struct {
	Shard  uint32  `json:"shard"`
	Term   uint64  `json:"term"`
	Leader string  `json:"leader"` // name of the leading node
	Before Instant `json:"before"` // last sight of the previous term, or of this term if repeated; 0: first term
	At     Instant `json:"-"`
}

// Owner is the first sight of a range of slots at a shard that owns it.
type Owner struct {
	Shard uint32  `json:"shard"`
	First uint32  `json:"first"`
	End   uint32  `json:"end"` // the slot behind the last one
	At    Instant `json:"-"`
}

// Replica is the position of one node's copy of a shard at the end of the run, as the node itself reports it. A record
// with Diverged set may come at any time: the nodes reported that this copy differs from the others.
type Replica struct {
	At       Instant `json:"-"`
	Shard    uint32  `json:"shard"`
	Node     string  `json:"node"`
	Applied  uint64  `json:"applied"`
	Hash     string  `json:"hash,omitempty"` // hash of the replica's state; empty: no node reports it
	Diverged bool    `json:"diverged,omitempty"`
}

// History is the record of one run. Each list is in the order of its entries' first instants.
type History struct {
	Calls    []Call
	Arrivals []Arrival // of tasks that calls scheduled
	Faults   []Fault
	Terms    []Term
	Owners   []Owner
	Replicas []Replica
	Entries  []Entry
	Trials   []Trial
	Rolls    []Roll

	Occurrences   []Arrival // arrivals of tasks that are occurrences of schedules
	ScheduleCalls []ScheduleCall
	Tallies       []Tally

	Namespace string // of all calls and arrivals, if In made the history
}
