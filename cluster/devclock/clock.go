package devclock

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
)

// MaxOffset is the longest time by which a clock may be ahead of the machine's.
const MaxOffset = task.MaxDelay

// patience is how long an advance waits for attempts without any progress.
const patience = 2 * time.Second

// Clock is a clock that Advance sets ahead. Its methods are safe for concurrent use.
type Clock struct {
	offset atomic.Int64 // nanoseconds; never shrinks
	turn   chan struct{}
	shards func() []*shard.Shard
	last   request // the advance that was begun last; guarded by turn

	patience time.Duration

	mu       sync.Mutex
	stirred  chan struct{}
	timeouts map[*timeout]struct{}
}

// request is an advance that may be repeated.
type request struct {
	key    string
	by     time.Duration
	target time.Time
	begun  uint64 // attempts begun before it
}

// New returns a clock that shows the machine's time.
func New() *Clock {
	return &Clock{
		turn: make(chan struct{}, 1), shards: func() []*shard.Shard { return nil }, patience: patience,
		stirred: make(chan struct{}), timeouts: make(map[*timeout]struct{}),
	}
}

// Use sets the function that returns the shards on this node. It must be called before Advance.
func (c *Clock) Use(shards func() []*shard.Shard) { c.shards = shards }

// Now returns the clock's time.
func (c *Clock) Now() time.Time { return time.Now().Add(time.Duration(c.offset.Load())) }

// Stir wakes an advance that waits for progress.
func (c *Clock) Stir() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.stirred)
	c.stirred = make(chan struct{})
}

// Stirred returns a channel that the next Stir closes.
func (c *Clock) Stirred() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stirred
}

// Advance sets the clock ahead, and returns its new time and the number of attempts and leases that began meanwhile. A
// call with the key of the last advance goes on to the target of that advance. An empty key matches none. Errors are a
// *task.FieldError, a *task.NotLeaderError and the context's. After an error, the clock stands at the returned time.
func (c *Clock) Advance(ctx context.Context, key string, by time.Duration) (now time.Time, begun uint64, err error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return c.Now(), 0, context.Cause(ctx)
	}
	if err := c.begin(key, by); err != nil {
		return c.Now(), 0, err
	}
	err = c.advance(ctx, c.last.target)
	now = c.Now()
	if err != nil {
		err = fmt.Errorf("the clock stands at %s, before its target: %w", now.UTC().Format(time.RFC3339), err)
	}
	return now, c.begun() - c.last.begun, err
}

// begin sets last to a request, unless it is a repeat.
func (c *Clock) begin(key string, by time.Duration) error {
	if key != "" && key == c.last.key {
		if by != c.last.by {
			return &task.FieldError{Field: "Idempotency-Key", Detail: "was used with another duration"}
		}
		return nil
	}
	if limit := MaxOffset - time.Duration(c.offset.Load()); by <= 0 || by > limit {
		return &task.FieldError{Field: "by", Detail: "must be above 0, and all advances together at most 100 years",
			Limit: "36500d in all"}
	}
	// Due times are rounded up to a millisecond, and so is the target: a delay that was given before is over then.
	target := c.Now().Add(by + time.Millisecond - 1).Truncate(time.Millisecond)
	c.last = request{key: key, by: by, target: target, begun: c.begun()}
	for _, s := range c.shards() {
		s.DevTime().Forget()
	}
	return nil
}

func (c *Clock) begun() (n uint64) {
	for _, s := range c.shards() {
		n += s.DevTime().Begun()
	}
	return n
}

// advance takes the clock to target, from one instant with work to the next.
func (c *Clock) advance(ctx context.Context, target time.Time) error {
	w := waits{clock: c, target: target}
	for {
		now := c.Now()
		for _, s := range c.shards() {
			if err := s.DevTime().CatchUp(ctx, now); err != nil {
				return err
			}
		}
		if err := w.wait(ctx); err != nil {
			return err
		}
		next, ok, err := c.next()
		if err != nil {
			return err
		}
		if !ok || next.After(target) {
			c.reach(target)
			return nil
		}
		if c.reach(next) {
			w.left.Running = 0 // the attempts whose time is over end now
		}
	}
}

// next returns the earliest instant at which there is work.
func (c *Clock) next() (at time.Time, ok bool, err error) {
	earlier := func(t time.Time) {
		if !ok || t.Before(at) {
			at, ok = t, true
		}
	}
	for _, s := range c.shards() {
		t, some, err := s.DevTime().NextWork()
		if err != nil {
			return at, false, err
		}
		if some {
			earlier(t)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for t := range c.timeouts {
		earlier(t.at)
	}
	return at, ok, nil
}

// reach sets the clock to an instant, unless the clock has passed it, and ends the contexts whose time is over. It
// reports whether a context ended.
func (c *Clock) reach(at time.Time) (ended bool) {
	if by := at.Sub(c.Now()); by > 0 {
		c.offset.Add(int64(by))
	}
	return c.expire()
}

// waits are the waits of one advance for the ends of attempts.
type waits struct {
	clock  *Clock
	target time.Time
	left   shard.Doing // work that showed no progress and is not waited for again
}

// wait waits until the attempts that came due have begun, and until they have ended or the clock has reached the
// target. Without progress it returns after the clock's patience.
func (w *waits) wait(ctx context.Context) error {
	seen, since := w.look(), time.Now()
	for {
		stirred := w.clock.Stirred()
		d := w.look()
		if d != seen {
			seen, since = d, time.Now()
		}
		w.left.Running, w.left.Waiting = min(w.left.Running, d.Running), min(w.left.Waiting, d.Waiting)
		left := w.clock.patience - time.Since(since)
		if d.Waiting <= w.left.Waiting {
			if d.Running <= w.left.Running {
				return nil
			}
			untilTarget := w.target.Sub(w.clock.Now())
			if untilTarget <= 0 {
				return nil
			}
			left = min(left, untilTarget)
		}
		if left <= 0 {
			w.left = d.Doing
			return nil
		}
		timer := time.NewTimer(left)
		select {
		case <-stirred:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		timer.Stop()
	}
}

// sight is what a wait sees of the shards.
type sight struct {
	shard.Doing
	begun uint64
}

func (w *waits) look() (s sight) {
	for _, one := range w.clock.shards() {
		work := one.DevTime()
		d := work.Doing()
		s.Running += d.Running
		s.Waiting += d.Waiting
		s.begun += work.Begun()
	}
	return s
}
