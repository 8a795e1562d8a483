package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/quota"
	"github.com/belfryhq/belfry/repeat/zone"
)

const wholeSchedule = `{"repeat":{"cron":["0 9 * * MON-FRI","@monthly"],"time_zone":"Europe/Berlin",
	"start":"2026-11-01T00:00:00Z","end":"2027-11-01T00:00:00+01:00","count":7,"except":["2026-12-25"],"jitter":"90s"},
	"misfire":"all","misfire_window":"2h","overlap":"queue_one","note":"the morning report",
	"task":{"queue":"reports","payload":{"order": 1042},"content_type":"application/vnd.shop+json",
	"target":{"url":"https://shop.example/report","headers":{"X-Shop":"1"},"timeout":"15s"},
	"retry":{"delays":["1m","1h"]},"expires_after":"1h","labels":{"t":"a","b":""}}}`

// A PUT answers the whole schedule as it is kept, and so does a GET.
func TestPutAnswersTheWholeSchedule(t *testing.T) {
	h := newHarness(t)
	a := h.call("PUT", "/v1/schedules/nightly", wholeSchedule)
	a.mustStatus(t, 201)
	want := `{"id":"nightly","repeat":{"cron":["0 9 * * MON-FRI","@monthly"],"time_zone":"Europe/Berlin",` +
		`"start":"2026-11-01T00:00:00.000Z","end":"2027-10-31T23:00:00.000Z","count":7,"except":["2026-12-25"],` +
		`"jitter":"1m30s"},"misfire":"all","misfire_window":"2h","overlap":"queue_one","paused":false,` +
		`"note":"the morning report","task":{"queue":"reports","payload":{"order": 1042},` +
		`"content_type":"application/vnd.shop+json",` +
		`"target":{"url":"https://shop.example/report","headers":{"x-shop":"1"},"timeout":"15s"},` +
		`"retry":{"delays":["1m","1h"]},"expires_after":"1h","labels":{"b":"","t":"a"}},` +
		`"last":0,"next_at":"2026-11-23T08:00:45.000Z","running":[],"waiting":[],"started":0,"passed":0,"ended":false,` +
		`"revision":1,"shard":` + fmt.Sprint(task.Slot("", "nightly")%12) + `,"created_at":"2026-11-21T10:00:00.000Z",` +
		`"tz_data":"` + zone.Version + "\"}\n"
	if a.text != want || a.Header.Get("ETag") != `"1"` {
		t.Fatalf("got  %s\nwant %s\nETag %s", a.text, want, a.Header.Get("ETag"))
	}
	if got := h.call("GET", "/v1/schedules/nightly?consistency=stale", ""); got.text != want || !h.fake.stale {
		t.Errorf("GET differs: %s", got.text)
	}
	if got := h.call("GET", "/v1/schedules", ""); got.text != `{"schedules":[`+
		strings.Replace(strings.TrimSpace(want), `"payload":{"order": 1042},`, "", 1)+`],"next_cursor":null}`+"\n" {
		t.Errorf("the list differs: %s", got.text)
	}
	p := h.call("PUT", "/v1/schedules/nightly", wholeSchedule).mustStatus(t, 200)
	assert.Equal(t, p["revision"], 2.0, "a second one has revision")
}

// A schedule with the fewest members has every default written out. Its interval counts from the receipt.
func TestDefaultsOfASchedule(t *testing.T) {
	h := newHarness(t)
	a := h.call("PUT", "/v1/schedules/a", `{"id":"a","repeat":{"every":"15m","time_zone":"UTC"}}`)
	a.mustStatus(t, 201)
	for _, want := range []string{
		`"repeat":{"every":"15m","anchor":"2026-11-21T10:00:00.000Z","time_zone":"UTC"},"misfire":"latest",` +
			`"misfire_window":"0s","overlap":"skip","paused":false,"note":"","task":{"queue":"default",` +
			`"content_type":"application/json"},"last":0,"next_at":"2026-11-21T10:15:00.000Z"`,
	} {
		assert.Contains(t, a.text, want)
	}
	if set := h.fake.last().GetSetSeries(); set.ReceivedAtMs != testNow.UnixMilli() || set.Series.Repeat.AnchorMs != nil {
		t.Errorf("the command is %v", set)
	}
	paused := h.call("PUT", "/v1/schedules/a", `{"repeat":{"every":"15m"},"paused":true}`)
	if p := paused.mustStatus(t, 200); p["next_at"] != nil || p["paused"] != true || p["ended"] != false {
		t.Errorf("paused: %s", paused.text)
	}
}

// The answer to a GET without the members that the service sets can be sent back as it is.
func TestScheduleCanBeSentBack(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/schedules/a", `{"repeat":{"every":"15m"},`+taskWith(credentialTarget)+`}`).mustStatus(t, 201)
	got := h.call("GET", "/v1/schedules/a", "")
	settings, _, _ := strings.Cut(got.text, `,"last":`)
	h.call("PUT", "/v1/schedules/a", settings+"}").mustStatus(t, 200)
	if again := h.call("GET", "/v1/schedules/a", ""); !strings.HasPrefix(again.text, settings) {
		t.Errorf("%s\nbecame %s", got.text, again.text)
	}
}

func taskWith(member string) string { return `"task":{` + member + `}` }

// Bodies with one fault each are refused, and the answer names the fault and its limit.
func TestBadSchedules(t *testing.T) {
	h := newHarness(t)
	const rule = `"repeat":{"cron":["@daily"]}`
	for _, c := range []struct{ body, field, limit string }{
		{`{}`, "repeat", ""},
		{`{"repeat":null}`, "repeat", ""},
		{`{"repeat":[]}`, "repeat", ""},
		{`{"repeat":{}}`, "repeat.cron", ""},
		{`{"repeat":{"cron":["@daily"],"every":"1h"}}`, "repeat.every", ""},
		{`{"repeat":{"cron":["@daily"],"anchor":"2026-11-21T10:00:00Z"}}`, "repeat.anchor", ""},
		{`{"repeat":{"cron":["@daily","0 25 * * *"]}}`, "repeat.cron[1]", "0-23"},
		{`{"repeat":{"cron":[]}}`, "repeat.cron", "1 to 16"},
		{`{"repeat":{"cron":["@daily"],"count":0}}`, "repeat.count", "1 to 1000000000"},
		{`{"repeat":{"cron":["@daily"],"count":null}}`, "repeat.count", ""},
		{`{"repeat":{"cron":["@daily"],"time_zone":"Mars/Olympus"}}`, "repeat.time_zone", ""},
		{`{"repeat":{"cron":["@daily"],"jitter":"24h1ms"}}`, "repeat.jitter", "0s to 24h"},
		{`{"repeat":{"cron":["@daily"],"jitter":"-1s"}}`, "repeat.jitter", "0s to 24h"},
		{`{"repeat":{"every":"99ms"}}`, "repeat.every", "100ms to 100 years (36500d)"},
		{`{"repeat":{"every":"1h","calendar":"x"}}`, "repeat.calendar", ""},
		{`{"repeat":{"every":"1h","every":"2h"}}`, "repeat.every", ""},
		{`{"repeat":{"every":"1h","end":"2200-01-01T00:00:00Z"}}`, "repeat.end", "1970-01-01T00:00:00Z to 100 years from now"},
		{`{"repeat":{"cron":["0 0 30 2 *"]}}`, "repeat.cron[0]", ""},
		{`{` + rule + `,"repeat":{}}`, "repeat", ""},
		{`{` + rule + `,"misfire":"some"}`, "misfire", "latest, all, skip"},
		{`{` + rule + `,"misfire":null}`, "misfire", ""},
		{`{` + rule + `,"misfire_window":"-1s"}`, "misfire_window", spanLimit},
		{`{` + rule + `,"misfire_window":"soon"}`, "misfire_window", ""},
		{`{` + rule + `,"overlap":"no"}`, "overlap", "skip, queue_one, queue_all, allow, cancel_previous"},
		{`{` + rule + `,"paused":"yes"}`, "paused", ""},
		{`{` + rule + `,"note":"` + strings.Repeat("é", 128) + `"}`, "note", "255 bytes"},
		{`{` + rule + `,"id":"b"}`, "id", ""},
		{`{` + rule + `,"calendar":"x"}`, "calendar", ""},
		{`{` + rule + `,"last":1}`, "last", ""},
		{`{` + rule + `,"revision":1}`, "revision", ""},
		{`{` + rule + `,"fire_at":"2026-11-21T12:00:00Z"}`, "fire_at", ""},
		{`{` + rule + `,"task":null}`, "task", ""},
		{`{` + rule + `,"task":[]}`, "task", ""},
		{`{` + rule + `,"task":{"id":"a"}}`, "task.id", ""},
		{`{` + rule + `,"task":{"fire_at":"2026-11-21T12:00:00Z"}}`, "task.fire_at", ""},
		{`{` + rule + `,"task":{"delay":"1h"}}`, "task.delay", ""},
		{`{` + rule + `,"task":{"jitter":"1h"}}`, "task.jitter", ""},
		{`{` + rule + `,"task":{"repeat":{}}}`, "task.repeat", ""},
		{`{` + rule + `,"task":{"state":"ready"}}`, "task.state", ""},
		{`{` + rule + `,"task":{"occurrence":1}}`, "task.occurrence", ""},
		{`{` + rule + `,"task":{"queue":"a b"}}`, "task.queue", nameRule},
		{`{` + rule + `,"task":{"queue":"a","queue":"b"}}`, "task.queue", ""},
		{`{` + rule + `,"task":{"payload":1,"payload_base64":"MQ=="}}`, "task.payload_base64", ""},
		{`{` + rule + `,"task":{"target":{"url":"ftp://x/"}}}`, "task.target.url", ""},
		{`{` + rule + `,"task":{"target":{"url":"http://x","headers":{"host":"1"}}}}`, "task.target.headers.host", ""},
		{`{` + rule + `,"task":{"target":{"url":"http://x","headers":{"cookie":"***"}}}}`, "task.target.headers.cookie", ""},
		{`{` + rule + `,"task":{"retry":{"max_attempts":0}}}`, "task.retry.max_attempts", "1 to 1000"},
		{`{` + rule + `,"task":{"expires_after":"0s"}}`, "task.expires_after", "more than 0s, at most 100 years"},
		{`{` + rule + `,"task":{"labels":{"a":1}}}`, "task.labels.a", ""},
	} {
		p := h.call("PUT", "/v1/schedules/a", c.body).mustProblem(t, 400, c.field)
		if got, _ := p["limit"].(string); got != c.limit {
			t.Errorf("%s: limit %q, want %q (%v)", c.body, got, c.limit, p["detail"])
		}
	}
	large := `{` + rule + `,"task":{"payload":"` + strings.Repeat("x", task.MaxPayloadBytes) + `"}}`
	h.call("PUT", "/v1/schedules/a", large).mustProblem(t, 413, "task.payload")
	h.call("PUT", "/v1/schedules/a", `[]`).mustProblem(t, 400, "")
	h.call("PUT", "/v1/schedules/a", "").mustProblem(t, 400, "")
	h.call("PUT", "/v1/schedules/a?x=1", `{`+rule+`}`).mustProblem(t, 400, "x")
	h.call("PUT", "/v1/schedules/a%20b", `{`+rule+`}`).mustProblem(t, 400, "id")
	h.call("PUT", "/v1/schedules/a/b", `{`+rule+`}`).mustProblem(t, 404, "id")
	h.call("POST", "/v1/schedules/a", `{`+rule+`}`).mustProblem(t, 405, "")
	h.call("PUT", "/v1/schedules/a", `x=1`, "Content-Type", "text/plain").mustProblem(t, 415, "Content-Type")
	if len(h.fake.tasks) > 0 {
		t.Errorf("there are %v", h.fake.tasks)
	}
}

// A node that is unsure of the time makes no schedule, since its occurrences count from now.
func TestScheduleNeedsTheTime(t *testing.T) {
	h := newHarness(t, func(c *Config) { c.Now = func() (time.Time, bool) { return testNow, false } })
	h.call("PUT", "/v1/schedules/a", `{"repeat":{"cron":["@daily"]}}`).mustProblem(t, 503, "")
	h.call("POST", "/v1/schedules/a/backfill", `{}`).mustProblem(t, 503, "")
}

// Every call about a schedule that does not exist is answered 404, also as a caller whose grants do not reach it.
func TestNoSuchSchedule(t *testing.T) {
	h := newHarness(t, withAccess)
	h.as("admin@a", "PUT", "/v1/schedules/other", `{"repeat":{"cron":["@daily"]},"task":{"queue":"mail"}}`).mustStatus(t, 201)
	h.fake.seen = nil
	texts := map[string]bool{}
	for _, c := range [][3]string{
		{"GET", "", ""}, {"PATCH", "", "{}"}, {"DELETE", "", ""}, {"POST", "/pause", ""}, {"POST", "/resume", "{}"},
		{"POST", "/fire", ""}, {"POST", "/skip", ""}, {"GET", "/occurrences", ""},
		{"POST", "/backfill", `{"from":"2026-11-20T00:00:00Z","to":"2026-11-21T00:00:00Z"}`},
	} {
		for _, id := range []string{"none", "other"} {
			a := h.as(orders, c[0], "/v1/schedules/"+id+c[1], c[2])
			a.mustProblem(t, 404, "")
			texts[a.text] = true
		}
	}
	about := func(c *fsmpb.Command) bool { return c.Id == "other@" }
	if len(texts) != 1 || slices.ContainsFunc(h.fake.seen, about) {
		t.Errorf("the commands %v, and the answers %v", h.fake.seen, texts)
	}
}

// Callers with limited grants make, change and see schedules only within them. The queue is that of the task.
func TestLimitedSchedules(t *testing.T) {
	h := newHarness(t, withAccess)
	const inOrders, inMail = `{"repeat":{"cron":["@daily"]},"task":{"queue":"orders"}}`, `{"repeat":{"cron":["@daily"]},"task":{"queue":"mail"}}`
	h.as("admin@a", "PUT", "/v1/schedules/other", inMail).mustStatus(t, 201)
	for _, c := range []struct {
		caller, method, path, body string
		status                     int
		field                      string
	}{
		{orders, "PUT", "/a", inMail, 403, "task.queue"}, {orders, "PUT", "/a", inOrders, 201, ""},
		{orders, "PUT", "/other", inOrders, 403, "id"}, {mine, "PUT", "/x", inMail, 403, "task.queue"},
		{mine, "PUT", "/mine-1", inMail, 201, ""}, {both, "PUT", "/mine-1", inMail, 403, "task.queue"},
		{"schedule@a ids=exact", "PUT", "/exact", inMail, 201, ""},
		{orders, "PATCH", "/a", `{"task":{"queue":"mail"}}`, 403, "task.queue"},
		{orders, "PATCH", "/a", `{"task":{"queue":"orders-eu"}}`, 200, ""}, {orders, "POST", "/a/fire", "", 200, ""},
		{mine, "POST", "/a/fire", "", 404, ""}, {mine, "GET", "/mine-1", "", 200, ""},
		{orders, "GET", "", "", 403, "queue"}, {orders, "GET", "?queue=orders", "", 200, ""},
		{mine, "GET", "?prefix=mine-", "", 200, ""}, {mine, "GET", "?prefix=mine", "", 403, "prefix"},
		{"read@a", "PUT", "/a", inOrders, 403, ""}, {"consume@a", "POST", "/a/fire", "", 403, ""},
	} {
		a := h.as(c.caller, c.method, "/v1/schedules"+c.path, c.body)
		if c.status >= 400 {
			a.mustProblem(t, c.status, c.field)
		} else {
			a.mustStatus(t, c.status)
		}
	}
	h.as("schedule@a ids=exact", "POST", "/v1/schedules/exact/fire", "").mustStatus(t, 200)
	for caller, status := range map[string]int{"read@a ids=exact": 200, "read@a ids=other": 404, mine: 404, orders: 404} {
		if a := h.as(caller, "GET", "/v1/tasks/exact@1", ""); a.StatusCode != status {
			t.Errorf("%s: its occurrence is answered %d to %s", a.text, a.StatusCode, caller)
		}
	}
}

// A schedule of one namespace is none of another.
func TestSchedulesOfNamespaces(t *testing.T) {
	h := newHarness(t)
	const path = "/v1/namespaces/a/schedules"
	h.call("PUT", path+"/x", `{"repeat":{"cron":["@daily"]}}`).mustStatus(t, 201)
	h.call("GET", "/v1/schedules/x", "").mustProblem(t, 404, "")
	h.call("GET", "/v1/namespaces/none/schedules/x", "").mustProblem(t, 404, "")
	if got := h.fake.last(); got.Namespace != "a" || got.Id != "x@" {
		t.Errorf("%v", got)
	}
	for list, n := range map[string]int{path: 1, "/v1/schedules": 0} {
		got := h.call("GET", list, "").mustStatus(t, 200)["schedules"].([]any)
		assert.Equal(t, len(got), n, "%s has %v", list, got)
	}
}

// The conditions and the keys of a call about a schedule are those of a call about a task.
func TestConditionsOfSchedules(t *testing.T) {
	h := newHarness(t)
	const path, body = "/v1/schedules/a", `{"repeat":{"cron":["@daily"]},"task":{"payload":"x"}}`
	h.call("PUT", path, body, "If-Match", "*").mustProblem(t, 412, "")
	h.call("PUT", path, body, "If-None-Match", "*", keyHeader, "k").mustStatus(t, 201)
	p := h.call("PUT", path, body, "If-None-Match", "*").mustProblem(t, 412, "")
	mustEqual(t, p["schedule"], any(h.call("GET", path, "").json(t)))
	if p["task"] != nil || !strings.Contains(p["detail"].(string), "the schedule exists, at revision 1") {
		t.Errorf("%v", p)
	}
	h.call("PUT", path, body, "If-None-Match", "*", keyHeader, "k").mustStatus(t, 201)
	h.call("PUT", path, `{"repeat":{"cron":["@hourly"]}}`, "If-None-Match", "*", keyHeader, "k").mustProblem(t, 422, keyHeader)
	for _, c := range [][3]string{
		{"PUT", "", body}, {"PATCH", "", `{"note":"n"}`}, {"POST", "/pause", ""}, {"POST", "/resume", ""}, {"POST", "/skip", ""},
		{"POST", "/backfill", `{"from":"2026-11-20T00:00:00Z","to":"2026-11-20T12:00:00Z"}`}, {"POST", "/fire", ""},
		{"DELETE", "", ""},
	} {
		h.call(c[0], path+c[1], c[2], "If-Match", `"999"`).mustProblem(t, 412, "")
		h.call(c[0], path+c[1], c[2], "If-None-Match", "*").mustProblem(t, 412, "")
		h.call(c[0], path+c[1], c[2], "If-None-Match", "7").mustProblem(t, 400, "If-None-Match")
		h.call(c[0], path+c[1], c[2], keyHeader, "").mustProblem(t, 400, keyHeader)
		tag := h.call("GET", path, "").Header.Get("ETag")
		h.call(c[0], path+c[1], c[2], "If-Match", tag).mustStatus(t, 200)
	}
	h.call("GET", path, "").mustProblem(t, 404, "")
}

// A repeated call gets the first answer and changes nothing; the key with another call is refused.
func TestKeysOfSchedules(t *testing.T) {
	for _, c := range [][3]string{
		{"PATCH /v1/schedules/a", `{"note":"n","task":{"payload":[1]}}`, `{"note":"m","task":{"payload":[1]}}`},
		{"PATCH /v1/schedules/a", `{"note":"n","task":{"payload":[1]}}`, `{"note":"n","task":{"payload":[ 1]}}`},
		{"POST /v1/schedules/a/pause", `{"note":"n"}`, `{}`},
		{"POST /v1/schedules/a/fire", ``, ``}, {"POST /v1/schedules/a/skip", `{}`, ``},
		{"POST /v1/schedules/a/backfill", `{"from":"2026-11-20T00:00:00Z","to":"2026-11-20T12:00:00Z"}`,
			`{"from":"2026-11-20T00:00:00Z","to":"2026-11-20T12:00:01Z"}`},
	} {
		h := newHarness(t)
		method, path, _ := strings.Cut(c[0], " ")
		h.call("PUT", "/v1/schedules/a", `{"repeat":{"cron":["@daily"]}}`).mustStatus(t, 201)
		first := h.call(method, path, c[1], keyHeader, "k")
		first.mustStatus(t, 200)
		again := h.call(method, path, strings.Replace(c[1], `":`, `" : `, 1), keyHeader, "k")
		if again.StatusCode != 200 || again.text != first.text {
			t.Errorf("%s: %s, and again %d %s", c[0], first.text, again.StatusCode, again.text)
		}
		if c[1] != "" && c[2] != "" {
			h.call(method, path, c[2], keyHeader, "k").mustProblem(t, 422, keyHeader)
		}
		h.call("POST", "/v1/schedules/a/resume", "", keyHeader, "k").mustProblem(t, 422, keyHeader)
	}
	h := newHarness(t)
	h.call("PUT", "/v1/schedules/a", `{"repeat":{"cron":["@daily"]}}`).mustStatus(t, 201)
	h.call("PATCH", "/v1/schedules/a", `{"note":"n","paused":true}`, keyHeader, "k").mustStatus(t, 200)
	h.call("PATCH", "/v1/schedules/a", `{"note":"other"}`).mustStatus(t, 200) // the merged schedule is another one now
	h.call("PATCH", "/v1/schedules/a", `{ "paused": true, "note": "n" }`, keyHeader, "k").mustStatus(t, 200)
	assert.Equal(t, h.call("GET", "/v1/schedules/a", "").json(t)["note"], "other", "a repeated patch has set the note")
}

// The hashes of calls outlive a build, since schedules remember them.
func TestHashesOfScheduleCallsAreFixed(t *testing.T) {
	h := newHarness(t)
	calls := map[string]uint64{}
	for _, c := range [][2]string{
		{"PUT /v1/schedules/a", wholeSchedule}, {"PATCH /v1/schedules/a", `{"note":"n","task":{"payload":[1]}}`},
		{"POST /v1/schedules/a/pause", `{"note":"n"}`}, {"POST /v1/schedules/a/resume", ``},
		{"POST /v1/schedules/a/fire", ``}, {"POST /v1/schedules/a/skip", ``},
		{"POST /v1/schedules/a/backfill", `{"from":"2026-11-17T00:00:00Z","to":"2026-11-19T00:00:00Z"}`},
	} {
		method, path, _ := strings.Cut(c[0], " ")
		if a := h.call(method, path, c[1], keyHeader, c[0]); a.StatusCode >= 300 {
			t.Fatalf("%s: %s", c[0], a.text)
		}
		calls[c[0]] = h.fake.last().Key.Call
	}
	mustEqual(t, calls, map[string]uint64{
		"PUT /v1/schedules/a": 17751788353265911222, "PATCH /v1/schedules/a": 18144924460539624062,
		"POST /v1/schedules/a/pause": 4388244082968932701, "POST /v1/schedules/a/resume": 4266759778768513291,
		"POST /v1/schedules/a/fire": 16127400385655347921, "POST /v1/schedules/a/skip": 13465458184690296013,
		"POST /v1/schedules/a/backfill": 9101740325041382251,
	})
}

// A merge patch changes what it names, restores defaults for null, and swaps the payload whole.
func TestPatchSchedule(t *testing.T) {
	const path = "/v1/schedules/a"
	for _, c := range []struct{ patch, want string }{
		{`{}`, ``},
		{`{"note":null,"overlap":"allow"}`, `"overlap":"allow","paused":false,"note":""`},
		{`{"misfire":null,"misfire_window":null,"overlap":null}`, `"misfire":"latest","misfire_window":"0s","overlap":"skip"`},
		{`{"paused":true}`, `"paused":true`},
		{`{"repeat":{"count":null,"end":null,"except":null,"jitter":null}}`,
			`"repeat":{"cron":["0 9 * * MON-FRI","@monthly"],"time_zone":"Europe/Berlin","start":"2026-11-01T00:00:00.000Z"},`},
		{`{"repeat":{"cron":["@daily"],"time_zone":null}}`, `"repeat":{"cron":["@daily"],"time_zone":"UTC",`},
		{`{"repeat":{"cron":null,"every":"1h"}}`, `"repeat":{"every":"1h","anchor":"2026-11-21T10:00:00.000Z",`},
		{`{"task":null}`, `"task":{"queue":"default","content_type":"application/json"},`},
		{`{"task":{"queue":null,"payload":null,"content_type":null,"target":null,"retry":null,"expires_after":null,"labels":null}}`,
			`"task":{"queue":"default","content_type":"application/json"},`},
		{`{"task":{"payload":[1,  2],"labels":{"t":null,"c":"x"}}}`, `"payload":[1,  2],`},
		{`{"task":{"labels":{"t":null,"c":"x"},"retry":{"max_attempts":9}}}`,
			`"retry":{"max_attempts":9,"delays":["1m","1h"]},"expires_after":"1h","labels":{"b":"","c":"x"}}`},
		{`{"task":{"payload_base64":"/+8=","expires_after":"2h"}}`, `"payload_base64":"/+8=",`},
		{`{"task":{"target":{"headers":{"x-shop":null,"y":"2"},"timeout":null}}}`,
			`"target":{"url":"https://shop.example/report","headers":{"y":"2"}},`},
	} {
		h := newHarness(t)
		before := h.call("PUT", path, wholeSchedule)
		before.mustStatus(t, 201)
		a := h.call("PATCH", path, c.patch, "Content-Type", mergeType)
		if a.StatusCode != 200 || !strings.Contains(a.text, c.want) || a.text != h.call("GET", path, "").text {
			t.Errorf("%s: %d %s", c.patch, a.StatusCode, a.text)
		}
		if c.patch == "{}" && strings.Replace(a.text, `"revision":2`, `"revision":1`, 1) != before.text {
			t.Errorf("an empty patch made %s of %s", a.text, before.text)
		}
	}
}

// A faulty patch is refused and changes nothing.
func TestBadSchedulePatches(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/schedules/a", wholeSchedule).mustStatus(t, 201)
	for _, c := range [][2]string{
		{`{"repeat":null}`, "repeat"}, {`{"repeat":{"cron":null}}`, "repeat.cron"}, {`{"repeat":{"every":"1h"}}`, "repeat.every"},
		{`{"repeat":{"start":"2028-01-01T00:00:00Z"}}`, "repeat.end"}, {`{"repeat":{"x":null}}`, "repeat.x"},
		{`{"colour":null}`, "colour"}, {`{"last":null}`, "last"},
		{`{"id":"b"}`, "id"}, {`{"note":7}`, "note"}, {`{"task":[]}`, "task"}, {`{"task":{"fire_at":null}}`, "task.fire_at"},
		{`{"task":{"payload":1,"payload_base64":null}}`, "task.payload_base64"},
		{`{"task":{"target":{"url":""}}}`, "task.target.url"}, {`{"task":{"target":{"url":"ftp://x"}}}`, "task.target.url"},
		{`{"task":{"target":{"headers":{"cookie":"***"}}}}`, "task.target.headers.cookie"},
		{`{"task":{"retry":{"min_backoff":"1s"}}}`, "task.retry.delays"}, {`[]`, ""}, {`{`, ""}, {``, ""},
	} {
		h.call("PATCH", "/v1/schedules/a", c[0]).mustProblem(t, 400, c[1])
	}
	got := h.fake.tasks["a@"]
	assert.Equal(t, got.Revision, 1, "it has become %v", got)
}

// Settings are taken also after the rule's end: the call may be a repeat. The answer shows that nothing follows.
func TestPatchOfAnEndedSchedule(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/schedules/a", `{"repeat":{"every":"1h"}}`).mustStatus(t, 201)
	h.fake.tasks["a@"].Series.Repeat.EndMs = proto.Int64(testNow.UnixMilli() - 1)
	p := h.call("PATCH", "/v1/schedules/a", `{"note":"n"}`).mustStatus(t, 200)
	assert.Equal(t, p["ended"], true, "%v", p)
	p = h.call("PATCH", "/v1/schedules/a", `{"repeat":{"every":"2h"}}`).mustStatus(t, 200)
	assert.Equal(t, p["ended"], true, "%v", p)
}

// Calls that depend on the stored schedule are made anew if it changes meanwhile, and lose no other change.
func TestSchedulesThatChangeMeanwhile(t *testing.T) {
	change := func(h *harness) {
		s := h.fake.tasks["a@"]
		s.Spec.Labels, s.Series.Repeat = []*fsmpb.Label{{Name: "other", Value: "change"}}, &fsmpb.Repeat{Cron: []string{"@hourly"}}
		s.Revision += 100
	}
	for _, c := range []struct {
		method, path, body string
		want               string
	}{
		{"PATCH", "", `{"note":"n"}`, `"cron":["@hourly"]`},
		{"POST", "/backfill", `{"from":"2026-11-20T00:00:00Z","to":"2026-11-20T03:00:00Z"}`, `"waiting":[1,2,3,4]`},
		{"DELETE", "", ``, `"labels":{"other":"change"}`},
	} {
		h := newHarness(t)
		h.call("PUT", "/v1/schedules/a", `{"repeat":{"cron":["@daily"]}}`).mustStatus(t, 201)
		race(h, 1, func() { change(h) })
		a := h.call(c.method, "/v1/schedules/a"+c.path, c.body)
		if a.StatusCode != 200 || !strings.Contains(a.text, c.want) {
			t.Errorf("%s: %d %s", c.method, a.StatusCode, a.text)
		}
		h = newHarness(t)
		h.call("PUT", "/v1/schedules/a", `{"repeat":{"cron":["@daily"]}}`).mustStatus(t, 201)
		race(h, 1000, func() { change(h) })
		p := h.call(c.method, "/v1/schedules/a"+c.path, c.body).mustProblem(t, 429, "")
		assert.Equal(t, p["detail"], "the schedule keeps changing", "%v", p)
	}
}

// The credentials of a schedule's target are shown in no answer, a mask keeps them, and they stay at their host.
func TestCredentialsOfSchedules(t *testing.T) {
	h := newHarness(t)
	const path, rule, field = "/v1/schedules/a", `{"repeat":{"every":"1h"},`, "task.target.headers.authorization"
	kept := map[string]string{"authorization": credential, "cookie": "sid=s3cr3t", "x-a": "***"}
	masked := rule + taskWith(maskedTarget) + `}`
	h.call("PUT", path, masked).mustProblem(t, 400, field)
	texts := []string{h.call("PUT", path, rule+taskWith(credentialTarget)+`}`).text}
	texts = append(texts, h.call("PUT", path, masked).text,
		h.call("PATCH", path, `{"task":{"target":{"headers":{"authorization":"***"}}}}`).text,
		h.call("PATCH", path, `{`+taskWith(maskedTarget)+`}`).text, h.call("GET", path, "").text,
		h.call("GET", "/v1/schedules", "").text, h.call("POST", path+"/pause", "").text, h.call("POST", path+"/resume", "").text,
		h.call("POST", path+"/fire", "").text, h.call("PUT", path, masked, "If-None-Match", "*").text,
		h.call("GET", "/v1/tasks/a@1", "").text)
	for i, text := range texts {
		if strings.Contains(text, "s3cr3t") || !strings.Contains(text, `"authorization":"***"`) {
			t.Errorf("answer %d is %s", i, text)
		}
	}
	mustEqual(t, h.headersOf("a@"), kept)
	for _, c := range [][2]string{
		{"PUT", rule + taskWith(strings.ReplaceAll(maskedTarget, "shop.example", "evil.example")) + `}`},
		{"PATCH", `{"task":{"target":{"url":"https://evil.example/"}}}`},
		{"PATCH", `{` + taskWith(strings.ReplaceAll(maskedTarget, "shop.example", "evil.example")) + `}`},
	} {
		h.call(c[0], path, c[1]).mustProblem(t, 400, field)
	}
	h.call("PATCH", path, `{"task":{"target":{"url":"https://evil.example/","headers":null}}}`).mustStatus(t, 200)
	mustEqual(t, h.headersOf("a@"), map[string]string{})
}

// A pause takes a note of at most 255 bytes.
func TestPauseAndResumeOfASchedule(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/schedules/a", `{"repeat":{"every":"1h"}}`).mustStatus(t, 201)
	p := h.call("POST", "/v1/schedules/a/pause", `{"note":"the move"}`).mustStatus(t, 200)
	if p["paused"] != true || p["note"] != "the move" || p["next_at"] != nil {
		t.Errorf("%v", p)
	}
	p = h.call("POST", "/v1/schedules/a/resume", "").mustStatus(t, 200)
	if p["paused"] != false || p["next_at"] == nil {
		t.Errorf("%v", p)
	}
	for _, call := range []string{"pause", "resume"} {
		long := `{"note":"` + strings.Repeat("x", 256) + `"}`
		p := h.call("POST", "/v1/schedules/a/"+call, long).mustProblem(t, 400, "note")
		assert.Equal(t, p["limit"], "255 bytes", "%v", p)
		h.call("POST", "/v1/schedules/a/"+call, `{"x":1}`).mustProblem(t, 400, "x")
		h.call("POST", "/v1/schedules/a/"+call, `{"note":null}`).mustProblem(t, 400, "note")
	}
}

// A fired occurrence is a task of its schedule. A second one beside it is refused under overlap skip.
func TestFireSchedule(t *testing.T) {
	h := newHarness(t)
	const path = "/v1/schedules/a"
	h.call("PUT", path, `{"repeat":{"every":"1h"},"task":{"queue":"q","payload":[1,  2]}}`).mustStatus(t, 201)
	a := h.call("POST", path+"/fire", "{}")
	p := a.mustStatus(t, 200)
	schedule := p["schedule"].(map[string]any)
	if p["id"] != "a@1" || p["number"] != 1.0 || schedule["last"] != 1.0 || schedule["id"] != "a" ||
		fmt.Sprint(schedule["running"]) != "[1]" || !strings.Contains(a.text, `"payload":[1,  2]`) {
		t.Errorf("%s", a.text)
	}
	one := h.call("GET", "/v1/tasks/a@1", "").mustStatus(t, 200)
	if one["id"] != "a@1" || one["schedule"] != "a" || one["occurrence"] != 1.0 || one["queue"] != "q" {
		t.Errorf("%v", one)
	}
	p = h.call("POST", path+"/fire", "").mustProblem(t, 409, "")
	if !strings.HasSuffix(p["type"].(string), ":wrong-state") || !strings.Contains(p["detail"].(string), "overlap") {
		t.Errorf("%v", p)
	}
	h.call("POST", path+"/fire", `{"note":"n"}`).mustProblem(t, 400, "note")
	if p := h.call("DELETE", path, "").mustStatus(t, 200); fmt.Sprint(p["running"]) != "[1]" {
		t.Errorf("%v", p)
	}
	h.call("GET", "/v1/tasks/a@1", "").mustStatus(t, 200) // it goes on
	h.call("DELETE", path, "").mustProblem(t, 404, "")
}

func TestSkipOccurrence(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/schedules/a", `{"repeat":{"every":"1h","count":1}}`).mustStatus(t, 201)
	if p := h.call("POST", "/v1/schedules/a/skip", "").mustStatus(t, 200); p["passed"] != 1.0 || p["ended"] != true {
		t.Errorf("%v", p)
	}
	p := h.call("POST", "/v1/schedules/a/skip", "").mustProblem(t, 409, "")
	assert.Contains(t, p["detail"].(string), "no coming occurrence", "%v", p)
}

// TestSchedulesThatNeverFire checks that a schedule without any occurrence says so at once, or is refused.
func TestSchedulesThatNeverFire(t *testing.T) {
	h := newHarness(t)
	var days []string
	for day := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() == 2000; day = day.AddDate(0, 0, 1) {
		days = append(days, day.Format("--01-02"))
	}
	closed, err := json.Marshal(map[string]any{"closed": days})
	assert.NoError(t, err)
	h.call("PUT", "/v1/calendars/never", string(closed)).mustStatus(t, 201)
	for _, rule := range []string{
		`{"cron":["@daily"],"end":"2026-11-20T00:00:00Z"}`, `{"every":"1h","end":"2026-11-20T00:00:00Z"}`,
		`{"every":"1h","start":"2026-11-19T00:00:00Z","end":"2026-11-20T00:00:00Z"}`,
		`{"cron":["@daily"],"calendar":"never"}`, `{"every":"1m","calendar":"never"}`,
		`{"every":"1h","start":"2027-11-19T00:00:00Z","end":"2027-11-20T00:00:00Z","except":["2027-11-19/2027-11-20"]}`,
	} {
		for _, paused := range []string{"false", "true"} {
			v := h.call("PUT", "/v1/schedules/s", `{"repeat":`+rule+`,"paused":`+paused+`}`).json(t)
			if v["ended"] != true || v["next_at"] != nil {
				t.Errorf("%s, paused %s: ended %v, next at %v", rule, paused, v["ended"], v["next_at"])
			}
		}
	}
	for _, rule := range []string{`{"cron":["* * * * *"],"except":["* * * * *"]}`,
		`{"every":"100ms","except":["* * * * * *"]}`, `{"cron":["*/2 * * * * *"],"except":["*/2 * * * * *"]}`,
		`{"cron":["0 0 25 12 *"],"except":["* * 25 12 *"]}`} {
		p := h.call("PUT", "/v1/schedules/s", `{"repeat":`+rule+`}`).mustProblem(t, 400, "repeat.except")
		detail, _ := p["detail"].(string)
		assert.Contains(t, detail, "every instant of the rule", "%s: %v", rule, p)
	}
	for _, rule := range []string{`{"cron":["@daily"],"end":"2026-11-23T00:00:00Z"}`, `{"every":"1s","except":["2026-11-21/2027-11-20"]}`} {
		if v := h.call("PUT", "/v1/schedules/s", `{"repeat":`+rule+`}`).json(t); v["ended"] != false || v["next_at"] == nil {
			t.Errorf("%s: ended %v, next at %v", rule, v["ended"], v["next_at"])
		}
	}
}

// TestQuartzExpressions checks that an expression with another meaning for Quartz is refused with a hint.
func TestQuartzExpressions(t *testing.T) {
	h := newHarness(t)
	for _, call := range [][]string{
		{"PUT", "/v1/schedules/s", `{"repeat":{"cron":["@daily","0 0 9 ? * 6L"]}}`}, {"POST", "/v1/preview", `{"repeat":{"cron":["@daily","0 0 9 ? * 6L"]}}`},
	} {
		p := h.call(call[0], call[1], call[2]).mustProblem(t, 400, "repeat.cron[1]")
		if detail, _ := p["detail"].(string); !strings.Contains(detail, "FRIL") || !strings.Contains(detail, "Quartz") {
			t.Errorf("%s: %s", call[1], detail)
		}
	}
	h.call("PUT", "/v1/schedules/s", `{"repeat":{"cron":["0 0 9 ? * FRIL"]}}`).mustStatus(t, 201)
}

// TestBackfillBeforeCreation checks that an interval has instants before its schedule was made, and before its anchor,
// unless start bounds it.
func TestBackfillBeforeCreation(t *testing.T) {
	h := newHarness(t)
	const body = `{"from":"2026-11-20T01:00:00Z","to":"2026-11-20T03:00:00Z"}`
	for rule, want := range map[string]int{
		`{"every":"1h"}`: 3, `{"every":"1h","anchor":"2027-01-01T00:00:00Z"}`: 3,
		`{"every":"1h","anchor":"2027-01-01T00:30:00Z"}`:                                2,
		`{"every":"1h","start":"2026-11-20T02:00:00Z"}`:                                 2,
		`{"every":"1h","anchor":"2026-01-01T00:30:00Z","start":"2026-11-20T02:00:00Z"}`: 1,
	} {
		h.call("PUT", "/v1/schedules/a", `{"repeat":`+rule+`}`)
		h.call("POST", "/v1/schedules/a/backfill", body).mustStatus(t, 200)
		if got := h.fake.last().GetBackfill().ScheduledMs; len(got) != want {
			t.Errorf("%s: %d occurrences, want %d", rule, len(got), want)
		}
	}
}

// A backfill begins the instants of the rule in its range, with both ends.
func TestBackfill(t *testing.T) {
	h := newHarness(t)
	const path = "/v1/schedules/a/backfill"
	h.call("PUT", "/v1/schedules/a", `{"repeat":{"cron":["@hourly"],"except":["2026-11-20T02:00:00Z"],"count":1}}`).mustStatus(t, 201)
	body := func(from, to string) string { return fmt.Sprintf(`{"from":%q,"to":%q}`, from, to) }
	p := h.call("POST", path, body("2026-11-20T01:00:00Z", "2026-11-20T04:00:00Z")).mustStatus(t, 200)
	if got := h.fake.last().GetBackfill().ScheduledMs; fmt.Sprint(p["waiting"]) != "[1 2 3]" ||
		!slices.Equal(got, []int64{1795136400000, 1795143600000, 1795147200000}) {
		t.Errorf("%v: %v", got, p)
	}
	for _, c := range []struct{ body, field, limit string }{
		{``, "", ""}, {`{}`, "from", ""}, {`{"from":"2026-11-20T01:00:00Z"}`, "to", ""},
		{`{"from":1,"to":2}`, "from", ""}, {body("yesterday", "today"), "from", ""},
		{body("2026-11-20T01:00:00Z", "2026-11-20T00:00:00Z"), "to", ""},
		{body("2026-11-20T01:00:00Z", "2026-11-21T10:00:00.002Z"), "to", "2026-11-21T10:00:00.00025Z"},
		{body("2026-11-20T01:30:00Z", "2026-11-20T02:59:00Z"), "from", ""}, // the only instant is excepted
		{body("2026-10-09T09:00:00Z", "2026-11-21T00:00:00Z"), "from", "1000"},
		{`{"from":"2026-11-20T01:00:00Z","x":1}`, "x", ""},
		{body("1960-01-01T00:00:00Z", "2026-11-20T00:00:00Z"), "from", "1970-01-01T00:00:00Z or later"},
	} {
		if p := h.call("POST", path, c.body).mustProblem(t, 400, c.field); c.limit != "" && p["limit"] != c.limit {
			t.Errorf("%s: %v", c.body, p)
		}
	}
	h.call("POST", path, body("2026-10-10T10:00:00Z", "2026-11-21T01:00:00Z")).mustProblem(t, 409, "")
	h.call("PUT", "/v1/schedules/a", `{"repeat":{"every":"100ms","anchor":"2026-11-01T00:00:00Z",`+
		`"except":["0-29 * 6-9 20 11 *","30-59 * 6-9 20 11 *"]}}`).mustStatus(t, 200) // each second by itself
	p = h.call("POST", path, body("2026-11-20T06:00:00Z", "2026-11-20T10:00:00Z")).mustProblem(t, 400, "from")
	if p["limit"] != "10000" || !strings.Contains(p["detail"].(string), "repeat.except takes away") {
		t.Errorf("%v", p)
	}
}

// The list of occurrences has coming ones beyond those that the log holds, and all kinds of last ones.
func TestOccurrences(t *testing.T) {
	h := newHarness(t)
	const path = "/v1/schedules/a/occurrences"
	h.call("PUT", "/v1/schedules/a", `{"repeat":{"cron":["30 2 * * *"],"time_zone":"Europe/Berlin","jitter":"1m",`+
		`"start":"2027-03-26T00:00:00Z","count":4}}`).mustStatus(t, 201)
	ms := testNow.UnixMilli() / 1000 * 1000
	s := h.fake.tasks["a@"].Series
	s.Last, s.Ruled = 9, 0
	s.Past = []*fsmpb.Occurrence{
		{Number: 2, Count: 3, ScheduledMs: ms, Passed: fsmpb.Passed_PASSED_COALESCED},
		{Number: 5, ScheduledMs: ms, FireMs: ms + 1000, BeganMs: ms + 1004, EndedMs: ms + 2000, Attempts: 2, Error: "500",
			State: fsmpb.State_STATE_DEAD},
		{Number: 7, ScheduledMs: ms, FireMs: ms + 50, BeganMs: ms, EndedMs: ms + 1, Attempts: 1,
			State: fsmpb.State_STATE_DELIVERED, Origin: fsmpb.Origin_ORIGIN_CALL},
	}
	s.Live = []*fsmpb.Occurrence{{Number: 6, ScheduledMs: ms}}
	s.Queued = []*fsmpb.Occurrence{{Number: 8, ScheduledMs: ms, Origin: fsmpb.Origin_ORIGIN_BACKFILL}}
	want := `{"next":[` +
		`{"number":10,"due":"2027-03-26T01:30:30.000Z","scheduled":"2027-03-26T01:30:00.000Z","local":"2027-03-26T02:30:00.000+01:00"},` +
		`{"number":11,"due":"2027-03-27T01:30:30.000Z","scheduled":"2027-03-27T01:30:00.000Z","local":"2027-03-27T02:30:00.000+01:00"},` +
		`{"number":12,"due":"2027-03-28T01:00:00.000Z","scheduled":"2027-03-28T01:00:00.000Z","local":"2027-03-28T03:00:00.000+02:00","clock_change":"gap"},` +
		`{"number":13,"due":"2027-03-29T00:30:00.000Z","scheduled":"2027-03-29T00:30:00.000Z","local":"2027-03-29T02:30:00.000+02:00"}` +
		`],"last":[` +
		`{"number":2,"count":3,"scheduled":"2026-11-21T10:00:00.000Z","origin":"rule","state":"passed","why":"coalesced"},` +
		`{"number":5,"scheduled":"2026-11-21T10:00:00.000Z","origin":"rule","state":"dead","began_at":"2026-11-21T10:00:01.004Z","late":"4ms","attempts":2,"error":"500","ended_at":"2026-11-21T10:00:02.000Z"},` +
		`{"number":6,"scheduled":"2026-11-21T10:00:00.000Z","origin":"rule","state":"running"},` +
		`{"number":7,"scheduled":"2026-11-21T10:00:00.000Z","origin":"call","state":"delivered","began_at":"2026-11-21T10:00:00.000Z","late":"0s","attempts":1,"ended_at":"2026-11-21T10:00:00.001Z"},` +
		`{"number":8,"scheduled":"2026-11-21T10:00:00.000Z","origin":"backfill","state":"waiting"}]}` + "\n"
	if got := h.call("GET", path, ""); got.text != want || got.StatusCode != http.StatusOK {
		t.Errorf("%d %s\nwant %s", got.StatusCode, got.text, want)
	}
	for query, want := range map[string][2]int{"?next=0&last=0": {0, 0}, "?next=1&last=2": {1, 2}, "?next=100": {4, 5},
		"?last=1&consistency=stale": {4, 1}} {
		p := h.call("GET", path+query, "").mustStatus(t, 200)
		if next, last := p["next"].([]any), p["last"].([]any); len(next) != want[0] || len(last) != want[1] {
			t.Errorf("%s: %v", query, p)
		}
	}
	for query, field := range map[string]string{"?next=101": "next", "?last=-1": "last", "?last=": "last", "?state=x": "state",
		"?next=1&next=2": "next", "?consistency=all": "consistency"} {
		h.call("GET", path+query, "").mustProblem(t, 400, field)
	}
	h.call("POST", "/v1/schedules/a/pause", "").mustStatus(t, 200)
	if p := h.call("GET", path, "").mustStatus(t, 200); len(p["next"].([]any)) > 0 {
		t.Errorf("in a pause: %v", p)
	}
}

// The list of schedules has pages, and its cursors are of no other list.
func TestListSchedules(t *testing.T) {
	h := newHarness(t)
	for i := range 5 {
		h.call("PUT", fmt.Sprintf("/v1/schedules/s-%d", i), `{"repeat":{"every":"1h"},"task":{"payload":1}}`).mustStatus(t, 201)
		h.call("PUT", fmt.Sprintf("/v1/tasks/s-%d", i), `{"delay":"1h"}`).mustStatus(t, 201)
	}
	seen, query := map[any]bool{}, "?limit=2&prefix=s-&queue=default"
	for cursor := ""; ; {
		p := h.call("GET", "/v1/schedules"+query+cursor, "").mustStatus(t, 200)
		for _, s := range p["schedules"].([]any) {
			seen[s.(map[string]any)["id"]] = true
		}
		next, more := p["next_cursor"].(string)
		if !more {
			break
		}
		h.call("GET", "/v1/tasks"+query+"&cursor="+next, "").mustProblem(t, 400, "cursor")
		cursor = "&cursor=" + next
		q := h.fake.queries[len(h.fake.queries)-1]
		assert.EqualSlices(t, q.States, []fsmpb.State{fsmpb.State_STATE_REPEATING}, "%v", q)
	}
	assert.Equal(t, len(seen), 5, "the pages have %v", seen)
	a := h.call("GET", "/v1/schedules?include=payload&limit=1", "")
	assert.Contains(t, a.text, `"payload":1`)
	tasks := h.call("GET", "/v1/tasks", "").mustStatus(t, 200)["tasks"].([]any)
	assert.Equal(t, len(tasks), 5, "the list of tasks has %v", tasks)
	for query, field := range map[string]string{"?state=repeating": "state", "?due_before=x": "due_before", "?cursor=x": "cursor",
		"?limit=0": "limit", "?label=x": "label", "?prefix=a%20b": "prefix"} {
		h.call("GET", "/v1/schedules"+query, "").mustProblem(t, 400, field)
	}
	h.call("GET", "/v1/tasks?state=repeating", "").mustProblem(t, 400, "state")
}

// Occurrences are tasks for all calls about tasks that are there, and for no call that makes one.
func TestOccurrencesAreTasks(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/schedules/a", `{"repeat":{"every":"1h"},"overlap":"allow","task":{"queue":"q"}}`).mustStatus(t, 201)
	for range 4 {
		h.call("POST", "/v1/schedules/a/fire", "").mustStatus(t, 200)
	}
	h.call("PATCH", "/v1/tasks/a@1", `{"payload":1}`).mustStatus(t, 200)
	h.call("POST", "/v1/tasks/a@1/touch", `{"delay":"1h"}`).mustStatus(t, 200)
	h.call("POST", "/v1/tasks/a@1/fire", "").mustStatus(t, 200)
	h.call("DELETE", "/v1/tasks/a%401", "").mustStatus(t, 200)
	line := h.call("POST", "/v1/batch", `{"op":"cancel","id":"a@2"}`, "Content-Type", ndjsonType)
	assert.Contains(t, line.text, `"id":"a@2","status":200`)
	h.fake.set("a@3", fsmpb.State_STATE_DEAD, 1)
	p := h.call("POST", "/v1/queues/q/dead/replay?id=a@3", "").mustStatus(t, 200)
	assert.Equal(t, p["count"], 1.0, "%v", p)
	h.fake.set("a@4", fsmpb.State_STATE_READY, 0)
	h.call("PUT", "/v1/schedules/b", `{"repeat":{"every":"1h"},"task":{"queue":"q"}}`).mustStatus(t, 201)
	leased := h.call("POST", "/v1/queues/q/lease", `{"max":5}`).mustStatus(t, 200)["tasks"].([]any)
	receipt := leased[0].(map[string]any)["receipt"].(string)
	a := h.call("POST", "/v1/queues/q/settle", `{"ack":["`+receipt+`"]}`)
	assert.Contains(t, a.text, `"status":200`)
	page := h.call("GET", "/v1/tasks?prefix=a@&limit=1", "").mustStatus(t, 200)
	h.call("GET", "/v1/tasks?prefix=a@&cursor="+page["next_cursor"].(string), "").mustStatus(t, 200)
	h.call("GET", "/v1/tasks?prefix=a@1", "").mustStatus(t, 200)
	for _, prefix := range []string{"@", "a@0", "a@x", "a@1@", "a@@"} {
		h.call("GET", "/v1/tasks?prefix="+prefix, "").mustProblem(t, 400, "prefix")
	}
	for _, c := range [][3]string{
		{"PUT", "a@1", `{"delay":"1h"}`}, {"PUT", "a@", `{"delay":"1h"}`},
		{"POST", "a@9/touch", `{"delay":"1h","or_schedule":{"delay":"1h"}}`},
	} {
		p := h.call(c[0], "/v1/tasks/"+c[1], c[2]).mustProblem(t, 400, "id")
		assert.Contains(t, p["detail"].(string), "ids with @ belong to the occurrences of schedules", "%v", p)
	}
	for _, id := range []string{"a@", "a@0", "a@01", "a@x", "@1", "a@1@2", "a@99999999999999999999"} {
		h.call("GET", "/v1/tasks/"+id, "").mustProblem(t, 400, "id")
	}
	h.call("PUT", "/v1/schedules/a@1", `{"repeat":{"every":"1h"}}`).mustProblem(t, 400, "id")
	for _, text := range []string{`{"op":"schedule","id":"a@2","delay":"1h"}`,
		`{"op":"touch","id":"a@9","or_schedule":{"delay":"1h"}}`, `{"op":"cancel","id":"a@"}`} {
		a := h.call("POST", "/v1/batch", text, "Content-Type", ndjsonType)
		assert.Contains(t, a.text, `"status":400`, "%s", text)
	}
	for _, member := range []string{`"schedule":"a"`, `"occurrence":1`} {
		h.call("PUT", "/v1/tasks/x", `{"delay":"1h",`+member+`}`).mustProblem(t, 400, strings.Trim(strings.Split(member, ":")[0], `"`))
	}
}

// Calls that make or fire a schedule count as schedules do, and the payload and the queue are those of the task.
func TestQuotasOfSchedules(t *testing.T) {
	const path, small = "/v1/schedules/a", `{"repeat":{"every":"1h"},"task":{"queue":"q"}}`
	h, l := limited(t)
	h.call("PUT", path, small).mustStatus(t, 201)
	assert.Equal(t, strings.Join(l.checked, ", "), "call default , schedule default , queue default q", "asked for")
	long := strings.Repeat("x", 100)
	h.call("PUT", path, `{"repeat":{"every":"1h"},"task":{"payload":"`+long+`"}}`).mustStatus(t, 403)
	h.call("PATCH", path, `{"task":{"payload":"`+long+`"}}`).mustStatus(t, 403)
	l.refuse["schedule"] = &quota.Exceeded{Quota: quota.SchedulesPerSecond, Limit: 1, Used: 1, RetryAfter: 1}
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"PUT", "", small, 429}, {"PATCH", "", "{}", 429}, {"POST", "/fire", "", 429}, {"POST", "/backfill", "", 429},
		{"GET", "", "", 200}, {"POST", "/skip", "", 200}, {"POST", "/pause", "", 200}, {"POST", "/resume", "", 200},
		{"DELETE", "", "", 200},
	} {
		h.call(c.method, path+c.path, c.body).mustStatus(t, c.status)
	}
}

// A failed read or command is answered as for a task.
func TestFailuresOfSchedules(t *testing.T) {
	h := newHarness(t)
	h.call("PUT", "/v1/schedules/a", `{"repeat":{"every":"1h"}}`).mustStatus(t, 201)
	h.fake.readErr = fmt.Errorf("%w: no leader", task.ErrNotProposed)
	for _, c := range [][2]string{{"GET", ""}, {"GET", "/occurrences"}, {"PATCH", ""}, {"DELETE", ""}} {
		h.call(c[0], "/v1/schedules/a"+c[1], "{}").mustProblem(t, 503, "")
	}
	h.call("GET", "/v1/schedules", "").mustProblem(t, 503, "")
}
