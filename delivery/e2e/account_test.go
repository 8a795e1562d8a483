package e2e_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/deploy/receiver"
)

// account is the comparison of the scheduled tasks with the arrivals.
type account struct {
	scheduled int
	wrong     []string // broken promises, in words
	repeated  []string // tasks that arrived more than once
	excused   bool     // a shard's leader changed meanwhile, which may repeat attempts in progress
	late      []time.Duration
	latest    receiver.Arrival // the latest one
}

// account compares a flow with its arrivals.
func (s *stage) account(t testing.TB, f flow, arrivals []receiver.Arrival) account {
	t.Helper()
	acc := takeAccount(f.due, arrivals)
	acc.excused = s.changedSince(t, f.terms)
	return acc
}

// takeAccount compares tasks, by id and due instant, with arrivals. Every task arrives once, and none early.
func takeAccount(scheduled map[string]time.Time, arrivals []receiver.Arrival) account {
	acc := account{scheduled: len(scheduled)}
	seen := make(map[string]int, len(scheduled))
	for _, a := range arrivals {
		due, known := scheduled[a.TaskID]
		if !known {
			acc.fault("%s arrived, and was never asked for", a.TaskID)
			continue
		}
		if a.At.Before(due) {
			acc.fault("%s arrived %v early", a.TaskID, due.Sub(a.At))
		}
		if seen[a.TaskID]++; seen[a.TaskID] > 1 {
			acc.repeated = append(acc.repeated, a.TaskID)
			continue
		}
		late := a.At.Sub(due)
		if len(acc.late) == 0 || late > acc.latest.At.Sub(scheduled[acc.latest.TaskID]) {
			acc.latest = a
		}
		acc.late = append(acc.late, late)
	}
	for id := range scheduled {
		if seen[id] == 0 {
			acc.fault("%s never arrived", id)
		}
	}
	slices.Sort(acc.late)
	slices.Sort(acc.wrong)
	return acc
}

func (a *account) fault(format string, args ...any) {
	a.wrong = append(a.wrong, fmt.Sprintf(format, args...))
}

// within returns the lateness that the given share of the tasks does not exceed.
func (a *account) within(share float64) time.Duration {
	if len(a.late) == 0 {
		return 0
	}
	return a.late[min(int(share*float64(len(a.late))), len(a.late)-1)]
}

// failover is the promised lateness of a task across a change of leaders.
const failover = 1500 * time.Millisecond

// hold fails the test for every broken promise, and for a p99 beyond the bound. A change of leaders excuses repeats and
// the time of the change: it happens without a fault on a machine so busy that nodes fall silent.
func (a *account) hold(t testing.TB, title string, p99 time.Duration) {
	t.Helper()
	t.Logf("%s: %d of %d arrived; late by p50 %v, p99 %v, at most %v", title, len(a.late), a.scheduled,
		a.within(0.5), a.within(0.99), a.within(1))
	report(t, title, a.wrong)
	switch {
	case a.excused && len(a.repeated) > 0:
		t.Logf("%s: %d repeats around an unplanned change of leaders", title, len(a.repeated))
	case len(a.repeated) > 0:
		t.Errorf("%s: without a fault %d arrivals are repeats: %.200q …", title, len(a.repeated), a.repeated)
	}
	if a.excused && p99 < failover {
		p99 += failover
	}
	if late := a.within(0.99); late > p99 {
		t.Errorf("%s: one in a hundred is later than %v: allowed are %v; the latest is %s, due %v, at attempt %d", title, late,
			p99, a.latest.TaskID, a.latest.Due, a.latest.Attempt)
	}
}

const shownFaults = 5

// report fails the test with each fault in wrong, and prints the first few.
func report(t testing.TB, title string, wrong []string) {
	t.Helper()
	for i, w := range wrong {
		if i == shownFaults {
			t.Errorf("%s: … and %d more", title, len(wrong)-i)
			return
		}
		t.Errorf("%s: %s", title, w)
	}
}

// busiest returns the largest number of instants within any window of the given length.
func busiest(instants []time.Time, window time.Duration) int {
	sorted := slices.SortedFunc(slices.Values(instants), time.Time.Compare)
	most, first := 0, 0
	for i, at := range sorted {
		for at.Sub(sorted[first]) >= window {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}

func TestAccount(t *testing.T) {
	due := time.Now().Truncate(time.Millisecond)
	scheduled := map[string]time.Time{"a": due, "b": due.Add(time.Second)}
	arrival := func(id string, after time.Duration) receiver.Arrival {
		return receiver.Arrival{TaskID: id, At: due.Add(after)}
	}
	good := []receiver.Arrival{arrival("a", 0), arrival("b", 1100*time.Millisecond)}
	tests := map[string]struct {
		arrivals []receiver.Arrival
		wrong    string
	}{
		"good":     {good, ""},
		"lost":     {good[:1], "b never arrived"},
		"early":    {[]receiver.Arrival{good[0], arrival("b", 999*time.Millisecond)}, "b arrived 1ms early"},
		"stranger": {append(slices.Clone(good), arrival("c", 0)), "c arrived, and was never asked for"},
	}
	for name, tt := range tests {
		acc := takeAccount(scheduled, tt.arrivals)
		if tt.wrong == "" && len(acc.wrong) > 0 || tt.wrong != "" && !slices.Equal(acc.wrong, []string{tt.wrong}) {
			t.Errorf("%s: found wrong: %q", name, acc.wrong)
		}
	}
	twice := takeAccount(scheduled, append(slices.Clone(good), arrival("a", time.Minute)))
	if !slices.Equal(twice.repeated, []string{"a"}) || len(twice.late) != 2 {
		t.Errorf("repeated: %q, %d are late", twice.repeated, len(twice.late))
	}
	acc := takeAccount(scheduled, good)
	if p50, most := acc.within(0.5), acc.within(1); p50 != 100*time.Millisecond || most != p50 {
		t.Errorf("p50 %v, at most %v", p50, most)
	}
}

func TestBusiest(t *testing.T) {
	start := time.Now()
	at := func(ms ...int) (all []time.Time) {
		for _, m := range ms {
			all = append(all, start.Add(time.Duration(m)*time.Millisecond))
		}
		return all
	}
	tests := map[string]struct {
		instants []time.Time
		most     int
	}{
		"none":           {nil, 0},
		"apart":          {at(0, 1000, 2000), 1},
		"just within":    {at(0, 999, 1000), 2},
		"in any order":   {at(3000, 10, 2500, 2600), 3},
		"all at the end": {at(0, 5000, 5000, 5000), 3},
	}
	for name, tt := range tests {
		if most := busiest(tt.instants, time.Second); most != tt.most {
			t.Errorf("%s: %d, not %d", name, most, tt.most)
		}
	}
}

// unevenness returns the faults of instants that were spread over a window at random. Each instant must lie within its
// window, and each of the window's parts must hold about the same number of them.
func unevenness(scheduled, kept map[string]time.Time, window time.Duration, parts int) (wrong []string) {
	count := make([]int, parts)
	for id, due := range scheduled {
		at, ok := kept[id]
		spread := at.Sub(due)
		if !ok || spread < 0 || spread > window {
			wrong = append(wrong, fmt.Sprintf("%s was put off by %v", id, spread))
			continue
		}
		count[min(int(spread*time.Duration(parts)/window), parts-1)]++
	}
	for i, n := range count {
		if fair := len(scheduled) / parts; n < fair/2 || n > 2*fair {
			wrong = append(wrong, fmt.Sprintf("part %d of %d has %d of %d", i+1, parts, n, len(scheduled)))
		}
	}
	return wrong
}

func TestUnevenness(t *testing.T) {
	start := time.Now()
	spread := func(over time.Duration) (scheduled, kept map[string]time.Time) {
		scheduled, kept = map[string]time.Time{}, map[string]time.Time{}
		for i := range 100 {
			scheduled[fmt.Sprint(i)] = start
			kept[fmt.Sprint(i)] = start.Add(over * time.Duration(i) / 100)
		}
		return scheduled, kept
	}
	tests := map[string]struct {
		over time.Duration
		ok   bool
	}{"even": {time.Second, true}, "not at all": {0, false}, "half": {500 * time.Millisecond, false}, "too far": {2 * time.Second, false}}
	for name, tt := range tests {
		scheduled, kept := spread(tt.over)
		if wrong := unevenness(scheduled, kept, time.Second, 10); tt.ok != (wrong == nil) {
			t.Errorf("%s: found wrong: %q", name, wrong)
		}
	}
}
