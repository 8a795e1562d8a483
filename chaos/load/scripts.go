package load

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/internal/wait"
)

// script plays the life of one id: a few calls, one after the other.
type script func(ctx context.Context, p *Player, rng *rand.Rand, id string)

// scripts are all scripts with their usual weights. A seed keeps its scripts as long as the weights stay and the
// scripts with a weight keep their order.
var scripts = []struct {
	name   string
	weight int
	play   script
}{
	{"plain", 30, plain},
	{"storm", 4, storm},
	{"batch", 4, batch},
	{"retried", 8, retried},
	{"dead", 3, dead},
	{"cancelled", 12, cancelled},
	{"cancelled at due", 10, cancelledAtDue},
	{"stopped", 4, stopped},
	{"replaced", 8, replaced},
	{"replaced and cancelled", 4, replacedAndCancelled},
	{"replaced at due", 4, replacedAtDue},
	{"patched", 6, patched},
	{"touched", 6, touched},
	{"heartbeats", 2, heartbeats},
	{"fired", 5, fired},
	{"conditional", 4, conditional},
	{"expiring", 5, expiring},
	{"queued", 8, queued},
	{"pulled", 12, pulled},
	{"grouped", 0, grouped}, // needs Config.Groups
}

// Only returns the weights with which all scripts but one are never played.
func Only(name string) map[string]int {
	weights := map[string]int{}
	for _, s := range scripts {
		weights[s.name] = 0
	}
	weights[name] = 1
	return weights
}

// weigh returns the scripts with their weights. A weight in changed replaces the usual weight of the script of that
// name. weigh panics if no script has the name.
func weigh(changed map[string]int) []choice[script] {
	unknown := maps.Clone(changed)
	all := make([]choice[script], len(scripts))
	for i, s := range scripts {
		if weight, ok := changed[s.name]; ok {
			s.weight = weight
			delete(unknown, s.name)
		}
		all[i] = choice[script]{s.weight, s.play}
	}
	if len(unknown) > 0 {
		panic(fmt.Sprintf("load: no scripts %q", slices.Sorted(maps.Keys(unknown))))
	}
	return all
}

// choice is one of several values, with its weight.
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
	return wait.For(ctx, p.cfg.Draw.Pause(rng))
}

// waitFor waits until the given time after an instant.
func (p *Player) waitFor(ctx context.Context, at time.Time, after time.Duration) bool {
	return wait.For(ctx, history.At(at).Sub(p.cfg.Recorder.Now())+after)
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
	t.Follow = follows(id)
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
	t.Follow = follows(id)
	p.New(ctx, rng, id, t)
}

// follows reports whether the task of a script has a follow-up: a half of them. It draws nothing, so that a seed keeps
// its operations.
func follows(id string) bool { return id[len(id)-1]%2 == 0 }

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
		if !wait.For(ctx, upTo(rng, heartbeatPause)) {
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

// storm schedules many tasks in one call, all due at the same instant, so that their deliveries wait for each other.
func storm(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	t := p.at(rng)
	t.Hold = p.hold(rng)
	ops := make([]Operation, 5+rng.IntN(60))
	for i := range ops {
		ops[i] = p.Schedule(fmt.Sprintf("%s.%d", id, i), t)
	}
	p.batch(ctx, rng, ops)
}

const batchLines = 40

// batch sends operations of several kinds about new ids in one call. Some lines are about the ids of earlier lines.
func batch(ctx context.Context, p *Player, rng *rand.Rand, id string) {
	ops := make([]Operation, batchLines)
	for i := range ops {
		ops[i] = p.batchLine(rng, id, i)
	}
	p.batch(ctx, rng, ops)
}

// batch tries operations in one call, and repeats those without a final answer one by one.
func (p *Player) batch(ctx context.Context, rng *rand.Rand, ops []Operation) {
	tries := branch(rng)
	endings := p.cfg.Driver.Batch(ctx, tries, ops)
	for i, op := range ops {
		if i >= len(endings) || !Final(endings[i].Outcome, endings[i].Answer) {
			p.Perform(ctx, tries, op)
		}
	}
}

// batchLine draws line i of a batch. More than half of the lines schedule a task with an id of its own.
func (p *Player) batchLine(rng *rand.Rand, id string, i int) Operation {
	own := fmt.Sprintf("%s.%d", id, i)
	earlier := fmt.Sprintf("%s.%d", id, rng.IntN(i+1))
	again := p.later(rng)
	switch n := rng.IntN(100); {
	case n < 55:
		return p.Schedule(own, p.at(rng))
	case n < 62:
		return p.Touch(own, again.Delay, &again)
	case n < 76:
		return p.Cancel(earlier)
	case n < 84:
		return p.Touch(earlier, again.Delay, nil)
	case n < 88:
		return p.Touch(earlier, again.Delay, &again)
	case n < 94:
		return p.Fire(earlier)
	}
	return p.Schedule(earlier, p.at(rng))
}

const (
	hotCalls  = 150 // calls of one hot id; then a new id takes its place, since an id's history is judged as a whole
	hotPulled = 60  // calls of a pulled hot id: the settles of its consumers come on top
	hotAtOnce = 3   // calls of a hot id at the same time
)

// playHot makes several calls of one hot id at once. i counts the hot scripts. The calls are not repeated: a repeat
// could come when many other calls have made the node forget its key, and would then rightly happen a second time.
func (p *Player) playHot(ctx context.Context, rng *rand.Rand, i int) {
	which, most, queue := i%p.cfg.Hot, hotCalls, ""
	if p.cfg.HotQueue != "" && which%2 == 1 {
		most, queue = hotPulled, p.cfg.HotQueue
	}
	id := fmt.Sprintf("%shot-%d-%d", p.cfg.Prefix, which, i/p.cfg.Hot*hotAtOnce/most)
	var calls sync.WaitGroup
	for range hotAtOnce {
		op, tries := p.hotCall(rng, id, queue), branch(rng)
		calls.Go(func() { p.cfg.Driver.Try(ctx, tries, op) })
	}
	calls.Wait()
}

func (p *Player) hotCall(rng *rand.Rand, id, queue string) Operation {
	delay := time.Millisecond + upTo(rng, p.cfg.Draw.HotDelay).Round(time.Millisecond)
	want := Task{Delay: delay, Queue: queue}
	switch n := rng.IntN(100); {
	case n < 30:
		return p.Schedule(id, want)
	case n < 40:
		return p.Patch(id, delay, rng.IntN(2) == 0)
	case n < 48:
		return p.Touch(id, delay, nil)
	case n < 55:
		return p.Touch(id, delay, &want)
	case n < 70:
		return p.Cancel(id)
	case n < 75:
		return p.Fire(id)
	default:
		return p.Get(id)
	}
}
