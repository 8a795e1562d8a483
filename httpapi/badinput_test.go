package httpapi

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

// TestBadTaskBodies sends bodies with one fault each, and checks that the answer names the fault.
func TestBadTaskBodies(t *testing.T) {
	h := newHarness(t)
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ body, field, limit string }{
		{`{"delay":"1s","colour":"red"}`, "colour", ""},
		{`{"delay":"1s","state":"ready"}`, "state", ""},
		{`{"delay":"1s","attempts":0}`, "attempts", ""},
		{`{"delay":"1s","next_attempt_at":null}`, "next_attempt_at", ""},
		{`{"delay":"1s","last_error":""}`, "last_error", ""},
		{`{"delay":"1s","revision":1}`, "revision", ""},
		{`{"delay":"1s","shard":1}`, "shard", ""},
		{`{"delay":"1s","created_at":"2026-11-21T10:00:00Z"}`, "created_at", ""},
		{`{"delay":"1s","id":"b"}`, "id", ""},
		{`{"delay":"1s","op":"schedule"}`, "op", ""},
		{`{"delay":"1s","Delay":"1s"}`, "Delay", ""},
		{`{"delay":"1s","delay":"1s"}`, "delay", ""},
		{`{"delay":"1s","del\u0061y":"1s"}`, "delay", ""},
		{`{}`, "delay", ""},
		{`{"delay":"1s","fire_at":"2026-11-21T11:00:00Z"}`, "delay", ""},
		{`{"delay":5}`, "delay", ""},
		{`{"delay":null}`, "delay", ""},
		{`{"delay":""}`, "delay", ""},
		{`{"delay":"5"}`, "delay", ""},
		{`{"delay":"1w"}`, "delay", ""},
		{`{"delay":"-1s"}`, "delay", spanLimit},
		{`{"delay":"109500d"}`, "delay", spanLimit},
		{`{"delay":"2628000h"}`, "delay", spanLimit},
		{`{"delay":"999999999999999999999999h"}`, "delay", spanLimit},
		{`{"delay":"36500d1ns"}`, "delay", spanLimit},
		{`{"fire_at":12345}`, "fire_at", ""},
		{`{"fire_at":"tomorrow"}`, "fire_at", ""},
		{`{"fire_at":"2026-11-21"}`, "fire_at", ""},
		{`{"fire_at":"2026-11-21T10:00:00"}`, "fire_at", ""},
		{`{"fire_at":"2026-13-21T10:00:00Z"}`, "fire_at", ""},
		{`{"fire_at":"2326-11-21T10:00:00Z"}`, "fire_at", "100 years from now"},
		{`{"fire_at":"9999-12-31T23:59:59Z"}`, "fire_at", "100 years from now"},
		{`{"fire_at":"0001-01-01T00:00:00Z"}`, "fire_at", "1970-01-01T00:00:00Z or later"},
		{`{"delay":"1s","queue":""}`, "queue", nameRule},
		{`{"delay":"1s","queue":"a b"}`, "queue", nameRule},
		{`{"delay":"1s","queue":["a"]}`, "queue", ""},
		{`{"delay":"1s","payload":1,"payload_base64":"MQ=="}`, "payload_base64", ""},
		{`{"delay":"1s","payload_base64":{}}`, "payload_base64", ""},
		{`{"delay":"1s","payload_base64":"MQ"}`, "payload_base64", ""},
		{`{"delay":"1s","payload_base64":"M-=="}`, "payload_base64", ""},
		{`{"delay":"1s","payload_base64":"MQ\n=="}`, "payload_base64", ""},
		{`{"delay":"1s","content_type":"a\u000d\u000ab: c"}`, "content_type", ""},
		{`{"delay":"1s","content_type":""}`, "content_type", ""},
		{`{"delay":"1s","content_type":"` + long + `"}`, "content_type", "255 bytes"},
		{`{"delay":"1s","target":null}`, "target", ""},
		{`{"delay":"1s","target":"http://x"}`, "target", ""},
		{`{"delay":"1s","target":{}}`, "target.url", ""},
		{`{"delay":"1s","target":{"url":"ftp://x/"}}`, "target.url", ""},
		{`{"delay":"1s","target":{"url":"http://"}}`, "target.url", ""},
		{`{"delay":"1s","target":{"url":"http://u:p@x/"}}`, "target.url", ""},
		{`{"delay":"1s","target":{"url":"http://x/` + strings.Repeat("x", 2100) + `"}}`, "target.url", "2048 bytes"},
		{`{"delay":"1s","target":{"url":"http://x","method":"put"}}`, "target.method", task.MethodNames},
		{`{"delay":"1s","target":{"url":"http://x","method":""}}`, "target.method", task.MethodNames},
		{`{"delay":"1s","target":{"url":"http://x","method":1}}`, "target.method", ""},
		{`{"delay":"1s","target":{"url":"nats://x/s","method":"PUT"}}`, "target.method", ""},
		{`{"delay":"1s","payload":1,"target":{"url":"http://x","method":"GET"}}`, "target.method", ""},
		{`{"delay":"1s","target":{"url":"http://x","auth":1}}`, "target.auth", ""},
		{`{"delay":"1s","target":{"url":"http://x","auth":{}}}`, "target.auth", ""},
		{`{"delay":"1s","target":{"url":"http://x","auth":{"basic":1}}}`, "target.auth.basic", ""},
		{`{"delay":"1s","target":{"url":"nats://x/s","auth":{"jwt":{"audience":"a"}}}}`, "target.auth", ""},
		{`{"delay":"1s","target":{"url":"http://x","auth":{"jwt":{}}}}`, "target.auth.jwt.audience", ""},
		{`{"delay":"1s","target":{"url":"http://x","auth":{"jwt":{"audience":["a"]}}}}`, "target.auth.jwt.audience", ""},
		{`{"delay":"1s","target":{"url":"http://x","auth":{"jwt":{"audience":"a","claims":null}}}}`,
			"target.auth.jwt.claims", ""},
		{`{"delay":"1s","target":{"url":"http://x","auth":{"jwt":{"audience":"a","claims":{"aud":"b"}}}}}`,
			"target.auth.jwt.claims.aud", ""},
		{`{"delay":"1s","target":{"url":"http://x","auth":{"jwt":{"audience":"a","claims":{"a":"` +
			strings.Repeat("x", 5000) + `"}}}}}`, "target.auth.jwt.claims", "1024 bytes"},
		{`{"delay":"1s","target":{"url":"http://x","auth":{"jwt":{"audience":"a","algorithm":""}}}}`,
			"target.auth.jwt.algorithm", ""},
		{`{"delay":"1s","target":{"url":"http://x","auth":{"jwt":{"audience":"a","algorithm":"none"}}}}`,
			"target.auth.jwt.algorithm", "EdDSA, RS256"},
		{`{"delay":"1s","target":{"url":"https://x","auth":{"client_certificate":""}}}`,
			"target.auth.client_certificate", ""},
		{`{"delay":"1s","target":{"url":"https://x","auth":{"client_certificate":"a/b"}}}`,
			"target.auth.client_certificate", "[A-Za-z0-9][A-Za-z0-9._-]{0,99}"},
		{`{"delay":"1s","target":{"url":"http://x","auth":{"client_certificate":"a"}}}`,
			"target.auth.client_certificate", ""},
		{`{"delay":"1s","target":{"url":"http://x","headers":{"Authorization":"b"},"auth":{"jwt":{"audience":"a"}}}}`,
			"target.headers.authorization", ""},
		{`{"delay":"1s","target":{"url":"http://x","url":"http://y"}}`, "target.url", ""},
		{`{"delay":"1s","target":{"url":"http://x","timeout":"0s"}}`, "target.timeout", "more than 0s, at most 10m"},
		{`{"delay":"1s","target":{"url":"http://x","timeout":"11m"}}`, "target.timeout", "more than 0s, at most 10m"},
		{`{"delay":"1s","target":{"url":"http://x","headers":{"webhook-id":"1"}}}`, "target.headers.webhook-id", ""},
		{`{"delay":"1s","target":{"url":"http://x","headers":{"Host":"1"}}}`, "target.headers.host", ""},
		{`{"delay":"1s","target":{"url":"http://x","headers":{"a b":"1"}}}`, "target.headers.a b", ""},
		{`{"delay":"1s","target":{"url":"http://x","headers":{"x-\u212a":"1"}}}`, "target.headers.x-\u212a", ""}, // Kelvin
		{`{"delay":"1s","target":{"url":"http://x","headers":{"a":"1\r\nb: 2"}}}`, "target.headers.a", ""},
		{`{"delay":"1s","target":{"url":"http://x","headers":{"A":"1","a":"1"}}}`, "target.headers.a", ""},
		{`{"delay":"1s","target":{"url":"http://x","headers":{"a":["1"]}}}`, "target.headers.a", ""},
		{`{"delay":"1s","target":{"url":"http://x","headers":{` + members(33) + `}}}`, "target.headers", "32"},
		{`{"delay":"1s","retry":[]}`, "retry", ""},
		{`{"delay":"1s","retry":{"max_attempts":"3"}}`, "retry.max_attempts", ""},
		{`{"delay":"1s","retry":{"max_attempts":3.5}}`, "retry.max_attempts", ""},
		{`{"delay":"1s","retry":{"max_attempts":15e-1}}`, "retry.max_attempts", ""},
		{`{"delay":"1s","retry":{"max_attempts":0}}`, "retry.max_attempts", "1 to 1000"},
		{`{"delay":"1s","retry":{"max_attempts":-1}}`, "retry.max_attempts", "1 to 1000"},
		{`{"delay":"1s","retry":{"max_attempts":1001}}`, "retry.max_attempts", "1 to 1000"},
		{`{"delay":"1s","retry":{"max_attempts":99999999999999999999}}`, "retry.max_attempts", "1 to 1000"},
		{`{"delay":"1s","retry":{"min_backoff":"8d"}}`, "retry.min_backoff", "more than 0s, at most 7d"},
		{`{"delay":"1s","retry":{"max_backoff":"0s"}}`, "retry.max_backoff", "more than 0s, at most 7d"},
		{`{"delay":"1s","retry":{"min_backoff":"2s","max_backoff":"1s"}}`, "retry.min_backoff", ""},
		{`{"delay":"1s","retry":{"delays":"4m"}}`, "retry.delays", ""},
		{`{"delay":"1s","retry":{"delays":[]}}`, "retry.delays", "1 to 32"},
		{`{"delay":"1s","retry":{"delays":["4m",5]}}`, "retry.delays[1]", ""},
		{`{"delay":"1s","retry":{"delays":["4m","0s"]}}`, "retry.delays[1]", "more than 0s, at most 7d"},
		{`{"delay":"1s","retry":{"delays":["169h"]}}`, "retry.delays[0]", "more than 0s, at most 7d"},
		{`{"delay":"1s","retry":{"delays":["1s"` + strings.Repeat(`,"1s"`, 32) + `]}}`, "retry.delays", "1 to 32"},
		{`{"delay":"1s","retry":{"delays":["4m"],"min_backoff":"1s"}}`, "retry.delays", ""},
		{`{"delay":"1s","retry":{"delays":["4m"],"max_backoff":"1s"}}`, "retry.delays", ""},
		{`{"delay":"1s","retry":{"jitter":true}}`, "retry.jitter", ""},
		{`{"delay":"1s","expires_after":"-1h"}`, "expires_after", "more than 0s, at most 100 years"},
		{`{"delay":"1s","expires_after":60}`, "expires_after", ""},
		{`{"delay":"1s","labels":{` + members(17) + `}}`, "labels", "16"},
		{`{"delay":"1s","labels":{"a":1}}`, "labels.a", ""},
		{`{"delay":"1s","labels":{"a":"1","a":"2"}}`, "labels.a", ""},
		{`{"delay":"1s","labels":{"":"1"}}`, "labels", ""},
		{`{"delay":"1s","labels":{"a":"` + long + `"}}`, "labels.a", "255 bytes"},
	} {
		p := h.call("PUT", "/v1/tasks/a", c.body).mustProblem(t, 400, c.field)
		limit, _ := p["limit"].(string)
		assert.Equal(t, limit, c.limit, "%.80s: limit", c.body)
	}
	if h.fake.last() != nil {
		t.Errorf("a bad body reached the backend: %v", h.fake.last())
	}
}

func members(n int) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`"n%d":"v"`, i))
	}
	return strings.Join(out, ",")
}

func TestMalformedJSON(t *testing.T) {
	h := newHarness(t)
	deep := contract.MaxDepth + 1
	for _, body := range []string{
		` `, `{`, `}`, `[]`, `null`, `1`, `"x"`, `{"delay":"1s"`, `{"delay":"1s",}`, `{"delay":"1s"}}`, `{"delay":"1s"} x`,
		`{"delay":"1s"}{"delay":"1s"}`, `{delay:"1s"}`, `{'delay':'1s'}`, `{"delay" "1s"}`, `{"delay":"1s}`,
		`{"delay":"1s","payload":}`, `{"delay":"1s","payload":01}`, `{"delay":"1s","payload":1.}`,
		`{"delay":"1s","payload":.5}`,
		`{"delay":"1s","payload":+1}`, `{"delay":"1s","payload":1e}`, `{"delay":"1s","payload":-}`,
		`{"delay":"1s","payload":nul}`,
		`{"delay":"1s","payload":NaN}`, `{"delay":"1s","payload":[1,]}`, `{"delay":"1s","payload":[1 2]}`,
		`{"delay":"1s","payload":[1}}`, `{"delay":"1s","payload":{"a"}}`, `{"delay":"1s","payload":{"a":1,}}`,
		`{"delay":"1s","payload":{1:2}}`, `{"delay":"1s","payload":"\x"}`, `{"delay":"1s","payload":"\u12g4"}`,
		`{"delay":"1s","payload":"` + "\x01" + `"}`, `{"delay":"1s","payload":"` + "\xff" + `"}`,
		"{\"delay\":\"1s\",\"payload\":\"\n\"}",
		`{"delay":"1s","labels":{"a":"\ud800"}}`, `{"delay":"1s","labels":{"a":"\udc00\ud800"}}`, "\ufeff" + `{"delay":"1s"}`,
		`{"delay":"1s"} // comment`, "{\"delay\":\"1s\"}\x00",
		`{"delay":"1s","payload":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`,
		`{"delay":"1s","payload":` + strings.Repeat("[", 200_000),
		`{"delay":"1s","payload":` + strings.Repeat(`{"a":`, 50_000),
		strings.Repeat("[", 400_000),
	} {
		p := h.call("PUT", "/v1/tasks/a", body).mustProblem(t, 400, "")
		assert.Equal[any](t, p["type"], contract.ProblemPrefix+malformedJSON.slug, "%.60q: %v", body, p)
	}
}

func TestPayloadsAreKeptByteForByte(t *testing.T) {
	h := newHarness(t)
	for _, payload := range []string{
		`null`, `true`, `0`, `-0.0e-10`, `""`, `{ "a" : [ 1 ,2,  {} ] }`, `"\ud800 <&> \/ \u00e9 é 😀"`, `1E400`,
		"[\n\t1\r\n]",
		`{"a":1,"a":2}`, `123456789012345678901234567890`,
		strings.Repeat("[", contract.MaxDepth) + strings.Repeat("]", contract.MaxDepth),
		`"` + strings.Repeat("x", task.MaxPayloadBytes-2) + `"`,
	} {
		a := h.call("PUT", "/v1/tasks/a", `{"payload": `+payload+` ,"delay":"1s"}`)
		assert.Contains(t, a.text, `,"payload":`+payload+`,`, "%.80s became %d", payload, a.StatusCode)
		if got := h.fake.last().GetSchedule().Spec; string(got.Payload) != payload || got.PayloadIsBytes {
			t.Errorf("%.80s reached the backend as %.80s", payload, got.Payload)
		}
	}
	h.call("PUT", "/v1/tasks/a", `{"payload_base64":"","delay":"1s"}`)
	if got := h.fake.last().GetSchedule().Spec; len(got.Payload) != 0 || !got.PayloadIsBytes {
		t.Errorf("an empty payload of bytes became %v", got)
	}
}

func TestTooLarge(t *testing.T) {
	h := newHarness(t)
	over := strings.Repeat("x", task.MaxPayloadBytes-1)
	p := h.call("PUT", "/v1/tasks/a", `{"delay":"1s","payload":"`+over+`"}`).mustProblem(t, 413, "payload")
	assert.Equal(t, p["limit"], "262144 bytes", "limit")
	bytes := base64.StdEncoding.EncodeToString(make([]byte, task.MaxPayloadBytes+1))
	h.call("PUT", "/v1/tasks/a", `{"delay":"1s","payload_base64":"`+bytes+`"}`).mustProblem(t, 413, "payload_base64")
	fits := base64.StdEncoding.EncodeToString(make([]byte, task.MaxPayloadBytes))
	h.call("PUT", "/v1/tasks/a", `{"delay":"1s","payload_base64":"`+fits+`"}`).mustStatus(t, 201)
	p = h.call("PUT", "/v1/tasks/a", strings.Repeat(" ", 600<<10)+`{"delay":"1s"}`).mustProblem(t, 413, "")
	assert.Equal(t, p["limit"], "524288 bytes", "limit")
	h.call("POST", "/v1/tasks/a/touch", `{"or_schedule":{"delay":"1s","payload":"`+over+`"}}`).mustProblem(t, 413,
		"or_schedule.payload")
	h.call("PATCH", "/v1/tasks/a", `{"payload":"`+over+`"}`).mustProblem(t, 413, "payload")
}

func TestContentTypes(t *testing.T) {
	h := newHarness(t)
	put := func(contentType string) answer {
		return h.call("PUT", "/v1/tasks/a", `{"delay":"1s"}`, "Content-Type", contentType)
	}
	for _, good := range []string{"application/json", "Application/JSON; charset=UTF-8"} {
		if a := put(good); a.StatusCode/100 != 2 {
			t.Errorf("%s: %s", good, a.text)
		}
	}
	for _, bad := range []string{"", "text/plain", "application/merge-patch+json", "application/json; charset=latin1",
		"application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json", "application/x-ndjson", ";;;"} {
		p := put(bad).mustProblem(t, 415, "Content-Type")
		form := strings.Contains(bad, "form")
		if hinted := strings.Contains(p["detail"].(string), "curl --json"); hinted != form {
			t.Errorf("%s: %v", bad, p["detail"])
		}
	}
	h.call("PUT", "/v1/tasks/a", "x", "Content-Encoding", "gzip").mustProblem(t, 415, "Content-Encoding")
	h.call("POST", "/v1/batch", "{}", "Content-Type", "application/json").mustProblem(t, 415, "Content-Type")
	h.call("PUT", "/v1/tasks/a", "").mustProblem(t, 400, "")
	h.call("DELETE", "/v1/tasks/a", `{"reason":"x"}`).mustProblem(t, 400, "reason")
}

func TestMemoryOfAllBodiesIsBounded(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.MemoryBytes = 100 << 10 })
	body := `{"delay":"1s","payload":"` + strings.Repeat("x", 150<<10) + `"}`
	h.call("PUT", "/v1/tasks/a", body).mustProblem(t, 429, "")
	assert.Equal(t, h.server.memory.Taken(), 0, "bytes are never given back")
	h.call("PUT", "/v1/tasks/a", `{"delay":"1s"}`).mustStatus(t, 201)
}
