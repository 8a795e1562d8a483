package httpapi

import (
	"fmt"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

const (
	officeHours = `{"time_zone":"Europe/Berlin","daily":["09:00-12:00","14:00-18:00"],"days":"MON-SAT"}`
	shownHours  = "map[daily:[09:00-12:00 14:00-18:00] days:MON-SAT time_zone:Europe/Berlin]"
)

func TestWindowOfATask(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1s","window":`+officeHours+`}`).mustStatus(t, 201)
	if w := h.fake.last().GetSchedule().GetSpec().GetWindow(); w.GetTimeZone() != "Europe/Berlin" || len(w.Daily) != 2 {
		t.Errorf("%v", w)
	}
	h.call("PATCH", "/v1/tasks/a", `{"window":`+officeHours+`}`)
	w := h.fake.last().GetPatch().GetSet().GetWindow()
	assert.Equal(t, w.GetDays(), "MON-SAT", "%v", w)
	h.call("PATCH", "/v1/tasks/a", `{"window":null}`)
	if p := h.fake.last().GetPatch(); fmt.Sprint(p.Clear) != "[window]" || p.Set.Window != nil {
		t.Errorf("%v", p)
	}
}

// A window is a part of the call that an idempotency key stands for.
func TestWindowIsOfTheCall(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1s"}`).mustStatus(t, 201)
	calls := []string{"", `,"window":` + officeHours, `,"window":{"daily":["09:00-12:00"]}`,
		`,"window":{"daily":["09:00-12:00"],"days":"MON"}`, `,"window":{"daily":["09:00-12:00"],"time_zone":"Asia/Tokyo"}`}
	for i, first := range calls {
		for j, second := range calls {
			key := fmt.Sprint("k", i, "-", j)
			h.call("PUT", "/v1/tasks/a", `{"delay":"1s"`+first+`}`, "Idempotency-Key", key)
			want := 422
			if i == j {
				want = 200
			}
			h.call("PUT", "/v1/tasks/a", `{"delay":"1s"`+second+`}`, "Idempotency-Key", key).mustStatus(t, want)
		}
	}
}

func TestWindowOfAQueue(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/calendars/holidays", `{"closed":["2026-11-22/2027-01-01"]}`).mustStatus(t, 201)
	p := h.call("PUT", "/v1/queues/q", `{"window":`+officeHours+`}`).mustStatus(t, 201)
	assert.Equal(t, fmt.Sprint(p["window"]), shownHours)
	p = h.call("PATCH", "/v1/queues/q", `{"window":{"daily":["00:00-24:00"],"calendar":"holidays"}}`).mustStatus(t, 200)
	assert.Equal(t, fmt.Sprint(p["window"]), "map[calendar:holidays daily:[00:00-24:00]]")
	p = h.call("DELETE", "/v1/calendars/holidays", "").mustStatus(t, 409)
	assert.Equal(t, p["detail"], "windows of queues use it: q", "%v", p)
	p = h.call("PATCH", "/v1/queues/q", `{"window":null}`).mustStatus(t, 200)
	if p["window"] != nil {
		t.Errorf("%v", p)
	}
}

// A queue says whether its window is open, and when a closed one opens.
func TestOpeningOfAQueue(t *testing.T) {
	h := newHarness(t)
	for window, want := range map[string]string{
		`{"daily":["00:00-24:00"]}`:                       "true <nil>",
		`{"daily":["00:00-24:00"],"calendar":"holidays"}`: "false 2027-01-02T00:00:00.000Z",
	} {
		h.call("PUT", "/v1/calendars/holidays", `{"closed":["2026-01-01/2027-01-01"]}`)
		h.call("PUT", "/v1/queues/q", `{"window":`+window+`}`)
		p := h.call("GET", "/v1/queues/q", "").mustStatus(t, 200)
		if got := fmt.Sprint(p["window_open"], " ", p["window_opens_at"]); got != want {
			t.Errorf("%s: %s, want %s (now %v)", window, got, want, testNow)
		}
	}
}

func TestTaskThatWaitsForItsWindow(t *testing.T) {
	b := taskView{task: &fsmpb.Task{
		Id: "a", State: fsmpb.State_STATE_SCHEDULED, FireAtMs: 1000, NextAttemptAtMs: 9000, Spec: &fsmpb.Spec{},
	}}.append(nil)
	const want = `"next_attempt_at":"1970-01-01T00:00:09.000Z","waits_for":"window"`
	assert.Contains(t, string(b), want)
}

func TestWrongWindows(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/calendars/always", `{"closed":["2020-01-01/2099-12-31"]}`).mustStatus(t, 201)
	for window, field := range map[string]string{
		`"09:00-20:00"`: "window", `{}`: "window.daily", `{"daily":["9-20"]}`: "window.daily[0]",
		`{"daily":["09:00-20:00"],"days":"MO"}`:             "window.days",
		`{"daily":["09:00-20:00"],"time_zone":"Mars/X"}`:    "window.time_zone",
		`{"daily":["09:00-20:00"],"calendar":"none"}`:       "window.calendar",
		`{"daily":["09:00-20:00"],"calendar":""}`:           "window.calendar",
		`{"daily":["09:00-20:00"],"calendar":"always"}`:     "window",
		`{"daily":["09:00-20:00"],"hours":1}`:               "window.hours",
		`{"daily":["09:00-20:00"],"daily":["09:00-20:00"]}`: "window.daily",
	} {
		for path, body := range map[string]string{
			"/v1/tasks/a": `{"delay":"1s","window":` + window + `}`, "/v1/queues/q": `{"window":` + window + `}`,
		} {
			p := h.call("PUT", path, body).mustStatus(t, 400)
			assert.Equal[any](t, p["field"], field, "%s: %s: %v", path, window, p)
		}
		p := h.call("PUT", "/v1/schedules/s", `{"repeat":{"every":"1h"},"task":{"window":`+window+`}}`).mustStatus(t, 400)
		assert.Equal[any](t, p["field"], "task."+field, "schedule: %s: %v", window, p)
	}
}
