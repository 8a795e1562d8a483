package dispatch

import (
	"testing"
	"time"
)

// TestRests checks that a rest follows a burst of any number of entries, and that its length follows the duration of
// entries.
func TestRests(t *testing.T) {
	now := time.Now()
	for _, test := range []struct {
		name      string
		took      time.Duration
		granted   []int // by entries
		ofBacklog bool
		waiting   int
		rest      time.Duration
	}{
		{"short entries", 10 * time.Microsecond, []int{burst}, true, burst, minRest},
		{"entries of a millisecond", time.Millisecond, []int{burst}, true, burst, restsLast * time.Millisecond},
		{"long entries", time.Second, []int{burst}, true, burst, maxRest},
		{"a burst in parts", time.Second, []int{burst / 2, 0, burst / 2}, true, burst, maxRest},
		{"no burst yet", time.Second, []int{burst / 2, burst/2 - 1}, true, burst, 0},
		{"what comes due", time.Second, []int{burst - 1, burst - 1, burst - 1}, false, burst, 0},
		{"more comes due at once", time.Second, []int{burst}, false, burst, maxRest},
		{"consumers that come back", time.Second, []int{burst, burst, burst}, true, burst - 1, 0},
	} {
		p := backlog{commit: test.took}
		p.called = now
		for _, n := range test.granted {
			p.applied(now, test.took, n, test.ofBacklog, func() int { return test.waiting })
		}
		if rest := max(p.until.Sub(now), 0); rest != test.rest || p.isResting(now) != (rest > 0) {
			t.Errorf("%s: rests for %v, not %v", test.name, rest, test.rest)
		}
		if got := p.credit(now, 2*burst, 0); got != burst {
			t.Errorf("%s: a lane without a backlog is offered %d", test.name, got)
		}
		if later := now.Add(usersStay); p.isResting(later) || p.room(later) != maxGrants {
			t.Errorf("%s: it rests when the users are gone", test.name)
		}
	}
}
