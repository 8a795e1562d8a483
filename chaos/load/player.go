package load

import (
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
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
		if Final(outcome, answer) || p.cfg.Recorder.Now() > end || !Wait(ctx, pause) {
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

// Wait waits for d. It returns false if the context ends first.
func Wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// branch returns a new source of choices, seeded with one number from rng.
func branch(rng *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), 0)) }
