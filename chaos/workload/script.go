package workload

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// choice is one of several, and how often it is chosen.
type choice[T any] struct {
	weight int
	what   T
}

func pick[T any](rng *rand.Rand, from []choice[T]) T {
	total := 0
	for _, c := range from {
		total += c.weight
	}
	n := rng.IntN(total)
	for _, c := range from {
		if n < c.weight {
			return c.what
		}
		n -= c.weight
	}
	panic("weights do not add up")
}

// script is the life of one id.
type script func(l *Load, ctx context.Context, rng *rand.Rand, id string)

// scripts are what an id may live through, with how often. Each is a few calls, one after the other.
var scripts = []choice[script]{
	{40, (*Load).playPlain},
	{4, (*Load).playBatch},
	{8, (*Load).playRetried},
	{2, (*Load).playDead},
	{12, (*Load).playCancelled},
	{10, (*Load).playCancelledAtDue},
	{4, (*Load).playStopped},
	{8, (*Load).playReplaced},
	{4, (*Load).playReplacedAndCancelled},
	{6, (*Load).playPatched},
	{6, (*Load).playTouched},
	{2, (*Load).playHeartbeats},
	{5, (*Load).playFired},
	{4, (*Load).playConditional},
}

// maxHold is for how many milliseconds the receiver keeps an answer back.
const maxHold = 500

// playPlain is the task that is scheduled, read sometimes, and left alone.
func (l *Load) playPlain(ctx context.Context, rng *rand.Rand, id string) {
	t := l.some(rng)
	if rng.IntN(2) == 0 {
		t = l.later(rng)
	}
	if rng.IntN(2) == 0 {
		t.hold = rng.IntN(maxHold)
	}
	l.new(ctx, rng, id, t)
	if rng.IntN(4) == 0 {
		l.perform(ctx, rng, l.get(id))
	}
}

// playRetried fails once or twice at the receiver.
func (l *Load) playRetried(ctx context.Context, rng *rand.Rand, id string) {
	t := l.some(rng)
	t.fail = 1 + rng.IntN(2)
	l.new(ctx, rng, id, t)
}

// playDead fails until its attempts are used up.
func (l *Load) playDead(ctx context.Context, rng *rand.Rand, id string) {
	t := l.some(rng)
	t.fail, t.maxAttempts = forever, 2
	l.new(ctx, rng, id, t)
}

func (l *Load) playCancelled(ctx context.Context, rng *rand.Rand, id string) {
	l.new(ctx, rng, id, l.some(rng))
	l.cancelNow(ctx, rng, id)
}

// playCancelledAtDue cancels within a few milliseconds of the due time, twice: the answers must be one.
func (l *Load) playCancelledAtDue(ctx context.Context, rng *rand.Rand, id string) {
	t := l.some(rng)
	l.new(ctx, rng, id, t)
	lead := time.Duration(rng.IntN(80)-20) * time.Millisecond
	if !wait(ctx, history.At(t.fireAt).Sub(l.cfg.Recorder.Now())-lead) {
		return
	}
	l.cancelNow(ctx, rng, id)
	l.cancelNow(ctx, rng, id)
}

// playStopped cancels a task while its first attempt is under way, which fails, or soon after: no other may follow.
func (l *Load) playStopped(ctx context.Context, rng *rand.Rand, id string) {
	t := l.some(rng)
	t.fail, t.maxAttempts, t.hold = forever, 4, maxHold/4+rng.IntN(maxHold/2)
	l.new(ctx, rng, id, t)
	after := time.Duration(rng.IntN(t.hold+int(minBackoff.Milliseconds()))) * time.Millisecond
	if wait(ctx, history.At(t.fireAt).Sub(l.cfg.Recorder.Now())+after) {
		l.cancelNow(ctx, rng, id)
	}
}

func (l *Load) cancelNow(ctx context.Context, rng *rand.Rand, id string) {
	l.perform(ctx, rng, l.cancel(id))
}

func (l *Load) playReplaced(ctx context.Context, rng *rand.Rand, id string) {
	l.new(ctx, rng, id, l.some(rng))
	l.new(ctx, rng, id, l.some(rng))
}

func (l *Load) playReplacedAndCancelled(ctx context.Context, rng *rand.Rand, id string) {
	l.playReplaced(ctx, rng, id)
	l.cancelNow(ctx, rng, id)
}

func (l *Load) playPatched(ctx context.Context, rng *rand.Rand, id string) {
	l.new(ctx, rng, id, l.some(rng))
	l.perform(ctx, rng, l.patch(id, max(l.delay(rng), time.Millisecond), rng.IntN(2) == 0))
}

func (l *Load) playTouched(ctx context.Context, rng *rand.Rand, id string) {
	l.new(ctx, rng, id, l.later(rng))
	if again := l.later(rng); rng.IntN(3) == 0 {
		l.perform(ctx, rng, l.touch(id, again.delay, &again))
	} else {
		l.perform(ctx, rng, l.touch(id, again.delay, nil))
	}
}

const (
	heartbeatPause = 60 * time.Millisecond // at most, between two of them
	heartbeatDelay = 400 * time.Millisecond
)

// playHeartbeats touches an id many times, as one does that wants to hear when the touches stop.
func (l *Load) playHeartbeats(ctx context.Context, rng *rand.Rand, id string) {
	t := task{delay: heartbeatDelay, pulled: l.pulls(rng)}
	for range 5 + rng.IntN(20) {
		l.perform(ctx, rng, l.touch(id, t.delay, &t))
		if !wait(ctx, time.Duration(rng.Int64N(int64(heartbeatPause)))) {
			return
		}
	}
}

func (l *Load) playFired(ctx context.Context, rng *rand.Rand, id string) {
	l.new(ctx, rng, id, l.some(rng))
	l.perform(ctx, rng, l.fire(id))
}

// playConditional schedules with conditions, of which the second and the third cannot hold.
func (l *Load) playConditional(ctx context.Context, rng *rand.Rand, id string) {
	t := l.some(rng)
	t.ifAbsent = true
	answer, ok := l.new(ctx, rng, id, t)
	l.new(ctx, rng, id, t)
	if ok {
		t = l.some(rng)
		t.ifRevision = answer.Revision + 1<<40
		l.new(ctx, rng, id, t)
	}
}
