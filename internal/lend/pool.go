package lend

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// pool holds the permits of one limit at its owner. B identifies a borrower. It is a pure data structure.
type pool[B comparable] struct {
	terms  Terms
	limit  Limit
	begun  time.Time // instant at which the owner's leadership began
	bucket Bucket
	spent  float64 // permits charged that borrowers had used without the owner
	passed demand  // permits lent and charged, over the last second
	held   map[B]*holding
	line   []*holding // borrowers that want permits, in the order in which they came
}

// holding is the owner's record of one borrower.
type holding struct {
	term, round uint64
	permits     int // attempts under way, and permits lent and not used
	want        int // further permits wanted; the holding is in line while want > 0
	priority    int // of the best task that waits for one
	lapses      time.Time
	parked      chan int // receives the lent permits once; nil: no call waits
}

func newPool[B comparable](begun time.Time, terms Terms) *pool[B] {
	return &pool[B]{terms: terms, begun: begun, passed: demand{window: time.Second}, held: map[B]*holding{}}
}

// opens returns the instant from which on permits are lent.
func (p *pool[B]) opens() time.Time {
	if p.terms.Counted {
		return p.begun.Add(p.terms.Life)
	}
	return p.begun
}

func (p *pool[B]) setLimit(now time.Time, limit Limit) {
	p.limit = limit
	switch {
	case limit.PerSecond <= 0 || limit.PerSecond == p.bucket.perSecond:
	case p.bucket.at.IsZero():
		p.bucket = NewBucket(p.begun, max(limit.PerSecond/10, 1), limit.PerSecond, p.terms.Burst)
		p.bucket.Fill(now)
	default:
		p.bucket.Set(now, limit.PerSecond)
	}
}

// ask records a report. It returns the channel of the borrower's permits, or nil if a newer report came before.
func (p *pool[B]) ask(now time.Time, borrower B, b Borrow) <-chan int {
	h, ok := p.held[borrower]
	if !ok {
		h = &holding{}
		p.held[borrower] = h
	}
	if b.Term < h.term || b.Term == h.term && b.Round <= h.round && b.Round != 0 {
		return nil
	}
	p.answer(h, 0)
	p.charge(now, b.Spent)
	h.term, h.round = b.Term, b.Round
	h.permits, h.lapses = max(b.InFlight, 0)+max(b.Unused, 0), now.Add(p.terms.Life)
	h.priority = b.Priority
	p.setWant(h, max(b.Want, 0))
	parked := make(chan int, 1)
	h.parked = parked
	return parked
}

// charge takes the permits that a borrower has used without the owner. The bucket began to fill with this leadership,
// so charge takes no more over the leadership than the bucket has filled.
func (p *pool[B]) charge(now time.Time, spent int) {
	if spent <= 0 || p.limit.PerSecond <= 0 {
		return
	}
	p.passed.add(now, spent)
	p.bucket.Fill(now)
	n := max(min(float64(spent), p.limit.PerSecond*now.Sub(p.begun).Seconds()-p.spent), 0)
	p.spent += n
	p.bucket.charge(n)
}

// setWant sets a borrower's want, and keeps its place in line while the want is above 0.
func (p *pool[B]) setWant(h *holding, want int) {
	switch {
	case want > 0 && h.want == 0:
		p.line = append(p.line, h)
	case want == 0 && h.want > 0:
		p.line = slices.DeleteFunc(p.line, func(other *holding) bool { return other == h })
	}
	h.want = want
}

// answer sends permits to the borrower's waiting call, if there is one.
func (p *pool[B]) answer(h *holding, permits int) {
	if h.parked != nil {
		h.parked <- permits
		h.parked = nil
	}
}

// serve lends the free permits to the borrowers in line and answers the other borrowers. It returns the instant at
// which more may be free; zero: not before the next call.
func (p *pool[B]) serve(now time.Time) (next time.Time) {
	p.lapse(now)
	for _, h := range p.held {
		if h.want == 0 {
			p.answer(h, 0)
		}
	}
	if opens := p.opens(); now.Before(opens) {
		return opens
	}
	p.bucket.Fill(now)
	p.lendOut(now, p.free())
	return p.nextChange()
}

// lapse forgets the borrowers whose last report is too old.
func (p *pool[B]) lapse(now time.Time) {
	for borrower, h := range p.held {
		if now.Before(h.lapses) {
			continue
		}
		p.answer(h, 0)
		p.setWant(h, 0)
		delete(p.held, borrower)
	}
}

// free returns the number of permits that may be lent.
func (p *pool[B]) free() int {
	free := math.MaxInt
	if p.limit.InFlight > 0 {
		free = max(p.limit.InFlight-p.lent(), 0)
	}
	if p.limit.PerSecond > 0 {
		free = min(free, p.bucket.Whole())
	}
	return free
}

func (p *pool[B]) lent() int {
	lent := 0
	for _, h := range p.held {
		lent += h.permits
	}
	return lent
}

// lendOut shares the free permits among the borrowers in line: first among those of the best priority, then among those
// of the next.
func (p *pool[B]) lendOut(now time.Time, free int) {
	line := slices.Clone(p.line)
	slices.SortStableFunc(line, func(a, b *holding) int { return cmp.Compare(a.priority, b.priority) })
	for len(line) > 0 {
		same := 1
		for same < len(line) && line[same].priority == line[0].priority {
			same++
		}
		free = p.share(now, free, line[:same])
		line = line[same:]
	}
}

// share lends equal parts to the borrowers whose calls wait, and returns the permits left. The others keep their parts
// for their next calls, except for the last permit. A borrower that wants more afterwards is the last in line.
func (p *pool[B]) share(now time.Time, free int, line []*holding) (left int) {
	parts := len(line)
	for _, h := range line {
		if h.parked == nil || free == 0 {
			continue
		}
		n := min(h.want, (free-1)/parts+1)
		free -= n
		parts--
		h.permits += n
		p.passed.add(now, n)
		p.bucket.Take(n) // meaningless without a rate
		more := h.want - n
		p.setWant(h, 0)
		p.setWant(h, more)
		p.answer(h, n)
	}
	return free
}

// nextChange returns the next instant at which permits may become free by themselves for a borrower in line.
func (p *pool[B]) nextChange() time.Time {
	if len(p.line) == 0 {
		return time.Time{}
	}
	var next time.Time
	for _, h := range p.held {
		if h.permits > 0 && (next.IsZero() || h.lapses.Before(next)) {
			next = h.lapses
		}
	}
	if p.limit.PerSecond > 0 && p.bucket.Whole() < 1 {
		if at := p.bucket.at.Add(p.bucket.Until(1)); next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

// untilNext returns how long a borrower that does not wait need not ask again after it got less than it wants.
func (p *pool[B]) untilNext(now time.Time) time.Duration {
	if p.limit.PerSecond <= 0 {
		return 0
	}
	return max(p.bucket.at.Add(p.bucket.Until(1)).Sub(now), pace)
}

// retryAfter returns how long a borrower that has waited need not ask again while it has no attempts under way. It
// keeps its place in line. Only a slow rate makes a borrower stay away.
func (p *pool[B]) retryAfter(now time.Time, borrower B) time.Duration {
	h, ok := p.held[borrower]
	if !ok || h.permits > 0 || h.want == 0 || p.limit.PerSecond == 0 || p.bucket.Whole() > 0 {
		return 0
	}
	wait := min(p.bucket.at.Add(p.bucket.Until(1)).Sub(now), longestAway)
	if wait < patience {
		return 0
	}
	wait += time.Duration(slices.Index(p.line, h)) * inTurn
	h.lapses = now.Add(wait + p.terms.Life)
	return wait
}

const (
	longestAway = 10 * time.Second      // the longest time for which a change of the limit goes unnoticed
	inTurn      = 10 * time.Millisecond // distance between the borrowers in line, so that they return in their order
)

// leave ends a call that does not wait, and returns its permits.
func (p *pool[B]) leave(borrower B, parked <-chan int) int {
	select {
	case n := <-parked:
		return n
	default:
		p.held[borrower].parked = nil // it was served, but not with permits
		return 0
	}
}

// takeBack ends the wait of a call and takes back the permits that the call can no longer receive. A newer report
// counts none of them.
func (p *pool[B]) takeBack(borrower B, ask Borrow, parked <-chan int, permits int) {
	select {
	case n := <-parked:
		permits += n
	default:
	}
	p.bucket.Take(-permits)
	h, ok := p.held[borrower]
	if !ok || h.term != ask.Term || h.round != ask.Round {
		return
	}
	h.permits = max(h.permits-permits, 0)
	h.parked = nil
}

// isIdle reports whether the pool may be forgotten: nothing of it is left to know, not even its rate.
func (p *pool[B]) isIdle(now time.Time) bool {
	p.lapse(now)
	p.bucket.Fill(now)
	return len(p.held) == 0 && p.passed.perSecond(now) == 0 && (p.limit.PerSecond == 0 || p.bucket.IsFull())
}
