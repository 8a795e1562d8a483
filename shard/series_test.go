package shard

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// repeating returns the command that makes a schedule, whose occurrences may overlap.
func repeating(id string, series *fsmpb.Series) *fsmpb.Command {
	series.Overlap = fsmpb.Overlap_OVERLAP_ALLOW
	return &fsmpb.Command{Id: task.SeriesID(id), Op: &fsmpb.Command_SetSeries{SetSeries: &fsmpb.SetSeries{
		Spec: &fsmpb.Spec{
			Payload: []byte(`{"order":1042}`), Target: &fsmpb.Target{Url: "http://receiver.test:80/hook"},
		},
		Series: series, ReceivedAtMs: time.Now().UnixMilli(),
	}}}
}

func pauseOf(id string, paused bool) *fsmpb.Command {
	return &fsmpb.Command{Id: task.SeriesID(id), Op: &fsmpb.Command_PauseSeries{
		PauseSeries: &fsmpb.PauseSeries{Paused: paused},
	}}
}

// series returns a schedule as the node sees it.
func (n *node) series(t testing.TB, id string) *fsmpb.Series {
	t.Helper()
	view, err := n.Get(context.Background(), "", task.SeriesID(id), false)
	assert.NoError(t, err)
	if view.GetSeries() == nil {
		t.Fatalf("there is no schedule %s", id)
	}
	return view.Series
}

// occurrences returns the numbers of a schedule's occurrences that arrived, each once, in the order of their first
// arrival.
func (r *receiver) occurrences(id string) (numbers []uint64) {
	for _, a := range r.all() {
		if of, n, ok := task.SplitOccurrence(a.id); ok && of == id && !slices.Contains(numbers, n) {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// TestDenseScheduleOverFailovers kills and cuts off leaders during a schedule of every 100 ms. Each occurrence has its
// instant's number, none is missing, and none is a second task.
func TestDenseScheduleOverFailovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 3, func(cfg *Config) { cfg.Timing = LAN() })
		instants := newInstants(c.sink)
		c.startAll()
		const every, rounds = 100 * time.Millisecond, 8
		n := c.leader()
		begin := time.Now()
		n.must(t, repeating("dense", &fsmpb.Series{
			Repeat: &fsmpb.Repeat{EveryMs: every.Milliseconds()}, Misfire: fsmpb.Misfire_MISFIRE_SKIP,
		}))
		for round := range rounds {
			time.Sleep(3*time.Second + time.Duration(round)*13*time.Millisecond)
			lost := c.leader().cfg.NodeID
			if round%2 == 0 {
				c.kill(lost)
			} else {
				c.cut(lost)
			}
			c.leader(c.others(lost)...)
			if round%2 == 0 {
				c.start(lost)
			} else {
				c.link(lost)
			}
		}
		time.Sleep(10 * time.Second)
		c.leader().must(t, pauseOf("dense", true))
		time.Sleep(time.Second)
		instants.check(t, "dense", begin, every)
		numbers := c.sink.occurrences("dense")
		if n := len(numbers); n < int((rounds*3+10)*time.Second/every) || slices.Max(numbers) != uint64(n) {
			t.Errorf("%d occurrences arrived: %v", n, numbers)
		}
		series := c.leader().series(t, "dense")
		if series.Passed > 0 || series.Started != series.Last {
			t.Errorf("%d of %d occurrences ran, and %d were passed", series.Started, series.Last, series.Passed)
		}
		c.agree()
	})
}

// instants records the due time of each occurrence that arrives.
type instants struct {
	mu  sync.Mutex
	due map[string]map[int64]bool // by the id of the task
}

func newInstants(sink *receiver) *instants {
	i := &instants{due: map[string]map[int64]bool{}}
	sink.respond = func(_ context.Context, a task.Attempt) task.Outcome {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.due[a.Task.Id] == nil {
			i.due[a.Task.Id] = map[int64]bool{}
		}
		i.due[a.Task.Id][a.Task.FireAtMs] = true
		return task.Outcome{Delivered: true}
	}
	return i
}

// check compares the due times with those of an interval.
func (i *instants) check(t *testing.T, id string, begin time.Time, every time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for taskID, due := range i.due {
		of, n, ok := task.SplitOccurrence(taskID)
		want := begin.Add(time.Duration(n) * every).UnixMilli()
		if ok && of == id && (len(due) != 1 || !due[want]) {
			t.Errorf("%s is due at %v, want %d", taskID, due, want)
		}
	}
}

// TestNoLeaderForAMinute takes the majority away for a minute under each misfire policy. All the rule's instants have
// numbers, and the occurrences that the policy wants run.
func TestNoLeaderForAMinute(t *testing.T) {
	for _, row := range []struct {
		misfire fsmpb.Misfire
		window  time.Duration
		count   int64
		passed  string // records of occurrences that did not run
	}{
		{fsmpb.Misfire_MISFIRE_LATEST, 0, 0, "7 from 2 coalesced"},
		{fsmpb.Misfire_MISFIRE_ALL, 0, 0, ""},
		{fsmpb.Misfire_MISFIRE_SKIP, 0, 0, "8 from 2 missed"},
		{fsmpb.Misfire_MISFIRE_LATEST, 21 * time.Second, 0, "5 from 2 missed, 2 from 7 coalesced"},
		{fsmpb.Misfire_MISFIRE_LATEST, 0, 3, "1 from 2 coalesced"},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newReplicas(t, 3, func(cfg *Config) { cfg.Timing = LAN() })
			instants := newInstants(c.sink)
			c.startAll()
			const every = 7 * time.Second
			n := c.leader()
			begin := time.Now()
			n.must(t, repeating("a", &fsmpb.Series{
				Repeat:  &fsmpb.Repeat{EveryMs: every.Milliseconds(), Count: row.count},
				Misfire: row.misfire, MisfireWindowMs: row.window.Milliseconds(),
			}))
			time.Sleep(time.Until(begin.Add(8 * time.Second)))
			c.kill("n1")
			c.kill("n2")
			// The ninth occurrence is more than five seconds late by then, or it would not count as missed.
			time.Sleep(time.Until(begin.Add(68500 * time.Millisecond)))
			c.start("n1")
			c.start("n2")
			time.Sleep(time.Until(begin.Add(100 * time.Second)))
			instants.check(t, "a", begin, every)
			series := c.leader().series(t, "a")
			want := uint64(14)
			if row.count > 0 {
				want = uint64(row.count)
			}
			if got := printPassed(series.Past); got != row.passed || series.Last != want ||
				series.Started+series.Passed != want || uint64(len(c.sink.occurrences("a"))) != series.Started {
				t.Errorf("%v: %d occurrences, %d started, arrived %v, passed %q, want %q of %d", row, series.Last,
					series.Started, c.sink.occurrences("a"), got, row.passed, want)
			}
			assert.Equal(t, series.Complete && len(series.Next) == 0, row.count > 0, "%v: ended", row)
			c.agree()
		})
	}
}

// printPassed writes the records of occurrences that did not run.
func printPassed(past []*fsmpb.Occurrence) string {
	var parts []string
	for _, o := range past {
		if o.Passed != 0 {
			reason := strings.ToLower(strings.TrimPrefix(o.Passed.String(), "PASSED_"))
			parts = append(parts, fmt.Sprintf("%d from %d %s", max(o.Count, 1), o.Number, reason))
		}
	}
	return strings.Join(parts, ", ")
}

// TestManySchedules makes more schedules than one entry extends, in many calls.
func TestManySchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		n := c.leader()
		const schedules = 3 * maxExtensions
		var cmds []*fsmpb.Command
		for i := range schedules {
			cmds = append(cmds, repeating(fmt.Sprintf("s%d", i), &fsmpb.Series{Repeat: &fsmpb.Repeat{EveryMs: 60_000, Count: 2}}))
		}
		for _, reply := range n.Do(t.Context(), cmds) {
			if reply.Err != nil {
				t.Fatal(reply.Err)
			}
		}
		time.Sleep(5 * time.Minute)
		if got := len(c.sink.all()); got != 2*schedules {
			t.Errorf("%d occurrences of %d schedules", got, schedules)
		}
	})
}

// TestStuckSchedule gives a schedule a rule that cannot be computed. The leader says so once, serves the others, and
// tries again when the schedule has changed.
func TestStuckSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		c := newReplicas(t, 1, func(cfg *Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
		}).startAll()
		n := c.leader()
		stuck := func(zone string) *fsmpb.Series {
			return &fsmpb.Series{Repeat: &fsmpb.Repeat{Cron: []string{"* * * * *"}, TimeZone: zone}}
		}
		n.must(t, repeating("stuck", stuck("Mars/Olympus")))
		n.must(t, repeating("fine", stuck("UTC")))
		time.Sleep(10 * time.Minute)
		assert.Equal(t, len(c.sink.occurrences("fine")), 10, "occurrences beside a stuck schedule")
		synctest.Wait()
		if text := logged.String(); strings.Count(text, "a schedule is stuck") != 1 ||
			!strings.Contains(text, "namespace=default schedule=stuck") || !strings.Contains(text, "Mars/Olympus") {
			t.Errorf("logged %s", text)
		}
		n.must(t, repeating("stuck", stuck("Europe/Berlin")))
		time.Sleep(10 * time.Minute)
		assert.Equal(t, len(c.sink.occurrences("stuck")), 10, "occurrences after the change")
		if x := n.current().extender; len(x.wanting(1)) > 0 || len(x.known) > 0 {
			t.Errorf("still known: %v", x.known)
		}
	})
}

// TestPausedSchedule checks that a paused schedule is not extended, and that it goes on after the resume.
func TestPausedSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		n := c.leader()
		n.must(t, repeating("a", &fsmpb.Series{Repeat: &fsmpb.Repeat{EveryMs: 60_000}}))
		time.Sleep(150 * time.Second)
		n.must(t, pauseOf("a", true))
		time.Sleep(time.Hour)
		if s := n.series(t, "a"); len(s.Next) > 0 || s.Last != 2 {
			t.Errorf("in the pause: %d occurrences, coming %v", s.Last, s.Next)
		}
		n.must(t, pauseOf("a", false))
		time.Sleep(150 * time.Second)
		if got := c.sink.occurrences("a"); !slices.Equal(got, []uint64{1, 2, 3, 4}) && !slices.Equal(got, []uint64{1, 2, 3, 4, 5}) {
			t.Errorf("after the resume: %v", got)
		}
	})
}

// TestCalendarChanges gives a daily schedule a calendar that changes, goes and comes back. The coming instants follow,
// and no occurrence that an older calendar took away is made up for.
func TestCalendarChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDecided()
		closed := func(version uint64, dates ...string) *fsmpb.Calendar {
			return &fsmpb.Calendar{Name: "holidays", Closed: dates, Version: version}
		}
		d.setCalendar(closed(1, "2000-01-02"))
		c := newReplicas(t, 1, func(cfg *Config) { cfg.Policies = d }).startAll()
		n := c.leader()
		days := func() (days []int) {
			for _, next := range n.series(t, "a").Next {
				days = append(days, time.UnixMilli(next.ScheduledMs).UTC().Day())
			}
			return days
		}
		expect := func(when string, want ...int) {
			t.Helper()
			synctest.Wait()
			assert.EqualSlices(t, days(), want, "%s: on", when)
		}
		n.must(t, repeating("a", &fsmpb.Series{Repeat: &fsmpb.Repeat{Cron: []string{"0 9 * * *"}, Calendar: "holidays"}}))
		expect("at first, on 2000-01-01 at 0:00", 1, 3)
		d.setCalendar(closed(2, "2000-01-01/2000-01-04"))
		expect("with more holidays", 5, 6)
		time.Sleep(12 * time.Hour) // nine o'clock is over
		d.setCalendar(closed(3, "2000-01-03"))
		expect("with another holiday, at noon", 2, 4)
		d.setCalendar(nil)
		expect("without the calendar")
		time.Sleep(24 * time.Hour)
		d.setCalendar(closed(4, "2000-01-04"))
		expect("a day later, with it", 3, 5)
		time.Sleep(24 * time.Hour)
		if got := c.sink.occurrences("a"); !slices.Equal(got, []uint64{1}) {
			t.Errorf("on 2000-01-03 at noon the occurrences %v have arrived", got)
		}
	})
}

// TestLongExclusions gives a schedule exclusions that no single computation gets through. It has its occurrences before
// and behind them, and the schedule beside it has its own.
func TestLongExclusions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged bytes.Buffer
		c := newReplicas(t, 1, func(cfg *Config) {
			cfg.Logger = slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn}))
		}).startAll()
		n := c.leader()
		begin := time.Now().UTC().Truncate(time.Second)
		free := begin.Add(26 * time.Hour).Truncate(24 * time.Hour) // 1 or 2 January, a second of which is not excluded
		night := fmt.Sprintf("1-%d 1 *", free.Day()-1)
		if begin.Month() != time.January || begin.Day() != 1 {
			t.Fatalf("the test begins at %v", begin)
		}
		n.must(t, repeating("far", &fsmpb.Series{Repeat: &fsmpb.Repeat{
			EveryMs: 1000, AnchorMs: proto.Int64(0), StartMs: proto.Int64(begin.Add(-3 * time.Second).UnixMilli()),
			Except: []string{"0-29 1-59 * " + night, "30-59 1-59 * " + night, "0-29 0 1-23 " + night, "30-59 0 1-23 " + night},
		}}))
		n.must(t, repeating("near", &fsmpb.Series{Repeat: &fsmpb.Repeat{EveryMs: 1000}}))
		time.Sleep(2 * time.Minute)
		if got, most := len(c.sink.occurrences("far")), 60; got < 40 || got > most {
			t.Errorf("%d occurrences before the exclusions", got)
		}
		if got := len(c.sink.occurrences("near")); got < 119 {
			t.Errorf("%d occurrences of the other schedule", got)
		}
		if s := n.series(t, "far"); len(s.Next) == 0 || s.Next[0].ScheduledMs != free.UnixMilli() || s.Passed > 0 {
			t.Errorf("behind the exclusions: %v, passed %d", s.Next, s.Passed)
		}
		if logged.Len() > 0 {
			t.Errorf("logged %s", &logged)
		}
	})
}

// wantingWithoutMemory makes schedules that want instants, at a leader that lacks the memory for them.
func wantingWithoutMemory(t *testing.T, n *node, ids ...string) {
	t.Helper()
	for _, id := range ids {
		n.must(t, repeating(id, &fsmpb.Series{Repeat: &fsmpb.Repeat{EveryMs: 60_000}, Paused: true}))
	}
	n.SetRoom(&task.MemoryError{Node: "n1", Limit: "1GiB"})
	time.Sleep(2 * memoryPause)
	for _, id := range ids {
		n.must(t, pauseOf(id, false))
	}
}

func idsOf(views []*fsmpb.Task) (ids []string) {
	for _, view := range views {
		ids = append(ids, view.Id)
	}
	return ids
}

// TestCostlySchedulesTakeTurns checks that the cheap schedules come first, and that a costly one goes to the end. The
// computation ends with the leadership.
func TestCostlySchedulesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		n := c.leader()
		wantingWithoutMemory(t, n, "a", "b", "c", "d")
		x := n.current().extender
		views := map[string]*fsmpb.Task{}
		for _, view := range x.wanting(9) {
			views[view.Id] = view
		}
		if len(views) != 4 || x.isBehind() {
			t.Fatalf("wanting %v, behind %v", views, x.isBehind())
		}
		x.learn(views["b@"], knownSeries{}, true)
		x.learn(views["a@"], knownSeries{}, true)
		x.learn(views["d@"], knownSeries{idle: true}, true)
		for _, want := range [][]string{{"c@", "b@", "a@"}, {"c@", "a@", "b@"}} {
			assert.EqualSlices(t, idsOf(x.wanting(9)), want, "order")
			x.learn(views["b@"], knownSeries{}, true)
		}
		assert.EqualSlices(t, idsOf(x.wanting(1)), []string{"c@"}, "the first one")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if change, computed := x.compute(ctx, x.wanting(9)); computed != 0 || change.commands != 0 {
			t.Errorf("%d schedules are computed after the end", computed)
		}
		x.learn(views["a@"], knownSeries{}, false)
		n.SetRoom(nil)
		time.Sleep(2 * memoryPause)
		if s := n.series(t, "a"); len(s.Next) == 0 || x.isBehind() {
			t.Errorf("with memory: %v, wanting %v", s.Next, idsOf(x.wanting(9)))
		}
		if s := n.series(t, "d"); len(s.Next) > 0 {
			t.Errorf("a schedule that rests has got %v", s.Next)
		}
	})
}

// TestNoInstantsWithoutMemory takes the memory away for a minute. The occurrences that the schedule has go on, and no
// further ones come. The misfire policy decides on those once there is memory.
func TestNoInstantsWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newReplicas(t, 1, nil).startAll()
		n := c.leader()
		n.must(t, repeating("a", &fsmpb.Series{
			Repeat: &fsmpb.Repeat{EveryMs: 1000}, Misfire: fsmpb.Misfire_MISFIRE_SKIP,
		}))
		time.Sleep(10*time.Second + 500*time.Millisecond)
		n.SetRoom(task.ErrNoRoom) // of the disks: schedules go on
		time.Sleep(30 * time.Second)
		n.SetRoom(&task.MemoryError{Node: "n1", Limit: "1GiB"})
		s := n.series(t, "a")
		last := s.Last + uint64(len(s.Next))
		time.Sleep(time.Minute)
		if s := n.series(t, "a"); s.Last != last || len(s.Next) > 0 || s.Passed > 0 || s.Started != last {
			t.Errorf("without memory: %d occurrences, %d started, want %d; coming %v", s.Last, s.Started, last, s.Next)
		}
		n.SetRoom(nil)
		time.Sleep(memoryPause + 10*time.Second)
		s = n.series(t, "a")
		if s.Last < 105 || s.Started+s.Passed != s.Last || s.Passed < 40 || s.Started < last+10 {
			t.Errorf("with memory again: %d occurrences, %d started, %d passed", s.Last, s.Started, s.Passed)
		}
	})
}
