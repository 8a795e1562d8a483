package workload

import (
	"context"
	"crypto/rand"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
)

// ids are the ids of a set of tasks. An id has 24 bytes: a random word of the set, a dash, and the number of the task.
type ids string

const idDigits = 11

func newIDs() ids { return ids(strings.ToLower(rand.Text()[:12]) + "-") }

func (p ids) id(i int) string {
	digits := strconv.Itoa(i)
	return string(p) + "00000000000"[:idDigits-len(digits)] + digits
}

// index is the inverse of id. It returns false for an id of another set.
func (p ids) index(id string) (int, bool) {
	digits, ok := strings.CutPrefix(id, string(p))
	if !ok || len(digits) != idDigits {
		return 0, false
	}
	i, err := strconv.Atoi(digits)
	return i, err == nil
}

// newPayload returns a JSON string of size bytes, at least two, that does not compress.
func newPayload(size int) []byte {
	random := strings.Builder{}
	for random.Len() < size {
		random.WriteString(rand.Text())
	}
	return []byte(`"` + random.String()[:max(0, size-2)] + `"`)
}

// farOff returns tasks that are due after the end of the workload: in a day, one millisecond apart.
func farOff(p ids, payload []byte) func(i int) subject.Task {
	first := time.Now().Truncate(time.Millisecond).Add(24 * time.Hour)
	return func(i int) subject.Task {
		return subject.Task{ID: p.id(i), Due: first.Add(time.Duration(i) * time.Millisecond), Payload: payload}
	}
}

// ledger records the due instant and the arrival of each task. It is safe for concurrent use by arrivals. The due
// instant of a task is set before the task can arrive.
type ledger struct {
	ids     ids
	due     []atomic.Int64 // unix ns
	arrived []atomic.Int64 // unix ns of the first arrival; 0: none yet

	repeats atomic.Int64 // arrivals after the first
	missing atomic.Int64
	whole   chan struct{} // closed when no task is missing
}

func newLedger(p ids, n int) *ledger {
	l := &ledger{ids: p, due: make([]atomic.Int64, n), arrived: make([]atomic.Int64, n), whole: make(chan struct{})}
	l.missing.Store(int64(n))
	return l
}

func (l *ledger) setDue(i int, due time.Time) { l.due[i].Store(due.UnixNano()) }

func (l *ledger) dueOf(i int) time.Time { return time.Unix(0, l.due[i].Load()) }

// got records an arrival. It ignores tasks of other sets, such as samples.
func (l *ledger) got(id string, at time.Time) {
	if i, ok := l.ids.index(id); ok {
		l.arrive(i, at)
	}
}

// arrive records the arrival of task i. It ignores tasks behind the last one.
func (l *ledger) arrive(i int, at time.Time) {
	switch {
	case i >= len(l.due):
	case !l.arrived[i].CompareAndSwap(0, at.UnixNano()):
		l.repeats.Add(1)
	case l.missing.Add(-1) == 0:
		close(l.whole)
	}
}

// arrivedAt returns the arrival of a task; zero if the task has not arrived.
func (l *ledger) arrivedAt(i int) time.Time {
	if ns := l.arrived[i].Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// wait returns nil when all tasks have arrived or at the given instant. It returns the context's error if the context
// ends before.
func (l *ledger) wait(ctx context.Context, until time.Time) error {
	limit := time.NewTimer(time.Until(until))
	defer limit.Stop()
	select {
	case <-l.whole:
		return nil
	case <-limit.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// punctuality summarises the lateness of tasks.
type punctuality struct {
	lateness []time.Duration // of the arrived tasks, sorted; negative: early
	early    int
	lost     int // tasks that have not arrived
}

// punctuality evaluates the tasks that the filter accepts; nil accepts all.
func (l *ledger) punctuality(accepts func(i int) bool) punctuality {
	var p punctuality
	for i := range l.due {
		if accepts != nil && !accepts(i) {
			continue
		}
		at := l.arrived[i].Load()
		if at == 0 {
			p.lost++
			continue
		}
		late := time.Duration(at - l.due[i].Load())
		if late < 0 {
			p.early++
		}
		p.lateness = append(p.lateness, late)
	}
	slices.Sort(p.lateness)
	return p
}

// span returns the first and the last arrival; zero if no task has arrived.
func (l *ledger) span() (first, last time.Time) {
	for i := range l.arrived {
		at := l.arrivedAt(i)
		if at.IsZero() {
			continue
		}
		if first.IsZero() || at.Before(first) {
			first = at
		}
		if at.After(last) {
			last = at
		}
	}
	return first, last
}

// quantileOf returns the smallest of the sorted values such that a fraction q of them is not larger (nearest rank).
func quantileOf(sorted []time.Duration, q float64) time.Duration {
	rank := int(math.Ceil(q * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
