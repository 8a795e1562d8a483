package httpapi

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

const (
	credential       = "Bearer s3cr3t"
	credentialTarget = `"target":{"url":"https://shop.example/","headers":{"authorization":"` + credential +
		`","Cookie":"sid=s3cr3t","x-a":"***"}}`
	maskedTarget = `"target":{"url":"https://shop.example/","headers":{"authorization":"***","cookie":"***","x-a":"***"}}`
)

// headersOf returns the stored headers of a task's target.
func (h *harness) headersOf(id string) map[string]string {
	h.fake.mu.Lock()
	defer h.fake.mu.Unlock()
	out := map[string]string{}
	for _, header := range h.fake.tasks[id].Spec.GetTarget().GetHeaders() {
		out[header.Name] = header.Value
	}
	return out
}

func mustEqual[T any](t *testing.T, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestCredentialsAreMasked checks that no answer to any call shows credentials.
func TestCredentialsAreMasked(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/queues/q", `{`+credentialTarget+`}`).mustStatus(t, 201)
	put := h.call("PUT", "/v1/tasks/a", `{"delay":"1h","queue":"q",`+credentialTarget+`}`)
	put.mustStatus(t, 201)
	answers := map[string]string{
		"PUT":         put.text,
		"GET":         h.call("GET", "/v1/tasks/a", "").text,
		"list":        h.call("GET", "/v1/tasks", "").text,
		"PATCH":       h.call("PATCH", "/v1/tasks/a", `{"delay":"2h"}`).text,
		"touch":       h.call("POST", "/v1/tasks/a/touch", `{"delay":"2h"}`).text,
		"POST":        h.call("POST", "/v1/tasks", `{"delay":"1h",`+credentialTarget+`}`).text,
		"412":         h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-None-Match", "*").text,
		"PUT queue":   h.call("PUT", "/v1/queues/q", `{`+credentialTarget+`}`).text,
		"GET queue":   h.call("GET", "/v1/queues/q", "").text,
		"list queues": h.call("GET", "/v1/queues", "").text,
		"PATCH queue": h.call("PATCH", "/v1/queues/q", `{"paused":true}`).text,
		"pause":       h.call("POST", "/v1/queues/q/pause", "").text,
		"batch": h.call("POST", "/v1/batch", `{"op":"schedule","id":"a","delay":"1h","if_none_match":"*"}`, "Content-Type",
			ndjsonType).text,
	}
	withTarget := proto.CloneOf(h.fake.tasks["a"].Spec.Target)
	h.ready("q", "a")
	h.fake.tasks["a"].Spec.Target = withTarget
	answers["lease"] = h.call("POST", "/v1/queues/q/lease", "").text
	for name, text := range answers {
		if strings.Contains(text, "s3cr3t") || !strings.Contains(text, `"authorization":"***"`) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestMaskedCredentialsOfTasksAreKept checks that a mask in a PUT, a PATCH or a batch keeps the stored credential of a
// task.
func TestMaskedCredentialsOfTasksAreKept(t *testing.T) {
	h := newHarness(t)
	kept := map[string]string{"authorization": credential, "cookie": "sid=s3cr3t", "x-a": "***"}
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h",`+credentialTarget+`}`).mustStatus(t, 201)
	h.call("PUT", "/v1/tasks/a", `{"delay":"2h",`+maskedTarget+`}`).mustStatus(t, 200)
	mustEqual(t, h.headersOf("a"), kept)
	h.call("PATCH", "/v1/tasks/a", `{"target":{"headers":{"authorization":"***"}}}`).mustStatus(t, 200)
	mustEqual(t, h.headersOf("a"), kept)
	a := h.call("POST", "/v1/batch", `{"op":"schedule","id":"a","delay":"1h",`+maskedTarget+`}`, "Content-Type", ndjsonType)
	assert.Contains(t, a.text, `"status":200`, "batch")
	mustEqual(t, h.headersOf("a"), kept)

	const field = "target.headers.authorization"
	h.call("PUT", "/v1/tasks/b", `{"delay":"1h",`+maskedTarget+`}`).mustProblem(t, 400, field)
	h.call("POST", "/v1/tasks", `{"delay":"1h",`+maskedTarget+`}`).mustProblem(t, 400, field)
	a = h.call("POST", "/v1/batch", `{"op":"schedule","id":"b","delay":"1h",`+maskedTarget+`}`, "Content-Type", ndjsonType)
	if !strings.Contains(a.text, `"status":400`) || !strings.Contains(a.text, field) {
		t.Errorf("batch: %s", a.text)
	}
}

func TestMaskedCredentialsOfQueuesAreKept(t *testing.T) {
	h := newHarness(t)
	const field = "target.headers.authorization"
	h.call("PUT", "/v1/queues/q", `{`+maskedTarget+`}`).mustProblem(t, 400, field)
	h.call("PATCH", "/v1/queues/q", `{`+maskedTarget+`}`).mustProblem(t, 400, field)
	h.call("PUT", "/v1/queues/q", `{`+credentialTarget+`}`).mustStatus(t, 201)
	stored := func() *task.FieldError { return task.CheckMasked(h.fake.queues.policies["q"].Target) }
	for range 2 { // an answer can be sent back as a request
		a := h.call("PUT", "/v1/queues/q", `{"max_in_flight":3,`+maskedTarget+`}`)
		a.mustStatus(t, 200)
		h.call("PUT", "/v1/queues/q", strings.TrimSpace(a.text)).mustStatus(t, 200)
		h.call("PATCH", "/v1/queues/q", `{"paused":true,`+maskedTarget+`}`).mustStatus(t, 200)
		if err := stored(); err != nil || h.fake.queues.policies["q"].Target.Headers[0].Value != credential {
			t.Fatalf("%v: %v", err, h.fake.queues.policies["q"].Target)
		}
	}
	h.call("PATCH", "/v1/queues/q", `{"target":{"headers":{"authorization":"other"}}}`).mustStatus(t, 200)
	assert.Equal(t, h.fake.queues.policies["q"].Target.Headers[0].Value, "other", "it holds")
	h.call("PATCH", "/v1/queues/q", `{"target":{"headers":{"authorization":null}}}`).mustStatus(t, 200)
	h.call("PUT", "/v1/queues/q", `{`+maskedTarget+`}`).mustProblem(t, 400, field)
}

// TestTaskThatWasToBeAbsent checks that a 412 of If-None-Match shows the task as a GET does, tombstones included, in
// single calls and in a batch.
func TestTaskThatWasToBeAbsent(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h","payload":{"n":1},`+credentialTarget+`}`).mustStatus(t, 201)
	check := func() {
		t.Helper()
		want := h.call("GET", "/v1/tasks/a", "").mustStatus(t, 200)
		p := h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-None-Match", "*").mustProblem(t, 412, "")
		mustEqual(t, p["task"], any(want))
		line := h.call("POST", "/v1/batch", `{"op":"schedule","id":"a","delay":"1h","if_none_match":"*"}`, "Content-Type",
			ndjsonType).json(t)
		mustEqual(t, line["problem"].(map[string]any)["task"], any(want))
	}
	check()
	h.call("DELETE", "/v1/tasks/a", "").mustStatus(t, 200)
	check()
	p := h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-Match", `"999"`).mustProblem(t, 412, "")
	if p["task"] != nil {
		t.Errorf("with If-Match: %v", p)
	}
}

// TestKeptCredentialsStayAtTheirHost checks that no change of a queue sends a stored credential to another host, where
// the caller could read it.
func TestKeptCredentialsStayAtTheirHost(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/queues/q", `{`+credentialTarget+`}`).mustStatus(t, 201)
	const field = "target.headers.authorization"
	moved := strings.ReplaceAll(maskedTarget, "shop.example", "evil.example")
	h.call("PUT", "/v1/queues/q", `{`+moved+`}`).mustProblem(t, 400, field)
	h.call("PATCH", "/v1/queues/q", `{`+moved+`}`).mustProblem(t, 400, field)
	h.call("PATCH", "/v1/queues/q", `{"target":{"url":"https://evil.example/"}}`).mustProblem(t, 400, field)
	h.call("PATCH", "/v1/queues/q", `{"target":{"url":"http://shop.example/"}}`).mustProblem(t, 400, field)
	h.call("PATCH", "/v1/queues/q", `{"target":{"url":"https://shop.example/path"}}`).mustStatus(t, 200)
	h.call("PATCH", "/v1/queues/q", `{"target":{"url":"https://other.example/","headers":{"authorization":"new",
		"cookie":null}}}`).mustStatus(t, 200)
	mustEqual(t, h.fake.queues.policies["q"].Target.Headers[0].Value, "new")
}

// TestKeptCredentialsOfTasksStayAtTheirHost checks that no change of a task sends its stored credentials to another
// host, also if the task changes between the node's look at it and the change.
func TestKeptCredentialsOfTasksStayAtTheirHost(t *testing.T) {
	const (
		field = "target.headers.authorization"
		evil  = `"target":{"url":"https://evil.example/"}`
		given = `"target":{"url":"https://evil.example/","headers":{"authorization":"new","cookie":null}}`
	)
	moved := strings.ReplaceAll(maskedTarget, "shop.example", "evil.example")
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"PATCH", "", `{` + evil + `}`, 400},
		{"PATCH", "", `{` + moved + `}`, 400},
		{"PATCH", "", `{"target":{"url":"http://shop.example/"}}`, 400},
		{"PATCH", "", `{"target":{"url":"https://shop.example:444/"}}`, 400},
		{"PATCH", "", `{"target":{"url":"https://evil.example/","headers":{"cookie":"new"}}}`, 400},
		{"PUT", "", `{"delay":"1h",` + moved + `}`, 400},
		{"POST", "/touch", `{"or_schedule":{"delay":"1h",` + moved + `}}`, 400},
		{"BATCH", "", `{"op":"patch","id":"a",` + evil + `}`, 400},
		{"BATCH", "", `{"op":"schedule","id":"a","delay":"1h",` + moved + `}`, 400},
		{"BATCH", "", `{"op":"touch","id":"a","or_schedule":{"delay":"1h",` + moved + `}}`, 400},
		{"PATCH", "", `{"target":{"url":"https://SHOP.example:443/path"}}`, 200},
		{"PATCH", "", `{` + given + `}`, 200},
		{"PATCH", "", `{"target":{"url":"https://evil.example/","headers":null}}`, 200},
		{"PATCH", "", `{"target":null}`, 200},
		{"BATCH", "", `{"op":"patch","id":"a",` + given + `}`, 200},
	} {
		h := newHarness(t)
		h.call("PUT", "/v1/tasks/a", `{"delay":"1h",`+credentialTarget+`}`).mustStatus(t, 201)
		var a answer
		if c.method == "BATCH" {
			a = h.call("POST", "/v1/batch", c.body, "Content-Type", ndjsonType)
			assert.Contains(t, a.text, `"status":`+fmt.Sprint(c.status), "%s", c.body)
		} else if a = h.call(c.method, "/v1/tasks/a"+c.path, c.body); a.StatusCode != c.status {
			t.Errorf("%s %s: %d %s", c.method, c.body, a.StatusCode, a.text)
		}
		if c.status == 400 && !strings.Contains(a.text, `"field":"`+field+`"`) {
			t.Errorf("%s: %s", c.body, a.text)
		}
		target, kept := h.fake.tasks["a"].Spec.Target, h.headersOf("a")["authorization"] == credential
		if kept != (strings.HasPrefix(strings.ToLower(target.GetUrl()), "https://shop.example")) {
			t.Errorf("%s: %s gets %v", c.body, target.GetUrl(), h.headersOf("a"))
		}
	}
	h := newHarness(t)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h","target":{"url":"https://evil.example/1"}}`).mustStatus(t, 201)
	race(h, 1, func() {
		h.fake.tasks["a"].Spec.Target = &fsmpb.Target{
			Url: "https://shop.example/", Headers: []*fsmpb.Header{{Name: "authorization", Value: credential}}}
		h.fake.tasks["a"].Revision += 100
	})
	h.call("PATCH", "/v1/tasks/a", `{`+evil+`}`).mustProblem(t, 400, field)
}

// TestSealedPolicy checks the calls about a queue whose secrets this node cannot open: it is shown as ever, and changes
// that need no secret are made.
func TestSealedPolicy(t *testing.T) {
	h := newHarness(t)
	secret := []byte("a signing secret of enough bytes")
	h.call("PUT", "/v1/queues/q", `{"target":{"url":"https://shop.example/"}}`).mustStatus(t, 201)
	p := h.fake.queues.policies["q"]
	p.Sealed = &fsmpb.Sealed{Key: "k1", Data: []byte("sealed"), Digests: [][]byte{task.SecretDigest(secret)}}
	p.Target.Headers = []*fsmpb.Header{{Name: "authorization", Value: task.Masked}}
	if a := h.call("GET", "/v1/queues/q", ""); !strings.Contains(a.text, fingerprint(secret)) ||
		!strings.Contains(a.text, `"authorization":"***"`) {
		t.Error(a.text)
	}
	h.call("POST", "/v1/queues/q/pause", "").mustStatus(t, 200)
	h.call("PATCH", "/v1/queues/q", `{"max_in_flight":3,"target":{"headers":{"authorization":"***"}}}`).mustStatus(t, 200)
	if p := h.fake.queues.policies["q"]; p.Sealed == nil || !p.Paused || p.MaxInFlight != 3 {
		t.Errorf("%v", p)
	}
	named := `{"signing":{"secrets":["` + fingerprint(secret) + `"]}}`
	for _, c := range [][2]string{{"PUT", named}, {"PATCH", named}, {"PATCH", `{"signing":null}`}} {
		if a := h.call(c[0], "/v1/queues/q", c[1]); a.StatusCode != 503 || !strings.Contains(a.text, "k1") {
			t.Errorf("%s: %s", c, a.text)
		}
	}
	h.call("PATCH", "/v1/queues/q", `{"target":{"url":"https://evil.example/"}}`).mustProblem(t, 400,
		"target.headers.authorization")
}
