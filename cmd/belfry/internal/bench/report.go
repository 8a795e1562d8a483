package bench

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// Report is the result of a measurement. Its JSON is the output of belfry bench --json.
type Report struct {
	Queue       string  `json:"queue"`
	Interrupted bool    `json:"interrupted"`
	Seconds     float64 `json:"seconds"` // in which calls were made
	Rate        float64 `json:"rate"`    // planned tasks a second; 0: as fast as possible
	Clients     int     `json:"clients"`
	Payload     int     `json:"payload"` // bytes
	By          string  `json:"by"`      // lease or webhook

	Schedule Calls    `json:"schedule"`
	Cancel   Calls    `json:"cancel"`
	Delivery Delivery `json:"delivery"`
	Clock    Offset   `json:"clock"`
	Removed  int      `json:"removed"` // unfinished tasks that were cancelled at the end
}

// Calls describes the calls of one kind.
type Calls struct {
	Done      int     `json:"done"`
	Failed    int     `json:"failed"`
	Error     string  `json:"error,omitempty"` // of the first that failed
	PerSecond float64 `json:"per_second"`
	LatencyMs Spread  `json:"latency_ms"`
}

// Delivery describes the receipts of tasks.
type Delivery struct {
	Received    int     `json:"received"` // tasks
	PerSecond   float64 `json:"per_second"`
	LatenessMs  Spread  `json:"lateness_ms"`
	Lost        int     `json:"lost"`
	Early       int     `json:"early"`
	Repeated    int     `json:"repeated"` // receipts of a task after its first
	AfterCancel int     `json:"after_cancel"`
	Pending     int     `json:"pending"` // tasks on which an interruption leaves no judgement
}

// Spread has percentiles in milliseconds. All are 0 without a sample.
type Spread struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Offset is a Clock in milliseconds.
type Offset struct {
	OffsetMs float64 `json:"offset_ms"`
	ErrorMs  float64 `json:"error_ms"`
}

// Wrong reports whether the cluster broke a promise: a task was lost, came early, or came after its cancel. A repeated
// receipt breaks none, since delivery is at least once.
func (r *Report) Wrong() bool {
	return r.Delivery.Lost > 0 || r.Delivery.Early > 0 || r.Delivery.AfterCancel > 0
}

func (r *run) report(took time.Duration, interrupted bool) *Report {
	l := r.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	report := &Report{
		Queue: r.Queue, Interrupted: interrupted, Seconds: took.Seconds(), Rate: r.Rate, Clients: r.Callers,
		Payload: r.Payload, By: "lease", Schedule: l.schedule.report(r.began), Cancel: l.cancel.report(r.began),
		Delivery: Delivery{Received: len(l.lateness), LatenessMs: spread(l.lateness), Early: l.early, Repeated: l.repeated,
			AfterCancel: l.wrong},
		Clock: Offset{OffsetMs: ms(r.clock.Offset), ErrorMs: ms(r.clock.Error)},
	}
	if r.Webhook != "" {
		report.By = "webhook"
	}
	if seconds := l.lastSeen.Sub(l.firstSeen).Seconds(); seconds > 0 {
		report.Delivery.PerSecond = float64(len(l.lateness)) / seconds
	}
	if interrupted {
		report.Delivery.Pending = l.missing()
	} else {
		report.Delivery.Lost = l.missing()
	}
	return report
}

func (c *calls) report(began time.Time) Calls {
	v := Calls{Done: len(c.latency), Failed: c.failed, LatencyMs: spread(c.latency)}
	if c.err != nil {
		v.Error = c.err.Error()
	}
	if v.Done > 0 {
		v.PerSecond = float64(v.Done) / c.last.Sub(began).Seconds()
	}
	return v
}

// spread returns the nearest-rank percentiles of samples, which it sorts.
func spread(samples []time.Duration) Spread {
	n := len(samples)
	if n == 0 {
		return Spread{}
	}
	slices.Sort(samples)
	rank := func(percent int) float64 { return ms(samples[(n*percent+99)/100-1]) }
	return Spread{P50: rank(50), P99: rank(99), Max: rank(100)}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// record is the fate of one task.
type record struct {
	scheduled bool // the call succeeded
	stopped   bool // a cancel of it was sent: it may arrive or not
	cancelled bool // a cancel succeeded before an attempt: it must not arrive
	arrived   int  // number of receipts
}

// ledger holds the fates of all tasks, and the samples. It is safe for concurrent use.
type ledger struct {
	mu        sync.Mutex
	tasks     []record
	schedule  calls
	cancel    calls
	lateness  []time.Duration // of first receipts, by the cluster's clock
	early     int             // first receipts before the due time
	repeated  int             // receipts after a task's first one
	wrong     int             // receipts of cancelled tasks
	awaited   int             // tasks that must arrive and have not yet
	loading   bool            // calls are under way or to come
	changed   chan struct{}   // closed when all have arrived
	firstSeen time.Time
	lastSeen  time.Time
	tolerance time.Duration // error of the estimate of the cluster's clock
}

// calls are the results of calls of one kind.
type calls struct {
	latency []time.Duration // of successful calls
	last    time.Time       // end of the last of them
	failed  int
	err     error // of the first that failed
}

func newLedger(tasks int, tolerance time.Duration) *ledger {
	return &ledger{tasks: make([]record, tasks), loading: true, changed: make(chan struct{}), tolerance: tolerance}
}

// add counts a call. A call that ended with the run's context was not answered, and counts nowhere.
func (c *calls) add(latency time.Duration, err error) {
	switch {
	case errors.Is(err, context.Canceled):
	case err != nil:
		if c.failed++; c.err == nil {
			c.err = err
		}
	default:
		c.latency = append(c.latency, latency)
		c.last = time.Now()
	}
}

func (l *ledger) scheduled(task int, latency time.Duration, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.schedule.add(latency, err)
	if r := &l.tasks[task]; err == nil {
		r.scheduled = true
		if r.arrived == 0 && !cancelled(task) {
			l.awaited++
		}
	}
}

func (l *ledger) isScheduled(task int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tasks[task].scheduled
}

func (l *ledger) cancelled(task int, latency time.Duration, before bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel.add(latency, err)
	r := &l.tasks[task]
	r.stopped = true
	if r.cancelled = err == nil && before; r.cancelled {
		l.wrong += r.arrived
	}
}

// received counts a receipt at a time of the cluster's clock.
func (l *ledger) received(task int, due, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := &l.tasks[task]
	if l.lastSeen = at; l.firstSeen.IsZero() {
		l.firstSeen = at
	}
	switch {
	case r.cancelled:
		l.wrong++
	case r.arrived > 0:
		l.repeated++
	default:
		late := at.Sub(due)
		if late < -l.tolerance {
			l.early++
		}
		l.lateness = append(l.lateness, max(late, 0))
		if r.scheduled && !cancelled(task) {
			l.awaited--
		}
	}
	r.arrived++
	l.signal()
}

// loaded tells that no call is to come.
func (l *ledger) loaded() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loading = false
	l.signal()
}

// signal closes changed once every task has arrived.
func (l *ledger) signal() {
	if l.awaited == 0 && !l.loading {
		select {
		case <-l.changed:
		default:
			close(l.changed)
		}
	}
}

// missing returns the number of tasks that must arrive and have not.
func (l *ledger) missing() int {
	n := 0
	for i := range l.tasks {
		if r := &l.tasks[i]; r.scheduled && !r.stopped && !cancelled(i) && r.arrived == 0 {
			n++
		}
	}
	return n
}
