package quota

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Holder is a shard or a node with a part of a level.
type Holder struct {
	ID     string
	Weight int64 // expected part of the growth, such as its number of slots
}

// Holders reaches the holders of levels.
type Holders interface {
	// Holders returns the present holders of a level.
	Holders(key LimitKey) []Holder
	// Trim carries out Level.Trim at a holder.
	Trim(ctx context.Context, holder string, key LimitKey, r Round) (held int64, err error)
	// Raise carries out Level.Raise at a holder.
	Raise(ctx context.Context, holder string, key LimitKey, r Round, limit, ceiling int64) error
}

// Arbiter divides levels among their holders. It is the memory of one term. Its methods are safe for concurrent use.
type Arbiter struct {
	term    uint64 // of the ownership
	holders Holders
	trip    time.Duration // longest wait for a holder's answer

	mu     sync.Mutex
	rounds uint64 // of all levels, so that no number comes twice
	levels map[LimitKey]*division
}

// division is the owner's record of one level.
type division struct {
	turn   chan struct{}    // capacity 1: held during a round
	begun  uint64           // number of rounds
	wants  map[string]int64 // of the holders that have asked since the last round began
	known  known
	used   int64     // by the holders that answered in the last round
	unsure bool      // holders that did not answer may have used up the rest
	last   time.Time // the last Ask
}

// NewArbiter returns an Arbiter without rounds. A later owner has a higher term. Trip is the longest wait for the
// answer of a holder.
func NewArbiter(term uint64, holders Holders, trip time.Duration) *Arbiter {
	return &Arbiter{term: term, holders: holders, trip: trip, levels: map[LimitKey]*division{}}
}

// ErrUnsure means that it is not known whether there is room: holders that do not answer may have used it.
var ErrUnsure = errors.New("a part of the cluster does not answer, and its use of a quota is not known")

// Divide serves an Ask: it divides the level anew, and returns the use of all holders together. Asks that come during a
// round are served by the next one. Errors are ErrUnsure and the context's.
func (a *Arbiter) Divide(ctx context.Context, ask Ask) (used int64, err error) {
	d, arrived := a.enter(ask)
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	defer func() { <-d.turn }()
	wants, round, ok := a.begin(d, arrived)
	if ok {
		a.run(context.WithoutCancel(ctx), d, ask, wants, round)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if d.unsure {
		return 0, ErrUnsure
	}
	return d.used, nil
}

// enter records a holder's want, and returns the number of rounds begun so far.
func (a *Arbiter) enter(ask Ask) (*division, uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget()
	d := a.levels[ask.Key]
	if d == nil {
		d = &division{turn: make(chan struct{}, 1), wants: map[string]int64{}, known: newKnown()}
		a.levels[ask.Key] = d
	}
	d.last = time.Now()
	d.wants[ask.Holder] = max(d.wants[ask.Holder], ask.Want)
	return d, d.begun
}

// maxLevels is the number of levels from which on the idle ones are forgotten.
const maxLevels = 4096

// forget drops levels that are long idle once there are many. Their holders keep their ceilings, which the next round
// learns. The caller holds the lock.
func (a *Arbiter) forget() {
	if len(a.levels) < maxLevels {
		return
	}
	now := time.Now()
	for key, d := range a.levels {
		if now.Sub(d.last) > idle {
			delete(a.levels, key)
		}
	}
}

// begin begins a round, unless one has begun since the caller arrived.
func (a *Arbiter) begin(d *division, arrived uint64) (wants map[string]int64, r Round, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d.begun > arrived {
		return nil, Round{}, false
	}
	d.begun++
	a.rounds++
	wants, d.wants = d.wants, map[string]int64{}
	return wants, Round{Term: a.term, Number: a.rounds}, true
}

// run makes a round: all holders go down to their use, and then up to their parts. A holder that does not answer within
// a Trip counts as known.assume says.
func (a *Arbiter) run(ctx context.Context, d *division, ask Ask, wants map[string]int64, r Round) {
	holders := a.holders.Holders(ask.Key)
	parts := make([]part, len(holders))
	forEach(len(holders), func(i int) {
		trip, cancel := context.WithTimeout(ctx, a.trip)
		defer cancel()
		held, err := a.holders.Trim(trip, holders[i].ID, ask.Key, r)
		parts[i] = part{held: held, want: wants[holders[i].ID], weight: holders[i].Weight, lost: err != nil}
	})
	a.mu.Lock()
	d.known.assume(holders, parts, ask.Limit, time.Now(), patientTrips*a.trip)
	used, sure := divide(ask.Limit, parts), heldBy(parts)
	d.used, d.unsure = sure, sure < ask.Limit && used >= ask.Limit
	d.known.learn(holders, parts)
	a.mu.Unlock()
	forEach(len(holders), func(i int) {
		if parts[i].lost {
			return
		}
		trip, cancel := context.WithTimeout(ctx, a.trip)
		defer cancel()
		// A holder that misses its Raise keeps the ceiling of the Trim, and asks when it needs more.
		_ = a.holders.Raise(trip, holders[i].ID, ask.Key, r, ask.Limit, parts[i].ceiling)
	})
}

// heldBy returns the use of the holders that answered.
func heldBy(parts []part) (held int64) {
	for _, p := range parts {
		if !p.lost {
			held += p.held
		}
	}
	return held
}

// forEach calls do for 0 to n-1 side by side.
func forEach(n int, do func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { do(i) })
	}
	wg.Wait()
}

// part is one holder in a round.
type part struct {
	held, want, weight int64
	lost               bool
	ceiling            int64 // held <= ceiling, unless the use of all is above the limit
}

// divide sets the ceilings of a round and returns the sum of the present use. The rest of the limit first meets the
// wants of the holders that answer, and is then divided among them by weight. While the use is above the limit, no
// holder takes more.
func divide(limit int64, parts []part) (used int64) {
	weights := int64(0)
	for i := range parts {
		parts[i].ceiling = parts[i].held
		used += parts[i].held
		if !parts[i].lost {
			weights += parts[i].weight
		}
	}
	rest := limit - used
	if rest < 0 {
		stop(parts)
	}
	for i := range parts {
		if parts[i].lost {
			continue // no Raise reaches it, and its ceiling would grow here with each round
		}
		n := max(min(parts[i].want, rest), 0)
		parts[i].ceiling += n
		rest -= n
	}
	if weights > 0 && rest > 0 {
		for i := range parts {
			if !parts[i].lost {
				parts[i].ceiling += partOf(rest, parts[i].weight, weights)
			}
		}
	}
	return used
}

// stop sets the ceilings to 0, for the time while the use is above the limit. With a higher ceiling, a holder with few
// tasks could add to those of a holder that keeps many. A holder that did not answer keeps its ceiling.
func stop(parts []part) {
	for i := range parts {
		if !parts[i].lost {
			parts[i].ceiling = 0
		}
	}
}

// partOf returns n * weight / weights, rounded down.
func partOf(n, weight, weights int64) int64 {
	if weights <= 0 {
		return 0
	}
	return int64(float64(n) / float64(weights) * float64(weight))
}
