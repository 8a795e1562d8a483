package shard

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/admission"
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
// which are limited in bytes. The namespaces share the entries by weight, and the calls of one namespace take turns
// among themselves. So a storm of one namespace does not delay the calls of the others.
type intake struct {
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
	calls    admission.Queue[*call]  // by namespace
	settles  admission.Queue[settle] // by namespace
	mix      admission.Mix           // of the namespaces of calls and settles
	room     *admission.Pool         // by namespace; holds waiting() of the calls, and the reservations
	pace     pace
	paused   time.Time // calls and settles wait for each other until then
	riding   time.Time // until then, calls and settles that ride wait for other work to make an entry
	urgent   bool      // one that waits does not ride
	pauseEnd *time.Timer
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

// newIntake returns an intake that holds up to limit bytes of calls of one namespace, and twice as many of several.
func newIntake(limit int64, weights admission.Weights) *intake {
	q := &intake{
		changed: make(chan struct{}, 1), pace: newPace(), room: admission.NewPool(2 * int(limit)),
		calls: admission.Queue[*call]{Weights: weights}, settles: admission.Queue[settle]{Weights: weights},
		mix: admission.Mix{Now: time.Now},
	}
	q.pauseEnd = time.AfterFunc(never, func() { wake(q.changed) })
	return q
}

// enqueue adds a call, in its reserved room if it has a reservation. A call that exceeds the limit by itself is
// accepted when no other bytes wait.
func (q *intake) enqueue(c *call, reserved *reservation) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if reserved == nil || q.closed != nil {
		if err := q.grow(c.namespace, c.waiting()); err != nil {
			return err
		}
	} else {
		q.room.Resize(c.namespace, c.waiting())
		q.room.Give(reserved.namespace, reserved.bytes)
		reserved.bytes = 0
	}
	q.mix.Note(c.namespace)
	q.calls.Add(c.namespace, c)
	q.added(c.rides)
	return nil
}

// reservation is the room of a call that is not yet in the intake.
type reservation struct {
	namespace string
	bytes     int
}

// reserve counts the bytes of a namespace's call that waits elsewhere until it is enqueued or released.
func (q *intake) reserve(namespace string, bytes int) (*reservation, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.grow(namespace, bytes); err != nil {
		return nil, err
	}
	return &reservation{namespace, bytes}, nil
}

// release frees the rest of a reservation; r may be nil.
func (q *intake) release(r *reservation) {
	if r == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed == nil {
		q.room.Give(r.namespace, r.bytes)
	}
	r.bytes = 0
}

// grow counts more bytes.
func (q *intake) grow(namespace string, bytes int) error {
	switch {
	case q.closed != nil:
		return q.closed
	case !q.room.TakeFirst(namespace, bytes):
		return fmt.Errorf("%w: %d bytes", task.ErrOverloaded, q.room.Taken())
	}
	return nil
}

// leave answers the call of a caller whose context has ended.
func (q *intake) leave(ctx context.Context, c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c.answered == len(c.ends) {
		return
	}
	if q.closed == nil {
		q.room.Give(c.namespace, c.waiting())
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
	namespace := task.CanonicalNamespace(s.lane.Namespace)
	q.mix.Note(namespace)
	q.settles.Add(namespace, s)
	q.added(s.rides)
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
	if d := q.pauseLeft(); d > 0 {
		if q.calls.Len()+q.settles.Len() > 0 {
			q.pauseEnd.Reset(d)
		}
		return nil
	}
	w := &work{within: full}
	if q.mix.IsMixed() {
		w.within = q.pace.next()
	}
	if q.mode != holding && q.settles.Len() > 0 {
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
	if q.calls.Len()+q.settles.Len() == 0 {
		q.urgent = false
	}
	if w.within != full {
		q.pace.taken(w.within)
	}
	q.busy = true
	return w
}

// pause makes calls and settles wait for each other for a while, unless other work comes.
func (q *intake) pause(d time.Duration) {
	if d <= 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.paused = time.Now().Add(d)
}

// maxRide is the longest time for which a settle waits for other work to make an entry, and by which an Advance goes
// further than it must so that fewer follow.
const maxRide = 10 * time.Millisecond

// ride makes the calls and settles that ride wait for other work, for maxRide from now on. If tasks wait in the lanes
// that the last entry changed, none rides: these tasks may wait for the ends of attempts.
func (q *intake) ride(waiting bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.riding = time.Time{}
	if !waiting {
		q.riding = time.Now().Add(maxRide)
	}
}

// pauseLeft returns the rest of the pause of the calls and settles that wait; not positive: they need not wait.
func (q *intake) pauseLeft() time.Duration {
	own := q.takeover || q.grants || q.rules != nil || q.series != nil || q.advance != nil || len(q.news) > 0
	if q.mode != taking || own {
		return 0
	}
	if !q.urgent && q.riding.After(q.paused) {
		return time.Until(q.riding)
	}
	return time.Until(q.paused)
}

// added wakes the proposer for a call or settle that has been added, now or at the end of the pause.
func (q *intake) added(rides bool) {
	q.urgent = q.urgent || !rides
	if d := q.pauseLeft(); d > 0 {
		q.pauseEnd.Reset(d)
	} else {
		wake(q.changed)
	}
}

// timed records the duration of a bounded entry that has nothing but the work.
func (q *intake) timed(w *work, took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.pace.learn(w.within, max(w.bytes, w.commands()*commandBytes), took)
}

// takeSettles takes settles for the next entry. It leaves a quarter of the commands to users.
func (q *intake) takeSettles(w *work) {
	n := min(w.within.commands*3/4, q.settles.Len())
	w.settles = make([]settle, n)
	for i := range w.settles {
		l := q.settles.Next()
		w.settles[i] = q.settles.Take(l)
		q.settles.Charge(l, 1)
		w.bytes += len(w.settles[i].framed)
	}
}

// commandBytes is the lowest price of a command. A larger command costs its bytes. So maxEntryCommands commands cost at
// least maxEntryBytes.
const commandBytes = maxEntryBytes / maxEntryCommands

func (q *intake) takeCalls(w *work) {
	room := w.within.commands - len(w.settles)
	for q.calls.Len() > 0 && room > 0 {
		l, n, before := q.calls.Next(), 0, w.bytes
		if c := l.First(); !c.gone {
			if n = q.shareOf(c, room, w); n == 0 {
				return
			}
			q.takeCommands(c, n, w)
			room -= n
		}
		c := q.calls.Take(l)
		if !c.gone && c.taken < len(c.ends) {
			q.calls.Add(c.namespace, c) // the rest waits for the next turn of its namespace
		}
		q.calls.Charge(l, float64(max(w.bytes-before, n*commandBytes)))
	}
}

// takeCommands takes the next n commands of a call.
func (q *intake) takeCommands(c *call, n int, w *work) {
	size := len(c.bytes(c.taken, c.taken+n))
	w.segments = append(w.segments, segment{call: c, from: c.taken, n: n})
	w.bytes += size
	q.room.Give(c.namespace, size)
	c.taken += n
}

// shares is the number of parts of an entry. A call has one of them in its turn while other calls wait: a call of many
// thousand commands must not delay the calls behind it. The calls share the rest of the entry in further rounds.
const shares = 8

// shareOf returns the number of a call's commands that go into the entry now. 0 means that the next command begins the
// next entry.
func (q *intake) shareOf(c *call, room int, w *work) int {
	most, left := w.within, w.within.bytes-w.bytes
	if q.calls.Len() == 1 {
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
	for c := range q.calls.All() {
		c.refusal = reason
		c.refuseRest()
	}
	if q.advance != nil {
		q.advance.answer(advanced{ended: true})
	}
	q.calls.Clear()
	q.settles.Clear()
	q.pauseEnd.Stop()
	q.news, q.advance, q.room = nil, nil, admission.NewPool(0)
	q.reportFlushed()
}

// flush takes only settles until none is left and no entry is being committed. The other work stays queued.
func (q *intake) flush(ctx context.Context) error {
	flushed := make(chan struct{})
	q.mu.Lock()
	q.before, q.mode, q.flushed = q.mode, flushing, flushed
	if q.closed != nil || !q.busy && q.settles.Len() == 0 {
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
