package quota

import (
	"context"
	"sync"
	"time"
)

// Round numbers the divisions of levels. The rounds of a later term are higher.
type Round struct{ Term, Number uint64 }

// before reports whether r is an earlier round than other.
func (r Round) before(other Round) bool {
	return r.Term < other.Term || r.Term == other.Term && r.Number < other.Number
}

// Ask is a holder's request for a higher ceiling.
type Ask struct {
	Key    LimitKey
	Holder string
	Limit  int64 // as the holder knows it
	Want   int64 // above the present use
}

// Owner divides levels. *Arbiter implements it.
type Owner interface {
	// Divide divides a level anew, and returns the use of all holders together.
	Divide(ctx context.Context, ask Ask) (used int64, err error)
}

// Use is a holder's use of a level.
type Use interface {
	// Used returns the present use, without claims.
	Used() int64
	// Drops returns the number of times that a part of the use has moved to other holders. The number rises no later
	// than Used falls.
	Drops() uint64
}

// LevelConfig connects a Level with its owner.
type LevelConfig struct {
	Key    LimitKey
	Holder string
	Use    Use // nil: the claims are all of it
	Owner  Owner
	Trip   time.Duration // longest wait for another node's answer
}

// Level is one holder's part of a level. Its use stays at or below its ceiling, except that tasks which move to a shard
// bring their use along. The ceiling of the shard that they leave becomes void. The methods are safe for concurrent
// use.
type Level struct {
	cfg LevelConfig

	mu      sync.Mutex
	round   Round // of the last Trim
	trimmed bool  // a Raise of that round is to come
	limit   int64 // that the ceiling is a part of
	ceiling int64
	bound   int64  // claimed + use <= max(bound, use), also while the ceiling is below bound
	drops   uint64 // of the Use at the last Trim: the ceiling is void once it differs
	claimed int64
	used    int64     // by all holders, as the owner said last
	full    time.Time // until then the holder takes the level as full under the limit fullOf
	fullOf  int64
	waiting int64         // units that claims wait for
	asking  bool          // a request is under way
	changed chan struct{} // closed at the next Raise or answer
}

// NewLevel returns a Level with a ceiling of 0.
func NewLevel(cfg LevelConfig) *Level { return &Level{cfg: cfg, changed: make(chan struct{})} }

// fullFor is the time for which a holder believes that a level is full.
const fullFor = 50 * time.Millisecond

// Claim counts n more units for a call until Release. If the ceiling is too low, it waits for the owner. Errors are
// *Exceeded if the limit is reached, those of Owner.Divide if the owner cannot be asked, and the context's. A limit
// of 0 is none: the units then count for a limit that comes.
func (l *Level) Claim(ctx context.Context, limit, n int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		now := time.Now()
		switch {
		case limit == 0:
			l.claimed += n
			l.bound = max(l.bound, l.held()) // the ceiling stays: the same limit may come back
			return nil
		case l.room(limit) >= n:
			l.claimed += n
			return nil
		case now.Before(l.full) && l.fullOf == limit:
			return l.exceeded(now, n)
		}
		l.waiting += n
		err := l.await(ctx, limit, n)
		if l.waiting -= n; err != nil {
			return err
		}
	}
}

// room returns the number of units below the ceiling. A ceiling for another limit, or from before a part of the use has
// moved, does not count.
func (l *Level) room(limit int64) int64 {
	if l.limit != limit {
		return 0
	}
	rest := l.ceiling - l.held()
	if l.dropped() != l.drops {
		return 0
	}
	return rest
}

// dropped returns the present value of Use.Drops.
func (l *Level) dropped() uint64 {
	if l.cfg.Use == nil {
		return 0
	}
	return l.cfg.Use.Drops()
}

// held returns the units in use and claimed. Release comes after the use has grown, so that none is missed, and some
// count twice for a moment.
func (l *Level) held() int64 { return l.claimed + l.inUse() }

func (l *Level) inUse() int64 {
	if l.cfg.Use == nil {
		return 0
	}
	return l.cfg.Use.Used()
}

// exceeded refuses a claim. A claim for more than the whole limit never succeeds.
func (l *Level) exceeded(now time.Time, n int64) *Exceeded {
	e := &Exceeded{Quota: l.cfg.Key.Quota, Subject: l.cfg.Key.Subject, Limit: float64(l.fullOf), Used: float64(l.used)}
	if n <= l.fullOf {
		e.RetryAfter = max(l.full.Sub(now), time.Second)
	}
	return e
}

// await waits until the ceiling may have changed. It asks the owner unless a round is under way.
func (l *Level) await(ctx context.Context, limit, n int64) error {
	wait, cancel := ctx, context.CancelFunc(func() {})
	if l.trimmed {
		wait, cancel = context.WithTimeout(ctx, 2*l.cfg.Trip) // the other holders' Trims, and the Raise
	}
	defer cancel()
	if !l.trimmed && !l.asking {
		return l.ask(ctx, limit, n)
	}
	changed := l.changed
	l.mu.Unlock()
	defer l.mu.Lock()
	select {
	case <-changed:
	case <-wait.Done():
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.giveUp()
	}
	return nil
}

// giveUp ends the wait for a Raise that does not come.
func (l *Level) giveUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trimmed = false
}

// ask asks the owner. The caller holds the lock.
func (l *Level) ask(ctx context.Context, limit, n int64) error {
	l.asking = true
	want := l.waiting
	l.mu.Unlock()
	used, err := l.cfg.Owner.Divide(ctx, Ask{Key: l.cfg.Key, Holder: l.cfg.Holder, Limit: limit, Want: want})
	l.mu.Lock()
	l.asking = false
	if err == nil {
		l.used = used
		if used+n > limit && l.room(limit) < n {
			l.fullOf, l.full = limit, time.Now().Add(fullFor)
		}
	}
	l.tell()
	return err
}

// tell wakes the waiting claims. The caller holds the lock.
func (l *Level) tell() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Release takes n claimed units back: the call has ended, and its units are in use or not needed.
func (l *Level) Release(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.claimed -= n
}

// Held returns the units in use and claimed here.
func (l *Level) Held() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held()
}

// IsIdle reports whether no claim and no request is under way, so that the level may be made anew.
func (l *Level) IsIdle() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claimed == 0 && l.waiting == 0 && !l.asking
}

// Trim begins a round: it returns the present use with its claims, and lowers a higher ceiling to that. ok is false for
// an old round. A ceiling below the use stays, so that tasks which end make no room before the Raise. Units that count
// twice are left out, as far as that is known.
func (l *Level) Trim(r Round) (held int64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.round.before(r) {
		return 0, false
	}
	l.round, l.trimmed, l.drops = r, true, l.dropped()
	l.bound = min(l.held(), max(l.bound, l.inUse()))
	l.ceiling = min(l.ceiling, l.bound)
	return l.bound, true
}

// Raise ends a round with a new ceiling. It has no effect unless the last Trim was of the same round.
func (l *Level) Raise(r Round, limit, ceiling int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.round != r || !l.trimmed {
		return
	}
	l.trimmed, l.limit, l.ceiling, l.full = false, limit, ceiling, time.Time{}
	l.bound = max(l.bound, ceiling)
	l.tell()
}
