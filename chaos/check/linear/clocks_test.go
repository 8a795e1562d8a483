package linear

import (
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/internal/assert"
)

// A moved clock explains a task that was seen due too early, by up to its own offset.
func TestMovedClocksAreAllowedFor(t *testing.T) {
	early := func(skew time.Duration) string {
		return find(func(s *story) {
			s.h.Faults = []history.Fault{{Kind: "clock", Struck: ms(0), Mended: ms(500), Skew: -skew}}
			s.schedule(0, 1, 900)
			s.get(700, in("firing", 1, task(5, 900, 1)))
		})
	}
	assert.Equal(t, early(200*time.Millisecond), "")
	if early(50*time.Millisecond) == "" {
		t.Error("a clock that was moved by 50 ms explains a task seen 150 ms early")
	}
}

// A lone node may be early by up to the offset of its clock, and only while the clock is set ahead.
func TestTheClockOfANodeAloneIsAllowedFor(t *testing.T) {
	const hour = 3_600_000
	early := func(skew time.Duration, struck, due, seen int64) string {
		return find(func(s *story) {
			s.h.Faults = []history.Fault{{Kind: "clock", Struck: ms(struck), Mended: ms(5000), Skew: skew, Alone: true}}
			s.schedule(0, 1, due)
			s.get(seen, in("firing", 1, task(5, due, 1)))
		})
	}
	assert.Equal(t, early(time.Hour, 50, hour, 60), "")
	for name, found := range map[string]string{
		"that was behind":          early(-time.Hour, 50, hour, 60),
		"before it was set":        early(time.Hour, 500, hour, 60),
		"after it was set right":   early(time.Hour, 50, 2*hour, hour-1000),
		"by more than it was set":  early(time.Hour, 50, hour+1000, 60),
		"that was right by itself": early(0, 50, hour, 60),
	} {
		if found == "" {
			t.Errorf("a clock %s explains a task seen early", name)
		}
	}
}

// A task that came due by a lone node's fast clock stays ready after the clock is set right. Firing it changes nothing.
func TestFiredAfterTheClockOfANodeAloneWasSetRight(t *testing.T) {
	const due = 3_600_000
	fired := func(skew time.Duration, state string) string {
		return find(func(s *story) {
			s.h.Faults = []history.Fault{{Kind: "clock", Struck: ms(50), Mended: ms(500), Skew: skew, Alone: true}}
			s.schedule(0, 1, due)
			s.call(9000, history.Fire, history.Ask{}, history.OK, in(state, 0, task(5, due, 1)))
		})
	}
	assert.Equal(t, fired(time.Hour, "ready"), "")
	if fired(time.Minute, "ready") == "" || fired(time.Hour, "scheduled") == "" {
		t.Error("a task fired now is shown due in an hour")
	}
}

// A delay counts by the clock of a lone node.
func TestADelayByTheClockOfANodeAlone(t *testing.T) {
	due := func(skew time.Duration, due int64) string {
		return find(func(s *story) {
			s.h.Faults = []history.Fault{{Kind: "clock", Struck: ms(0), Mended: ms(5000), Skew: skew, Alone: true}}
			ask := history.Ask{Delay: time.Second, Body: body(1)}
			s.call(10, history.Schedule, ask, history.OK, task(1, due, 1))
		})
	}
	assert.Equal(t, due(time.Minute, 61_011)+due(-time.Minute, -58_989), "")
	if due(time.Minute, -58_989) == "" || due(-time.Minute, 61_011) == "" {
		t.Error("a clock explains an offset in the other direction")
	}
}
