package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

const wholeTask = `{"queue":"mail","fire_at":"2026-11-21T12:00:00.0001+01:00","payload":{"order": 1042,"x":[1,  2]},
	"content_type":"application/vnd.shop+json",
	"target":{"url":"https://shop.example/close","method":"PATCH","auth":{"jwt":{"audience":"shop", "algorithm":"RS256",
		"claims":{"role": "x", "n": 1.50}},"client_certificate":"shop-2"},"headers":{"X-Shop":"1","a":"é"},"timeout":"15s"},
	"retry":{"max_attempts":5,"min_backoff":"500ms","max_backoff":"10m"},"expires_after":"1h","labels":{"t":"a","b":""}}`

// TestRetryDelaysReadBack checks that a list of delays is answered as it was given.
func TestRetryDelaysReadBack(t *testing.T) {
	h := newHarness(t)
	const retry = `"retry":{"max_attempts":9,"delays":["4m","10m","1h"]}`
	for _, a := range []answer{
		h.call("PUT", "/v1/tasks/a", `{"delay":"1h",`+retry+`}`), h.call("GET", "/v1/tasks/a", ""),
		h.call("PUT", "/v1/queues/q", `{`+retry+`}`), h.call("GET", "/v1/queues/q", ""),
	} {
		if a.StatusCode > 299 || !strings.Contains(a.text, retry) {
			t.Errorf("answered %d %s", a.StatusCode, a.text)
		}
	}
}

func TestPutAnswersTheWholeTask(t *testing.T) {
	h := newHarness(t)
	a := h.call("PUT", "/v1/tasks/order-1042", wholeTask)
	a.mustStatus(t, 201)
	want := `{"id":"order-1042","queue":"mail","fire_at":"2026-11-21T11:00:00.001Z",` +
		`"payload":{"order": 1042,"x":[1,  2]},` +
		`"content_type":"application/vnd.shop+json",` +
		`"target":{"url":"https://shop.example/close","method":"PATCH","auth":{"jwt":{"audience":"shop",` +
		`"claims":{"role":"x","n":1.50},"algorithm":"RS256"},"client_certificate":"shop-2"},` +
		`"headers":{"a":"é","x-shop":"1"},"timeout":"15s"},` +
		`"retry":{"max_attempts":5,"min_backoff":"500ms","max_backoff":"10m"},` +
		`"expires_after":"1h","labels":{"b":"","t":"a"},` +
		`"state":"scheduled","attempts":0,"next_attempt_at":null,"last_error":"","revision":1,"shard":` +
		fmt.Sprint(task.Slot("", "order-1042")%12) + `,"created_at":"2026-11-21T10:00:00.000Z"}` + "\n"
	assert.MustEqual(t, a.text, want, "got")
	assert.Equal(t, a.Header.Get("ETag"), `"1"`, "ETag")
	if got := h.call("GET", "/v1/tasks/order-1042", ""); got.text != want || got.Header.Get("ETag") != `"1"` {
		t.Errorf("GET differs: %s", got.text)
	}
}

func TestPutOverOthers(t *testing.T) {
	h := newHarness(t)
	if p := h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`).mustStatus(t, 201); p["previous"] != nil {
		t.Errorf("previous %v of a new one", p["previous"])
	}
	p := h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`).mustStatus(t, 200)
	assert.Equal(t, p["previous"], "scheduled", "previous")
	h.fake.set("a", fsmpb.State_STATE_DELIVERED, 1)
	if p := h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`).mustStatus(t, 201); p["previous"] != "delivered" {
		t.Errorf("previous %v over a tombstone", p["previous"])
	}
}

func TestDelayCountsFromReceiptAndIsRoundedUp(t *testing.T) {
	h := newHarness(t)
	p := h.call("PUT", "/v1/tasks/a", `{"delay":"1500us"}`).mustStatus(t, 201)
	if p["fire_at"] != "2026-11-21T10:00:00.002Z" { // 0.25 ms + 1.5 ms
		t.Errorf("fire_at %v", p["fire_at"])
	}
	s := h.fake.last().GetSchedule()
	if s.GetDelayMs() != 2 || s.ReceivedAtMs != testNow.UnixMilli() {
		t.Errorf("command %v", s)
	}
}

func TestConditions(t *testing.T) {
	h := newHarness(t)
	p := h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-Match", "*").mustProblem(t, 412, "")
	assert.Equal(t, p["detail"], noSuchTask, "absent: %v", p)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-None-Match", "*").mustStatus(t, 201)
	p = h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-None-Match", "*").mustProblem(t, 412, "")
	assert.Equal(t, p["detail"], "the task exists, at revision 1", "present: %v", p)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-Match", `"7", "1"`).mustStatus(t, 200)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-Match", `"1"`).mustProblem(t, 412, "")
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-Match", `"foreign"`).mustProblem(t, 412, "")
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-Match", `W/"2"`).mustProblem(t, 412, "")
	h.call("DELETE", "/v1/tasks/a", "", "If-Match", "2").mustStatus(t, 200)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-Match", `"`).mustProblem(t, 400, "If-Match")
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "If-None-Match", `"1"`).mustProblem(t, 400, "If-None-Match")
	h.call("POST", "/v1/tasks", `{"delay":"1h"}`, "If-Match", `"1"`).mustProblem(t, 400, "If-Match")
}

func TestIdempotencyKeys(t *testing.T) {
	h := newHarness(t)
	first := h.call("PUT", "/v1/tasks/a", `{"delay":"1h","payload":1}`, keyHeader, "k")
	first.mustStatus(t, 201)
	again := h.call("PUT", "/v1/tasks/a", ` { "payload":1, "delay" : "60m" } `, keyHeader, "k")
	if again.text != first.text || again.StatusCode != 201 {
		t.Errorf("repeat: %d %s", again.StatusCode, again.text)
	}
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h","payload":2}`, keyHeader, "k").mustProblem(t, 422, keyHeader)
	h.call("DELETE", "/v1/tasks/a", "", keyHeader, "k").mustProblem(t, 422, keyHeader)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, keyHeader, "").mustProblem(t, 400, keyHeader)
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, keyHeader, strings.Repeat("k", 256)).mustProblem(t, 400, keyHeader)
	h.call("PUT", "/v1/tasks/b", `{"delay":"1h"}`, keyHeader, strings.Repeat("k", 255)).mustStatus(t, 201)
}

func TestPost(t *testing.T) {
	h := newHarness(t)
	a := h.call("POST", "/v1/tasks", `{"delay":"1h","payload":"x"}`, keyHeader, "k")
	id := a.mustStatus(t, 201)["id"].(string)
	if a.Header.Get("Location") != "/v1/tasks/"+id || task.CheckName("id", id) != nil {
		t.Errorf("Location %s, id %s", a.Header.Get("Location"), id)
	}
	if !h.fake.last().GetSchedule().GeneratedId {
		t.Error("the command does not say that its id is generated")
	}
	repeat := h.call("POST", "/v1/tasks", `{"delay":"1h","payload":"x"}`, keyHeader, "k")
	if repeat.text != a.text || repeat.Header.Get("Location") != a.Header.Get("Location") {
		t.Errorf("repeat %s", repeat.text)
	}
	one := h.call("POST", "/v1/tasks", `{"delay":"1h"}`).mustStatus(t, 201)["id"]
	two := h.call("POST", "/v1/tasks", `{"delay":"1h"}`).mustStatus(t, 201)["id"]
	if one == two {
		t.Error("two tasks without a key share an id")
	}
	h.call("POST", "/v1/tasks", `{"delay":"1h","id":"a"}`).mustProblem(t, 400, "id")
}

func TestCancelOutcomes(t *testing.T) {
	h := newHarness(t)
	h.call("DELETE", "/v1/tasks/a", "").mustProblem(t, 404, "")
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h","payload":1}`)
	for range 2 {
		a := h.call("DELETE", "/v1/tasks/a", "")
		assert.Equal(t, a.text, `{"outcome":"cancelled"}`+"\n", "%d", a.StatusCode)
	}
	p := h.call("GET", "/v1/tasks/a", "").mustStatus(t, 200)
	if _, has := p["payload"]; has || p["state"] != "cancelled" || p["outcome"] != "cancelled" {
		t.Errorf("tombstone %v", p)
	}
}

func TestTouchAndFire(t *testing.T) {
	h := newHarness(t)
	h.call("POST", "/v1/tasks/a/touch", `{"delay":"5s"}`).mustProblem(t, 404, "")
	h.call("POST", "/v1/tasks/a/touch", `{"or_schedule":{"delay":"5s","payload":7}}`).mustStatus(t, 201)
	p := h.call("POST", "/v1/tasks/a/touch", `{"delay":"9s","no_later_than":"1d"}`).mustStatus(t, 200)
	if p["fire_at"] != "2026-11-21T10:00:09.001Z" || p["payload"] != 7.0 {
		t.Errorf("touched %v", p)
	}
	touch := h.fake.last().GetTouch()
	if touch.GetNoLaterThanAgeMs() != 24*3600*1000 || touch.NoLaterThanMs != nil {
		t.Errorf("touch %v", touch)
	}
	h.call("POST", "/v1/tasks/a/touch", `{"delay":"9s","no_later_than":"2026-11-21T11:00:00Z"}`).mustStatus(t, 200)
	if touch := h.fake.last().GetTouch(); touch.NoLaterThanAgeMs != nil || touch.GetNoLaterThanMs() != 1795258800000 {
		t.Errorf("touch %v", touch)
	}
	h.call("POST", "/v1/tasks/a/touch", "").mustProblem(t, 400, "delay")
	h.call("POST", "/v1/tasks/a/fire", "").mustStatus(t, 200)
	h.call("POST", "/v1/tasks/a/fire", "{}").mustStatus(t, 200)
	h.fake.set("a", fsmpb.State_STATE_FIRING, 1)
	conflict := h.call("POST", "/v1/tasks/a/fire", "").mustProblem(t, 409, "")
	if conflict["state"] != "firing" || conflict["attempts"] != 1.0 {
		t.Errorf("conflict %v", conflict)
	}
	for body, field := range map[string]string{
		`{"or_schedule":{"delay":"5s","fire_at":"2026-11-21T11:00:00Z"}}`: "or_schedule.delay",
		`{"or_schedule":{}}`:                                        "or_schedule.delay",
		`{"or_schedule":{"delay":"5s","id":"a"}}`:                   "or_schedule.id",
		`{"or_schedule":{"delay":"5s","target":{"url":"ftp://x"}}}`: "or_schedule.target.url",
		`{"or_schedule":[]}`:                                        "or_schedule",
		`{"no_later_than":"soon"}`:                                  "no_later_than",
		`{"no_later_than":"-5s"}`:                                   "no_later_than",
		`{"payload":1,"append":[1]}`:                                "append",
		`{"payload":1,"payload_base64":""}`:                         "payload_base64",
		`{"append":1}`:                                              "append",
		`{"labels":{}}`:                                             "labels",
	} {
		h.call("POST", "/v1/tasks/a/touch", body).mustProblem(t, 400, field)
	}
}

// TestTouchWithPayload checks that the command has the payload of the request, and the task that it may make has it too
// unless that has its own.
func TestTouchWithPayload(t *testing.T) {
	h := newHarness(t)
	for _, c := range []struct {
		body, payload, added, made string
	}{
		{`{"payload":{"n": 1}}`, `{"n": 1}`, "", ""},
		{`{"append":[1, {"n": 2} ]}`, "", `1, {"n": 2}`, ""},
		{`{"append":[ ]}`, "", "", ""},
		{`{"payload":1,"or_schedule":{"delay":"5s"}}`, "1", "", "1"},
		{`{"append":[1],"or_schedule":{"delay":"5s"}}`, "", "1", "[1]"},
		{`{"append":[1],"or_schedule":{"delay":"5s","payload":[ ]}}`, "", "1", "[1]"},
		{`{"append":[1],"or_schedule":{"delay":"5s","payload":[0]}}`, "", "1", "[0]"},
		{`{"payload_base64":"/w==","or_schedule":{"delay":"5s"}}`, "\xff", "", "\xff"},
	} {
		h.call("PUT", "/v1/tasks/a", `{"delay":"1h","payload":[]}`)
		h.call("POST", "/v1/tasks/a/touch", `{"delay":"5s",`+c.body[1:]).mustStatus(t, 200)
		touch := h.fake.last().GetTouch()
		assert.Equal(t, string(touch.GetPayload().GetData()), c.payload, "%s: payload", c.body)
		assert.Equal(t, string(touch.Append), c.added, "%s: added", c.body)
		assert.Equal(t, string(touch.OrSchedule.GetSpec().GetPayload()), c.made, "%s: the made task", c.body)
	}
	p := h.call("POST", "/v1/tasks/a/touch", `{"append":["`+strings.Repeat("x", 256<<10)+`"]}`).mustProblem(t, 413, "append")
	assert.Equal(t, p["limit"], "262144 bytes", "limit")
}

func TestPatch(t *testing.T) {
	h := newHarness(t)
	h.call("PATCH", "/v1/tasks/a", `{}`).mustProblem(t, 404, "")
	h.call("PUT", "/v1/tasks/a", wholeTask)
	h.call("PATCH", "/v1/tasks/a", `{}`).mustStatus(t, 200)
	h.call("PATCH", "/v1/tasks/a", `{"payload":{"n": 2},"delay":"1m","content_type":null,"retry":null,"labels":null,
		"target":{"timeout":null,"headers":{"X-Shop":null,"Y":"2"}}}`, "Content-Type", mergeType).mustStatus(t, 200)
	p := h.fake.last().GetPatch()
	set := &fsmpb.Spec{
		Payload: []byte(`{"n": 2}`), Target: &fsmpb.Target{Headers: []*fsmpb.Header{{Name: "y", Value: "2"}}},
	}
	cleared := "[content_type labels payload retry target.headers.x-shop target.timeout]"
	if p.GetDelayMs() != 60000 || p.FireAtMs == nil || fmt.Sprint(p.Clear) != cleared || !proto.Equal(p.Set, set) {
		t.Errorf("patch %v", p)
	}
	if got := h.call("PATCH", "/v1/tasks/a", `{"target":null}`).mustStatus(t, 200); got["target"] != nil {
		t.Errorf("target %v", got["target"])
	}
	for body, field := range map[string]string{
		`{"queue":"x"}`:          "queue",
		`{"expires_after":"1h"}`: "expires_after",
		`{"state":"ready"}`:      "state",
		`{"delay":null}`:         "delay",
		`{"delay":"1s","fire_at":"2026-11-21T11:00:00Z"}`: "delay",
		`{"payload":1,"payload_base64":""}`:               "payload_base64",
		`{"target":{"url":null}}`:                         "target.url",
		`{"target":{"url":"/x"}}`:                         "target.url",
		`{"target":{"headers":{"host":"x"}}}`:             "target.headers.host",
		`{"target":{"headers":{"A":"1","a":null}}}`:       "target.headers.a",
		`{"target":{"port":1}}`:                           "target.port",
		`{"retry":{"max_attempts":0}}`:                    "retry.max_attempts",
		`{"labels":{"a":1}}`:                              "labels.a",
		`{"labels":{"a":"1"},"labels":{}}`:                "labels",
	} {
		h.call("PATCH", "/v1/tasks/a", body).mustProblem(t, 400, field)
	}
	invalid := &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: "labels", Detail: "has 17 labels", Limit: "16"}
	if p := resultProblem(invalid); p.status != 400 || p.field != "labels" || p.limit != "16" {
		t.Errorf("a patch that comes to too much: %+v", p)
	}
	h.fake.set("a", fsmpb.State_STATE_RETRYING, 2)
	conflict := h.call("PATCH", "/v1/tasks/a", `{"delay":"1s"}`).mustProblem(t, 409, "")
	if conflict["state"] != "retrying" || conflict["attempts"] != 2.0 {
		t.Errorf("conflict %v", conflict)
	}
}

func TestGet(t *testing.T) {
	h := newHarness(t)
	h.call("GET", "/v1/tasks/a", "").mustProblem(t, 404, "")
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h","payload_base64":"/+8="}`)
	if p := h.call("GET", "/v1/tasks/a?consistency=stale", "").mustStatus(t, 200); p["payload_base64"] != "/+8=" ||
		!h.fake.stale {
		t.Errorf("%v, stale %v", p, h.fake.stale)
	}
	h.call("GET", "/v1/tasks/a?consistency=eventual", "").mustProblem(t, 400, "consistency")
	h.call("GET", "/v1/tasks/a?fresh=1", "").mustProblem(t, 400, "fresh")
	h.call("PUT", "/v1/tasks/a?x=%zz", `{"delay":"1h"}`).mustProblem(t, 400, "query")
	h.call("PUT", "/v1/tasks/a?dry_run=1", `{"delay":"1h"}`).mustProblem(t, 400, "dry_run")
}

func TestErrorsOfTheBackend(t *testing.T) {
	for _, c := range []struct {
		err              error
		write, read      int
		committed, later string
	}{
		{fmt.Errorf("shard 3: %w", task.ErrOverloaded), 429, 429, "", "1"},
		{&task.MemoryError{Node: "n1", Limit: "1GiB"}, 429, 429, "", "5"},
		{fmt.Errorf("no room: %w", task.ErrNotProposed), 503, 503, "no", "1"},
		{&task.NotLeaderError{Shard: 3}, 503, 503, "no", "1"},
		{task.ErrUnknown, 504, 503, "unknown", "1"},
		{context.DeadlineExceeded, 504, 503, "unknown", "1"},
		{errors.New("disk on fire"), 500, 500, "unknown", "1"},
	} {
		h := newHarness(t)
		h.fake.do = func(context.Context, []*fsmpb.Command) []task.Reply { return []task.Reply{{Err: c.err}} }
		h.fake.readErr = c.err
		a := h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`)
		p := a.mustProblem(t, c.write, "")
		if committed, _ := p["committed"].(string); committed != c.committed || a.Header.Get("Retry-After") != c.later {
			t.Errorf("%v: committed %q, Retry-After %q", c.err, committed, a.Header.Get("Retry-After"))
		}
		for _, path := range []string{"/v1/tasks/a", "/v1/tasks", "/v1/cluster"} {
			p := h.call("GET", path, "").mustProblem(t, c.read, "")
			if c.read != 429 && p["committed"] != "no" {
				t.Errorf("%v: a read that failed says %v", c.err, p["committed"])
			}
		}
		if strings.Contains(a.text, "fire") && c.write == 500 {
			t.Errorf("the inside shows: %s", a.text)
		}
	}
}

// TestMemoryLimitIsNamed checks that a refusal for lack of memory names the node, and gives its limit.
func TestMemoryLimitIsNamed(t *testing.T) {
	h := newHarness(t)
	h.fake.do = func(context.Context, []*fsmpb.Command) []task.Reply {
		return []task.Reply{{Err: fmt.Errorf("shard 3: %w", &task.MemoryError{Node: "n1", Limit: "1GiB"})}}
	}
	p := h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`).mustProblem(t, 429, "")
	if detail, _ := p["detail"].(string); p["limit"] != "1GiB" || !strings.Contains(detail, "n1") {
		t.Errorf("%v", p)
	}
	assert.Equal[any](t, p["type"], contract.ProblemPrefix+memoryFull.slug, "type")
}

func TestPanicIsAnsweredAndLogged(t *testing.T) {
	log := new(strings.Builder)
	h := newHarness(t, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(log, nil)) })
	h.fake.do = func(context.Context, []*fsmpb.Command) []task.Reply { panic("broken invariant") }
	p := h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`).mustProblem(t, 500, "")
	if p["committed"] != "unknown" || !strings.Contains(log.String(), "broken invariant") {
		t.Errorf("%v, log %s", p, log)
	}
}

func TestTraceparent(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	h := newHarness(t)
	for header, want := range map[string]string{good: good, "junk": "", good + "0": "", strings.ToUpper(good): ""} {
		h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`, "traceparent", header)
		assert.Equal(t, h.fake.last().GetSchedule().Spec.Traceparent, want, "%q", header)
	}
}

func TestAddressGuard(t *testing.T) {
	h := newHarness(t, func(c *Config) {
		c.Receivers = urlCheck(func(url string) *task.FieldError {
			if strings.Contains(url, "127.0.0.1") {
				return &task.FieldError{Field: "target.url", Detail: "is a loopback address: see --allow-webhook-cidr"}
			}
			return nil
		})
	})
	const target = `"target":{"url":"http://127.0.0.1/x"}`
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h",`+target+`}`).mustProblem(t, 400, "target.url")
	h.call("PATCH", "/v1/tasks/a", `{`+target+`}`).mustProblem(t, 400, "target.url")
	h.call("POST", "/v1/tasks/a/touch", `{"or_schedule":{"delay":"1h",`+target+`}}`).mustProblem(t, 400,
		"or_schedule.target.url")
	a := h.call("POST", "/v1/batch", `{"op":"schedule","id":"a","delay":"1h",`+target+`}`, "Content-Type", ndjsonType)
	if !strings.Contains(a.text, `"status":400`) || !strings.Contains(a.text, "--allow-webhook-cidr") {
		t.Errorf("batch: %s", a.text)
	}
}

func TestMetrics(t *testing.T) {
	r := prometheus.NewRegistry()
	h := newHarness(t, func(c *Config) { c.Registerer, c.Gatherer = r, r })
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`)
	h.call("GET", "/nowhere", "")
	page := h.call("GET", "/metrics", "").text
	for _, want := range []string{
		`belfry_http_request_duration_seconds_count{method="PUT",route="/v1/tasks/:id",status="201"} 1`,
		`status="404"} 1`,
	} {
		assert.Contains(t, page, want)
	}
	_, err := New(Config{Backend: h.fake, Registerer: r})
	assert.Error(t, err, "the same metrics twice on one registry, without an error")
}

func TestTooManyCallsAtOnce(t *testing.T) {
	entered, leave := make(chan struct{}), make(chan struct{})
	h := newHarness(t, func(c *Config) { c.MaxInFlight = 1 })
	h.fake.do = func(context.Context, []*fsmpb.Command) []task.Reply {
		close(entered)
		<-leave
		return []task.Reply{{Err: task.ErrUnknown}}
	}
	done := make(chan answer)
	go func() { done <- h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`) }()
	<-entered
	a := h.call("GET", "/v1/tasks/a", "")
	if p := a.mustProblem(t, 429, ""); a.Header.Get("Retry-After") == "" || p["limit"] != "1" {
		t.Errorf("%s", a.text)
	}
	h.call("GET", "/healthz", "").mustStatus(t, 200)
	close(leave)
	<-done
	h.call("GET", "/v1/tasks/a", "").mustProblem(t, 404, "")
}

// TestNobodyCountsFromAnUnknownTime checks that a node that is not sure of the time refuses the calls that count from
// now, and no others.
func TestNobodyCountsFromAnUnknownTime(t *testing.T) {
	sure := true
	h := newHarness(t, func(c *Config) { c.Now = func() (time.Time, bool) { return testNow, sure } })
	h.call("PUT", "/v1/tasks/a", `{"delay":"1h"}`)
	sure = false
	for _, c := range [][3]string{
		{"PUT", "/v1/tasks/b", `{"delay":"1h"}`}, {"PATCH", "/v1/tasks/a", `{"delay":"1h"}`},
		{"POST", "/v1/tasks/a/touch", `{}`}, {"POST", "/v1/tasks", `{"delay":"0s"}`},
		{"POST", "/v1/tasks/b/touch", `{"or_schedule":{"delay":"1h"}}`},
	} {
		p := h.call(c[0], c[1], c[2]).mustProblem(t, 503, "")
		assert.Equal(t, p["committed"], "no", "%v: %v", c, p)
	}
	assert.Equal(t, len(h.fake.tasks), 1, "tasks")
	later := testNow.Add(time.Hour).Format(time.RFC3339)
	for _, c := range [][3]string{
		{"PUT", "/v1/tasks/b", `{"fire_at":"` + later + `"}`}, {"PATCH", "/v1/tasks/a", `{"fire_at":"` + later + `"}`},
		{"POST", "/v1/tasks/a/fire", ""}, {"DELETE", "/v1/tasks/a", ""}, {"GET", "/v1/tasks/a", ""},
	} {
		if a := h.call(c[0], c[1], c[2]); a.StatusCode >= 300 {
			t.Errorf("%v: %d %s", c, a.StatusCode, a.text)
		}
	}
	batch := h.call("POST", "/v1/batch", `{"op":"schedule","id":"c","delay":"1h"}`+"\n"+`{"op":"schedule","id":"d","fire_at":"`+
		later+`"}`, "Content-Type", ndjsonType)
	if !strings.Contains(batch.text, `"status":503`) || !strings.Contains(batch.text, `"status":201`) {
		t.Error(batch.text)
	}
}
