package lend

import "time"

// Life is how long the owner counts on a borrower's last report, and how long a borrower may use a permit after it last
// asked.
const Life = time.Second

// patience is how long an owner lets a call wait for permits.
const patience = Life / 2

// Borrow is the report of a shard's leader on a limited queue, and its request for permits.
type Borrow struct {
	Namespace, Queue string
	Shard            uint32 // the borrower's
	Term, Round      uint64 // of the asking leadership, and of its calls; a newer report replaces the older ones
	InFlight         int    // attempts and leases under way there
	Unused           int    // permits lent before and not used
	Want             int    // more
}

// Loan answers a Borrow.
type Loan struct {
	Permits    int
	Life       time.Duration // how long the owner counts on the report
	RetryAfter time.Duration // when to ask again at the earliest, if nothing is under way; 0: at will
}

// Limit bounds a queue in the whole cluster; 0 is no limit.
type Limit struct {
	InFlight  int
	PerSecond float64
}

// IsNone reports whether the queue has no limit.
func (l Limit) IsNone() bool { return l.InFlight <= 0 && l.PerSecond <= 0 }

// bucket lets through perSecond tokens a second in the long run, and a tenth of that at once, but at least one.
type bucket struct {
	perSecond float64
	tokens    float64
	at        time.Time
}

func (b *bucket) burst() float64 { return max(b.perSecond/10, 1) }

// set changes the rate; a new bucket is full.
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

// rounding forgives what floating point lost of a token.
const rounding = 1e-6

func (b *bucket) whole() int { return int(b.tokens + rounding) }

func (b *bucket) isFull() bool { return b.tokens >= b.burst()-rounding }

// next returns when there will be a token.
func (b *bucket) next() time.Time {
	missing := (1 - b.tokens) / b.perSecond
	return b.at.Add(time.Duration(min(missing, 1e6)*float64(time.Second)) + 1)
}
