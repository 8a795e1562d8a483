package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

func whsec(fill byte, n int) string {
	return secretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(fill), n)))
}

const wholePolicy = `"target":{"url":"https://shop.example/in","headers":{"x-shop":"1"},"timeout":"20s"},` +
	`"retry":{"max_attempts":5,"min_backoff":"2s","max_backoff":"1h"},"max_in_flight":7,"max_per_second":0.5,` +
	`"batch_max":10,"paused":true,"keep_done":"3d","keep_dead":"30d"`

func TestQueueLife(t *testing.T) {
	h := newHarness(t)
	h.call("GET", "/v1/queues/q", "").mustProblem(t, 404, "")
	h.call("DELETE", "/v1/queues/q", "").mustProblem(t, 404, "")
	a := h.call("PUT", "/v1/queues/q", `{`+wholePolicy+`}`)
	a.mustStatus(t, 201)
	assert.Equal(t, a.text, `{"queue":"q",`+wholePolicy+"}\n", "answered")
	h.call("PUT", "/v1/queues/q", strings.TrimSpace(a.text)).mustStatus(t, 200) // an answer can be sent back as a request
	if got := h.call("GET", "/v1/queues/q", ""); !strings.HasPrefix(got.text, strings.TrimSuffix(a.text, "}\n")+`,"counts":{`) {
		t.Errorf("read %s", got.text)
	}
	h.call("PUT", "/v1/queues/q", `{}`, keyHeader, "k").mustStatus(t, 200) // replaces the whole policy
	if got := h.call("GET", "/v1/queues/q", "").text; !strings.HasPrefix(got, `{"queue":"q","paused":false,"counts"`) {
		t.Errorf("read %s", got)
	}
	h.call("DELETE", "/v1/queues/q", "").mustStatus(t, 200)
	h.call("GET", "/v1/queues/q", "").mustProblem(t, 404, "")
	h.call("GET", "/v1/queues/default", "").mustStatus(t, 200)
}

func TestQueueWithTasksStays(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/queues/q", `{}`).mustStatus(t, 201)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h","queue":"q"}`).mustStatus(t, 201)
	for state, status := range map[fsmpb.State]int{
		fsmpb.State_STATE_SCHEDULED: 409, fsmpb.State_STATE_READY: 409, fsmpb.State_STATE_FIRING: 409,
		fsmpb.State_STATE_RETRYING: 409, fsmpb.State_STATE_DEAD: 409,
	} {
		h.fake.set("a", state, 1)
		p := h.call("DELETE", "/v1/queues/q", "").mustProblem(t, status, "")
		counts := p["counts"].(map[string]any)
		assert.Equal(t, counts[stateName(state)], 1.0, "%v: counts %v", state, counts)
	}
	h.fake.set("a", fsmpb.State_STATE_DELIVERED, 1)
	h.call("DELETE", "/v1/queues/q", "").mustStatus(t, 200)
	counts := h.call("GET", "/v1/queues/q", "").mustStatus(t, 200)["counts"].(map[string]any)
	assert.Equal(t, counts["delivered"], 1.0, "counts %v", counts)
	h.call("DELETE", "/v1/queues/q", "").mustProblem(t, 404, "")
}

func TestSecretsGoInAndNeverOut(t *testing.T) {
	h := newHarness(t)
	old, fresh := whsec('a', 24), whsec('b', 64)
	put := func(secrets ...string) answer {
		return h.call("PUT", "/v1/queues/q", `{"signing":{"secrets":["`+strings.Join(secrets, `","`)+`"]}}`)
	}
	secretsOf := func(a answer) []any { return a.json(t)["signing"].(map[string]any)["secrets"].([]any) }
	prints := secretsOf(put(old))
	oldPrint := prints[0].(string)
	rotated := put(fresh, oldPrint)
	rotated.mustStatus(t, 200)
	kept := h.fake.queues.policies["q"].Secrets
	if len(kept) != 2 || secretPrefix+base64.StdEncoding.EncodeToString(kept[0]) != fresh ||
		secretPrefix+base64.StdEncoding.EncodeToString(kept[1]) != old {
		t.Fatalf("kept %q", kept)
	}
	for _, a := range []answer{rotated, h.call("GET", "/v1/queues/q", ""), h.call("GET", "/v1/queues", "")} {
		if strings.Contains(a.text, "whsec_") || !strings.Contains(a.text, `["sha256:`) {
			t.Errorf("answered %s", a.text)
		}
	}
	for i, c := range []struct {
		secrets []string
		field   string
	}{
		{[]string{"sha256:00000000"}, "signing.secrets[0]"},
		{[]string{fresh, fresh}, "signing.secrets[1]"},
		{[]string{fresh, secretsOf(rotated)[0].(string)}, "signing.secrets[1]"},
		{[]string{fresh, old, old}, "signing.secrets"},
		{[]string{whsec('c', 23)}, "signing.secrets[0]"},
		{[]string{whsec('c', 65)}, "signing.secrets[0]"},
		{[]string{old[:len(old)-1] + "-"}, "signing.secrets[0]"},
		{[]string{strings.TrimPrefix(old, secretPrefix)}, "signing.secrets[0]"},
		{[]string{old, "whsec_"}, "signing.secrets[1]"},
	} {
		a := put(c.secrets...)
		a.mustProblem(t, 400, c.field)
		if key := strings.TrimPrefix(c.secrets[0], secretPrefix); len(key) > 16 && strings.Contains(a.text, key[:16]) {
			t.Errorf("%d: a secret is quoted: %s", i, a.text)
		}
	}
}

func TestBadQueueBodies(t *testing.T) {
	h := newHarness(t)
	for _, c := range []struct{ body, field, limit string }{
		{`{"colour":1}`, "colour", ""},
		{`{"counts":{}}`, "counts", ""},
		{`{"version":1}`, "version", ""},
		{`{"queue":"other"}`, "queue", ""},
		{`{"queue":7}`, "queue", ""},
		{`{"paused":"yes"}`, "paused", ""},
		{`{"paused":null}`, "paused", ""},
		{`{"paused":true,"paused":true}`, "paused", ""},
		{`{"max_in_flight":0}`, "max_in_flight", "1 to 1000000"},
		{`{"max_in_flight":1000001}`, "max_in_flight", "1 to 1000000"},
		{`{"max_in_flight":1.5}`, "max_in_flight", ""},
		{`{"max_in_flight":"7"}`, "max_in_flight", ""},
		{`{"max_per_second":0}`, "max_per_second", "0.001 to 1000000"},
		{`{"max_per_second":-1}`, "max_per_second", "0.001 to 1000000"},
		{`{"max_per_second":1e999}`, "max_per_second", "0.001 to 1000000"},
		{`{"max_per_second":"1"}`, "max_per_second", ""},
		{`{"batch_max":1001}`, "batch_max", "1 to 1000"},
		{`{"keep_done":"0s"}`, "keep_done", "more than 0s, at most 100 years"},
		{`{"keep_dead":"-1s"}`, "keep_dead", "more than 0s, at most 100 years"},
		{`{"keep_dead":7}`, "keep_dead", ""},
		{`{"target":null}`, "target", ""},
		{`{"target":{}}`, "target.url", ""},
		{`{"target":{"url":"ftp://x/"}}`, "target.url", ""},
		{`{"target":{"url":"http://x","headers":{"host":"y"}}}`, "target.headers.host", ""},
		{`{"retry":{"max_attempts":0}}`, "retry.max_attempts", "1 to 1000"},
		{`{"retry":{"min_backoff":"2s","max_backoff":"1s"}}`, "retry.min_backoff", ""},
		{`{"signing":{}}`, "signing.secrets", "1 or 2"},
		{`{"signing":{"secrets":[]}}`, "signing.secrets", "1 or 2"},
		{`{"signing":{"secrets":"whsec_x"}}`, "signing.secrets", ""},
		{`{"signing":{"secrets":[7]}}`, "signing.secrets[0]", ""},
		{`{"signing":{"key":"x"}}`, "signing.key", ""},
		{`{"signing":[]}`, "signing", ""},
		{`{"paused":true}}`, "", ""},
		{`[]`, "", ""},
		{`{"signing":{"secrets":["` + whsec('a', 24) + `"`, "", ""},
	} {
		p := h.call("PUT", "/v1/queues/q", c.body).mustProblem(t, 400, c.field)
		limit, _ := p["limit"].(string)
		assert.Equal(t, limit, c.limit, "%.80s: limit", c.body)
	}
	h.call("PUT", "/v1/queues/q", "x", "Content-Type", "text/plain").mustProblem(t, 415, "Content-Type")
	h.call("PUT", "/v1/queues/q?x=1", "{}").mustProblem(t, 400, "x")
	h.call("PUT", "/v1/queues/q", "{}", keyHeader, strings.Repeat("k", 256)).mustProblem(t, 400, keyHeader)
	h.call("DELETE", "/v1/queues/q", `{"force":true}`).mustProblem(t, 400, "force")
	assert.Equal(t, len(h.fake.queues.policies), 0, "a bad body reached the backend: %v", h.fake.queues.policies)
}

func TestListQueuesInPages(t *testing.T) {
	h := newHarness(t)
	for i := range 7 {
		h.call("PUT", fmt.Sprintf("/v1/queues/q%d", i), `{}`).mustStatus(t, 201)
	}
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h","queue":"unnamed"}`).mustStatus(t, 201)
	var got []string
	for cursor := ""; ; {
		page := h.call("GET", "/v1/queues?limit=3"+cursor, "").mustStatus(t, 200)
		for _, q := range page["queues"].([]any) {
			got = append(got, q.(map[string]any)["queue"].(string))
		}
		next, more := page["next_cursor"].(string)
		if !more {
			break
		}
		cursor = "&cursor=" + next
	}
	assert.Equal(t, fmt.Sprint(got), "[q0 q1 q2 q3 q4 q5 q6 unnamed]")
	p := h.call("GET", "/v1/queues?prefix=un", "").mustStatus(t, 200)
	assert.Equal(t, len(p["queues"].([]any)), 1, "%v", p)
	h.call("GET", "/v1/queues?limit=1001", "").mustProblem(t, 400, "limit")
	h.call("GET", "/v1/queues?state=dead", "").mustProblem(t, 400, "state")
}

// TestQueuesAreFull checks that every call that would create one policy too many is refused with queues-full.
func TestQueuesAreFull(t *testing.T) {
	d := newDocumented(t)
	d.fake.readErr = &task.QueuesFullError{Limit: "4096"}
	for _, call := range [][3]string{{"PUT", "", "{}"}, {"PATCH", "", "{}"}, {"POST", "/pause", ""}, {"POST", "/resume", ""}} {
		p := d.harness.call(call[0], "/v1/queues/q"+call[1], call[2]).mustProblem(t, 409, "")
		if p["type"] != contract.ProblemPrefix+"queues-full" || p["limit"] != "4096" {
			t.Errorf("%v: %v", call, p)
		}
		d.conflict(call[0], "/v1/queues/q"+call[1], call[2])
	}
}

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
		assert.Equal(t, a.text, `{"queue":"q",`+step.want+"}\n", "%s: answered", step.patch)
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

func waitingConfig(t *testing.T, metrics prometheus.Gatherer) WaitingConfig {
	return WaitingConfig{
		Node: fullDisk{}, Origins: testOrigins(t), Metrics: metrics, Logger: slog.New(slog.DiscardHandler),
	}
}

// fullDisk is a node that waits for room on its disk.
type fullDisk struct{}

func (fullDisk) Barred() string { return "the disk is full" }

func (fullDisk) Doctor(context.Context) []view.Finding {
	return []view.Finding{{Severity: "critical", Code: "node-waits"}}
}

// TestWaiting checks that a waiting node answers every call with the reason, as a problem, and serves its metrics.
func TestWaiting(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "some_gauge"}))
	h := Waiting(waitingConfig(t, registry))
	for _, call := range [][2]string{
		{"GET", "/healthz"}, {"GET", "/readyz"}, {"PUT", "/v1/tasks/a"}, {"GET", "/v1/cluster"}, {"GET", "/"},
		{"POST", "/v1/batch"}, {"DELETE", "/nothing"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(call[0], call[1], strings.NewReader("{}")))
		var p struct{ Type, Detail, Committed string }
		assert.NoError(t, json.Unmarshal(w.Body.Bytes(), &p), "%v: %s", call, w.Body)
		if w.Code != 503 || p.Detail != "the disk is full" || p.Committed != "no" || w.Header().Get("Retry-After") == "" ||
			w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%v: %d %v %s", call, w.Code, w.Header(), w.Body)
		}
	}
	rebound := httptest.NewRequest("GET", "/metrics", nil)
	rebound.Host = "rebound.example"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, rebound)
	assert.Equal(t, w.Code, 403, "metrics by a foreign name: %s", w.Body)
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/v1/doctor", nil))
	const finding = `{"findings":[{"severity":"critical","code":"node-waits","summary":"","do":[]}]}`
	if w.Code != 200 || strings.TrimSpace(w.Body.String()) != finding {
		t.Errorf("doctor: %d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), "some_gauge") {
		t.Errorf("metrics: %d %s", w.Code, w.Body)
	}
}

// TestWaitingAnswersAStream checks that a refusal does not wait for a stream's body, which does not end before the
// answer.
func TestWaitingAnswersAStream(t *testing.T) {
	server := httptest.NewServer(Waiting(waitingConfig(t, prometheus.NewRegistry())))
	t.Cleanup(server.Close)
	body, writer := io.Pipe()
	t.Cleanup(func() { _ = writer.Close() }) // a pipe's Close never fails
	go func() { _, _ = io.WriteString(writer, `{"credit":1}`+"\n") }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/v1/queues/mails/stream", body)
	assert.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	assert.NoError(t, err)
	defer answer.Body.Close()
	assert.Equal(t, answer.StatusCode, http.StatusServiceUnavailable, "status")
}
