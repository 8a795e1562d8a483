//go:build !race

package sim

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/chaos/sim/internal/disk"
	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/gated"
	"github.com/belfryhq/belfry/repeat"
)

// night is a daily task in the hour of the night in which clocks change.
type night struct {
	cron string
	hour int // of the day; the minute is 30
	zone string
	// gap and fold are the task's instants on the days on which its time does not exist, or comes twice; empty: it does
	// not happen.
	gap, fold string
}

var nights = map[string]night{
	"berlin":     {"30 2 * * *", 2, "Europe/Berlin", "2000-03-26T01:00:00Z", "2000-10-29T00:30:00Z"},
	"new-york":   {"30 2 * * *", 2, "America/New_York", "2000-04-02T07:00:00Z", ""},
	"new-york-1": {"30 1 * * *", 1, "America/New_York", "", "2000-10-29T05:30:00Z"},
}

// spell is a part of the year, from noon to noon, in which the leader dies every few days.
type spell struct {
	from, to string
	deaths   int // days between two of them
}

// TestYearOfNights plays the weeks around the clock changes of a year; the long form the whole year. A daily task in an
// hour that is skipped and repeated once a year runs once a day: at the end of the gap, and at the first of two times.
func TestYearOfNights(t *testing.T) {
	t.Parallel()
	spells := []spell{{"2000-03-24", "2000-04-04", 2}, {"2000-10-27", "2000-11-01", 2}}
	if gated.Has(gated.Long) {
		spells = []spell{{"2000-01-01", "2001-01-01", 30}}
	}
	for _, s := range spells {
		h := s.play(t)
		t.Logf("from %s to %s there were %d leaders", s.from, s.to, len(h.Terms))
		for id, n := range nights {
			want := n.instants(t, s)
			if got := dues(h, id); len(want) != s.days() || !slices.Equal(got, want) {
				t.Errorf("%s: %d instants, want %d\n%v\n%v", id, len(got), len(want), got, want)
			}
		}
	}
}

// noon returns the time of day at which spells begin and end. It is far from all instants, so that a cluster without a
// leader finds one before the next instant.
func noon(day string) time.Time {
	at, err := time.Parse(time.DateOnly, day)
	if err != nil {
		panic(err)
	}
	return at.Add(12 * time.Hour)
}

func (s spell) days() int { return int(noon(s.to).Sub(noon(s.from)) / (24 * time.Hour)) }

// instants returns the instants of a spell, which follow from the days of the calendar and the clock changes. The rule
// of package repeat must name the same ones.
func (n night) instants(t *testing.T, s spell) (all []time.Time) {
	t.Helper()
	zone, err := time.LoadLocation(n.zone)
	assert.NoError(t, err)
	rule, err := repeat.New(repeat.Spec{Cron: []string{n.cron}, TimeZone: n.zone})
	assert.NoError(t, err)
	changes := map[int]time.Time{}
	for _, text := range []string{n.gap, n.fold} {
		if at, err := time.Parse(time.RFC3339, text); err == nil {
			changes[at.YearDay()] = at
		}
	}
	before := noon(s.from)
	for day := range s.days() {
		date := noon(s.from).AddDate(0, 0, day+1)
		at, changed := changes[date.YearDay()]
		if !changed {
			at = time.Date(date.Year(), date.Month(), date.Day(), n.hour, 30, 0, 0, zone).UTC()
		}
		if next, ok := rule.Next(before); !ok || !next.At.Equal(at) {
			t.Fatalf("%s: after %v comes %v, want %v", n.zone, before, next.At, at)
		}
		all, before = append(all, at), at
	}
	return all
}

// dues returns the instants at which the attempts of a schedule's occurrences were due, in their order.
func dues(h *history.History, schedule string) (all []time.Time) {
	for i := range h.Occurrences {
		a := &h.Occurrences[i]
		if id, _ := history.ScheduleOf(a.ID); id == schedule {
			all = append(all, a.Due.Time())
		}
	}
	return all
}

func (s spell) play(t *testing.T) (h *history.History) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(noon(s.from).Add(-time.Hour)))
		w := NewWorld(yearConfig())
		defer w.Close()
		c := &conductor{world: w, load: newLoad(w, &course{})}
		w.start()
		c.recover()
		w.sleep(time.Until(noon(s.from)))
		for id, n := range nights {
			n.put(t, c.load, id)
		}
		for day := s.deaths / 2; day < s.days(); day += s.deaths {
			w.sleep(time.Until(noon(s.from).AddDate(0, 0, day)))
			replace(w.leader(1))
		}
		w.sleep(time.Until(noon(s.to)))
		h = w.rec.History()
	})
	return h
}

// replace ends the leader's process, and starts another one.
func replace(leader *Node) {
	leader.crash()
	leader.start()
}

// yearConfig is a cluster of one node, or in the long form of three. Heartbeats are slow, because they are most of the
// cost of a simulated year.
func yearConfig() Config {
	nodes, heartbeat := 1, 10*time.Minute
	if gated.Has(gated.Long) {
		nodes, heartbeat = 3, 20*time.Minute
	}
	return Config{
		Seed: 1, Nodes: nodes, Replicas: nodes, Shards: 1, SnapshotLog: 64 << 10, SnapshotTail: 64,
		net: wire.Quality{Delay: time.Millisecond}, disk: disk.Trouble{Delay: time.Millisecond},
		pace: pace{name: "year", heartbeat: heartbeat, maxDelay: 24 * time.Hour},
	}
}

func (n night) put(t *testing.T, l *driver, id string) {
	t.Helper()
	op := load.ScheduleOperation{
		What: history.ScheduleCall{Op: l.world.rec.NextOp(), Kind: history.PutSchedule, ID: id},
		Rule: load.Rule{Cron: n.cron, TimeZone: n.zone},
		Body: load.Payload{Op: 1}.Encode(),
	}
	rng := rand.New(rand.NewPCG(1, 1))
	outcome, answer := l.TrySchedule(t.Context(), rng, op)
	assert.MustEqual(t, outcome, history.OK, "the schedule %s: %+v", id, answer)
}
