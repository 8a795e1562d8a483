package workload

import (
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
)

// Each operation about a schedule is one request of its kind.
func TestRequestsAboutSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got []string
		l, rec := newLoad(t, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got = append(got, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+string(body)))
			_, _ = w.Write([]byte(`{}`))
		}, Config{})
		from := history.At(time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC))
		for _, kind := range []string{
			history.PutSchedule, history.PauseSchedule, history.ResumeSchedule, history.FireSchedule, history.SkipNext,
			history.BackfillPast, history.DeleteSchedule,
		} {
			op := load.ScheduleOperation{
				What: history.ScheduleCall{
					Op: 1, Kind: kind, ID: "s", Overlap: "allow", Misfire: "all", From: from, To: from.Add(time.Minute),
				},
				Rule: load.Rule{Every: time.Second}, Body: []byte(`{"op":1}`),
			}
			outcome, answer := driver{l}.TrySchedule(t.Context(), rand.New(rand.NewPCG(1, 1)), op)
			if outcome != history.OK {
				t.Errorf("%s: %s %+v", kind, outcome, answer)
			}
		}
		want := []string{
			`PUT /v1/schedules/s {"repeat":{"every":"1s"},"misfire":"all","overlap":"allow","paused":false,"task":` +
				`{"payload":{"op":1},"target":{"url":"http://127.0.0.1:1/hook"},"retry":{"min_backoff":"200ms","max_backoff":"2s"}}}`,
			"POST /v1/schedules/s/pause", "POST /v1/schedules/s/resume", "POST /v1/schedules/s/fire",
			"POST /v1/schedules/s/skip",
			`POST /v1/schedules/s/backfill {"from":"2026-11-01T00:00:00Z","to":"2026-11-01T00:01:00Z"}`,
			"DELETE /v1/schedules/s",
		}
		if !slices.Equal(got, want) {
			t.Errorf("sent\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		if calls := rec.History().Calls; len(calls) > 0 {
			t.Errorf("recorded calls about tasks: %+v", calls)
		}
	})
}

func TestReadsOfSchedules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := newLoad(t, func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/schedules/s":
				_, _ = w.Write([]byte(`{"repeat":{"every":"2s","anchor":"2026-11-01T00:00:00Z"},"last":5,"started":3,"passed":1,
				"running":[4],"waiting":[5]}`))
			case "/v1/schedules/broken":
				w.WriteHeader(http.StatusInternalServerError)
			case "/v1/tasks/s@1":
				_, _ = w.Write([]byte(`{}`))
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		}, Config{})
		d, rng := driver{l}, rand.New(rand.NewPCG(1, 1))
		tally, err := d.ReadSchedule(t.Context(), rng, "s")
		if err != nil || tally.Every != 2*time.Second || tally.Anchor == 0 || tally.Last != 5 || tally.Started != 3 ||
			tally.Passed != 1 || !slices.Equal(tally.Running, []uint64{4}) || !slices.Equal(tally.Waiting, []uint64{5}) {
			t.Errorf("%+v %v", tally, err)
		}
		if tally, err := d.ReadSchedule(t.Context(), rng, "gone"); err != nil || !tally.Absent {
			t.Errorf("a schedule that is gone: %+v %v", tally, err)
		}
		if _, err := d.ReadSchedule(t.Context(), rng, "broken"); err == nil {
			t.Error("a read without an answer is no error")
		}
		for id, want := range map[string]bool{"s@1": true, "s@2": false} {
			if has, err := d.HasTask(t.Context(), rng, id); err != nil || has != want {
				t.Errorf("%s: %t %v", id, has, err)
			}
		}
	})
}

// The steady schedule is in one of the last slots, in each namespace.
func TestSlotOfTheSteadySchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, namespace := range []string{"", "other"} {
			l, _ := newLoad(t, silent, Config{Namespace: namespace, Prefix: "r1-"})
			if id := l.steadyPrefix() + "0"; history.SlotIn(namespace, id) < history.Slots-lastSlots {
				t.Errorf("%q: %s has the slot %d", namespace, id, history.SlotIn(namespace, id))
			}
		}
	})
}
