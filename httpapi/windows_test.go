package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

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

// A window, a group and a priority are parts of the call that an idempotency key stands for.
func TestSettingsAreOfTheCall(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1s"}`).mustStatus(t, 201)
	calls := []string{"", `,"window":` + officeHours, `,"window":{"daily":["09:00-12:00"]}`,
		`,"window":{"daily":["09:00-12:00"],"days":"MON"}`, `,"window":{"daily":["09:00-12:00"],"time_zone":"Asia/Tokyo"}`,
		`,"group":"g"`, `,"group":"h"`, `,"priority":2`, `,"group":"g","priority":2`}
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

func TestGroupOfATask(t *testing.T) {
	h := newHarness(t)
	answer := h.call("PUT", "/v1/tasks/a", `{"delay":"1s","group":"acme","priority":1}`).mustStatus(t, 201)
	if answer["group"] != "acme" || fmt.Sprint(answer["priority"]) != "1" {
		t.Errorf("%v", answer)
	}
	if s := h.fake.last().GetSchedule().GetSpec(); s.GetGroup() != "acme" || s.GetPriority() != 1 {
		t.Errorf("%v", s)
	}
	answer = h.call("PUT", "/v1/tasks/b", `{"delay":"1s","priority":3}`).mustStatus(t, 201)
	if s := h.fake.last().GetSchedule().GetSpec(); s.GetPriority() != 0 || answer["priority"] != nil {
		t.Errorf("the default priority is kept: %v, %v", s, answer)
	}
	h.call("PATCH", "/v1/tasks/a", `{"group":"other","priority":5}`)
	if p := h.fake.last().GetPatch().GetSet(); p.GetGroup() != "other" || p.GetPriority() != 5 {
		t.Errorf("%v", p)
	}
	h.call("PATCH", "/v1/tasks/a", `{"group":null,"priority":null}`)
	if p := h.fake.last().GetPatch(); fmt.Sprint(p.Clear) != "[group priority]" || !proto.Equal(p.Set, &fsmpb.Spec{}) {
		t.Errorf("%v", p)
	}
}

func TestGroupsOfAQueue(t *testing.T) {
	h := newHarness(t)
	q := h.call("PUT", "/v1/queues/q", `{"group_in_flight":3,"group_per_second":0.25,"fair":true,"group_weights":{"b":2,"acme":100}}`).
		mustStatus(t, 201)
	if got := fmt.Sprint(q["group_in_flight"], q["group_per_second"], q["fifo"], q["fair"], q["group_weights"]); got != "3 0.25 <nil> true map[acme:100 b:2]" {
		t.Errorf("%s", got)
	}
	q = h.call("PATCH", "/v1/queues/q", `{"group_weights":{"b":null,"c":4}}`).mustStatus(t, 200)
	assert.Equal(t, fmt.Sprint(q["group_weights"]), "map[acme:100 c:4]")
	q = h.call("PATCH", "/v1/queues/q", `{"group_weights":null,"group_in_flight":null,"group_per_second":null,"fair":null,"fifo":true}`).
		mustStatus(t, 200)
	assert.Equal(t, fmt.Sprint(q["group_in_flight"], q["group_per_second"], q["fifo"], q["fair"], q["group_weights"]), "<nil> <nil> true <nil> <nil>")
}

func TestWrongGroups(t *testing.T) {
	h := newHarness(t)
	var many []string
	for i := range 1001 {
		many = append(many, fmt.Sprintf(`"g%d":1`, i))
	}
	for _, c := range []struct{ path, body, field string }{
		{"/v1/tasks/a", `{"delay":"1s","group":""}`, "group"},
		{"/v1/tasks/a", `{"delay":"1s","group":"a b"}`, "group"},
		{"/v1/tasks/a", `{"delay":"1s","group":"` + strings.Repeat("g", 201) + `"}`, "group"},
		{"/v1/tasks/a", `{"delay":"1s","group":7}`, "group"},
		{"/v1/tasks/a", `{"delay":"1s","priority":0}`, "priority"},
		{"/v1/tasks/a", `{"delay":"1s","priority":6}`, "priority"},
		{"/v1/tasks/a", `{"delay":"1s","priority":1.5}`, "priority"},
		{"/v1/tasks/a", `{"delay":"1s","fifo":true}`, "fifo"},
		{"/v1/queues/q", `{"group_in_flight":0}`, "group_in_flight"},
		{"/v1/queues/q", `{"group_in_flight":1000001}`, "group_in_flight"},
		{"/v1/queues/q", `{"group_in_flight":2,"fifo":true}`, "group_in_flight"},
		{"/v1/queues/q", `{"group_per_second":0}`, "group_per_second"},
		{"/v1/queues/q", `{"group_per_second":1000001}`, "group_per_second"},
		{"/v1/queues/q", `{"group_per_second":"fast"}`, "group_per_second"},
		{"/v1/queues/q", `{"fifo":"yes"}`, "fifo"},
		{"/v1/queues/q", `{"group_weights":{"a":1}}`, "group_weights"},
		{"/v1/queues/q", `{"fair":true,"group_weights":{"a":0}}`, "group_weights.a"},
		{"/v1/queues/q", `{"fair":true,"group_weights":{"a":101}}`, "group_weights.a"},
		{"/v1/queues/q", `{"fair":true,"group_weights":{"a":null}}`, "group_weights.a"},
		{"/v1/queues/q", `{"fair":true,"group_weights":{"a":1,"a":2}}`, "group_weights.a"},
		{"/v1/queues/q", `{"fair":true,"group_weights":{"a b":1}}`, "group_weights.a b"},
		{"/v1/queues/q", `{"fair":true,"group_weights":{` + strings.Join(many, ",") + `}}`, "group_weights"},
		{"/v1/queues/q", `{"priority":1}`, "priority"},
	} {
		p := h.call("PUT", c.path, c.body).mustStatus(t, 400)
		assert.Equal[any](t, p["field"], c.field, "%.60s: %v", c.body, p)
	}
	h.call("PUT", "/v1/queues/q", `{"group_in_flight":1,"fifo":true}`).mustStatus(t, 201)
}
