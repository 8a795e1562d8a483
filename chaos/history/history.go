package history

import (
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
)

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
	Follow     bool          `json:"follow,omitempty"`  // each end of the task makes a follow-up whose payload names Op
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

	FollowUps []Arrival // arrivals of tasks that follow the end of another one

	Namespace string // of all calls and arrivals, if In made the history
}

// The kinds of calls about schedules.
const (
	PutSchedule    = "put"
	PauseSchedule  = "pause"
	ResumeSchedule = "resume"
	FireSchedule   = "fire" // begins an occurrence that no rule names
	SkipNext       = "skip"
	BackfillPast   = "backfill"
	DeleteSchedule = "delete"
)

// The policies of schedules that the checks know.
const (
	OverlapAllow = "allow" // occurrences run beside each other
	MisfireAll   = "all"   // all missed occurrences run, up to the last thousand
)

// ScheduleCall is an operation about a schedule, with all its tries. It is recorded once the last try is over.
type ScheduleCall struct {
	Op        int64         `json:"op"`
	Kind      string        `json:"kind"`
	ID        string        `json:"id"`
	Namespace string        `json:"namespace,omitempty"`
	Every     time.Duration `json:"every,omitempty"`   // of a put: the interval; 0: another rule
	Count     int64         `json:"count,omitempty"`   // of a put: most occurrences of its rule; 0: no limit
	Overlap   string        `json:"overlap,omitempty"` // of a put
	Misfire   string        `json:"misfire,omitempty"` // of a put
	Body      uint64        `json:"body,omitempty"`    // of a put: hash of the occurrences' payload, which names Op
	From      Instant       `json:"from,omitempty"`    // of a backfill: its first instant
	To        Instant       `json:"to,omitempty"`      // of a backfill: its last instant
	Start     Instant       `json:"start"`             // of the first try
	End       Instant       `json:"-"`                 // when the last try was answered or given up
	Outcome   Outcome       `json:"outcome"`
	Tries     int           `json:"tries"`
}

// Tally is a schedule as a read at the end of a run shows it, with the occurrences whose tasks were found.
type Tally struct {
	At        Instant       `json:"-"`
	ID        string        `json:"id"`
	Namespace string        `json:"namespace,omitempty"`
	Absent    bool          `json:"absent,omitempty"` // there is no such schedule
	Every     time.Duration `json:"every,omitempty"`  // 0: another rule than an interval
	Anchor    Instant       `json:"anchor,omitempty"` // of the interval
	Last      uint64        `json:"last"`             // number of the last occurrence
	Started   uint64        `json:"started"`
	Passed    uint64        `json:"passed"`
	Running   []uint64      `json:"running,omitempty"`
	Waiting   []uint64      `json:"waiting,omitempty"`
	// Found are the numbers of the occurrences that never arrived, and whose tasks could be read.
	Found []uint64 `json:"found,omitempty"`
}

// occurrenceMark separates the id of a schedule from the number of an occurrence.
const occurrenceMark = "@"

// ScheduleOf returns the id of the schedule that a task is an occurrence of. ok is false for any other task.
func ScheduleOf(taskID string) (id string, ok bool) {
	id, _, ok = strings.Cut(taskID, occurrenceMark)
	return id, ok
}

// FollowedBy returns the id of the task whose end a follow-up follows, and the state in which it ended. ok is false for
// any other task.
func FollowedBy(taskID string) (id, end string, ok bool) {
	at := strings.LastIndex(taskID, occurrenceMark)
	if at < 0 || taskID[at+1:] != "delivered" && taskID[at+1:] != "dead" {
		return "", "", false
	}
	return taskID[:at], taskID[at+1:], true
}

// The kinds of entries and rolls.
const (
	OfKeys       = "keys"
	OfNamespaces = "namespaces"
	OfTasks      = "tasks" // of rolls only
)

// Entry is one text of an API key, or a namespace, which a call has made and perhaps another one has ended. The text
// itself is not recorded.
type Entry struct {
	Kind      string `json:"kind"`
	ID        string `json:"id"` // id of the key, or name of the namespace
	Namespace string `json:"namespace,omitempty"`
	Role      string `json:"role,omitempty"`
	// Rotated is set if another text of the same key follows it, so that the id stays.
	Rotated bool `json:"-"`

	Made   Instant `json:"-"` // when its making was acknowledged
	Ending Instant `json:"-"` // start of the first call that may end it; 0: there was none
	Ended  Instant `json:"-"` // when its end was acknowledged; 0: never
}

// The questions of trials.
const (
	AskOwn     = "own"     // a call that the key allows, and that needs no quorum
	AskForeign = "foreign" // a list of another namespace's tasks
	AskBeyond  = "beyond"  // a call that needs another role than the key has
	AskNothing = "nothing" // a call without a key

	// The questions of attacks, of which no one has a key.

	AskForged   = "forged"   // a settle with a receipt that no lease of the called queue gave
	AskBeside   = "beside"   // a call over a kept connection, while another caller holds half-sent requests open
	AskAside    = "aside"    // after a start with a damaged file; 200: the file was set aside, 404: it was not
	AskMinority = "minority" // GET /readyz of a node that has had no majority for long
	AskNever    = "never"    // a schedule whose calendar is closed on each day
	AskPrinted  = "printed"  // a command that prints a task with a label of HostileText
)

// HostileText has characters that a terminal obeys, and a line that looks like one of a command's output.
const HostileText = "a\x1b[2J\u009b31m\u202eb\r\n" + ForgedLine

// ForgedLine is the second line of HostileText.
const ForgedLine = "state  forged"

// NoEntry is the entry of a trial without a key.
const NoEntry = -1

// Trial is a call to one node that shows which callers the node lets in, or what an attack gains.
type Trial struct {
	Ask    string  `json:"ask"`
	Entry  int     `json:"entry"` // place of the key's text in History.Entries
	Node   string  `json:"node"`
	Status int     `json:"status,omitempty"` // 0: no answer
	Text   string  `json:"text,omitempty"`   // the error, the output (of AskPrinted) or the next occurrence (of AskNever)
	Start  Instant `json:"start"`
	End    Instant `json:"-"`
}

// Roll is a list that a node gave. A list of tasks is one page of a namespace.
type Roll struct {
	Kind      string   `json:"kind"`
	Node      string   `json:"node"`
	Namespace string   `json:"namespace,omitempty"`
	IDs       []string `json:"ids,omitempty"`   // of keys or namespaces
	Wrote     []int64  `json:"wrote,omitempty"` // operations that the payloads of the tasks name
	Start     Instant  `json:"start"`
	End       Instant  `json:"-"`
}

// Namespaces returns the namespaces of the calls and arrivals, in the order of their names. A history without any has
// the default one.
func (h *History) Namespaces() []string {
	seen := map[string]bool{}
	for i := range h.Calls {
		seen[h.Calls[i].Namespace] = true
	}
	for i := range h.Arrivals {
		seen[h.Arrivals[i].Namespace] = true
	}
	if len(seen) == 0 {
		return []string{""}
	}
	return slices.Sorted(maps.Keys(seen))
}

// In returns the part of a history in one namespace: its calls, arrivals and schedules, with the faults, terms, owners
// and replicas. It shares these with h, and has no keys.
func (h *History) In(namespace string) *History {
	part := *h
	part.Namespace, part.Entries, part.Trials, part.Rolls = namespace, nil, nil, nil
	if len(h.Namespaces()) == 1 {
		return &part
	}
	part.Calls = only(h.Calls, func(c *Call) bool { return c.Namespace == namespace })
	part.Arrivals = only(h.Arrivals, func(a *Arrival) bool { return a.Namespace == namespace })
	part.FollowUps = only(h.FollowUps, func(a *Arrival) bool { return a.Namespace == namespace })
	part.Occurrences = only(h.Occurrences, func(a *Arrival) bool { return a.Namespace == namespace })
	part.ScheduleCalls = only(h.ScheduleCalls, func(c *ScheduleCall) bool { return c.Namespace == namespace })
	part.Tallies = only(h.Tallies, func(t *Tally) bool { return t.Namespace == namespace })
	return &part
}

// only returns the records that belong to a part of a history.
func only[T any](records []T, belongs func(*T) bool) (part []T) {
	for i := range records {
		if belongs(&records[i]) {
			part = append(part, records[i])
		}
	}
	return part
}

// Slots is the number of slots over which all ids are hashed. The service publishes the number and the hash.
const Slots = 4096

// SlotOf returns the slot of a task in the default namespace.
func SlotOf(id string) uint32 { return SlotIn("", id) }

// SlotIn returns the slot of a task in a namespace, whose shard is the one that owns the slot. Of the id of an
// occurrence, only the part before the @ counts.
func SlotIn(namespace, id string) uint32 {
	id, _, _ = strings.Cut(id, "@")
	if namespace == "" {
		namespace = "default"
	}
	return uint32(xxhash.Sum64String(namespace+"\x00"+id) % Slots)
}

// Fingerprint returns the 64-bit FNV-1a hash of a body, by which the checks compare bodies. It returns 0 for an empty
// body.
func Fingerprint(body []byte) uint64 {
	if len(body) == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write(body)
	return h.Sum64()
}
