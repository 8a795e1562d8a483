package load

import (
	"context"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// Play plays script i. The seed and i decide the script and its operations.
func (p *Player) Play(ctx context.Context, i int) {
	rng := rand.New(rand.NewPCG(p.cfg.Seed, uint64(i)))
	if p.cfg.Hot > 0 && i%p.cfg.HotEvery == 0 {
		p.playHot(ctx, rng, i/p.cfg.HotEvery)
		return
	}
	pick(rng, p.scripts)(ctx, p, rng, p.cfg.Prefix+strconv.Itoa(i))
}

// due draws the instant at which a task is due. The record holds the instant as the service rounds it (Ceil).
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

// at draws a task that is due at an instant, later a task that is due after a delay, some a task of either kind.
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

// waitFor waits until the given time after an instant.
func (p *Player) waitFor(ctx context.Context, at time.Time, after time.Duration) bool {
	return Wait(ctx, history.At(at).Sub(p.cfg.Recorder.Now())+after)
}

func (p *Player) hold(rng *rand.Rand) time.Duration {
	if p.cfg.Draw.Hold == 0 {
		return 0
	}
	return upTo(rng, p.cfg.Draw.Hold)
}

// upTo draws a duration below most, evenly.
func upTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most)))
}

// plain schedules a task, reads it in some cases, and leaves it alone.
func plain(ctx context.Context, p *Player, rng *rand.Rand, id string) {
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

// retried schedules a task that the receiver fails some times.
func retried(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.some(rng)
	t.Fail = 1 + rng.IntN(p.cfg.Draw.Fail)
	p.New(ctx, rng, id, t)
}

// dead schedules a task that dies: its attempts are used up, or the receiver refuses any more.
func dead(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.at(rng)
	t.MaxAttempts = 1 + rng.IntN(p.cfg.Draw.Attempts)
	if t.Gone = p.cfg.Draw.Gone && rng.IntN(2) == 0; !t.Gone {
		t.Fail = Forever
	}
	p.New(ctx, rng, id, t)
}

// cancelled schedules a task and cancels it, mostly before it is due.
func cancelled(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	p.New(ctx, rng, id, p.some(rng))
	p.pause(ctx, rng)
	p.Perform(ctx, rng, p.Cancel(id))
}

// cancelledAtDue cancels a task twice, within 70 ms of its due time. Both cancels must get the same answer.
func cancelledAtDue(ctx context.Context, p *Player, rng *rand.Rand, id string) {
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

// minBackoff is about the shortest pause before a retry.
const minBackoff = 200 * time.Millisecond

// stopped cancels a task while its first attempt is under way or soon after. That attempt fails, and no other may
// follow.
func stopped(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.at(rng)
	t.Fail, t.MaxAttempts, t.Hold = Forever, 4, p.cfg.Draw.Hold/4+upTo(rng, p.cfg.Draw.Hold/2)
	p.New(ctx, rng, id, t)
	if p.waitFor(ctx, t.FireAt, upTo(rng, t.Hold+minBackoff)) {
		p.Perform(ctx, rng, p.Cancel(id))
	}
}

// replaced schedules a task, and then another one with the same id.
func replaced(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	p.New(ctx, rng, id, p.some(rng))
	p.pause(ctx, rng)
	p.New(ctx, rng, id, p.some(rng))
}

// replacedAndCancelled schedules a task twice, and then cancels it.
func replacedAndCancelled(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	replaced(ctx, p, rng, id)
	p.Perform(ctx, rng, p.Cancel(id))
}

// replacedAtDue schedules a task again from 200 ms before its due time to 100 ms after, so that some are being
// attempted.
func replacedAtDue(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.at(rng)
	t.Fail, t.Hold = rng.IntN(3), time.Duration(rng.IntN(200))*time.Millisecond
	p.New(ctx, rng, id, t)
	if p.waitFor(ctx, t.FireAt, time.Duration(100-rng.IntN(300))*time.Millisecond) {
		p.New(ctx, rng, id, p.some(rng))
	}
}

// patched moves a task, and replaces its payload in some cases.
func patched(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	p.New(ctx, rng, id, p.some(rng))
	p.Perform(ctx, rng, p.Patch(id, p.delay(rng), rng.IntN(2) == 0))
}

// touched starts the delay of a task again, several times.
func touched(ctx context.Context, p *Player, rng *rand.Rand, id string) {
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
	heartbeatPause = 60 * time.Millisecond // longest pause between two touches
	heartbeatDelay = 400 * time.Millisecond
)

// heartbeats touches a task many times, as a caller does that wants an alarm when the touches stop.
func heartbeats(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := Task{Delay: heartbeatDelay, Queue: p.queue(rng)}
	for range 5 + rng.IntN(20) {
		p.Perform(ctx, rng, p.Touch(id, t.Delay, &t))
		if !Wait(ctx, upTo(rng, heartbeatPause)) {
			return
		}
	}
}

// fired makes a task due by a call.
func fired(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.at(rng)
	t.Fail = rng.IntN(2)
	p.New(ctx, rng, id, t)
	p.pause(ctx, rng)
	p.Perform(ctx, rng, p.Fire(id))
}

// conditional schedules a task with a condition that holds. Two schedules follow whose conditions cannot hold after
// the first has succeeded.
func conditional(ctx context.Context, p *Player, rng *rand.Rand, id string) {
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

// expiring schedules a task with so little time until it expires that a fault may use it up.
func expiring(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.some(rng)
	t.Expires, t.Fail = Between(rng, time.Millisecond, p.cfg.Draw.Expires), rng.IntN(3)
	p.New(ctx, rng, id, t)
}

// queued schedules a task that leaves its target and retries to its queue.
func queued(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.some(rng)
	t.Queue, t.Fail = p.cfg.Queues[rng.IntN(len(p.cfg.Queues))], rng.IntN(3)
	t.Hold = time.Duration(rng.IntN(500)) * time.Millisecond
	p.New(ctx, rng, id, t)
	if rng.IntN(4) == 0 {
		p.Perform(ctx, rng, p.Cancel(id))
	}
}

// pulled schedules a task for consumers. Some callers cancel it or schedule it again.
func pulled(ctx context.Context, p *Player, rng *rand.Rand, id string) {
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

// grouped schedules some tasks, each in one of the groups of the ordered queue. A few of them fail at first.
func grouped(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	for i := range 2 + rng.IntN(4) {
		t := p.some(rng)
		t.Queue, t.Group = p.cfg.Ordered, "g"+strconv.Itoa(rng.IntN(p.cfg.Groups))
		t.Hold = Between(rng, 0, p.cfg.Draw.Hold/4)
		if rng.IntN(8) == 0 {
			t.Fail = 1
		}
		p.New(ctx, rng, id+"-"+strconv.Itoa(i), t)
	}
}

// Between draws from a range about evenly in the logarithm: short durations are as likely as long ones.
func Between(rng *rand.Rand, least, most time.Duration) time.Duration {
	for most/2 > least && rng.IntN(2) == 0 {
		most /= 2
	}
	return least + time.Duration(rng.Int64N(int64(most-least)+1))
}
