package lend

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// pool holds one queue's permits at its owner. It is a pure data structure.
type pool struct {
	limit  Limit
	opens  time.Time // no permit is lent before this instant
	bucket bucket
	held   map[uint32]*holding // by shard
	line   []*holding          // shards that want permits, in the order in which they came
}

// holding is the owner's record of one shard.
type holding struct {
	term, round uint64
	permits     int // attempts under way, and permits lent and not used
	want        int // further permits wanted; the holding is in line while want > 0
	priority    int // of the best task that waits for one
	lapses      time.Time
	parked      chan int // receives the lent permits once; nil: no call waits
}

func newPool(opens time.Time) *pool { return &pool{opens: opens, held: map[uint32]*holding{}} }

func (p *pool) setLimit(now time.Time, limit Limit) {
	p.limit = limit
	if limit.PerSecond > 0 {
		p.bucket.set(now, limit.PerSecond)
	}
}

// ask records a shard's report. It returns the channel of the shard's permits, or nil if a newer report came before.
func (p *pool) ask(now time.Time, b Borrow) <-chan int {
	h, ok := p.held[b.Shard]
	if !ok {
		h = &holding{}
		p.held[b.Shard] = h
	}
	if b.Term < h.term || b.Term == h.term && b.Round <= h.round {
		return nil
	}
	p.answer(h, 0)
	h.term, h.round = b.Term, b.Round
	h.permits, h.lapses = max(b.InFlight, 0)+max(b.Unused, 0), now.Add(Life)
	h.priority = b.Priority
	p.setWant(h, max(b.Want, 0))
	parked := make(chan int, 1)
	h.parked = parked
	return parked
}

// setWant sets a shard's want, and keeps its place in line while the want is above 0.
func (p *pool) setWant(h *holding, want int) {
	switch {
	case want > 0 && h.want == 0:
		p.line = append(p.line, h)
	case want == 0 && h.want > 0:
		p.line = slices.DeleteFunc(p.line, func(other *holding) bool { return other == h })
	}
	h.want = want
}

// answer sends permits to the shard's waiting call, if there is one.
func (p *pool) answer(h *holding, permits int) {
	if h.parked != nil {
		h.parked <- permits
		h.parked = nil
	}
}

// serve lends the free permits to the shards in line and answers the shards that want none. It returns the instant at
// which more may be free; zero: not before the next call.
func (p *pool) serve(now time.Time) (next time.Time) {
	p.lapse(now)
	for _, h := range p.held {
		if h.want == 0 {
			p.answer(h, 0)
		}
	}
	if now.Before(p.opens) {
		return p.opens
	}
	p.bucket.fill(now)
	p.lendOut(p.free(), p.parkedInLine())
	return p.nextChange()
}

// lapse forgets the shards whose last report is too old.
func (p *pool) lapse(now time.Time) {
	for shard, h := range p.held {
		if now.Before(h.lapses) {
			continue
		}
		p.answer(h, 0)
		p.setWant(h, 0)
		delete(p.held, shard)
	}
}

// free returns the number of permits that may be lent.
func (p *pool) free() int {
	free := math.MaxInt
	if p.limit.InFlight > 0 {
		free = max(p.limit.InFlight-p.lent(), 0)
	}
	if p.limit.PerSecond > 0 {
		free = min(free, p.bucket.whole())
	}
	return free
}

func (p *pool) lent() int {
	lent := 0
	for _, h := range p.held {
		lent += h.permits
	}
	return lent
}

// parkedInLine returns the shards in line that wait for permits, those with the best priority first.
func (p *pool) parkedInLine() []*holding {
	var parked []*holding
	for _, h := range p.line {
		if h.parked != nil {
			parked = append(parked, h)
		}
	}
	slices.SortStableFunc(parked, func(a, b *holding) int { return cmp.Compare(a.priority, b.priority) })
	return parked
}

// lendOut shares the free permits among the waiting shards of the best priority, then among those of the next. A shard
// that wants more afterwards asks again, at the end of the line.
func (p *pool) lendOut(free int, waiting []*holding) {
	for i, h := range waiting {
		if free == 0 {
			return
		}
		left := 1
		for left < len(waiting)-i && waiting[i+left].priority == h.priority {
			left++
		}
		n := min(h.want, (free-1)/left+1)
		free -= n
		h.permits += n
		p.bucket.tokens -= float64(n) // meaningless without a rate
		p.setWant(h, 0)
		p.answer(h, n)
	}
}

// nextChange returns the next instant at which permits may become free by themselves for a shard in line.
func (p *pool) nextChange() time.Time {
	if len(p.line) == 0 {
		return time.Time{}
	}
	var next time.Time
	for _, h := range p.held {
		if h.permits > 0 && (next.IsZero() || h.lapses.Before(next)) {
			next = h.lapses
		}
	}
	if p.limit.PerSecond > 0 && p.bucket.whole() < 1 {
		if at := p.bucket.next(); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// retryAfter returns how long a shard with no attempts under way need not ask again. The shard keeps its place in line.
// Only a slow rate makes a shard stay away.
func (p *pool) retryAfter(now time.Time, shard uint32) time.Duration {
	h, ok := p.held[shard]
	if !ok || h.permits > 0 || h.want == 0 || p.limit.PerSecond == 0 || p.bucket.whole() > 0 {
		return 0
	}
	wait := min(p.bucket.next().Sub(now), longestAway)
	if wait < patience {
		return 0
	}
	wait += time.Duration(slices.Index(p.line, h)) * inTurn
	h.lapses = now.Add(wait + Life)
	return wait
}

const (
	longestAway = 10 * time.Second      // the longest time for which a change of the limit goes unnoticed
	inTurn      = 10 * time.Millisecond // distance between the shards in line, so that they return in their order
)

// takeBack ends the wait of a call and takes back the permits that the call can no longer receive. A newer report
// counts none of them.
func (p *pool) takeBack(ask Borrow, parked <-chan int, permits int) {
	select {
	case n := <-parked:
		permits += n
	default:
	}
	p.bucket.tokens += float64(permits)
	h, ok := p.held[ask.Shard]
	if !ok || h.term != ask.Term || h.round != ask.Round {
		return
	}
	h.permits = max(h.permits-permits, 0)
	h.parked = nil
}

// isIdle reports whether the pool may be forgotten.
func (p *pool) isIdle() bool {
	return len(p.held) == 0 && (p.limit.PerSecond == 0 || p.bucket.isFull())
}
