package belfrytest_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/belfryhq/belfry/belfrytest"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

const day = 24 * time.Hour

func schedule(t testing.TB, c *client.Client, tasks ...client.Task) {
	t.Helper()
	for _, task := range tasks {
		_, err := c.Schedule(t.Context(), task)
		assert.NoError(t, err)
	}
}

// TestYear advances by a year with a thousand tasks, of which every tenth fails once. Each task arrives at its due
// instant, and each retry in its place between the others.
func TestYear(t *testing.T) {
	t.Parallel()
	belfrytest.Simulate(t, func(t *testing.T, b *belfrytest.Server) {
		receiver := b.Receiver()
		var failed sync.Map
		receiver.Respond(func(w http.ResponseWriter, r *http.Request) {
			id := r.Header.Get("Ce-Subject")
			if _, again := failed.LoadOrStore(id, true); !again && id[len(id)-1] == '0' {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		const tasks = 1000
		var scheduled sync.WaitGroup
		for i := range tasks {
			scheduled.Go(func() {
				_, err := b.Client().Schedule(t.Context(), client.Task{
					ID: fmt.Sprintf("t-%04d", i), Delay: time.Duration(i+1) * (365 * day / (tasks + 1)),
					Target: &client.Target{URL: receiver.URL}, Retry: &client.Retry{Delays: []time.Duration{time.Hour}},
				})
				assert.Equal(t, err, nil)
			})
		}
		scheduled.Wait()
		assert.Equal(t, b.Advance(365*day), tasks*11/10, "attempts began")
		all := receiver.All()
		assert.MustEqual(t, len(all), tasks*11/10, "deliveries")
		for i, d := range all {
			at := d.Due
			if d.Attempt == 2 {
				first := slices.IndexFunc(all, func(o belfrytest.Delivery) bool { return o.TaskID == d.TaskID })
				at = all[first].At.Add(time.Hour)
			}
			if late := d.At.Sub(at); late < 0 || late >= time.Millisecond { // due instants are whole milliseconds
				t.Errorf("%s, attempt %d, came %v after its instant", d.TaskID, d.Attempt, late)
			}
			if i > 0 && d.At.Before(all[i-1].At) {
				t.Errorf("%s came before %s", d.TaskID, all[i-1].TaskID)
			}
		}
	})
}

// TestFollowUp checks that a task which a receiver schedules during an advance comes due in its place.
func TestFollowUp(t *testing.T) {
	t.Parallel()
	belfrytest.Simulate(t, func(t *testing.T, b *belfrytest.Server) {
		receiver := b.Receiver()
		receiver.Respond(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Ce-Subject") == "first" {
				schedule(t, b.Client(), client.Task{
					ID: "second", Delay: 30 * time.Minute, Target: &client.Target{URL: receiver.URL},
				})
			}
		})
		began := b.Now()
		target := &client.Target{URL: receiver.URL}
		schedule(t, b.Client(), client.Task{ID: "first", Delay: time.Hour, Target: target},
			client.Task{ID: "third", Delay: 2 * time.Hour, Target: target})
		b.Advance(2 * day)
		var got []string
		for _, d := range receiver.All() {
			clock, err := time.Parse(time.RFC3339Nano, d.Header.Get("belfry-clock"))
			if err != nil || clock.Sub(d.At).Abs() > time.Second || clock.Before(d.Due) {
				t.Errorf("%s, due at %v, is sent at %v: %v", d.TaskID, d.Due, clock, err)
			}
			got = append(got, fmt.Sprint(d.TaskID, " ", d.At.Sub(began).Round(time.Minute)))
		}
		assert.Equal(t, fmt.Sprint(got), "[first 1h0m0s second 1h30m0s third 2h0m0s]")
		assert.Equal(t, b.Now().Sub(began), 2*day, "passed")
	})
}

// TestTaskStates checks that leases, expires_after and a queue's keep_done follow the clock, that other finished tasks
// can be read after any advance, and that a cancelled task is never delivered.
func TestTaskStates(t *testing.T) {
	t.Parallel()
	belfrytest.Simulate(t, func(t *testing.T, b *belfrytest.Server) {
		c, ctx, receiver := b.Client(), t.Context(), b.Receiver()
		target := &client.Target{URL: receiver.URL}
		if _, err := c.PauseQueue(ctx, "paused"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.PutQueue(ctx, client.Queue{Name: "brief", KeepDone: time.Hour}); err != nil {
			t.Fatal(err)
		}
		schedule(t, c, client.Task{ID: "leased", Queue: "pulled"}, client.Task{ID: "done", Target: target},
			client.Task{ID: "forgotten", Delay: 30 * time.Minute, Queue: "brief", Target: target},
			client.Task{ID: "late", Queue: "paused", Target: target, ExpiresAfter: time.Hour},
			client.Task{ID: "never", Delay: time.Hour, Target: target})
		if got := receiver.Next(t); got.TaskID != "done" || got.Attempt != 1 || len(got.WebhookID) < 10 {
			t.Errorf("%+v", got)
		}
		leased, err := c.Lease(ctx, "pulled", client.Demand{Wait: 10 * time.Second, Lease: 30 * time.Second})
		if err != nil || len(leased) != 1 {
			t.Fatalf("%v, %v", leased, err)
		}
		if _, err := c.Cancel(ctx, "never"); err != nil {
			t.Fatal(err)
		}
		b.Advance(time.Minute)
		acked := c.Settle(ctx, "pulled", client.Settlement{Ack: []string{leased[0].Receipt}})
		assert.ErrorIs(t, acked[0].Err, client.ErrConflict, "the ack after the lease's end")
		for id, want := range map[string]client.State{
			"leased": client.StateReady, "done": client.StateDelivered, "late": client.StateReady,
		} {
			if task, err := c.Get(ctx, id); err != nil || task.State != want {
				t.Errorf("%s: %+v, %v", id, task, err)
			}
		}
		assert.Equal(t, b.Advance(50*365*day), 1, "attempts began")
		for id, want := range map[string]client.State{"done": client.StateDelivered, "never": client.StateCancelled} {
			if task, err := c.Get(ctx, id); err != nil || task.State != want {
				t.Errorf("%s after 50 years: %+v, %v", id, task, err)
			}
		}
		if _, err := c.Get(ctx, "forgotten"); !errors.Is(err, client.ErrNotFound) {
			t.Errorf("a finished task after its queue's keep_done: %v", err)
		}
		if task, err := c.Get(ctx, "late"); err != nil || task.State != client.StateDead || task.LastError != "expired" {
			t.Errorf("%+v, %v", task, err)
		}
		all := receiver.All()
		assert.Equal(t, len(all), 2, "deliveries")
	})
}

// TestReceiverThatHangs checks that an advance answers while an attempt lasts, and that the attempt times out when the
// clock passes its timeout.
func TestReceiverThatHangs(t *testing.T) {
	t.Parallel()
	belfrytest.Simulate(t, func(t *testing.T, b *belfrytest.Server) {
		receiver := b.Receiver()
		receiver.Respond(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		target := &client.Target{URL: receiver.URL, Timeout: 10 * time.Minute}
		schedule(t, b.Client(), client.Task{ID: "a", Delay: 2 * day, Target: target})
		assert.Equal(t, b.Advance(2*day), 1, "attempts began")
		receiver.Next(t)
		task, err := b.Client().Get(t.Context(), "a")
		if err != nil || task.State != client.StateFiring || task.Attempts != 1 {
			t.Errorf("%+v, %v", task, err)
		}
		receiver.Respond(func(http.ResponseWriter, *http.Request) {})
		b.Advance(9 * time.Minute)
		all := receiver.All()
		assert.Equal(t, len(all), 1, "attempts before the timeout")
		b.Advance(2 * time.Minute)
		got := receiver.Next(t)
		assert.Equal(t, got.Attempt, 2, "%+v", got)
		task, err = b.Client().Get(t.Context(), "a")
		if err != nil || len(task.History) == 0 || !strings.HasPrefix(task.History[0].Error, "timed out after 10m") {
			t.Errorf("%+v, %v", task, err)
		}
	})
}

// TestManyAtOnce checks that an advance waits until the attempts have begun that the receiver's window and a limit of
// the queue hold back.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	belfrytest.Simulate(t, func(t *testing.T, b *belfrytest.Server) {
		receiver := b.Receiver()
		_, err := b.Client().PutQueue(t.Context(), client.Queue{Name: "limited", MaxInFlight: 3})
		assert.NoError(t, err)
		due := b.Now().Add(day)
		for i := range 100 {
			for _, queue := range []string{"limited", "free"} {
				schedule(t, b.Client(), client.Task{
					ID: fmt.Sprint(queue, i), Queue: queue, FireAt: due, Target: &client.Target{URL: receiver.URL},
				})
			}
		}
		assert.Equal(t, b.Advance(day), 200, "attempts began")
	})
}

// TestBounds checks that the clock goes ahead only, and by no more than 100 years in all, and that advances take turns.
func TestBounds(t *testing.T) {
	t.Parallel()
	belfrytest.Simulate(t, func(t *testing.T, b *belfrytest.Server) {
		began := b.Now()
		var advances sync.WaitGroup
		for range 8 {
			advances.Go(func() {
				_, err := b.Client().Advance(t.Context(), time.Hour)
				assert.Equal(t, err, nil)
			})
		}
		advances.Wait()
		assert.Equal(t, b.Now().Sub(began), 8*time.Hour, "passed")
		for range 2 {
			_, err := b.Client().Advance(t.Context(), 10*day, client.WithKey("k"))
			assert.Equal(t, err, nil)
		}
		if passed := b.Now().Sub(began); passed < 10*day || passed > 11*day {
			t.Errorf("%v passed after a repeat", passed)
		}
		for _, by := range []time.Duration{0, -time.Hour, 36500 * day} {
			var refused *client.Error
			if _, err := b.Client().Advance(t.Context(), by); !errors.As(err, &refused) || refused.Status != 400 {
				t.Errorf("%v: %v", by, err)
			}
		}
	})
}

// TestNothingIsLeft checks that a server leaves no goroutine behind: the bubble would fail.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	belfrytest.Simulate(t, func(t *testing.T, b *belfrytest.Server) {
		receiver := b.Receiver()
		schedule(t, b.Client(), client.Task{ID: "a", Delay: day, Target: &client.Target{URL: receiver.URL}})
		b.Advance(day)
		receiver.Next(t)
	})
}

// BenchmarkNew measures the start of a server with its first call. The servers stop at the end.
func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		schedule(b, belfrytest.New(b).Client(), client.Task{Delay: time.Hour})
	}
}

// BenchmarkAdvance measures an advance over one task.
func BenchmarkAdvance(b *testing.B) {
	s := belfrytest.New(b)
	receiver := s.Receiver()
	for b.Loop() {
		schedule(b, s.Client(), client.Task{Delay: day, Target: &client.Target{URL: receiver.URL}})
		if s.Advance(day) == 0 {
			b.Fatal("nothing began")
		}
		receiver.Next(b)
	}
}

// TestYearOfNights advances by a year with a daily schedule in the hour that clocks skip and repeat. Each instant of the
// rule has one delivery, with the next number.
func TestYearOfNights(t *testing.T) {
	t.Parallel()
	belfrytest.Simulate(t, func(t *testing.T, b *belfrytest.Server) {
		receiver := b.Receiver()
		rule := client.Repeat{Cron: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin"}
		_, err := b.Client().PutSchedule(t.Context(), client.Schedule{
			ID: "nightly", Repeat: rule, Task: client.Task{Target: &client.Target{URL: receiver.URL}},
		})
		assert.NoError(t, err)
		preview, err := b.Client().PreviewSchedule(t.Context(), rule, 370)
		assert.NoError(t, err)
		begun := b.Advance(365 * day)
		all := receiver.All()
		if len(all) < 364 || begun != len(all) {
			t.Fatalf("%d attempts began in a year, and %d arrived", begun, len(all))
		}
		for i, d := range all {
			if want := fmt.Sprint("nightly@", i+1); d.TaskID != want || !d.Due.Equal(preview.Occurrences[i].At) {
				t.Fatalf("%s is due at %v, want %s at %v", d.TaskID, d.Due, want, preview.Occurrences[i].At)
			}
		}
		if next := preview.Occurrences[len(all)].At; next.Before(b.Now().Add(-time.Minute)) {
			t.Errorf("the occurrence of %v is missing", next)
		}
	})
}

// TestHolidays changes the calendar of a daily schedule while the schedule has coming occurrences. None is on a closed
// date, and the numbers have no gap.
func TestHolidays(t *testing.T) {
	t.Parallel()
	belfrytest.Simulate(t, func(t *testing.T, b *belfrytest.Server) {
		receiver, c := b.Receiver(), b.Client()
		date := func(days int) string { return b.Now().UTC().AddDate(0, 0, days).Format(time.DateOnly) }
		open, closed := []string{date(1), date(4), date(5)}, []string{date(2) + "/" + date(3), date(6)}
		put := func(closed ...string) {
			t.Helper()
			_, err := c.PutCalendar(t.Context(), client.Calendar{Name: "holidays", Closed: closed})
			assert.NoError(t, err)
		}
		put(date(1))
		_, err := c.PutSchedule(t.Context(), client.Schedule{
			ID: "daily", Repeat: client.Repeat{Cron: []string{"0 12 * * *"}, Calendar: "holidays", Start: b.Now().Add(12 * time.Hour)},
			Task: client.Task{Target: &client.Target{URL: receiver.URL}},
		})
		assert.NoError(t, err)
		put(closed...)
		if _, err := c.DeleteCalendar(t.Context(), "holidays"); !errors.Is(err, client.ErrConflict) {
			t.Errorf("the deletion of a calendar in use: %v", err)
		}
		b.Advance(8 * day)
		var on []string
		for i, d := range receiver.All() {
			assert.Equal(t, d.TaskID, fmt.Sprint("daily@", i+1), "came")
			on = append(on, d.Due.UTC().Format(time.DateOnly))
		}
		for _, day := range open {
			if !slices.Contains(on, day) {
				t.Errorf("none on %s: %v", day, on)
			}
		}
		for _, day := range []string{closed[0][:10], closed[0][11:], closed[1]} {
			if slices.Contains(on, day) {
				t.Errorf("one on %s, which is closed: %v", day, on)
			}
		}
	})
}

// TestSendWindow checks that nothing is sent outside of a window, in a queue and of a task with a window of its own,
// that a retry and a lease wait for the opening too, and that waiting tasks come at the opening.
func TestSendWindow(t *testing.T) {
	t.Parallel()
	belfrytest.Simulate(t, func(t *testing.T, b *belfrytest.Server) {
		receiver, c := b.Receiver(), b.Client()
		now := b.Now().UTC()
		clock := func(after time.Duration) string { return now.Add(after).Format("15:04") }
		// The queue's window opens in three hours, for an hour.
		window := &client.Window{Daily: []string{clock(3*time.Hour) + "-" + clock(4*time.Hour)}}
		opening := now.Truncate(time.Minute).Add(3 * time.Hour)
		target := &client.Target{URL: receiver.URL}
		queue, err := c.PutQueue(t.Context(), client.Queue{Name: "calls", Target: target, Window: window})
		if err != nil || queue.Window == nil || queue.Window.Daily[0] != window.Daily[0] {
			t.Fatalf("%+v, %v", queue, err)
		}
		if _, err := c.PutQueue(t.Context(), client.Queue{Name: "pulled", Window: window}); err != nil {
			t.Fatal(err)
		}
		always := &client.Window{Daily: []string{"00:00-24:00"}}
		schedule(t, c, client.Task{ID: "waits", Queue: "calls", Delay: time.Hour})
		schedule(t, c, client.Task{ID: "own", Queue: "calls", Delay: time.Hour, Window: always})
		schedule(t, c, client.Task{ID: "gone", Queue: "calls", Delay: time.Hour})
		schedule(t, c, client.Task{ID: "retried", Delay: 2*time.Hour + 59*time.Minute, Target: target,
			Window: &client.Window{Daily: []string{clock(2*time.Hour) + "-" + clock(3*time.Hour)}},
			Retry:  &client.Retry{Delays: []time.Duration{2 * time.Hour}}})
		schedule(t, c, client.Task{ID: "pulled", Queue: "pulled", Delay: time.Hour})
		receiver.Respond(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Ce-Subject") == "retried" && r.Header.Get("Belfry-Attempt") == "1" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})

		b.Advance(2 * time.Hour)
		waits, err := c.Get(t.Context(), "waits")
		if err != nil || waits.State != client.StateScheduled || waits.WaitsFor != "window" || waits.Attempts != 0 ||
			!waits.NextAttemptAt.Equal(opening) {
			t.Errorf("a task before its window: %+v, %v, want %v", waits, err, opening)
		}
		if outcome, err := c.Cancel(t.Context(), "gone"); err != nil || outcome != client.OutcomeCancelled {
			t.Errorf("a cancel: %s, %v", outcome, err)
		}
		if queue, err = c.Queue(t.Context(), "calls"); err != nil || queue.WindowOpen || !queue.WindowOpensAt.Equal(opening) {
			t.Errorf("the queue: %+v, %v", queue, err)
		}
		if leased, err := c.Lease(t.Context(), "pulled", client.Demand{Max: 1}); err != nil || len(leased) > 0 {
			t.Errorf("a lease outside of the window: %v, %v", leased, err)
		}
		if all := receiver.All(); len(all) != 1 || all[0].TaskID != "own" {
			t.Errorf("before the window came %v", all)
		}

		b.Advance(90 * time.Minute)
		if leased, err := c.Lease(t.Context(), "pulled", client.Demand{Max: 1}); err != nil || len(leased) != 1 {
			t.Errorf("a lease in the window: %v, %v", leased, err)
		}
		b.Advance(2 * day)
		at := map[string]time.Time{}
		for _, d := range receiver.All() {
			at[fmt.Sprint(d.TaskID, d.Attempt)] = d.At
		}
		second := now.Truncate(time.Minute).Add(26 * time.Hour)
		for _, want := range []struct {
			attempt string
			at      time.Time
		}{{"waits1", opening}, {"retried1", now.Add(179 * time.Minute)}, {"retried2", second}} {
			if late := at[want.attempt].Sub(want.at); late < 0 || late >= time.Millisecond {
				t.Errorf("%s came at %v, want %v", want.attempt, at[want.attempt], want.at)
			}
		}
		assert.Equal(t, len(at), 4, "attempts: %v", at)
	})
}

// TestGroupsInOrder checks that the tasks of a group go out in the order of their due times, each at its instant or as
// soon as the one before it is done, and that a failed one holds its own group alone.
func TestGroupsInOrder(t *testing.T) {
	t.Parallel()
	belfrytest.Simulate(t, func(t *testing.T, b *belfrytest.Server) {
		receiver, c := b.Receiver(), b.Client()
		queue := client.Queue{Name: "steps", Target: &client.Target{URL: receiver.URL}, FIFO: true}
		_, err := c.PutQueue(t.Context(), queue)
		assert.NoError(t, err)
		began := b.Now()
		retry := &client.Retry{Delays: []time.Duration{90 * time.Minute}}
		for _, n := range []int{4, 2, 5, 1, 3} {
			due := time.Duration(n) * time.Hour
			schedule(t, c, client.Task{ID: fmt.Sprint("a", n), Queue: "steps", Group: "a", Delay: due, Retry: retry})
			schedule(t, c, client.Task{ID: fmt.Sprint("b", n), Queue: "steps", Group: "b", Delay: due, Priority: n})
		}
		receiver.Respond(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Ce-Subject") == "a2" && r.Header.Get("Belfry-Attempt") == "1" {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		b.Advance(day)
		got := map[string][]string{}
		for _, d := range receiver.All() {
			at := d.At.Sub(began).Round(time.Minute)
			got[d.TaskID[:1]] = append(got[d.TaskID[:1]], fmt.Sprint(d.TaskID, ".", d.Attempt, " ", at))
		}
		want := "map[a:[a1.1 1h0m0s a2.1 2h0m0s a2.2 3h30m0s a3.1 3h30m0s a4.1 4h0m0s a5.1 5h0m0s] " +
			"b:[b1.1 1h0m0s b2.1 2h0m0s b3.1 3h0m0s b4.1 4h0m0s b5.1 5h0m0s]]"
		assert.Equal(t, fmt.Sprint(got), want)
	})
}
