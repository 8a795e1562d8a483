package workload

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// script is the life of one id.
type script struct {
	weight int
	play   func(l *Load, ctx context.Context, rng *rand.Rand, id string)
}

// scripts are what an id may live through, with how often. Each is a few calls, one after the other.
var scripts = []script{
	{40, (*Load).playPlain},
	{4, (*Load).playBatch},
	{8, (*Load).playRetried},
	{2, (*Load).playDead},
	{12, (*Load).playCancelled},
	{10, (*Load).playCancelledAtDue},
	{8, (*Load).playReplaced},
	{4, (*Load).playReplacedAndCancelled},
	{6, (*Load).playPatched},
	{6, (*Load).playTouched},
	{5, (*Load).playFired},
	{4, (*Load).playConditional},
}

func pick(rng *rand.Rand, from []script) script {
	total := 0
	for _, s := range from {
		total += s.weight
	}
	n := rng.IntN(total)
	for _, s := range from {
		if n < s.weight {
			return s
		}
		n -= s.weight
	}
	panic("weights do not add up")
}

// maxHold is for how many milliseconds the receiver keeps an answer back.
const maxHold = 500

// playPlain is the task that is scheduled, read sometimes, and left alone.
func (l *Load) playPlain(ctx context.Context, rng *rand.Rand, id string) {
	t := task{fireAt: l.due(rng)}
	if rng.IntN(2) == 0 {
		t = task{delay: max(l.delay(rng), time.Millisecond)}
	}
	if rng.IntN(2) == 0 {
		t.hold = rng.IntN(maxHold)
	}
	l.new(ctx, rng, id, t)
	if rng.IntN(4) == 0 {
		what, do := l.get(id)
		l.perform(ctx, rng, what, do)
	}
}

// playRetried fails once or twice at the receiver.
func (l *Load) playRetried(ctx context.Context, rng *rand.Rand, id string) {
	l.new(ctx, rng, id, task{fireAt: l.due(rng), fail: 1 + rng.IntN(2)})
}

// playDead fails until its attempts are used up.
func (l *Load) playDead(ctx context.Context, rng *rand.Rand, id string) {
	l.new(ctx, rng, id, task{fireAt: l.due(rng), fail: forever, maxAttempts: 2})
}

func (l *Load) playCancelled(ctx context.Context, rng *rand.Rand, id string) {
	l.new(ctx, rng, id, task{fireAt: l.due(rng)})
	l.cancelNow(ctx, rng, id)
}

// playCancelledAtDue cancels within a few milliseconds of the due time, twice: the answers must be one.
func (l *Load) playCancelledAtDue(ctx context.Context, rng *rand.Rand, id string) {
	due := l.due(rng)
	l.new(ctx, rng, id, task{fireAt: due})
	lead := time.Duration(rng.IntN(80)-20) * time.Millisecond
	if !wait(ctx, history.At(due).Sub(l.cfg.Recorder.Now())-lead) {
		return
	}
	l.cancelNow(ctx, rng, id)
	l.cancelNow(ctx, rng, id)
}

func (l *Load) cancelNow(ctx context.Context, rng *rand.Rand, id string) {
	what, do := l.cancel(id)
	l.perform(ctx, rng, what, do)
}

func (l *Load) playReplaced(ctx context.Context, rng *rand.Rand, id string) {
	l.new(ctx, rng, id, task{fireAt: l.due(rng)})
	l.new(ctx, rng, id, task{fireAt: l.due(rng)})
}

func (l *Load) playReplacedAndCancelled(ctx context.Context, rng *rand.Rand, id string) {
	l.playReplaced(ctx, rng, id)
	l.cancelNow(ctx, rng, id)
}

func (l *Load) playPatched(ctx context.Context, rng *rand.Rand, id string) {
	l.new(ctx, rng, id, task{fireAt: l.due(rng)})
	what, do := l.patch(id, max(l.delay(rng), time.Millisecond), rng.IntN(2) == 0)
	l.perform(ctx, rng, what, do)
}

func (l *Load) playTouched(ctx context.Context, rng *rand.Rand, id string) {
	l.new(ctx, rng, id, task{delay: max(l.delay(rng), time.Millisecond)})
	what, do := l.touch(id, max(l.delay(rng), time.Millisecond), rng.IntN(3) == 0)
	l.perform(ctx, rng, what, do)
}

func (l *Load) playFired(ctx context.Context, rng *rand.Rand, id string) {
	l.new(ctx, rng, id, task{fireAt: l.due(rng)})
	what, do := l.fire(id)
	l.perform(ctx, rng, what, do)
}

// playConditional schedules with conditions, of which the second and the third cannot hold.
func (l *Load) playConditional(ctx context.Context, rng *rand.Rand, id string) {
	answer, ok := l.new(ctx, rng, id, task{fireAt: l.due(rng), ifAbsent: true})
	l.new(ctx, rng, id, task{fireAt: l.due(rng), ifAbsent: true})
	if ok {
		l.new(ctx, rng, id, task{fireAt: l.due(rng), ifRevision: answer.Revision + 1<<40})
	}
}

const batchLines = 40

// playBatch schedules many ids at once. Lines without a final answer are tried again one by one.
func (l *Load) playBatch(ctx context.Context, rng *rand.Rand, id string) {
	lines := make([]item, batchLines)
	for i := range lines {
		lines[i] = l.item(fmt.Sprintf("%s.%d", id, i), task{fireAt: l.due(rng)})
	}
	l.caller.batch(ctx, rng.IntN(len(l.cfg.Nodes)), l.cfg.CallTimeout, lines)
	for _, line := range lines {
		if !final(line.outcome, line.answer) {
			l.perform(ctx, rng, line.what, line.alone)
		}
	}
}
