package httpapi

import (
	"fmt"
	"strings"
	"testing"
)

// TestTargetsOfEveryCall checks that a percent sign without its digits is refused in the query of a URL as it is in the
// path, in every call that gives a target, and that other characters are taken and kept as they were sent.
func TestTargetsOfEveryCall(t *testing.T) {
	const kept = `https://shop.example/a b?q="<ü>"&r=%C3%BC`
	h := newHarness(t)
	target := func(url string) string { return fmt.Sprintf(`"target":{"url":%q}`, url) }
	for _, c := range []struct{ method, path, body, field string }{
		{"PUT", "/v1/tasks/a", `{"delay":"1h",%s}`, "target.url"},
		{"POST", "/v1/tasks", `{"delay":"1h",%s}`, "target.url"},
		{"PATCH", "/v1/tasks/a", `{%s}`, "target.url"},
		{"POST", "/v1/tasks/a/touch", `{"delay":"1h","or_schedule":{"delay":"1h",%s}}`, "or_schedule.target.url"},
		{"PUT", "/v1/queues/q", `{%s}`, "target.url"},
		{"PATCH", "/v1/queues/q", `{%s}`, "target.url"},
		{"PUT", "/v1/schedules/s", `{"repeat":{"every":"1h"},"task":{%s}}`, "task.target.url"},
		{"PATCH", "/v1/schedules/s", `{"task":{%s}}`, "task.target.url"},
	} {
		if a := h.call(c.method, c.path, fmt.Sprintf(c.body, target(kept))); a.StatusCode >= 300 ||
			strings.Contains(a.text, `"url"`) && !strings.Contains(a.text, fmt.Sprintf("%q", kept)) {
			t.Errorf("%s %s: %d %s", c.method, c.path, a.StatusCode, a.text)
		}
		for _, wrong := range []string{"https://shop.example/?q=%zz", "https://shop.example/?q=%", "https://shop.example/%zz"} {
			p := h.call(c.method, c.path, fmt.Sprintf(c.body, target(wrong))).mustProblem(t, 400, c.field)
			if detail, _ := p["detail"].(string); strings.Contains(wrong, "?") && !strings.Contains(detail, "at byte 25") {
				t.Errorf("%s %s: %s", c.method, c.path, detail)
			}
		}
	}
	line := h.call("POST", "/v1/batch", `{"op":"schedule","id":"a","delay":"1h",`+target("http://h/?%zz")+`}`,
		"Content-Type", ndjsonType)
	if !strings.Contains(line.text, `"status":400`) || !strings.Contains(line.text, "at byte 11") {
		t.Errorf("batch: %s", line.text)
	}
}

// TestTypesOfPayloads checks the content type of each form of a payload, and that a content type is a media type.
func TestTypesOfPayloads(t *testing.T) {
	h := newHarness(t)
	for members, want := range map[string]string{
		`"payload":{}`:            "application/json",
		`"payload_base64":""`:     "application/octet-stream",
		`"payload_base64":"AA=="`: "application/octet-stream",
		`"content_type":"application/json","payload_base64":"e30="`:       "application/json",
		`"payload_base64":"e30=","content_type":"application/json"`:       "application/json",
		`"content_type":"application/json","payload":1`:                   "application/json",
		`"content_type":"text/plain; charset=utf-8","payload":"x"`:        "text/plain; charset=utf-8",
		`"content_type":"application/vnd.x+json;a=\"b;c\"","payload":"x"`: `application/vnd.x+json;a="b;c"`,
	} {
		for _, c := range [][]string{
			{"PUT", "/v1/tasks/a", `{"delay":"1h",` + members + `}`}, {"GET", "/v1/tasks/a", ""},
			{"PUT", "/v1/schedules/s", `{"repeat":{"every":"1h"},"task":{` + members + `}}`},
		} {
			v := h.call(c[0], c[1], c[2]).json(t)
			if spec, ok := v["task"].(map[string]any); ok {
				v = spec
			}
			if v["content_type"] != want {
				t.Errorf("%s %s: %v, want %s", c[0], c[2], v["content_type"], want)
			}
		}
	}
	// A patch of the payload alone keeps a given type, and goes with its form without one.
	for _, c := range [][]string{
		{`{"delay":"1h","payload":1}`, `{"payload_base64":"AA=="}`, "application/octet-stream"},
		{`{"delay":"1h","payload_base64":"AA=="}`, `{"payload":1}`, "application/json"},
		{`{"delay":"1h","payload":1,"content_type":"image/png"}`, `{"payload_base64":"AA=="}`, "image/png"},
	} {
		h.call("PUT", "/v1/tasks/a", c[0])
		if v := h.call("PATCH", "/v1/tasks/a", c[1]).json(t); v["content_type"] != c[2] {
			t.Errorf("%s after %s: %v", c[1], c[0], v["content_type"])
		}
	}
	for _, wrong := range []string{"not a type", "text", "text/", "/plain", "text/plain; charset", "text/plain; a=1; a=2",
		"text/plän", "text/plain;\u007f", "text/plain, text/html", " "} {
		for _, c := range [][]string{
			{"PUT", "/v1/tasks/a", fmt.Sprintf(`{"delay":"1h","content_type":%q}`, wrong), "content_type"},
			{"PATCH", "/v1/tasks/a", fmt.Sprintf(`{"content_type":%q}`, wrong), "content_type"},
			{"PATCH", "/v1/schedules/s", fmt.Sprintf(`{"task":{"content_type":%q}}`, wrong), "task.content_type"},
		} {
			h.call(c[0], c[1], strings.ReplaceAll(c[2], `\x7f`, `\u007f`)).mustProblem(t, 400, c[3])
		}
	}
}
