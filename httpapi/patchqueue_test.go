package httpapi

import (
	"strings"
	"testing"
)

func TestPatchQueue(t *testing.T) {
	h := newHarness(t)
	secret := whsec('a', 24)
	h.call("PATCH", "/v1/queues/q", `{"max_in_flight":7,"signing":{"secrets":["`+secret+`"]}}`).mustStatus(t, 200)
	print := fingerprint([]byte(strings.Repeat("a", 24)))
	signing := `,"signing":{"secrets":["` + print + `"]}`
	for _, step := range []struct{ patch, want string }{
		{`{}`, `"max_in_flight":7,"paused":false` + signing},
		{`{"queue":"q","paused":true}`, `"max_in_flight":7,"paused":true` + signing},
		{`{"target":{"url":"http://x/","headers":{"X-A":"1","x-b":"2"},"timeout":"5s"},"retry":{"max_attempts":3}}`,
			`"target":{"url":"http://x/","headers":{"x-a":"1","x-b":"2"},"timeout":"5s"},"retry":{"max_attempts":3},` +
				`"max_in_flight":7,"paused":true` + signing},
		{`{"target":{"headers":{"x-A":null},"timeout":null},"retry":{"max_backoff":"1h"}}`,
			`"target":{"url":"http://x/","headers":{"x-b":"2"}},"retry":{"max_attempts":3,"max_backoff":"1h"},` +
				`"max_in_flight":7,"paused":true` + signing},
		{`{"retry":{"max_attempts":null,"max_backoff":null},"max_in_flight":null,"max_per_second":0.5,"batch_max":10}`,
			`"target":{"url":"http://x/","headers":{"x-b":"2"}},"max_per_second":0.5,"batch_max":10,"paused":true` + signing},
		{`{"retry":{"delays":["4m","10m","1h"]}}`, `"target":{"url":"http://x/","headers":{"x-b":"2"}},` +
			`"retry":{"delays":["4m","10m","1h"]},"max_per_second":0.5,"batch_max":10,"paused":true` + signing},
		{`{"retry":{"delays":null,"max_attempts":4}}`, `"target":{"url":"http://x/","headers":{"x-b":"2"}},` +
			`"retry":{"max_attempts":4},"max_per_second":0.5,"batch_max":10,"paused":true` + signing},
		{`{"retry":null,"target":null,"max_per_second":null,"batch_max":null,"paused":null,"keep_done":"3d","keep_dead":"30d"}`,
			`"paused":false,"keep_done":"3d","keep_dead":"30d"` + signing},
		{`{"keep_done":null,"keep_dead":null,"retry":null,"signing":{"secrets":["` + print + `"]}}`, `"paused":false` + signing},
		{`{"signing":null}`, `"paused":false`},
	} {
		a := h.call("PATCH", "/v1/queues/q", step.patch, "Content-Type", mergeType)
		a.mustStatus(t, 200)
		if want := `{"queue":"q",` + step.want + "}\n"; a.text != want {
			t.Errorf("%s: answered %s, want %s", step.patch, a.text, want)
		}
		if got := h.call("GET", "/v1/queues/q", "").text; !strings.HasPrefix(got, strings.TrimSuffix(a.text, "}\n")) {
			t.Errorf("%s: read %s", step.patch, got)
		}
	}
}

func TestBadQueuePatches(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/queues/q", `{"retry":{"max_backoff":"1s"},"max_in_flight":7}`).mustStatus(t, 201)
	before := h.call("GET", "/v1/queues/q", "").text
	for _, c := range []struct{ body, field string }{
		{`{"colour":1}`, "colour"},
		{`{"counts":null}`, "counts"},
		{`{"queue":"other"}`, "queue"},
		{`{"queue":null}`, "queue"},
		{`{"paused":"yes"}`, "paused"},
		{`{"paused":true,"paused":null}`, "paused"},
		{`{"max_in_flight":0}`, "max_in_flight"},
		{`{"target":{"timeout":"5s"}}`, "target.url"}, // the queue has no target yet
		{`{"target":{"url":"ftp://x/"}}`, "target.url"},
		{`{"target":{"url":null}}`, "target.url"},
		{`{"target":7}`, "target"},
		{`{"retry":{"min_backoff":"2s"}}`, "retry.min_backoff"}, // longer than the stored max_backoff
		{`{"signing":{}}`, "signing.secrets"},
		{`{"signing":{"secrets":["sha256:00000000"]}}`, "signing.secrets[0]"},
		{`{"keep_done":"0s"}`, "keep_done"},
		{`[]`, ""}, {``, ""}, {`{"paused":true}}`, ""},
	} {
		h.call("PATCH", "/v1/queues/q", c.body).mustProblem(t, 400, c.field)
	}
	h.call("PATCH", "/v1/queues/q", "x", "Content-Type", "text/plain").mustProblem(t, 415, "Content-Type")
	h.call("PATCH", "/v1/queues/q?x=1", "{}").mustProblem(t, 400, "x")
	if after := h.call("GET", "/v1/queues/q", "").text; after != before {
		t.Errorf("a bad patch changed %s to %s", before, after)
	}
}

func TestPauseAndResume(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/queues/q", `{"max_in_flight":7}`).mustStatus(t, 201)
	for _, step := range []struct{ verb, queue, want string }{
		{"pause", "q", `{"queue":"q","max_in_flight":7,"paused":true}`},
		{"pause", "q", `{"queue":"q","max_in_flight":7,"paused":true}`},
		{"resume", "q", `{"queue":"q","max_in_flight":7,"paused":false}`},
		{"resume", "q", `{"queue":"q","max_in_flight":7,"paused":false}`},
		{"pause", "new", `{"queue":"new","paused":true}`},
	} {
		a := h.call("POST", "/v1/queues/"+step.queue+"/"+step.verb, "", keyHeader, "k")
		a.mustStatus(t, 200)
		if a.text != step.want+"\n" {
			t.Errorf("%s: answered %s, want %s", step.verb, a.text, step.want)
		}
	}
	h.call("POST", "/v1/queues/q/pause", `{}`).mustStatus(t, 200)
	h.call("POST", "/v1/queues/q/pause", `{"for":"1h"}`).mustProblem(t, 400, "for")
	h.call("POST", "/v1/queues/q/pause?x=1", "").mustProblem(t, 400, "x")
	h.call("GET", "/v1/queues/q/pause", "").mustProblem(t, 405, "")
}
