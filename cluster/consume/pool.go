package consume

import (
	"container/list"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// waiter is one consumer's call. The mutex of Consumers guards it until served is closed.
type waiter struct {
	max     int
	looks   bool   // it takes only tasks that are there already
	look    uint64 // the pool's question that it waits for, if it looks
	pool    *pool
	waiting *list.Element // in pool.waiters; nil: it waits no longer
	served  chan struct{}
	tasks   []*fsmpb.Task
	err     error
}

// pool is the consumers of one key, and the demands for them. Either no consumer waits or the buffer is empty.
type pool struct {
	consumers *Consumers
	key       key
	waiters   list.List // of *waiter, the first to be served first
	need      int       // sum of their max
	supplies  map[uint32]*supply
	buffer    []arrived
	turn      int // which shard with a backlog is asked first

	idleSince time.Time     // when the last waiter went
	absence   time.Duration // average time that the pool is without a waiter
	calm      bool          // nothing is asked for
	timer     *time.Timer   // looks after buffer and demands while there is no waiter
	tickAt    time.Time     // when it rings; zero: it does not
	hints     *time.Timer   // forgets what shards said that do not deliver
	news      uint64        // arrivals so far
	look      uint64        // the last question to all shards whether anything is there
	closed    bool          // it is not in Consumers.pools any more
}

// arrived is a task that lies here without a consumer.
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

// askAll has the last question put to all shards that are asked for anything. The others are asked it with the first
// demand.
func (q *pool) askAll() {
	for _, supply := range q.supplies {
		if supply.ask != nil {
			supply.ask.upstream.send(supply.ask)
		}
	}
}

// dismiss sends those away who only look, once every shard has said that nothing is there.
func (q *pool) dismiss() {
	answered := q.look
	for _, s := range q.consumers.cfg.State().Shards {
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

// releaseStale gives back what would be gone if this process had not been kept from its work: too little may be left of
// those leases.
func (q *pool) releaseStale() {
	q.releaseBefore(time.Now().Add(-max(maxLinger, q.consumers.cfg.Linger)))
}

// noteReturn averages over the last few times that the pool was without a waiter.
func (q *pool) noteReturn() {
	if q.waiters.Len() == 1 && !q.idleSince.IsZero() {
		q.absence += (time.Since(q.idleSince) - q.absence) / 4
	}
}

// linger returns how long a task without a consumer is kept: until consumers usually come back, if that is soon.
func (q *pool) linger() time.Duration {
	least := q.consumers.cfg.Linger
	if enough := q.absence * 3 / 2; enough > least && enough <= maxLinger {
		return enough
	}
	return least
}

// leave is called when a waiter has been served or has no more time.
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

// serve hands out the buffer.
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

// drop takes the first n tasks out of the buffer.
func (q *pool) drop(n, bytes int) {
	clear(q.buffer[:n])
	if q.buffer = q.buffer[n:]; len(q.buffer) == 0 {
		q.buffer = nil
	}
	q.consumers.buffered -= bytes
}

// releaseBefore gives back what arrived before an instant.
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

// tick has lookAround called at an instant, unless it will be before.
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

// lookAround releases the tasks, and ends the demands, that are left over when consumers go. It runs only while there
// are any.
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

// windDown lowers the demands to nothing when no consumer has come for a moment, and ends them after a while.
func (q *pool) windDown(now time.Time) {
	idle := now.Sub(q.idleSince)
	switch {
	case idle < calmAfter:
		q.tick(q.idleSince.Add(calmAfter))
	case idle < idleLife:
		q.calmDown()
		q.tick(q.idleSince.Add(idleLife))
	case len(q.buffer) == 0: // else it is looked after again soon
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

// dissolve ends the demands. What still arrives for them finds a new pool.
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

// close sends everybody away.
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

// adjust asks the shards for the tasks that are needed. While there is no waiter, demands stay as they are for a
// moment.
func (q *pool) adjust() {
	if q.need == 0 || q.closed {
		return
	}
	shards := q.consumers.cfg.State().Shards
	ready := make([]int, len(shards))
	hinted := false
	for i, s := range shards {
		supply := q.supplies[s.Id]
		if supply == nil {
			supply = newSupply(q, s.Id)
			q.supplies[s.Id] = supply
		}
		ready[i] = supply.ready
		hinted = hinted || supply.ready > 0
	}
	for i, n := range shares(min(q.need, maxNeed), ready, q.turn%len(shards)) {
		q.supplies[shards[i].Id].want(n)
	}
	if hinted {
		q.watchHints()
	}
}

// watchHints forgets what shards said to have waiting, if nothing comes of it.
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
