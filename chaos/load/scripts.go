package load

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Script is the life of one id, and how often it is played beside others.
type Script struct {
	Weight int
	Play   func(ctx context.Context, p *Player, rng *rand.Rand, id string)
}

// Play plays script i.
func (p *Player) Play(ctx context.Context, i int) {
	rng := rand.New(rand.NewPCG(p.cfg.Seed, uint64(i)))
	if p.cfg.Hot > 0 && i%p.cfg.HotEvery == 0 {
		p.playHot(ctx, rng, i/p.cfg.HotEvery)
		return
	}
	scripts := make([]choice[Script], len(p.cfg.Scripts))
	for n, s := range p.cfg.Scripts {
		scripts[n] = choice[Script]{s.Weight, s}
	}
	pick(rng, scripts).Play(ctx, p, rng, p.cfg.Prefix+strconv.Itoa(i))
}

// due draws the instant at which a task is to be due; the run knows beforehand to which the service rounds it.
func (p *Player) due(rng *rand.Rand) time.Time {
	return p.cfg.Recorder.Now().Add(p.cfg.Draw.After(rng)).Time()
}

func (p *Player) delay(rng *rand.Rand) time.Duration {
	return max(p.cfg.Draw.After(rng).Truncate(time.Millisecond), time.Millisecond)
}

func (p *Player) queue(rng *rand.Rand) string {
	if p.cfg.Draw.Queue == nil {
		return ""
	}
	return p.cfg.Draw.Queue(rng)
}

// at draws a task that is due at an instant, later one that is due after a delay, some one of the two.
func (p *Player) at(rng *rand.Rand) Task { return Task{FireAt: p.due(rng), Queue: p.queue(rng)} }

func (p *Player) later(rng *rand.Rand) Task { return Task{Delay: p.delay(rng), Queue: p.queue(rng)} }

func (p *Player) some(rng *rand.Rand) Task {
	if rng.IntN(2) == 0 {
		return p.later(rng)
	}
	return p.at(rng)
}

// pause waits between two calls of a script.
func (p *Player) pause(ctx context.Context, rng *rand.Rand) bool {
	if p.cfg.Draw.Pause == nil {
		return ctx.Err() == nil
	}
	return Wait(ctx, p.cfg.Draw.Pause(rng))
}

// waitFor waits until some time after an instant.
func (p *Player) waitFor(ctx context.Context, at time.Time, after time.Duration) bool {
	return Wait(ctx, history.At(at).Sub(p.cfg.Recorder.Now())+after)
}

func (p *Player) hold(rng *rand.Rand) time.Duration { return upTo(rng, p.cfg.Draw.Hold) }

// upTo draws a duration evenly.
func upTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most)))
}

// Plain schedules a task, reads it sometimes, and leaves it alone.
func Plain(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.some(rng)
	if rng.IntN(2) == 0 {
		t.Hold = p.hold(rng)
	}
	p.New(ctx, rng, id, t)
	if rng.IntN(4) == 0 {
		p.Perform(ctx, rng, p.Get(id))
	}
	if rng.IntN(8) == 0 {
		p.cfg.Driver.Try(ctx, branch(rng), p.GetStale(id))
	}
}

// Retried fails some times at the receiver.
func Retried(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.some(rng)
	t.Fail = 1 + rng.IntN(p.cfg.Draw.Fail)
	p.New(ctx, rng, id, t)
}

// Dead fails until its attempts are used up, or the receiver wants no more.
func Dead(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.at(rng)
	t.MaxAttempts = 1 + rng.IntN(p.cfg.Draw.Attempts)
	if t.Gone = p.cfg.Draw.Gone && rng.IntN(2) == 0; !t.Gone {
		t.Fail = Forever
	}
	p.New(ctx, rng, id, t)
}

// Cancelled is cancelled before it is due, mostly.
func Cancelled(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	p.New(ctx, rng, id, p.some(rng))
	p.pause(ctx, rng)
	p.Perform(ctx, rng, p.Cancel(id))
}

// CancelledAtDue is cancelled within some milliseconds of its due time, twice: the answers must be one.
func CancelledAtDue(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.at(rng)
	t.Fail, t.Hold = rng.IntN(2), time.Duration(rng.IntN(100))*time.Millisecond
	p.New(ctx, rng, id, t)
	if !p.waitFor(ctx, t.FireAt, time.Duration(30-rng.IntN(100))*time.Millisecond) {
		return
	}
	for range 2 {
		p.Perform(ctx, rng, p.Cancel(id))
	}
}

// minBackoff is about how long a retry waits at least.
const minBackoff = 200 * time.Millisecond

// Stopped is cancelled while its first attempt is under way, which fails, or soon after: no other may follow.
func Stopped(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.at(rng)
	t.Fail, t.MaxAttempts, t.Hold = Forever, 4, p.cfg.Draw.Hold/4+upTo(rng, p.cfg.Draw.Hold/2)
	p.New(ctx, rng, id, t)
	if p.waitFor(ctx, t.FireAt, upTo(rng, t.Hold+minBackoff)) {
		p.Perform(ctx, rng, p.Cancel(id))
	}
}

// Replaced is scheduled anew.
func Replaced(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	p.New(ctx, rng, id, p.some(rng))
	p.pause(ctx, rng)
	p.New(ctx, rng, id, p.some(rng))
}

// ReplacedAndCancelled is scheduled anew, and then cancelled.
func ReplacedAndCancelled(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	Replaced(ctx, p, rng, id)
	p.Perform(ctx, rng, p.Cancel(id))
}

// ReplacedAtDue is scheduled anew while it is being attempted.
func ReplacedAtDue(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.at(rng)
	t.Fail, t.Hold = rng.IntN(3), time.Duration(rng.IntN(200))*time.Millisecond
	p.New(ctx, rng, id, t)
	if p.waitFor(ctx, t.FireAt, time.Duration(100-rng.IntN(300))*time.Millisecond) {
		p.New(ctx, rng, id, p.some(rng))
	}
}

// Patched is moved, and gets another payload sometimes.
func Patched(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	p.New(ctx, rng, id, p.some(rng))
	p.Perform(ctx, rng, p.Patch(id, p.delay(rng), rng.IntN(2) == 0))
}

// Touched has its delay started again, some times.
func Touched(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	p.New(ctx, rng, id, p.later(rng))
	for range 1 + rng.IntN(4) {
		if !p.pause(ctx, rng) {
			return
		}
		again := p.later(rng)
		if rng.IntN(3) == 0 {
			p.Perform(ctx, rng, p.Touch(id, again.Delay, &again))
		} else {
			p.Perform(ctx, rng, p.Touch(id, again.Delay, nil))
		}
	}
}

const (
	heartbeatPause = 60 * time.Millisecond // at most, between two of them
	heartbeatDelay = 400 * time.Millisecond
)

// Heartbeats is touched many times, by a caller that wants to hear when the touches stop.
func Heartbeats(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := Task{Delay: heartbeatDelay, Queue: p.queue(rng)}
	for range 5 + rng.IntN(20) {
		p.Perform(ctx, rng, p.Touch(id, t.Delay, &t))
		if !Wait(ctx, upTo(rng, heartbeatPause)) {
			return
		}
	}
}

// Fired is made due by a call.
func Fired(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.at(rng)
	t.Fail = rng.IntN(2)
	p.New(ctx, rng, id, t)
	p.pause(ctx, rng)
	p.Perform(ctx, rng, p.Fire(id))
}

// Conditional is scheduled with conditions, of which the second and the third cannot hold.
func Conditional(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.at(rng)
	t.IfAbsent = true
	answer, ok := p.New(ctx, rng, id, t)
	p.New(ctx, rng, id, t)
	if ok {
		t = p.at(rng)
		t.IfRevision = answer.Revision + 1<<40
		p.New(ctx, rng, id, t)
	}
}

// Expiring has so little time to begin that a fault may use it up.
func Expiring(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.some(rng)
	t.Expires, t.Fail = Between(rng, time.Millisecond, p.cfg.Draw.Expires), rng.IntN(3)
	p.New(ctx, rng, id, t)
}

// Queued leaves target and retries to its queue.
func Queued(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.some(rng)
	t.Queue, t.Fail = p.cfg.Queues[rng.IntN(len(p.cfg.Queues))], rng.IntN(3)
	t.Hold = time.Duration(rng.IntN(500)) * time.Millisecond
	p.New(ctx, rng, id, t)
	if rng.IntN(4) == 0 {
		p.Perform(ctx, rng, p.Cancel(id))
	}
}

// Pulled is for consumers. Some callers cancel it or schedule it anew.
func Pulled(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.some(rng)
	t.Queue, t.Fail, t.Hold = p.cfg.Pulled, rng.IntN(2), Between(rng, 0, p.cfg.Draw.Hold)
	p.New(ctx, rng, id, t)
	switch rng.IntN(8) {
	case 0:
		p.pause(ctx, rng)
		p.Perform(ctx, rng, p.Cancel(id))
	case 1:
		t.Delay, t.FireAt = p.delay(rng), time.Time{}
		p.New(ctx, rng, id, t)
	}
}

// Between draws from a range of which the short durations are as likely as the long: about evenly in the logarithm.
func Between(rng *rand.Rand, least, most time.Duration) time.Duration {
	for most/2 > least && rng.IntN(2) == 0 {
		most /= 2
	}
	return least + time.Duration(rng.Int64N(int64(most-least)+1))
}
