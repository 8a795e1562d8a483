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
	// Batch tries operations in one call, and returns an ending for each that was answered.
	Batch(ctx context.Context, rng *rand.Rand, ops []Operation) []history.Ending
	// Lease asks once for tasks. ok is false if the call failed.
	Lease(ctx context.Context, rng *rand.Rand) (leases []Lease, ok bool)
}

// Draw says how a load draws what its scripts ask for.
type Draw struct {
	After    func(*rand.Rand) time.Duration // from now until a new task is due; not positive: it is due already
	Pause    func(*rand.Rand) time.Duration // between the calls of a script; nil: none
	Queue    func(*rand.Rand) string        // of a script's tasks, empty: none; nil: none ever
	Hold     time.Duration                  // of an answer, at most
	Fail     int                            // attempts of a task that is retried, at most
	Attempts int                            // of a task that dies, at most
	Gone     bool                           // some receivers want no further attempt
	Expires  time.Duration                  // of a task that expires, at most
	HotDelay time.Duration                  // of a hot id, at most
	LeaseFor func(*rand.Rand) time.Duration // of a lease
	Overdue  time.Duration                  // by which a late settle comes after the end of its lease, at most
	NackFor  time.Duration                  // of a nack, at most
}

// Config describes a load. Driver, Recorder, Scripts, Draw.After and Draw.LeaseFor must be given.
type Config struct {
	Driver   Driver
	Recorder *history.Recorder
	Seed     uint64
	Prefix   string // of all ids
	Scripts  []Script
	Draw     Draw

	Hot      int    // ids that are called by several callers at once; 0: none
	HotEvery int    // one script of this number calls a hot id; used if Hot is not 0
	HotQueue string // of every second hot id; empty: none

	RetryFor time.Duration // for which an operation is repeated
	MaxPause time.Duration // between two tries

	Queues []string // from which Queued draws, each with a target of its own
	Pulled string   // the queue that Pulled leaves to consumers

	Away func(*rand.Rand) time.Duration // after each call of a consumer: how long it is away; nil: never
}

// Player plays scripts and consumers. Its methods may be called at the same time.
type Player struct {
	cfg    Config
	sights sights
}

// New makes a player.
func New(cfg Config) *Player { return &Player{cfg: cfg, sights: sights{seen: map[string]uint64{}}} }

const minPause = 10 * time.Millisecond

// Perform carries an operation out: it is tried until the answer is final or the time is up. However many tries that
// takes, Perform draws once from rng, so that all later choices are independent of it.
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

// Final reports whether a repeat would be answered in the same way.
func Final(outcome history.Outcome, a history.Answer) bool {
	refused := a.Status >= 400 && a.Status < 500 && a.Status != http.StatusTooManyRequests
	return outcome == history.OK || refused || a.Replaced
}

// New schedules a task, and reports whether that was acknowledged.
func (p *Player) New(ctx context.Context, rng *rand.Rand, id string, t Task) (history.Answer, bool) {
	outcome, answer := p.Perform(ctx, rng, p.Schedule(id, t))
	return answer, outcome == history.OK
}

// Wait returns after d, with false if the context ended first.
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

// branch returns a source of choices that takes one from rng.
func branch(rng *rand.Rand) *rand.Rand { return rand.New(rand.NewPCG(rng.Uint64(), 0)) }

// choice is one of several, and how often it is chosen.
type choice[T any] struct {
	weight int
	value  T
}

func pick[T any](rng *rand.Rand, from []choice[T]) T {
	total := 0
	for _, c := range from {
		total += c.weight
	}
	n := rng.IntN(total)
	for _, c := range from {
		if n < c.weight {
			return c.value
		}
		n -= c.weight
	}
	panic("weights do not add up")
}
