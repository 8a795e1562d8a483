package httpapi

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/repeat/zone"
)

// A preview counts from the node's time, and its problems name the field. It changes nothing.
func TestPreview(t *testing.T) {
	h := newHarness(t)
	got := h.call("POST", "/v1/preview", `{"repeat":{"cron":["0 9 * * *"],"time_zone":"Europe/Berlin"},"next":1}`)
	want := `{"occurrences":[{"at":"2026-11-22T08:00:00.000Z","local":"2026-11-22T09:00:00.000+01:00"}],"excluded":[],` +
		`"ended":false,"time_zone":"Europe/Berlin","tz_data":"` + zone.Version + "\"}\n"
	if got.text != want || got.StatusCode != 200 {
		t.Errorf("%d %s", got.StatusCode, got.text)
	}
	h.call("POST", "/v1/preview", `{"repeat":{"cron":["@daily","0 25 * * *"]}}`).mustProblem(t, 400, "repeat.cron[1]")
	h.call("POST", "/v1/preview", `{"repeat":{"cron":["@daily"]},"next":1001}`).mustProblem(t, 400, "next")
	long := strings.Repeat(" ", maxPreviewBytes)
	h.call("POST", "/v1/preview", `{"repeat":{"cron":["`+long+`"]}}`).mustProblem(t, 413, "")
	if len(h.fake.seen) > 0 {
		t.Errorf("%d commands", len(h.fake.seen))
	}
}

// A task does not repeat. Its refusal leads to the call that takes a rule.
func TestTaskWithRepeatIsRefused(t *testing.T) {
	h := newHarness(t)
	for _, path := range []string{"PUT /v1/tasks/a", "POST /v1/tasks"} {
		method, path, _ := strings.Cut(path, " ")
		got := h.call(method, path, `{"delay":"1h","repeat":{"cron":["@daily"]}}`)
		got.mustProblem(t, 400, "repeat")
		if !strings.Contains(got.text, "fires once: PUT /v1/schedules/{id} makes a schedule") {
			t.Errorf("%s", got.text)
		}
	}
}
