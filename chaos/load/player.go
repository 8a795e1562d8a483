package load

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/internal/wait"
)

// Driver makes single tries against a cluster, each through a node that it draws, and records them.
type Driver interface {
	// Try tries an operation once.
	Try(ctx context.Context, rng *rand.Rand, op Operation) (history.Outcome, history.Answer)
	// Batch tries operations in one call. It returns endings in the order of ops, and none for the last ones if they
	// got no answer.
	Batch(ctx context.Context, rng *rand.Rand, ops []Operation) []history.Ending
	// Lease makes one call for tasks. ok is false if the call failed.
	Lease(ctx context.Context, rng *rand.Rand) (leases []Lease, ok bool)
}

// Draw sets how large the drawn delays and counts of a load are.
type Draw struct {
	After    func(*rand.Rand) time.Duration // from now until a new task is due; not positive: it is due already
	Pause    func(*rand.Rand) time.Duration // between the calls of a script; nil: none
	Queue    func(*rand.Rand) string        // queue of a script's task, empty: none; nil: always none
	Hold     time.Duration                  // longest time for which an answer is held back; 0: none is
	Fail     int                            // most failed attempts of a task that is retried
	Attempts int                            // most attempts of a task that dies
	Gone     bool                           // the receiver refuses further attempts of some tasks
	Expires  time.Duration                  // longest time after which a task expires
	HotDelay time.Duration                  // longest delay of a hot id's task
	LeaseFor func(*rand.Rand) time.Duration // length of a lease
	Overdue  time.Duration                  // longest time from the end of a lease to a late settle
	NackFor  time.Duration                  // longest delay that a nack asks for
}

// Config describes a load. Driver, Recorder, Draw.After and Draw.LeaseFor are required.
type Config struct {
	Driver   Driver
	Recorder *history.Recorder
	Seed     uint64
	Prefix   string // of all ids
	Draw     Draw
	Weights  map[string]int // weights of scripts, by name, that differ from the usual ones; 0: never played

	Hot      int    // ids that several callers use at once; 0: none
	HotEvery int    // one script in HotEvery calls a hot id; used if Hot is not 0
	HotQueue string // queue of every second hot id; empty: none

	RetryFor time.Duration // how long an operation is repeated
	MaxPause time.Duration // longest pause between two tries

	Queues []string // queues with a target each, from which the script "queued" draws
	Pulled string   // queue of the tasks that the script "pulled" leaves to consumers

	Ordered string // queue with a target in which the groups of the script "grouped" keep their order
	Groups  int    // of that queue

	Away func(*rand.Rand) time.Duration // how long a consumer is away after a lease call; nil: never
}

// Player plays scripts and consumers. Its methods are safe for concurrent use.
type Player struct {
	cfg     Config
	scripts []choice[script]
	sights  sights
}

// New makes a player. It panics if cfg.Weights names a script that does not exist.
func New(cfg Config) *Player {
	return &Player{cfg: cfg, scripts: weigh(cfg.Weights), sights: sights{seen: map[string]uint64{}}}
}

const minPause = 10 * time.Millisecond

// Perform tries an operation until the answer is final, the time for repeats is up or ctx ends. It draws once from
// rng, however many tries there are, so that later choices do not depend on their number.
func (p *Player) Perform(ctx context.Context, rng *rand.Rand, op Operation) (history.Outcome, history.Answer) {
	tries := branch(rng)
	end := p.cfg.Recorder.Now().Add(p.cfg.RetryFor)
	pause := minPause
	for {
		outcome, answer := p.cfg.Driver.Try(ctx, tries, op)
		if Final(outcome, answer) || p.cfg.Recorder.Now() > end || !wait.For(ctx, pause) {
			return outcome, answer
		}
		pause = min(2*pause, p.cfg.MaxPause)
	}
}

// Final reports whether a repeat would get the same answer: success, a lasting refusal, or Replaced. A node that has
// been away refuses keys that it does not know yet.
func Final(outcome history.Outcome, a history.Answer) bool {
	passing := a.Status == http.StatusTooManyRequests || a.Status == http.StatusUnauthorized
	refused := a.Status >= 400 && a.Status < 500 && !passing
	return outcome == history.OK || refused || a.Replaced
}

// New schedules a task, with repeats, and reports whether the service acknowledged it.
func (p *Player) New(ctx context.Context, rng *rand.Rand, id string, t Task) (history.Answer, bool) {
	outcome, answer := p.Perform(ctx, rng, p.Schedule(id, t))
	return answer, outcome == history.OK
}

// branch returns a new source of choices, seeded with one number from rng.
func branch(rng *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), 0)) }

// Operation is one request of a load. All its tries share the operation number in What.
type Operation struct {
	What  history.Call  // the record of each try, without the node
	Task  *Task         // of a schedule, or of a touch that may make a task; else nil
	Body  []byte        // the payload that a schedule, touch or patch writes; nil: none
	Delay time.Duration // of a touch, patch, nack or extend
	Lease Lease         // the lease that is settled
}

// Ceil rounds an instant up to the millisecond, as the service does.
func Ceil(t time.Time) time.Time { return t.Add(time.Millisecond - 1).Truncate(time.Millisecond) }

func (p *Player) operation(kind history.Kind, id string, ask history.Ask) Operation {
	return Operation{What: history.Call{Op: p.cfg.Recorder.NextOp(), Kind: kind, ID: id, Ask: ask}}
}

// write gives an operation the payload of a task, and records its fingerprint.
func (o *Operation) write(t Task) {
	o.Body = Payload{Op: o.What.Op, Fail: t.Fail, Hold: t.Hold.Milliseconds(), Gone: t.Gone}.Encode()
	o.What.Ask.Body = history.Fingerprint(o.Body)
}

// Schedule returns an operation that schedules a task.
func (p *Player) Schedule(id string, t Task) Operation {
	o := p.operation(history.Schedule, id, history.Ask{
		Delay: t.Delay, Group: t.Group, IfAbsent: t.IfAbsent, IfRevision: t.IfRevision, Expires: t.Expires > 0,
		Follow: t.Follow,
	})
	if !t.FireAt.IsZero() {
		o.What.Ask.FireAt = history.At(Ceil(t.FireAt))
	}
	o.Task = &t
	o.write(t)
	return o
}

// FollowUpAttempts is how often a follow-up is tried: so often that no fault of its receiver makes it a dead letter.
const FollowUpAttempts = 1000

// FollowUp returns the payload of an operation's follow-up, which the receiver accepts at once.
func (o *Operation) FollowUp() json.RawMessage { return Payload{Op: o.What.Op}.Encode() }

// Patch returns an operation that moves a task, and replaces its payload if swap is set.
func (p *Player) Patch(id string, delay time.Duration, swap bool) Operation {
	o := p.operation(history.Patch, id, history.Ask{Delay: delay})
	if o.Delay = delay; swap {
		o.write(Task{})
	}
	return o
}

// Touch returns an operation that starts a task's delay again. If or is not nil, it makes that task where there is
// none.
func (p *Player) Touch(id string, delay time.Duration, or *Task) Operation {
	o := p.operation(history.Touch, id, history.Ask{Delay: delay, OrSchedule: or != nil})
	o.Delay, o.Task = delay, or
	if or != nil {
		o.write(*or)
	}
	return o
}

// Cancel returns an operation that cancels a task.
func (p *Player) Cancel(id string) Operation { return p.operation(history.Cancel, id, history.Ask{}) }

// Fire returns an operation that makes a task due now.
func (p *Player) Fire(id string) Operation { return p.operation(history.Fire, id, history.Ask{}) }

// Get returns an operation that reads a task linearizably.
func (p *Player) Get(id string) Operation { return p.operation(history.Get, id, history.Ask{}) }

// GetStale returns an operation that reads a task from any replica.
func (p *Player) GetStale(id string) Operation { return p.operation(history.Stale, id, history.Ask{}) }

// Settle returns an operation that settles a lease. A nack without a delay leaves the retry to the backoff. An extend
// lasts for delay.
func (p *Player) Settle(kind history.Kind, l Lease, delay time.Duration) Operation {
	o := p.operation(kind, l.ID, history.Ask{Fence: l.Fence, Delay: delay})
	o.Lease, o.Delay = l, delay
	return o
}

// Task is the task of a schedule, without its id and payload.
type Task struct {
	FireAt      time.Time
	Delay       time.Duration // until it is due, if FireAt is zero
	Queue       string        // empty: the task has the receiver as its own target
	Group       string        // of an ordered queue; empty: none
	Fail        int           // number of first attempts that the receiver or the consumer fails
	Hold        time.Duration // how long the receiver or the consumer holds its answer back
	Gone        bool          // the receiver refuses further attempts
	MaxAttempts int           // 0: the queue's, or the service's default
	Expires     time.Duration // time after which no attempt begins; 0: never
	Follow      bool          // each end makes a follow-up
	IfAbsent    bool
	IfRevision  uint64 // 0: any
}

// Payload is the payload of a task. It carries orders for the receiver or the consumer.
type Payload struct {
	Op   int64 `json:"op"`             // the operation that wrote the payload
	Fail int   `json:"fail,omitempty"` // number of first attempts to fail
	Hold int64 `json:"hold,omitempty"` // milliseconds to hold the answer back
	Gone bool  `json:"gone,omitempty"` // refuse further attempts
}

// Forever is more attempts than any task of a load has.
const Forever = 1000

// Encode returns the payload as the body of a task.
func (p Payload) Encode() json.RawMessage {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err) // plain fields always encode
	}
	return data
}

// Decode reads the body of a task. It returns a zero payload for a body of another form.
func Decode(body []byte) Payload {
	var p Payload
	if json.Unmarshal(body, &p) != nil {
		return Payload{}
	}
	return p
}

// HoldFor returns how long to hold the answer back.
func (p Payload) HoldFor() time.Duration { return time.Duration(p.Hold) * time.Millisecond }
