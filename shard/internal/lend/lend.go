package lend

import "time"

// Life is how long the owner counts a borrower's last report, and how long a borrower may use a permit after its last
// request.
const Life = time.Second

// patience is the longest time that an owner lets a call wait for permits.
const patience = Life / 2

// Borrow is a shard leader's report on a limited queue, and its request for permits.
type Borrow struct {
	Namespace, Queue string
	Shard            uint32 // the borrower's shard
	Term, Round      uint64 // of the asking leadership, and of its calls; a newer report replaces older ones
	InFlight         int    // attempts and leases under way at the borrower
	Unused           int    // permits lent before and not yet used
	Want             int    // further permits wanted
	Priority         int    // best priority of the waiting tasks, 1 first; 0: not known
}

// Loan is the answer to a Borrow.
type Loan struct {
	Permits    int
	Life       time.Duration // how long the owner counts the report
	RetryAfter time.Duration // earliest time of the next request if no attempt is under way; 0: at will
}

// Limit is a queue's limit in the whole cluster; 0 is no limit.
type Limit struct {
	InFlight  int
	PerSecond float64
}

// IsNone reports whether the queue has no limit.
func (l Limit) IsNone() bool { return l.InFlight <= 0 && l.PerSecond <= 0 }

// bucket passes perSecond tokens a second in the long run. At once it passes a tenth of them, but at least one.
type bucket struct {
	perSecond float64
	tokens    float64
	at        time.Time
}

func (b *bucket) burst() float64 { return max(b.perSecond/10, 1) }

// set changes the rate. A new bucket starts full.
func (b *bucket) set(now time.Time, perSecond float64) {
	if b.at.IsZero() {
		*b = bucket{perSecond: perSecond, at: now}
		b.tokens = b.burst()
	}
	b.fill(now)
	b.perSecond = perSecond
}

func (b *bucket) fill(now time.Time) {
	if d := now.Sub(b.at); d > 0 {
		b.tokens = min(b.tokens+d.Seconds()*b.perSecond, b.burst())
		b.at = now
	}
}

// rounding forgives the part of a token that floating point loses.
const rounding = 1e-6

func (b *bucket) whole() int { return int(b.tokens + rounding) }

func (b *bucket) isFull() bool { return b.tokens >= b.burst()-rounding }

// next returns the instant of the next token.
func (b *bucket) next() time.Time {
	missing := (1 - b.tokens) / b.perSecond
	return b.at.Add(time.Duration(min(missing, 1e6)*float64(time.Second)) + 1)
}
