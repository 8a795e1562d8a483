package lend

import "time"

// Life is how long a borrower may use a permit after its last request, and how long the owner of a limit of attempts
// counts a borrower's last report.
const Life = time.Second

// patience is the longest time that an owner lets a call wait for permits.
const patience = Life / 2

// Borrow is a borrower's report on its part of a limit, and its request for permits.
type Borrow struct {
	// Term and Round are of the asking leadership and of its calls. A newer report replaces older ones. A Round of 0
	// stands for reports that need no order.
	Term, Round uint64
	InFlight    int  // attempts and leases under way at the borrower
	Unused      int  // permits lent before and not yet used
	Spent       int  // permits of a rate that the borrower has used without the owner since its last report
	Want        int  // further permits wanted
	Priority    int  // best priority of the waiting tasks, 1 first; 0: not known
	Wait        bool // the answer waits for a permit; otherwise it says at once that there is none
}

// Loan is the answer to a Borrow.
type Loan struct {
	Permits int
	Life    time.Duration // how long the owner counts the report
	// RetryAfter is the earliest time of the next request: of a borrower that did not wait, and of one that waited and
	// has no attempt under way. 0: at will.
	RetryAfter time.Duration
}

// Limit is a limit in the whole cluster; 0 is no limit.
type Limit struct {
	InFlight  int
	PerSecond float64
}

// IsNone reports whether there is no limit.
func (l Limit) IsNone() bool { return l.InFlight <= 0 && l.PerSecond <= 0 }

// Terms are the conditions of a Lender's loans.
type Terms struct {
	Life  time.Duration // how long a report counts
	Burst time.Duration // a rate passes at once the permits of this long, but at least one
	// Counted is set if the limits may be of attempts under way: a new Lender takes reports for one Life before it lends.
	Counted bool
}

var (
	// OfQueues are the terms of the limits of queues.
	OfQueues = Terms{Life: Life, Burst: 100 * time.Millisecond, Counted: true}
	// OfRates are the terms of rates of calls. The owner learns of no attempt, so a report only says for a moment that
	// the borrower wants a part.
	OfRates = Terms{Life: 10 * pace, Burst: time.Second}
)

// pace is the shortest time between two requests of a borrower that does not wait and gets less than it wants.
const pace = 5 * time.Millisecond
