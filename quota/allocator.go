package quota

import (
	"sync"
	"time"
)

// Draw is a node's request for tokens of a rate.
type Draw struct {
	Subject   Subject
	Quota     Quota // SchedulesPerSecond or CallsPerSecond
	Node      string
	PerSecond float64 // the limit as the node knows it
	Want      int
	Spent     int // tokens that the node has used since its last draw without having them
}

// Tokens is the answer to a Draw.
type Tokens struct {
	N          int
	RetryAfter time.Duration // the rate is used up for so long; 0: it is not
}

const (
	// pace is the shortest time between two draws of a node that gets less than it wants.
	pace = 5 * time.Millisecond
	// memory is how long a node counts as one of those that share a rate after a draw that was not met in full.
	memory = 10 * pace
	// idle is how long a rate is kept without draws. Its bucket is full by then.
	idle = 2 * time.Minute
)

// Allocator gives out the tokens of the rates that one node owns, over one term of that ownership. Its methods are safe
// for concurrent use.
type Allocator struct {
	now   func() time.Time
	since time.Time

	mu    sync.Mutex
	rates map[rateKey]*allocation
	sweep time.Time
}

type rateKey struct {
	Subject
	Quota
}

// allocation is one rate at its owner.
type allocation struct {
	bucket bucket
	spent  float64              // tokens charged that nodes had used without the owner
	given  demand               // tokens given, over the last second
	short  map[string]time.Time // nodes whose last draw was not met in full, and its instant
	last   time.Time
}

// NewAllocator returns the Allocator of a term that begins now. Its buckets have filled only since then, because the
// tokens of the time before may be spent.
func NewAllocator(now func() time.Time) *Allocator {
	return &Allocator{now: now, since: now(), rates: map[rateKey]*allocation{}}
}

// Draw takes tokens out of a rate's bucket. Nodes that all want more than there is get equal parts.
func (a *Allocator) Draw(d Draw) Tokens {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	r := a.rate(now, d)
	r.charge(float64(max(d.Spent, 0)), now.Sub(a.since))
	delete(r.short, d.Node)
	part := r.part(now)
	n := r.bucket.take(min(d.Want, part))
	r.given.add(now, n+max(d.Spent, 0))
	if n >= d.Want {
		return Tokens{N: n}
	}
	r.short[d.Node] = now
	return Tokens{N: n, RetryAfter: max(r.bucket.untilNext(), pace)}
}

// Rate returns the tokens that were given a second of late.
func (a *Allocator) Rate(s Subject, q Quota) float64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.rates[rateKey{s, q}]
	if r == nil {
		return 0
	}
	return r.given.perSecond(a.now())
}

// rate returns the record of a draw's rate.
func (a *Allocator) rate(now time.Time, d Draw) *allocation {
	a.forget(now)
	key := rateKey{d.Subject, d.Quota}
	r, ok := a.rates[key]
	if !ok {
		r = &allocation{
			bucket: newBucket(now, a.since, d.PerSecond), given: demand{window: time.Second}, short: map[string]time.Time{},
		}
		a.rates[key] = r
	}
	r.last = now
	if r.bucket.perSecond != d.PerSecond {
		r.bucket.set(now, d.PerSecond)
	}
	r.bucket.fill(now)
	return r
}

// charge takes the tokens that a node has used without the owner. The bucket began to fill with this term, so charge
// takes no more over the term than the bucket has filled.
func (r *allocation) charge(n float64, term time.Duration) {
	n = max(min(n, r.bucket.perSecond*term.Seconds()-r.spent), 0)
	r.spent += n
	r.bucket.charge(n)
}

// part returns the tokens that one node may have while others want more, too: at least one.
func (r *allocation) part(now time.Time) int {
	others := 0
	for node, at := range r.short {
		if now.Sub(at) > memory {
			delete(r.short, node)
			continue
		}
		others++
	}
	return max(int(r.bucket.tokens+rounding)/(1+others), 1)
}

// forget drops the rates without a draw for the time of idle.
func (a *Allocator) forget(now time.Time) {
	if now.Before(a.sweep) {
		return
	}
	a.sweep = now.Add(idle)
	for key, r := range a.rates {
		if now.Sub(r.last) > idle {
			delete(a.rates, key)
		}
	}
}
