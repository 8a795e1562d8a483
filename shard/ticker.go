package shard

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const never = math.MaxInt64

// ticker moves the wheel, by Advance commands, one horizon ahead of the clock. It never wakes while the wheel is empty.
type ticker struct {
	lead  *leadership
	shard *Shard
	// next is the time of the wheel's next event that the ticker has seen, in Unix milliseconds; never: none.
	next    atomic.Int64
	changed chan struct{} // capacity 1: the wheel has an earlier event

	mu    sync.Mutex
	last  time.Time // when an Advance was last made
	often bool      // the one before it was made less than maxHorizon earlier
}

func newTicker(l *leadership) *ticker {
	t := &ticker{lead: l, shard: l.shard, changed: make(chan struct{}, 1)}
	t.next.Store(never)
	return t
}

// look wakes the ticker if the wheel has an earlier event than the one it sleeps for. The proposer calls it after each
// entry.
func (t *ticker) look() {
	if due, ok := t.shard.machine.Next(); ok && due < t.next.Load() {
		wake(t.changed)
	}
}

// run asks for Advances until the leadership ends.
func (t *ticker) run(ctx context.Context) {
	for t.waitForDue(ctx) {
		select {
		case <-ctx.Done():
			return
		case a := <-t.ask():
			if a.ended {
				return
			}
			if a.paused {
				t.lead.awaitClock(ctx)
			}
			if a.more {
				t.hurry()
			}
		}
	}
}

func (t *ticker) ask() <-chan advanced {
	t.note(time.Now())
	return t.lead.proposer.intake.requestAdvance()
}

// note records the instant of an Advance.
func (t *ticker) note(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.often = now, now.Sub(t.last) < maxHorizon
}

// hurry makes the next Advance follow at once.
func (t *ticker) hurry() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last = t.last.Add(-maxHorizon / 2)
}

// rest returns the time until the next Advance may be made: half a horizon after the last one.
func (t *ticker) rest() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.shard.latencies.horizon()/2 - time.Since(t.last)
}

// reach returns the time by which an Advance goes ahead of the clock: the horizon, and maxRide more while Advances are
// frequent, so that there are fewer of them. A task that comes due alone is granted no earlier for it.
func (t *ticker) reach() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	horizon := t.shard.latencies.horizon()
	if !t.often || t.shard.cfg.DevClock != nil {
		return horizon
	}
	return min(horizon+maxRide, maxHorizon)
}

// mayRide reports whether an entry that is made for other work should hold an Advance, because the ticker would soon
// ask for one. The proposer calls it.
func (t *ticker) mayRide(now time.Time) bool {
	if t.shard.cfg.DevClock != nil || t.rest() > 0 {
		return false
	}
	due, ok := t.shard.machine.Next()
	if !ok || due > now.Add(t.reach()).UnixMilli() {
		return false
	}
	t.note(time.Now())
	return true
}

// waitForDue sleeps until the wheel's next event is less than a horizon away and the last Advance at least half a
// horizon ago. It returns false when the leadership has ended.
func (t *ticker) waitForDue(ctx context.Context) bool {
	for {
		due, ok := t.shard.machine.Next()
		if !ok {
			due = never
		}
		t.next.Store(due)
		wait := t.untilAdvance(due)
		if again, ok := t.shard.machine.Next(); ok && again < due {
			continue // an entry was applied since the first Next, and its look compared with the old next
		}
		if wait <= 0 {
			return ctx.Err() == nil
		}
		if !t.sleep(ctx, wait) {
			return false
		}
	}
}

func (t *ticker) untilAdvance(due int64) time.Duration {
	if due == never {
		return never
	}
	now, inOrder := t.shard.clock.now()
	if !inOrder { // the time until due is unknown; the next Advance pauses and has the clock compared
		return t.rest()
	}
	wait := max(time.UnixMilli(due).Sub(now)-t.shard.latencies.horizon(), t.rest())
	return min(wait, t.shard.cfg.Timing.ClockLook)
}

// sleep waits for d or an earlier event. It returns false when the leadership has ended.
func (t *ticker) sleep(ctx context.Context, d time.Duration) bool {
	var expired <-chan time.Time
	if d != never {
		timer := time.NewTimer(d)
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-t.changed:
	case <-expired:
	}
	return true
}

// The bounds of the horizon, the time by which the wheel may run ahead of the clock.
const (
	minHorizon = 10 * time.Millisecond
	maxHorizon = 50 * time.Millisecond
)

// latencies holds the latest commit times. It derives the horizon from the slow ones, and the pause of calls from the
// quick ones.
type latencies struct {
	horizonNow atomic.Int64 // nanoseconds
	quick      atomic.Int64 // the 5th percentile in nanoseconds; 0: too few samples

	mu    sync.Mutex
	ring  [256]time.Duration
	count int // of all samples so far
}

func newLatencies() *latencies {
	l := &latencies{}
	l.horizonNow.Store(int64(minHorizon))
	return l
}

// add records the time from an entry's proposal until it was applied.
func (l *latencies) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring[l.count%len(l.ring)] = d
	l.count++
	if l.count%16 == 0 {
		l.horizonNow.Store(int64(horizonFor(l.quantile(0.99))))
		l.quick.Store(int64(l.quantile(0.05)))
	}
}

// horizonFor returns the horizon for a 99th percentile of commit times. An Advance may have to wait for the entry
// before it and then commits itself, hence twice p99. One more millisecond covers the timers.
func horizonFor(p99 time.Duration) time.Duration {
	return min(max(2*p99+time.Millisecond, minHorizon), maxHorizon)
}

// horizon returns the time by which the next Advance goes ahead of the clock.
func (l *latencies) horizon() time.Duration { return time.Duration(l.horizonNow.Load()) }

// maxPause is the longest pause of calls. It is short beside a sync that a disk has held up.
const maxPause = 4 * time.Millisecond

// pause returns how long calls should wait after an entry that took so long: as long as the entry waited for
// processors, disks and the network that others used. Fuller entries then cost them less. An entry of an idle machine
// is as quick as the quickest, and the next one follows at once.
func (l *latencies) pause(took time.Duration) time.Duration {
	quick := time.Duration(l.quick.Load())
	if quick == 0 {
		return 0
	}
	return min(max(took-quick, 0), maxPause)
}

// quantile returns a quantile of the last 256 commit times. The caller holds mu.
func (l *latencies) quantile(q float64) time.Duration {
	n := min(l.count, len(l.ring))
	if n == 0 {
		return 0
	}
	sorted := slices.Clone(l.ring[:n])
	slices.Sort(sorted)
	return sorted[min(int(q*float64(n)), n-1)]
}
