package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// script is the life of one id.
type script struct {
	weight int
	play   func(l *load, rng *rand.Rand, id string)
}

// scripts are what an id may live through, with how often.
var scripts = []script{
	{30, (*load).playPlain},
	{4, (*load).playStorm},
	{8, (*load).playRetried},
	{3, (*load).playDead},
	{12, (*load).playCancelled},
	{10, (*load).playCancelledAtDue},
	{8, (*load).playReplaced},
	{4, (*load).playReplacedAndCancelled},
	{4, (*load).playReplacedAtDue},
	{6, (*load).playPatched},
	{6, (*load).playTouched},
	{5, (*load).playFired},
	{4, (*load).playConditional},
	{5, (*load).playExpiring},
	{8, (*load).playQueued},
	{12, (*load).playPulled},
	{15, (*load).playHot},
}

// play plays the i-th script.
func (l *load) play(rng *rand.Rand, i int) {
	total := 0
	for _, s := range scripts {
		total += s.weight
	}
	n := rng.IntN(total)
	for _, s := range scripts {
		if n < s.weight {
			s.play(l, rng, fmt.Sprintf("t-%d", i))
			return
		}
		n -= s.weight
	}
}

// new schedules a task, and tells whether that was acknowledged.
func (l *load) new(rng *rand.Rand, id string, t taskSpec) (history.Answer, bool) {
	outcome, answer := l.perform(rng, l.schedule(id, t))
	return answer, outcome == history.OK
}

// timed is a task due at an instant or after a delay.
func (l *load) timed(rng *rand.Rand) taskSpec {
	if rng.IntN(2) == 0 {
		return taskSpec{delay: l.delay(rng)}
	}
	return taskSpec{fireAt: l.due(rng)}
}

// playPlain is the task that is scheduled, read sometimes, and left alone.
func (l *load) playPlain(rng *rand.Rand, id string) {
	t := l.timed(rng)
	if rng.IntN(2) == 0 {
		t.hold = time.Duration(rng.Int64N(int64(2 * time.Second)))
	}
	l.new(rng, id, t)
	if rng.IntN(4) == 0 {
		l.get(l.world.ctx, l.anyNode(rng), id, false)
	}
	if rng.IntN(8) == 0 {
		l.getStale(l.world.ctx, l.anyNode(rng), id, false)
	}
}

// playStorm schedules many tasks in one call, all due at one instant, so that they wait for each other.
func (l *load) playStorm(rng *rand.Rand, id string) {
	due, hold := l.due(rng), time.Duration(rng.Int64N(int64(3*time.Second)))
	ops := make([]operation, 5+rng.IntN(60))
	for i := range ops {
		ops[i] = l.schedule(fmt.Sprintf("%s.%d", id, i), taskSpec{fireAt: due, hold: hold})
	}
	replies := l.callAll(l.world.ctx, l.anyNode(rng), l.patience(rng), ops, true)
	for i, o := range ops {
		if !final(told(replies[i])) {
			l.perform(rng, o)
		}
	}
}

// playRetried fails some times at the receiver.
func (l *load) playRetried(rng *rand.Rand, id string) {
	t := l.timed(rng)
	t.fail = 1 + rng.Uint32N(5)
	l.new(rng, id, t)
}

// playDead fails until its attempts are used up, or the receiver wants no more.
func (l *load) playDead(rng *rand.Rand, id string) {
	t := taskSpec{fireAt: l.due(rng), maxAttempts: 1 + rng.Uint32N(4)}
	if t.gone = rng.IntN(2) == 0; !t.gone {
		t.fail = 1000
	}
	l.new(rng, id, t)
}

func (l *load) playCancelled(rng *rand.Rand, id string) {
	l.new(rng, id, l.timed(rng))
	l.world.sleep(l.offset(rng))
	l.perform(rng, l.cancel(id))
}

// playCancelledAtDue cancels within some milliseconds of the due time, twice: the answers must be one.
func (l *load) playCancelledAtDue(rng *rand.Rand, id string) {
	due := l.due(rng)
	l.new(rng, id, taskSpec{fireAt: due, fail: rng.Uint32N(2), hold: time.Duration(rng.IntN(100)) * time.Millisecond})
	l.world.sleep(time.Until(due) - time.Duration(rng.IntN(100)-30)*time.Millisecond)
	for range 2 {
		l.perform(rng, l.cancel(id))
	}
}

func (l *load) playReplaced(rng *rand.Rand, id string) {
	l.new(rng, id, l.timed(rng))
	l.world.sleep(l.offset(rng))
	l.new(rng, id, l.timed(rng))
}

func (l *load) playReplacedAndCancelled(rng *rand.Rand, id string) {
	l.playReplaced(rng, id)
	l.perform(rng, l.cancel(id))
}

// playReplacedAtDue replaces a task while it is being attempted.
func (l *load) playReplacedAtDue(rng *rand.Rand, id string) {
	due := l.due(rng)
	l.new(rng, id, taskSpec{fireAt: due, fail: rng.Uint32N(3), hold: time.Duration(rng.IntN(200)) * time.Millisecond})
	l.world.sleep(time.Until(due) - time.Duration(rng.IntN(300)-100)*time.Millisecond)
	l.new(rng, id, l.timed(rng))
}

func (l *load) playPatched(rng *rand.Rand, id string) {
	l.new(rng, id, l.timed(rng))
	l.perform(rng, l.patch(id, l.delay(rng), rng.IntN(2) == 0))
}

// playTouched starts a delay again, some times.
func (l *load) playTouched(rng *rand.Rand, id string) {
	l.new(rng, id, taskSpec{delay: l.delay(rng)})
	for range 1 + rng.IntN(4) {
		l.world.sleep(l.offset(rng))
		l.perform(rng, l.touch(id, l.delay(rng), rng.IntN(3) == 0))
	}
}

func (l *load) playFired(rng *rand.Rand, id string) {
	l.new(rng, id, taskSpec{fireAt: l.due(rng), fail: rng.Uint32N(2)})
	l.world.sleep(l.offset(rng))
	l.perform(rng, l.fire(id))
}

// playConditional schedules with conditions, of which the second and the third cannot hold.
func (l *load) playConditional(rng *rand.Rand, id string) {
	answer, ok := l.new(rng, id, taskSpec{fireAt: l.due(rng), ifAbsent: true})
	l.new(rng, id, taskSpec{fireAt: l.due(rng), ifAbsent: true})
	if ok {
		l.new(rng, id, taskSpec{fireAt: l.due(rng), ifRevision: answer.Revision + 1<<40})
	}
}

// playExpiring has so little time to begin that a fault may use it up.
func (l *load) playExpiring(rng *rand.Rand, id string) {
	t := l.timed(rng)
	t.expires, t.fail = between(rng, span(time.Millisecond, l.world.cfg.pace.maxDelay/4)), rng.Uint32N(3)
	l.new(rng, id, t)
}

// playQueued leaves target and retries to its queue.
func (l *load) playQueued(rng *rand.Rand, id string) {
	t := l.timed(rng)
	t.queue, t.fail = pushedQueues[rng.IntN(len(pushedQueues))], rng.Uint32N(3)
	t.hold = time.Duration(rng.IntN(500)) * time.Millisecond
	l.new(rng, id, t)
	if rng.IntN(4) == 0 {
		l.perform(rng, l.cancel(id))
	}
}

// playPulled is for consumers.
func (l *load) playPulled(rng *rand.Rand, id string) {
	t := l.timed(rng)
	t.queue, t.fail = pulledQueue, rng.Uint32N(2)
	t.hold = between(rng, span(0, 3*time.Second))
	l.new(rng, id, t)
	switch rng.IntN(8) {
	case 0:
		l.world.sleep(l.offset(rng))
		l.perform(rng, l.cancel(id))
	case 1:
		t.delay, t.fireAt = l.delay(rng), time.Time{}
		l.new(rng, id, t)
	}
}

const (
	hotIDs    = 3
	hotAtOnce = 3
	hotCalls  = 40 // scripts of one hot id, then another one takes its place
)

// playHot makes some calls of one of the hot ids at once. They are not repeated: a repeat could come after so many
// others that its key is forgotten, and then it would rightly happen a second time.
func (l *load) playHot(rng *rand.Rand, id string) {
	var i int
	if _, err := fmt.Sscanf(id, "t-%d", &i); err != nil {
		panic(err) // it is this package's own
	}
	id = fmt.Sprintf("hot-%d-%d", i%hotIDs, i/(hotIDs*hotCalls))
	var wg sync.WaitGroup
	for range hotAtOnce {
		n, patience, call := l.anyNode(rng), l.patience(rng), l.hotCall(rng, id)
		wg.Go(func() { call(n, patience) })
	}
	wg.Wait()
}

func (l *load) hotCall(rng *rand.Rand, id string) func(n *Node, patience time.Duration) {
	var o operation
	delay := min(l.delay(rng), 2*time.Second)
	switch n := rng.IntN(100); {
	case n < 30:
		o = l.schedule(id, taskSpec{delay: delay})
	case n < 40:
		o = l.patch(id, delay, rng.IntN(2) == 0)
	case n < 55:
		o = l.touch(id, delay, rng.IntN(2) == 0)
	case n < 70:
		o = l.cancel(id)
	case n < 75:
		o = l.fire(id)
	default:
		return func(n *Node, _ time.Duration) { l.get(l.world.ctx, n, id, false) }
	}
	return func(n *Node, patience time.Duration) { l.call(l.world.ctx, n, patience, o) }
}
