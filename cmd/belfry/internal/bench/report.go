package bench

import (
	"slices"
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
