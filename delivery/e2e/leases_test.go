package e2e_test

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"
)

// leased is one lease of a task by a consumer.
type leased struct {
	id, receipt string
	fence       uint64
	attempt     int
	called, got time.Time     // when the call began, and when its answer arrived
	length      time.Duration // requested
	ends        time.Time     // according to the answer
	settles     []settle      // the consumer's calls about it, in order
}

// settle is one call about a receipt.
type settle struct {
	verb       string // ack, nack, extend, release
	start, end time.Time
	length     time.Duration // of an extend
	status     int           // 0: unknown
}

// handedOn bounds how much shorter than requested a lease may be. A task that was leased for a consumer that had gone
// is kept some 25 ms for the next one, and longer where timers are late.
const handedOn = 500 * time.Millisecond

// heldUntil returns the instant until which the lease lasted at least. That is its announced end, or the end of the
// last successful extension, counted from the call's start. A call that may have ended the lease makes everything after
// its start uncertain.
func (l *leased) heldUntil() time.Time {
	held := l.ends
	for _, s := range l.settles {
		switch {
		case s.start.After(held):
			return held
		case s.verb == "extend" && s.status == http.StatusOK:
			held = s.start.Add(s.length)
		case s.verb == "extend" && s.status != 0: // refused
		default:
			return s.start
		}
	}
	return held
}

// acked returns the instant when an ack of this lease was answered with 200, or zero. tried reports whether an ack may
// have succeeded.
func (l *leased) acked() (at time.Time, tried bool) {
	for _, s := range l.settles {
		if s.verb == "ack" && (s.status == http.StatusOK || s.status == 0) {
			tried = true
			if s.status == http.StatusOK {
				return s.end, true
			}
		}
	}
	return time.Time{}, tried
}

// judgeLeases returns the faults of a queue's leases and of their tasks' ends. tasks holds the scheduled tasks in their
// last state. Each task may have maxAttempts attempts.
func judgeLeases(leases []leased, tasks map[string]job, maxAttempts int) (wrong []string) {
	byTask := map[string][]leased{}
	for _, l := range leases {
		byTask[l.id] = append(byTask[l.id], l)
	}
	for id, leases := range byTask {
		if _, known := tasks[id]; !known {
			wrong = append(wrong, id+" was leased, and was never scheduled")
		}
		slices.SortFunc(leases, func(a, b leased) int { return cmp.Compare(a.fence, b.fence) })
		wrong = append(wrong, judgeOrder(id, leases)...)
	}
	for id, j := range tasks {
		wrong = append(wrong, judgeEnd(id, byTask[id], j, maxAttempts)...)
	}
	slices.Sort(wrong)
	return wrong
}

// judgeOrder compares all leases of one task with each other, in the order of their fences.
func judgeOrder(id string, leases []leased) (wrong []string) {
	complain := func(format string, args ...any) {
		wrong = append(wrong, id+": "+fmt.Sprintf(format, args...))
	}
	for i := range leases {
		a := &leases[i]
		for j := range leases[i+1:] {
			b := &leases[i+1+j]
			if a.fence == b.fence {
				complain("fence %d was given out twice", a.fence)
				continue
			}
			if until := a.heldUntil(); b.got.Before(until) {
				complain("leased under fence %d, %v before the lease under %d ended", b.fence, until.Sub(b.got), a.fence)
			}
			if a.called.After(b.got) {
				complain("fence %d was granted after the higher %d", a.fence, b.fence)
			}
			if at, _ := a.acked(); !at.IsZero() && b.called.After(at) {
				complain("leased under fence %d after the ack of %d", b.fence, a.fence)
			}
			wrong = append(wrong, judgeStale(id, a, b)...)
		}
	}
	return wrong
}

// judgeStale checks that a receipt settles nothing once a later lease was answered. An ack that succeeded earlier is
// the exception: its repeats get the same answer always.
func judgeStale(id string, a, later *leased) (wrong []string) {
	at, _ := a.acked()
	for _, s := range a.settles {
		taken := s.status == http.StatusOK && s.start.After(later.got)
		if taken && (s.verb != "ack" || at.IsZero() || at.After(later.got)) {
			wrong = append(wrong, fmt.Sprintf("%s: %s under fence %d was taken after the lease under %d was out",
				id, s.verb, a.fence, later.fence))
		}
	}
	return wrong
}

// judgeEnd compares a task's last state with its consumers' calls.
func judgeEnd(id string, leases []leased, j job, maxAttempts int) (wrong []string) {
	complain := func(format string, args ...any) {
		wrong = append(wrong, id+": "+fmt.Sprintf(format, args...))
	}
	acked, tried := false, false
	for i := range leases {
		at, may := leases[i].acked()
		acked, tried = acked || !at.IsZero(), tried || may
		if short := leases[i].called.Add(leases[i].length).Sub(leases[i].ends); short > handedOn {
			complain("leased for %v less than was asked for", short)
		}
		if leases[i].attempt < 1 || leases[i].attempt > maxAttempts {
			complain("leased as attempt %d of %d", leases[i].attempt, maxAttempts)
		}
	}
	switch {
	case acked && j.State != "delivered":
		complain("an ack was taken, and it is %s", cmp.Or(j.State, "gone"))
	case j.State == "delivered" && !tried:
		complain("it is delivered, and was never acked")
	case j.State == "dead" && j.Attempts != maxAttempts:
		complain("it is dead after %d attempts of %d", j.Attempts, maxAttempts)
	case j.State != "delivered" && j.State != "dead":
		complain("it has not ended: it is %s", cmp.Or(j.State, "gone"))
	}
	return wrong
}

// TestJudgeLeases judges histories made by hand: the sound ones pass, and each mistake is found.
func TestJudgeLeases(t *testing.T) {
	start := time.Now()
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	lease := func(fence uint64, called, got float64, settles ...settle) leased {
		return leased{id: "a", fence: fence, attempt: 1, called: at(called), got: at(got), length: 10 * time.Second,
			ends: at(called + 10), settles: settles}
	}
	do := func(verb string, from, to float64, status int) settle {
		return settle{verb: verb, start: at(from), end: at(to), status: status, length: 10 * time.Second}
	}
	delivered, dead := job{State: "delivered", Attempts: 1}, job{State: "dead", Attempts: 3}
	tests := map[string]struct {
		end    job
		leases []leased
		ok     bool
	}{
		"acked":                      {delivered, []leased{lease(1, 0, 1, do("ack", 2, 3, 200))}, true},
		"acked twice":                {delivered, []leased{lease(1, 0, 1, do("ack", 2, 3, 200), do("ack", 30, 31, 200))}, true},
		"ack without an answer":      {delivered, []leased{lease(1, 0, 1, do("ack", 2, 3, 0))}, true},
		"lease end":                  {delivered, []leased{lease(1, 0, 1, do("ack", 12, 13, 409)), lease(2, 5, 11, do("ack", 12, 13, 200))}, true},
		"nack":                       {delivered, []leased{lease(1, 0, 1, do("nack", 2, 3, 200)), lease(2, 1, 2.5, do("ack", 4, 5, 200))}, true},
		"extended":                   {delivered, []leased{lease(1, 0, 1, do("extend", 9, 9.5, 200)), lease(2, 9, 19, do("ack", 19, 20, 200))}, true},
		"dead":                       {dead, nil, true},
		"never ended":                {job{State: "ready"}, nil, false},
		"gone":                       {job{}, nil, false},
		"ack forgotten":              {dead, []leased{lease(1, 0, 1, do("ack", 2, 3, 200))}, false},
		"delivered by nobody":        {delivered, []leased{lease(1, 0, 1, do("nack", 2, 3, 200))}, false},
		"delivered by a refused ack": {delivered, []leased{lease(1, 0, 1, do("ack", 2, 3, 409))}, false},
		"dead too soon":              {job{State: "dead", Attempts: 2}, nil, false},
		"two live leases":            {delivered, []leased{lease(1, 0, 1), lease(2, 5, 9.9, do("ack", 10, 11, 200))}, false},
		"one fence twice":            {delivered, []leased{lease(1, 0, 1), lease(1, 20, 21, do("ack", 22, 23, 200))}, false},
		"fences go back":             {delivered, []leased{lease(2, 0, 1), lease(1, 20, 21, do("ack", 22, 23, 200))}, false},
		"extension ignored":          {delivered, []leased{lease(1, 0, 1, do("extend", 9, 9.5, 200)), lease(2, 9, 18.9, do("ack", 19, 20, 200))}, false},
		"leased after its ack":       {delivered, []leased{lease(1, 0, 1, do("ack", 2, 3, 200)), lease(2, 20, 21)}, false},
		"old receipt taken":          {delivered, []leased{lease(1, 0, 1, do("ack", 12, 13, 200)), lease(2, 5, 11)}, false},
		"old nack taken":             {delivered, []leased{lease(1, 0, 1, do("nack", 12, 13, 200)), lease(2, 5, 11, do("ack", 14, 15, 200))}, false},
		"one attempt too many":       {delivered, []leased{{id: "a", attempt: 4, settles: []settle{do("ack", 2, 3, 200)}}}, false},
		"too short":                  {delivered, []leased{{id: "a", attempt: 1, called: at(0), length: time.Second, ends: at(0.4), settles: []settle{do("ack", 0.2, 0.3, 200)}}}, false},
		"stranger":                   {dead, []leased{{id: "b", attempt: 1}}, false},
	}
	for name, tt := range tests {
		wrong := judgeLeases(tt.leases, map[string]job{"a": tt.end}, 3)
		if tt.ok != (wrong == nil) {
			t.Errorf("%s: found wrong: %q", name, wrong)
		}
	}
}
