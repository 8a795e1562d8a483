package check

import (
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// hour is one hour in milliseconds, the unit of a story's instants.
const hour = 3_600_000

// alone adds a fault that set the clock of a one-node cluster off by the given milliseconds.
func (s *story) alone(by, struck, mended int64) {
	s.clock(by, struck, mended)
	f := &s.h.Faults[len(s.h.Faults)-1]
	f.Alone, f.Nodes = true, []string{"node-1"}
}

// clockCases hold that a lone node goes by its own clock, whatever its offset: the checks excuse what that clock
// explains, and nothing else.
var clockCases = []example{
	{"early by the clock of a node alone", Early, func(s *story) {
		s.alone(hour, 50, 5000)
		s.schedule("a", 0, hour)
		s.arrive("a", 60, hour, 1)
	}, ""},
	{"early before the clock of a node alone was set", Early, func(s *story) {
		s.alone(hour, 50, 5000)
		s.schedule("a", 0, hour)
		s.arrive("a", 49, hour, 1)
	}, "before it was due"},
	{"early by more than the clock of a node alone was set ahead", Early, func(s *story) {
		s.alone(hour, 50, 5000)
		s.schedule("a", 0, hour+100)
		s.arrive("a", 99, hour+100, 1)
	}, "before it was due"},
	{"early by the clock of a node alone that was behind", Early, func(s *story) {
		s.alone(-hour, 50, 5000)
		s.schedule("a", 0, 100)
		s.arrive("a", 60, 100, 1)
	}, "before it was due"},
	{"early after the clock of a node alone was set right", Early, func(s *story) {
		s.alone(hour, 50, 5000)
		s.schedule("a", 0, hour)
		s.arrive("a", 6001, hour, 1)
	}, "before it was due"},
	{"after a delay by the clock of a node alone", Early, func(s *story) {
		s.alone(hour, 0, 5000)
		s.schedule("a", 10, 0).Ask = history.Ask{Delay: 200 * time.Millisecond, Body: body(1)}
		s.arrive("a", 212, hour+212, 1)
	}, ""},
	{"after a delay by the clock of a node alone, the wrong way", Early, func(s *story) {
		s.alone(hour, 0, 5000)
		s.schedule("a", 10, 0).Ask = history.Ask{Delay: 200 * time.Millisecond, Body: body(1)}
		s.arrive("a", 212, 200, 1)
	}, "no call had asked"},
	{"after a delay by the clock of a node alone that was right again", Early, func(s *story) {
		s.alone(hour, 0, 500)
		s.schedule("a", 1600, 0).Ask = history.Ask{Delay: 200 * time.Millisecond, Body: body(1)}
		s.arrive("a", hour, hour, 1)
	}, "no call had asked"},

	{"repeated when a clock leapt over the end of a lease", limited(Repeats), leaps(hour, 150, 5000), ""},
	{"repeated when a clock was set right that was behind", limited(Repeats), leaps(-hour, 50, 150), ""},
	{"repeated when a clock was set back", limited(Repeats), leaps(-hour, 150, 5000), "came again"},
	{"repeated when a clock was set right that was ahead", limited(Repeats), leaps(hour, -2000, 150), "came again"},
	{"repeated when a clock was set ahead by less than a lease", limited(Repeats), leaps(4000, 150, 5000), "came again"},
	{"repeated before a clock leapt", limited(Repeats), leaps(hour, 161, 5000), "came again"},
	{"repeated when a clock leapt that others contradict", limited(Repeats), func(s *story) {
		leaps(hour, 150, 5000)(s)
		s.h.Faults[0].Alone = false
	}, "came again"},
	{"repeated twice by one leap of a clock", limited(Repeats), func(s *story) {
		leaps(hour, 150, 5000)(s)
		s.arrive("a", 170, 100, 1).Attempt = 3
	}, "came again"},
	{"repeated by the leap of a clock, though long settled", limited(Repeats), func(s *story) {
		s.arrived()
		s.alone(hour, 5000, 9000)
		s.arrive("a", 5010, 100, 1).Attempt = 2
	}, "came again"},
	{"repeated by the leap of a clock before it began", limited(Repeats), func(s *story) {
		s.alone(hour, 150, 20_000)
		s.schedule("a", 160, 8000)
		s.arrive("a", 8001, 8000, 1)
		s.arrive("a", 8100, 8000, 1).Attempt = 2
	}, "came again"},

	{"early by the clock of a node alone, and again in time", limited(Repeats), earlyAndInTime, ""},
	{"early by the clock of a node alone, and twice in time", limited(Repeats), func(s *story) {
		earlyAndInTime(s)
		s.arrive("a", hour+2, hour, 1)
	}, "came again"},

	{"two at once, by the clock of a node alone", limited(Leases), func(s *story) {
		s.leased()
		s.alone(hour, 150, 5000)
		s.lease("a", 160, hour+1160, 1)
	}, ""},
	{"two at once, by the clock of a node alone that was behind", limited(Leases), func(s *story) {
		s.leased()
		s.alone(-hour, 150, 5000)
		s.lease("a", 1000, 1161, 1)
	}, "before the lease under 101 ended"},
	{"two at once, before the first was given back", limited(Leases), func(s *story) {
		s.alone(hour, 50, 5000)
		s.schedule("a", 60, 100)
		s.lease("a", 101, hour+1101, 1)
		s.settle(release, "a", 101, 200, 200)
		s.lease("a", 190, hour+1190, 1)
	}, "10ms before the lease under 101 ended"},
	{"given back and leased again, by the clock of a node alone", limited(Leases), func(s *story) {
		s.alone(hour, 50, 5000)
		s.schedule("a", 60, 100)
		s.lease("a", 101, hour+1101, 1)
		s.settle(release, "a", 101, 200, 200)
		s.lease("a", 201, hour+1201, 1)
	}, ""},
}

// earlyAndInTime tells of an attempt that begins early by the clock of a lone node, and again at its due time.
func earlyAndInTime(s *story) {
	s.alone(hour, 150, 300)
	s.schedule("a", 10, hour)
	s.arrive("a", 160, hour, 1)
	s.arrive("a", hour+1, hour, 1)
}

// leaps returns a story of an attempt that arrives again while its receiver still holds back the answer.
func leaps(by, struck, mended int64) func(*story) {
	return func(s *story) {
		s.alone(by, struck, mended)
		s.arrived().Held = time.Second
		s.arrive("a", 160, 100, 1).Attempt = 2
	}
}

// Earliest returns an earlier instant only for a clock that was ahead, and no instant before that clock was set.
func TestEarliest(t *testing.T) {
	s := &story{}
	s.alone(1000, 100, 500) // the clock's offset counts for one second after the mending
	s.alone(-1000, 3000, 4000)
	c := NewClocks(s.h.Faults)
	for _, tt := range []struct{ shown, want int64 }{
		{50, 50}, {100, 100}, {101, 100}, {1100, 100}, {1101, 101}, {2500, 1500}, {2501, 2501}, {3500, 3500},
	} {
		if got := c.Earliest(ms(tt.shown)); got != ms(tt.want) {
			t.Errorf("a clock may have shown %d first at %d, want %d", tt.shown, int64(got-ms(0))/1e6, tt.want)
		}
	}
}
