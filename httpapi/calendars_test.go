package httpapi

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const workdays = `{"time_zone":"Europe/Berlin","hours":[{"days":"MON-FRI","daily":["09:00-17:00"]}],"closed":["--12-25"]}`

func TestCalendars(t *testing.T) {
	h := newHarness(t)
	if p := h.call("PUT", "/v1/calendars/work", workdays).mustStatus(t, 201); p["revision"] != 1.0 || p["name"] != "work" {
		t.Errorf("%v", p)
	}
	h.call("PUT", "/v1/calendars/work", workdays).mustStatus(t, 200)
	h.call("PUT", "/v1/calendars/holidays", `{"closed":["2026-12-25"]}`).mustStatus(t, 201)
	p := h.call("GET", "/v1/calendars/work", "").mustStatus(t, 200)
	if got := fmt.Sprint(p); got != "map[closed:[--12-25] hours:[map[daily:[09:00-17:00] days:MON-FRI]] name:work revision:2 "+
		"time_zone:Europe/Berlin]" {
		t.Errorf("%s", got)
	}
	all := h.call("GET", "/v1/calendars", "").mustStatus(t, 200)["calendars"].([]any)
	if len(all) != 2 || all[0].(map[string]any)["name"] != "holidays" {
		t.Errorf("%v", all)
	}
	h.call("DELETE", "/v1/calendars/holidays", "").mustStatus(t, 200)
	for _, method := range []string{"GET", "DELETE"} {
		if p := h.call(method, "/v1/calendars/holidays", "").mustStatus(t, 404); p["type"] != "urn:belfry:problem:calendar-not-found" {
			t.Errorf("%s: %v", method, p)
		}
	}
}

// A schedule goes by its calendar, and holds it. A schedule whose calendar is gone says so.
func TestScheduleByCalendar(t *testing.T) {
	h := newHarness(t)
	const rule = `{"repeat":{"cron":["0 9 * * *"],"calendar":"holidays"}}`
	if p := h.call("PUT", "/v1/schedules/a", rule).mustStatus(t, 400); p["field"] != "repeat.calendar" {
		t.Errorf("without its calendar: %v", p)
	}
	h.call("PUT", "/v1/calendars/holidays", `{"closed":["2026-11-22/2027-01-01"]}`).mustStatus(t, 201)
	h.call("PUT", "/v1/schedules/a", rule).mustStatus(t, 201)
	p := h.call("POST", "/v1/preview", `{"repeat":{"cron":["0 9 * * *"],"calendar":"holidays"},"next":2}`).mustStatus(t, 200)
	if text := fmt.Sprint(p["occurrences"]); !strings.Contains(text, "2027-01-02T09:00:00.000Z") ||
		!strings.Contains(fmt.Sprint(p["excluded"]), "calendar holidays") {
		t.Errorf("%v", p)
	}
	p = h.call("DELETE", "/v1/calendars/holidays", "").mustStatus(t, 409)
	if p["type"] != "urn:belfry:problem:calendar-in-use" || p["detail"] != "schedules use it: a" {
		t.Errorf("in use: %v", p)
	}
	delete(h.fake.calendars, "holidays")
	if p := h.call("GET", "/v1/schedules/a", "").mustStatus(t, 200); p["problem"] != `the calendar "holidays" does not exist` {
		t.Errorf("the calendar is gone: %v", p)
	}
	h.call("PATCH", "/v1/schedules/a", `{"repeat":{"calendar":null}}`).mustStatus(t, 200)
	if p := h.call("GET", "/v1/schedules/a", "").mustStatus(t, 200); p["problem"] != nil {
		t.Errorf("without a calendar: %v", p)
	}
}

func TestImportedCalendar(t *testing.T) {
	h := newHarness(t)
	event := "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nSUMMARY:Fair\r\nDTSTART;VALUE=DATE:20261225\r\n%sEND:VEVENT\r\nEND:VCALENDAR\r\n"
	put := func(text string) answer {
		return h.call("PUT", "/v1/calendars/fair", text, "Content-Type", "text/calendar; charset=utf-8")
	}
	p := put(fmt.Sprintf(event, "RRULE:FREQ=MONTHLY;COUNT=2\r\n")).mustStatus(t, http.StatusCreated)
	if got := fmt.Sprint(p["closed"], p["known_until"]); got != "[2026-12-25 2027-01-25]2036-12-31" && got != "[2026-12-25 2027-01-25] 2036-12-31" {
		t.Errorf("%s", got)
	}
	p = put(fmt.Sprintf(event, "RRULE:FREQ=HOURLY\r\n")).mustStatus(t, 400)
	if !strings.Contains(fmt.Sprint(p["detail"]), `has the event "Fair"`) {
		t.Errorf("%v", p)
	}
}

func TestWrongCalendars(t *testing.T) {
	h := newHarness(t)
	for body, want := range map[string]string{
		`{}`: "closed", `{"closed":[]}`: "closed", `{"closed":["25.12."]}`: "closed[0]", `{"time_zone":"x","closed":["--12-25"]}`: "time_zone",
		`{"hours":[{"daily":["9-17"]}]}`: "hours[0].daily[0]", `{"hours":[{"days":"MO","daily":["09:00-17:00"]}]}`: "hours[0].days",
		`{"hours":[{"days":"MON"}]}`: "hours[0].daily", `{"revision":1}`: "revision", `{"closed":[1]}`: "closed[0]",
		`{"closed":[` + strings.Repeat(`"2026-12-25",`, 4096) + `"2026-12-25"]}`: "closed",
	} {
		if p := h.call("PUT", "/v1/calendars/a", body).mustStatus(t, 400); p["field"] != want {
			t.Errorf("%.60s: %v, want %s", body, p, want)
		}
	}
}
