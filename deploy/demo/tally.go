package demo

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/receiver"
)

// tally records the promise and the outcome of each task.
type tally struct {
	prefix   string                 // of the ids of this run; the task's number follows
	stranger func(receiver.Arrival) // receives arrivals of other tasks

	mu        sync.Mutex // guards the fields below
	tasks     []record
	acked     int
	delivered int // acknowledged tasks that arrived at least once

	complete chan struct{} // closed when every task has been acknowledged and has arrived
}

type record struct {
	due       time.Time
	acked     bool
	webhookID string
	arrivals  int
	lateness  time.Duration // of the first arrival
	early     bool          // true if any arrival was early
	altered   bool          // true if a repeat had another webhook-id
}

func newTally(prefix string, tasks int, stranger func(receiver.Arrival)) *tally {
	return &tally{prefix: prefix, stranger: stranger, tasks: make([]record, tasks), complete: make(chan struct{})}
}

// plan spreads the due times evenly. It is called before the first schedule.
func (t *tally) plan(first time.Time, spread time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.tasks {
		due := first.Add(time.Duration(float64(spread) * float64(i) / float64(len(t.tasks))))
		t.tasks[i].due = due.Truncate(time.Millisecond)
	}
}

// dueAt returns the due time at a fraction of the tasks: 0 is the first, 1 the last.
func (t *tally) dueAt(part float64) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tasks[int(part*float64(len(t.tasks)-1))].due
}

// task returns the i-th task for scheduling.
func (t *tally) task(i int, url string) client.Task {
	return client.Task{
		ID:      t.prefix + strconv.Itoa(i),
		FireAt:  t.tasks[i].due, // set by plan, and never changed
		Payload: fmt.Appendf(nil, `{"task":%d}`, i),
		Target:  &client.Target{URL: url},
	}
}

func (t *tally) acknowledge(i int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tasks[i].acked = true
	t.acked++
	if t.tasks[i].arrivals > 0 { // its webhook overtook the acknowledgement
		t.settle()
	}
}

// arrive records an arrival at the receiver and returns the status of the answer.
func (t *tally) arrive(a receiver.Arrival) int {
	number, found := strings.CutPrefix(a.TaskID, t.prefix)
	i, err := strconv.Atoi(number)
	if !found || err != nil || i < 0 || i >= len(t.tasks) {
		t.stranger(a)
		return http.StatusOK
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	r := &t.tasks[i]
	late := a.At.Sub(r.due) // compared with the requested time, not with the header's
	r.early = r.early || late < 0
	r.altered = r.altered || r.arrivals > 0 && a.WebhookID != r.webhookID
	r.arrivals++
	if r.arrivals > 1 {
		return http.StatusOK
	}
	r.webhookID, r.lateness = a.WebhookID, late
	if r.acked {
		t.settle()
	}
	return http.StatusOK
}

// settle counts one more acknowledged task that has arrived. The caller holds t.mu.
func (t *tally) settle() {
	t.delivered++
	if t.delivered == len(t.tasks) {
		close(t.complete)
	}
}

// progress is the progress of the run at an instant.
type progress struct {
	acked, due, delivered int
	worst                 time.Duration // highest lateness so far
}

func (t *tally) progress(now time.Time) progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := progress{acked: t.acked, delivered: t.delivered}
	for i := range t.tasks {
		if !t.tasks[i].due.After(now) {
			p.due++
		}
		p.worst = max(p.worst, t.tasks[i].lateness)
	}
	return p
}

// snapshot copies the records for the verdict.
func (t *tally) snapshot() []record {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]record(nil), t.tasks...)
}
