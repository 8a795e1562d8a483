package shard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard/dispatch"
)

// mode is the kind of work that the proposer may take.
type mode int

const (
	holding  mode = iota // nothing: before the Takeover, or during a transfer
	flushing             // only settles: before a transfer or a stop
	taking               // everything
)

// intake holds the work for the next entries: the leader's own commands, which are never refused, and users' calls,
// which are limited in bytes.
type intake struct {
	limit   int64
	changed chan struct{} // capacity 1: look again

	mu       sync.Mutex
	mode     mode
	before   mode  // the mode that resume restores
	closed   error // set once: the error for all later work
	takeover bool
	grants   bool // a lane may have both room and waiting tasks
	news     []news
	rules    *ruleChange
	series   *seriesChange
	advance  *advance
	calls    callQueue // and the settles
	pace     pace
	pending  int64 // sum of waiting() over calls, plus the reservations; also the sum of pending over the lines
	flushed  chan struct{}
	busy     bool // an entry is being committed
}

// work is the content of the next entry.
type work struct {
	takeover bool
	grants   bool // requested by the planner's timer or by a consumer's demand
	mayGrant bool
	news     []news
	settles  []settle
	rules    *ruleChange
	series   *seriesChange
	advance  *advance
	segments []segment
	bytes    int
	within   bounds // limits of the settles and segments
}

// commands returns the number of settles and of users' commands.
func (w *work) commands() int {
	n := len(w.settles)
	for _, s := range w.segments {
		n += s.n
	}
	return n
}

// isUsers reports whether the work is users' commands and nothing else, so that there is nothing to plan.
func (w *work) isUsers() bool {
	return !w.takeover && !w.grants && w.rules == nil && w.series == nil && w.advance == nil &&
		len(w.news)+len(w.settles) == 0
}

func newIntake(limit int64) *intake {
	return &intake{limit: limit, changed: make(chan struct{}, 1), pace: newPace()}
}

// enqueue adds a call, in its reserved room if it has a reservation. A call that exceeds the limit by itself is
// accepted when no other bytes wait.
func (q *intake) enqueue(c *call, reserved *reservation) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	c.line = q.calls.lineOf(c.namespace)
	if reserved != nil && q.closed == nil {
		q.count(c.line, c.waiting()-reserved.bytes)
		reserved.bytes = 0
	} else if err := q.grow(c.line, c.waiting()); err != nil {
		return err
	}
	q.calls.add(c)
	wake(q.changed)
	return nil
}

// reservation is the room of a call that is not yet in the intake.
type reservation struct {
	line  *callLine
	bytes int64
}

// reserve counts the bytes of a namespace's call that waits elsewhere until it is enqueued or released.
func (q *intake) reserve(namespace string, bytes int64) (*reservation, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	line := q.calls.lineOf(namespace)
	if err := q.grow(line, bytes); err != nil {
		return nil, err
	}
	return &reservation{line, bytes}, nil
}

// release frees the rest of a reservation; r may be nil.
func (q *intake) release(r *reservation) {
	if r == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.count(r.line, -r.bytes)
	}
	r.bytes = 0
}

// grow counts more bytes. Over the limit, namespaces with less than an eighth of it may still grow, until twice the
// limit is pending: a storm of one namespace does not shut out the others.
func (q *intake) grow(line *callLine, bytes int64) error {
	switch {
	case q.closed != nil:
		return q.closed
	case q.pending == 0 || q.pending+bytes <= q.limit:
	case line.pending+bytes > q.limit/8 || q.pending+bytes > 2*q.limit:
		return fmt.Errorf("%w: %d bytes", task.ErrOverloaded, q.pending)
	}
	q.count(line, bytes)
	return nil
}

// count adds to the pending bytes of a namespace.
func (q *intake) count(line *callLine, bytes int64) {
	q.pending += bytes
	line.pending += bytes
}

// leave answers the call of a caller whose context has ended.
func (q *intake) leave(ctx context.Context, c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.answered == len(c.ends) {
		return
	}
	if q.closed == nil {
		q.count(c.line, -c.waiting())
	}
	cause := context.Cause(ctx)
	c.leave(fmt.Errorf("%w: %w", task.ErrUnknown, cause), fmt.Errorf("%w: %w", task.ErrNotProposed, cause))
}

// settle queues a settle. It drops the settle after the end of the leadership and returns false: the next leadership
// has granted the attempt anew.
func (q *intake) settle(s settle) (queued bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return false
	}
	q.calls.addSettle(s)
	wake(q.changed)
	return true
}

// requestAdvance requests an Advance in the next entry.
func (q *intake) requestAdvance() <-chan advanced {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.advance == nil || q.closed != nil {
		q.advance = &advance{}
	}
	done := q.advance.wait(q.closed != nil)
	wake(q.changed)
	return done
}

// requestRules requests rules in the next entry. The channel is closed when they are set, and stays open if the
// leadership ends before.
func (q *intake) requestRules(rules []*fsmpb.QueueRule) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.rules = &ruleChange{rules: rules, done: make(chan struct{})}
	wake(q.changed)
	return q.rules.done
}

// requestSeries requests the extension of schedules in the next entry. The channel is closed when the entry is applied,
// and stays open if the leadership ends before.
func (q *intake) requestSeries(change *seriesChange) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.series = change
	wake(q.changed)
	return change.done
}

// requestTakeover opens the intake, with a Takeover before all other commands.
func (q *intake) requestTakeover() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.takeover, q.mode = true, taking
	wake(q.changed)
}

func (q *intake) requestGrants() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.grants = true
	wake(q.changed)
}

// news is a change to the planner's knowledge. The proposer's goroutine calls it when it assembles the next entry.
type news func(p *dispatch.Planner, now time.Time)

// tell queues n for the planner, to run before the next entry.
func (q *intake) tell(n news) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return
	}
	q.news = append(q.news, n)
	wake(q.changed)
}

// take waits for work and returns as much as one entry holds, or nil once ctx has ended.
func (q *intake) take(ctx context.Context) *work {
	for {
		if w := q.tryTake(); w != nil {
			return w
		}
		select {
		case <-ctx.Done():
			return nil
		case <-q.changed:
		}
	}
}

func (q *intake) tryTake() *work {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy = false
	w := &work{within: full}
	if q.calls.areMixed() {
		w.within = q.pace.next()
	}
	if q.mode != holding && len(q.calls.settling) > 0 {
		q.takeSettles(w)
	}
	if q.mode == taking {
		w.takeover, q.takeover = q.takeover, false
		w.grants, q.grants = q.grants, false
		w.news, q.news = q.news, nil
		w.mayGrant = true
		w.rules, q.rules = q.rules, nil
		w.series, q.series = q.series, nil
		w.advance, q.advance = q.advance, nil
		q.takeCalls(w)
	}
	if w.isUsers() && len(w.segments) == 0 {
		q.reportFlushed()
		return nil
	}
	if w.within != full {
		q.pace.taken(w.within)
	}
	q.busy = true
	return w
}

// timed records the duration of a bounded entry that has nothing but the work.
func (q *intake) timed(w *work, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pace.learn(w.within, max(w.bytes, w.commands()*commandBytes), took)
}

// takeSettles takes settles for the next entry. It leaves a quarter of the commands to users.
func (q *intake) takeSettles(w *work) {
	w.settles = q.calls.takeSettles(w.within.commands * 3 / 4)
	for _, s := range w.settles {
		w.bytes += len(s.framed)
	}
}

func (q *intake) takeCalls(w *work) {
	room := w.within.commands - len(w.settles)
	for q.calls.calls > 0 && room > 0 {
		c, n, before := q.calls.lines[0].calls[0], 0, w.bytes
		if !c.gone {
			if n = q.shareOf(c, room, w); n == 0 {
				return
			}
			size := len(c.bytes(c.taken, c.taken+n))
			w.segments = append(w.segments, segment{call: c, from: c.taken, n: n})
			w.bytes += size
			q.count(c.line, -int64(size))
			c.taken += n
			room -= n
		}
		q.calls.took(c, n, w.bytes-before)
	}
}

// shares is the number of parts of an entry. A call has one of them in its turn while other calls wait: a call of many
// thousand commands must not delay the calls behind it. The calls share the rest of the entry in further rounds.
const shares = 8

// shareOf returns the number of a call's commands that go into the entry now. 0 means that the next command begins the
// next entry.
func (q *intake) shareOf(c *call, room int, w *work) int {
	most, left := w.within, w.within.bytes-w.bytes
	if q.calls.calls == 1 {
		if n := c.fit(room, left); n > 0 {
			return n
		}
	} else if n := c.fit(min(room, most.commands/shares), min(left, most.bytes/shares)); n > 0 {
		return n
	}
	if n := c.fit(1, left); n > 0 || len(w.segments) > 0 {
		return n
	}
	return 1 // too large for an empty entry, or for one with these settles, and still to be sent
}

// answer distributes an entry's replies to its calls, in order. With a non-nil err, each command gets that error.
func (q *intake) answer(segments []segment, replies []task.Reply, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range segments {
		if err != nil {
			s.call.answer(refuse(s.n, err))
		} else {
			s.call.answer(replies[:s.n])
			replies = replies[s.n:]
		}
		s.call.refuseRest()
	}
}

// close ends the intake and answers the waiting commands with reason: none of them was proposed.
func (q *intake) close(reason error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return
	}
	q.closed = reason
	for _, c := range q.calls.all() {
		c.refusal = reason
		c.refuseRest()
	}
	if q.advance != nil {
		q.advance.answer(advanced{ended: true})
	}
	q.calls.clear()
	q.news, q.advance, q.pending = nil, nil, 0
	q.reportFlushed()
}

// flush takes only settles until none is left and no entry is being committed. The other work stays queued.
func (q *intake) flush(ctx context.Context) error {
	flushed := make(chan struct{})
	q.mu.Lock()
	q.before, q.mode, q.flushed = q.mode, flushing, flushed
	if q.closed != nil || !q.busy && len(q.calls.settling) == 0 {
		q.reportFlushed()
	}
	q.mu.Unlock()
	wake(q.changed)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-flushed:
		return nil
	}
}

// reportFlushed ends a flush. It is called when no entry is being committed and none may be taken; the proposer then
// takes nothing until resume.
func (q *intake) reportFlushed() {
	if q.flushed == nil {
		return
	}
	close(q.flushed)
	q.flushed, q.mode = nil, holding
}

// resume restores the previous mode after a failed transfer.
func (q *intake) resume() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.mode, q.flushed = q.before, nil
	wake(q.changed)
}
