package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/internal/assert"
)

// register is a service that takes each operation about a schedule, after it has failed the first tries of each.
type register struct {
	failures int
	last     uint64 // of each schedule

	mu      sync.Mutex // guards what follows
	tried   map[int64]int
	made    map[string][]string // operations by schedule, in order
	deleted map[string]bool
}

func (r *register) TrySchedule(_ context.Context, rng *rand.Rand, op ScheduleOperation) (
	history.Outcome, history.Answer) {
	rng.Uint64()
	r.mu.Lock()
	defer r.mu.Unlock()
	call := op.What
	if r.tried[call.Op]++; r.tried[call.Op] <= r.failures {
		return history.Unknown, history.Answer{Status: 504}
	}
	r.made[call.ID] = append(r.made[call.ID], fmt.Sprint(call.Kind, call.Every, call.Overlap, call.Misfire, op.Rule.Cron))
	if call.Kind == history.DeleteSchedule {
		r.deleted[call.ID] = true
	} else if r.deleted[call.ID] {
		return history.Failed, history.Answer{Status: 404}
	}
	return history.OK, history.Answer{Status: 200}
}

func (r *register) ReadSchedule(_ context.Context, _ *rand.Rand, id string) (history.Tally, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return history.Tally{Absent: r.deleted[id], Last: r.last}, nil
}

// HasTask finds the occurrences with an odd number.
func (r *register) HasTask(_ context.Context, _ *rand.Rand, id string) (bool, error) {
	return strings.ContainsAny(id[len(id)-1:], "13579"), nil
}

func newRegister(seed uint64, failures int) (*register, *Schedules, *history.Recorder) {
	r := &register{failures: failures, tried: map[int64]int{}, made: map[string][]string{}, deleted: map[string]bool{}}
	rec := history.NewRecorder(nil)
	draw := func(rng *rand.Rand) time.Duration { return time.Second + upTo(rng, time.Minute) }
	return r, NewSchedules(ScheduleConfig{
		Driver: r, Recorder: rec, Seed: seed, Namespace: "n", Prefix: "s-", Count: 30, Begin: draw, Every: draw,
		Pause: draw, Crons: []Rule{{Cron: "@daily"}}, Queues: []string{"q"}, Hold: time.Second, RetryFor: time.Hour,
		MaxPause: time.Second,
	}), rec
}

// play plays schedules for a while, and ends them.
func (r *register) play(t *testing.T, s *Schedules) {
	stop := make(chan struct{})
	time.AfterFunc(time.Hour, func() { close(stop) })
	s.Run(t.Context(), stop)
	assert.Equal(t, errors.Join(s.End(t.Context()), s.Count(t.Context())), nil)
}

// Each kind of call is made, and all schedules are paused in the end.
func TestSchedulesMakeEachCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s, rec := newRegister(1, 2)
		r.play(t, s)
		kinds := map[string]int{}
		for _, c := range rec.History().ScheduleCalls {
			kinds[c.Kind]++
			if c.Outcome != history.OK && !r.deleted[c.ID] || c.Tries != 3 || c.Namespace != "n" || c.End <= c.Start {
				t.Errorf("recorded %+v", c)
			}
		}
		for _, kind := range []string{
			history.PutSchedule, history.PauseSchedule, history.ResumeSchedule, history.FireSchedule, history.SkipNext,
			history.BackfillPast, history.DeleteSchedule,
		} {
			if kinds[kind] == 0 {
				t.Errorf("no call %q among %v", kind, kinds)
			}
		}
		for id, made := range r.made {
			if last := made[len(made)-1]; !strings.HasPrefix(last, "pause") {
				t.Errorf("the last call about %s is %s", id, last)
			}
		}
		first := r.made["s-0"]
		assert.Equal(t, len(first), 2, "the calls about the steady schedule are %q", first)
	})
}

// The seed decides the calls about each schedule, however often each must be tried.
func TestSeedDecidesSchedules(t *testing.T) {
	made := func(seed uint64, failures int) (all string) {
		synctest.Test(t, func(t *testing.T) {
			r, s, _ := newRegister(seed, failures)
			r.play(t, s)
			for i := range s.all {
				calls := r.made[fmt.Sprintf("s-%d", i)]
				all += fmt.Sprintln(calls[:min(len(calls), 4)]) // the retries take time from later calls
			}
		})
		return all
	}
	if one, again := made(1, 0), made(1, 2); one != again {
		t.Errorf("the same seed made\n%s\nand\n%s", one, again)
	}
	if made(1, 0) == made(2, 0) {
		t.Error("two seeds make the same calls")
	}
}

// The occurrences that did not arrive are read one by one.
func TestCountFindsOccurrences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s, rec := newRegister(1, 0)
		r.last = 5
		rec.Arrive(history.Arrival{ID: "s-0@3", Namespace: "n"}, history.Arrival{ID: "s-0@5"})
		r.play(t, s)
		tallies := rec.History().Tallies
		i := slices.IndexFunc(tallies, func(t history.Tally) bool { return t.ID == "s-0" })
		if i < 0 || !slices.Equal(tallies[i].Found, []uint64{1, 5}) || tallies[i].Namespace != "n" || len(tallies) < 20 {
			t.Errorf("%+v", tallies)
		}
	})
}

// stubborn is a register that does not pause and cannot be read.
type stubborn struct{ *register }

func (s stubborn) TrySchedule(ctx context.Context, rng *rand.Rand, op ScheduleOperation) (
	history.Outcome, history.Answer) {
	if op.What.Kind == history.PauseSchedule {
		return history.Failed, history.Answer{Status: 409, Error: "never"}
	}
	return s.register.TrySchedule(ctx, rng, op)
}

func (stubborn) ReadSchedule(context.Context, *rand.Rand, string) (history.Tally, error) {
	return history.Tally{}, errors.New("no answer")
}

// A schedule that runs on, or that could not be read, is an error.
func TestSchedulesThatDoNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s, rec := newRegister(1, 0)
		s.cfg.Driver = stubborn{r}
		stop := make(chan struct{})
		time.AfterFunc(time.Hour, func() { close(stop) })
		s.Run(t.Context(), stop)
		if err := s.End(t.Context()); err == nil || !strings.Contains(err.Error(), "s-0 could not be paused: never") {
			t.Errorf("the end: %v", err)
		}
		if err := s.Count(t.Context()); err == nil || !strings.Contains(err.Error(), "could not be read: no answer") {
			t.Errorf("the count: %v", err)
		}
		if tallies := rec.History().Tallies; len(tallies) > 0 {
			t.Errorf("recorded %+v", tallies)
		}
	})
}

// silent is a service that answers no call, and has no schedules.
type silent struct{ *register }

func (silent) TrySchedule(context.Context, *rand.Rand, ScheduleOperation) (history.Outcome, history.Answer) {
	return history.Unknown, history.Answer{}
}

func (silent) ReadSchedule(context.Context, *rand.Rand, string) (history.Tally, error) {
	return history.Tally{Absent: true}, nil
}

// A schedule that was never made needs no pause.
func TestSchedulesThatWereNeverMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s, rec := newRegister(1, 0)
		s.cfg.Driver = silent{r}
		r.play(t, s)
		if tallies := rec.History().Tallies; len(tallies) == 0 || !tallies[0].Absent {
			t.Errorf("recorded %+v", tallies)
		}
	})
}
