package consume

import (
	"container/list"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// waiter is one consumer's call. The mutex of Consumers guards it until served is closed.
type waiter struct {
	max     int
	looks   bool   // the consumer takes only tasks that are there already
	look    uint64 // number of the pool's question whose answers it waits for; 0 unless looks
	pool    *pool
	waiting *list.Element // in pool.waiters; nil: the wait has ended
	served  chan struct{}
	tasks   []*fsmpb.Task
	err     error
}

// pool holds the consumers of one key, and the demands for them. Either no consumer waits or the buffer is empty.
type pool struct {
	consumers *Consumers
	key       key
	waiters   list.List // of *waiter, longest wait first
	need      int       // sum of the waiters' max
	supplies  map[uint32]*supply
	buffer    []arrived
	turn      int // index of the shard with a backlog that is asked first

	idleSince time.Time     // time at which the last waiter left
	absence   time.Duration // average time that the pool is without a waiter
	calm      bool          // all demands are lowered to no tasks
	timer     *time.Timer   // calls lookAround while there is no waiter
	tickAt    time.Time     // time at which timer fires; zero: it does not
	hints     *time.Timer   // drops backlogs that shards reported and do not deliver
	news      uint64        // number of arrivals so far
	look      uint64        // number of the last question to all shards whether a task is there
	closed    bool          // the pool is not in Consumers.pools any more
}

// arrived is a task that waits here for a consumer.
type arrived struct {
	task *fsmpb.Task
	size int
	at   time.Time
}

func newPool(p *Consumers, k key) *pool {
	return &pool{consumers: p, key: k, supplies: make(map[uint32]*supply)}
}

func (q *pool) enter(w *waiter) {
	w.pool = q
	w.waiting = q.waiters.PushBack(w)
	q.need += w.max
	q.turn++
	q.calm = false
	q.noteReturn()
	q.releaseStale()
	q.serve()
	if w.looks && w.waiting != nil {
		q.look++
		w.look = q.look
	}
	q.adjust()
	if w.look > 0 {
		q.askAll()
	}
}

// askAll sends the pool's last question to all shards that have a demand. The first demand at another shard carries it,
// too.
func (q *pool) askAll() {
	for _, supply := range q.supplies {
		if supply.ask != nil {
			supply.ask.upstream.send(supply.ask)
		}
	}
}

// dismiss sends away the consumers that only look, once every shard has answered that no task is there.
func (q *pool) dismiss() {
	answered := q.look
	for _, s := range q.consumers.cfg.Control.State().Shards {
		supply := q.supplies[s.Id]
		if supply == nil {
			return
		}
		answered = min(answered, supply.looked)
	}
	for e := q.waiters.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.looks && w.look <= answered {
			q.leave(w)
			close(w.served)
		}
	}
}

// releaseStale releases tasks that would have been released already if this process had not been paused: their leases
// may have too little time left.
func (q *pool) releaseStale() {
	q.releaseBefore(time.Now().Add(-max(maxLinger, q.consumers.cfg.Linger)))
}

// noteReturn updates the average time that the pool is without a waiter.
func (q *pool) noteReturn() {
	if q.waiters.Len() == 1 && !q.idleSince.IsZero() {
		q.absence += (time.Since(q.idleSince) - q.absence) / 4
	}
}

// linger returns how long a task without a consumer is kept: until consumers usually return, if that is soon.
func (q *pool) linger() time.Duration {
	least := q.consumers.cfg.Linger
	if enough := q.absence * 3 / 2; enough > least && enough <= maxLinger {
		return enough
	}
	return least
}

// leave removes a waiter that has been served or whose time is over.
func (q *pool) leave(w *waiter) {
	q.waiters.Remove(w.waiting)
	w.waiting = nil
	q.need -= w.max
	q.consumers.waiting--
	if q.waiters.Len() == 0 {
		q.idleSince = time.Now()
		q.tick(q.idleSince.Add(calmAfter))
	}
}

// arrive takes tasks that a shard has leased to this pool.
func (q *pool) arrive(tasks []*fsmpb.Task) {
	now := time.Now()
	q.news++
	for _, t := range tasks {
		size := t.SizeVT()
		q.consumers.buffered += size
		q.buffer = append(q.buffer, arrived{t, size, now})
	}
	q.serve()
	if len(q.buffer) == 0 {
		return
	}
	if q.closed || q.consumers.closed || q.consumers.buffered > maxBufferBytes {
		q.releaseBefore(now.Add(1))
		return
	}
	q.tick(now.Add(q.linger()))
}

// serve gives the buffered tasks to the waiters.
func (q *pool) serve() {
	for len(q.buffer) > 0 && q.waiters.Len() > 0 {
		w := q.waiters.Front().Value.(*waiter)
		n, bytes := 0, 0
		for n < min(w.max, len(q.buffer)) && bytes < maxAnswerBytes {
			bytes += q.buffer[n].size
			w.tasks = append(w.tasks, q.buffer[n].task)
			n++
		}
		q.drop(n, bytes)
		q.consumers.metrics.leased.Add(float64(n))
		q.leave(w)
		close(w.served)
	}
}

// drop removes the first n tasks from the buffer. bytes is their total size.
func (q *pool) drop(n, bytes int) {
	clear(q.buffer[:n])
	if q.buffer = q.buffer[n:]; len(q.buffer) == 0 {
		q.buffer = nil
	}
	q.consumers.buffered -= bytes
}

// releaseBefore releases the buffered tasks that arrived before an instant.
func (q *pool) releaseBefore(limit time.Time) {
	n, bytes := 0, 0
	var tasks []*fsmpb.Task
	for n < len(q.buffer) && q.buffer[n].at.Before(limit) {
		bytes += q.buffer[n].size
		tasks = append(tasks, q.buffer[n].task)
		n++
	}
	q.drop(n, bytes)
	q.consumers.release(tasks)
}

// tick schedules lookAround for an instant, unless it is scheduled earlier.
func (q *pool) tick(at time.Time) {
	if !q.tickAt.IsZero() && !at.Before(q.tickAt) {
		return
	}
	q.tickAt = at
	if q.timer == nil {
		q.timer = time.AfterFunc(time.Until(at), q.lookAround)
		return
	}
	q.timer.Reset(time.Until(at))
}

// lookAround releases the surplus tasks, and ends the demands, that remain when consumers leave. It runs only while
// there are any.
func (q *pool) lookAround() {
	p := q.consumers
	p.mu.Lock()
	defer p.mu.Unlock()
	q.tickAt = time.Time{}
	if q.closed {
		return
	}
	now := time.Now()
	q.releaseBefore(now.Add(1 - q.linger()))
	if len(q.buffer) > 0 {
		q.tick(q.buffer[0].at.Add(q.linger()))
	}
	if q.waiters.Len() == 0 {
		q.windDown(now)
	}
}

// windDown lowers the demands to no tasks when no consumer has come for a moment, and ends them after a while.
func (q *pool) windDown(now time.Time) {
	idle := now.Sub(q.idleSince)
	switch {
	case idle < calmAfter:
		q.tick(q.idleSince.Add(calmAfter))
	case idle < idleLife:
		q.calmDown()
		q.tick(q.idleSince.Add(idleLife))
	case len(q.buffer) == 0: // else lookAround runs again soon
		q.dissolve()
	}
}

func (q *pool) calmDown() {
	if q.calm {
		return
	}
	q.calm = true
	for _, supply := range q.supplies {
		supply.want(0)
	}
}

// dissolve ends the demands. Tasks that still arrive for them go to a new pool.
func (q *pool) dissolve() {
	q.closed = true
	for _, supply := range q.supplies {
		supply.quit()
	}
	if q.hints != nil {
		q.hints.Stop()
	}
	delete(q.consumers.pools, q.key)
}

// close sends all consumers away.
func (q *pool) close() {
	for q.waiters.Len() > 0 {
		w := q.waiters.Front().Value.(*waiter)
		w.err = errClosed
		q.leave(w)
		close(w.served)
	}
	q.releaseBefore(time.Now().Add(1))
	q.dissolve()
}

// adjust raises or lowers the demands to the tasks that are needed. It leaves them as they are while there is no
// waiter.
func (q *pool) adjust() {
	if q.need == 0 || q.closed {
		return
	}
	shards := q.consumers.cfg.Control.State().Shards
	ready, next := make([]int, len(shards)), make([]int64, len(shards))
	hinted := false
	for i, s := range shards {
		supply := q.supplies[s.Id]
		if supply == nil {
			supply = newSupply(q, s.Id)
			q.supplies[s.Id] = supply
		}
		ready[i], next[i] = supply.ready, supply.nextMs
		hinted = hinted || supply.ready > 0
	}
	for i, n := range shares(min(q.need, maxNeed), ready, next, q.turn%len(shards)) {
		q.supplies[shards[i].Id].want(n)
	}
	if hinted {
		q.watchHints()
	}
}

// watchHints drops the reported backlogs if no task arrives within hintLife.
func (q *pool) watchHints() {
	news := q.news
	if q.hints != nil {
		q.hints.Stop()
	}
	q.hints = time.AfterFunc(hintLife, func() {
		q.consumers.mu.Lock()
		defer q.consumers.mu.Unlock()
		if q.news != news || q.need == 0 || q.closed {
			return
		}
		for _, supply := range q.supplies {
			supply.ready = 0
		}
		q.adjust()
	})
}

func (q *pool) leaderIs(shard uint32, leader string) {
	if supply := q.supplies[shard]; supply != nil {
		supply.leaderIs(leader)
		q.adjust()
	}
}
