package httpapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// almostJSON lists bodies that are no JSON object, or that break off or deviate at some part of the grammar.
var almostJSON = []string{
	``, ` `, `null`, `[]`, `"x"`, `-1.5e+3`, `{`, `{"`, `{"a`, `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{a:1}`,
	`{"a" 1}`, `{"a":1 "b":2}`, "{\n\t\"a\" :\r1 }", `{"a":1}x`, `{"a":tru}`, `{"a":[true,false,null,{"b":-0}]}`,
	`{"a":[1 2]}`, `{"a":[{"b" 1}]}`, `{"a":[{b:1}]}`, `{"a":[{"b`, `{"a":-}`, `{"a":01}`, `{"a":1.}`, `{"a":1e}`,
	`{"a":0.5E-1}`, `{"a":"\u00e9\/\""}`, `{"a":"\x"}`, `{"a":"\u12g4"}`, `{"a":"\`, `"\ud83d`, "{\"a\":\"\x01\"}",
	"{\"\x01\":1}", "{\"a\":\"\xff\"}", `{"a":"é"}`, `"é`, `tru`, `-`, `1.`, `1e`, `{"é`, `[{"a"`, `[[[`, `[1,`,
}

func addAlmostJSON(f *testing.F) {
	for _, body := range almostJSON {
		f.Add([]byte(body))
	}
}

// FuzzTaskBody checks that a body is refused with a 4xx, or makes a task within the limits with its payload unchanged.
func FuzzTaskBody(f *testing.F) {
	f.Add([]byte(wholeTask))
	f.Add([]byte(`{"delay":"1d12h","payload_base64":"/+8="}`))
	f.Add([]byte(`{"delay":"-1s","payload":[[[[]]]],"x":"\ud83d\ude00"}`))
	for _, member := range []string{
		`"delay":1`, `"delay":"1y"`, `"delay":"1.5"`, `"fire_at":"soon"`, `"fire_at":1,"delay":"1s"`, `"revision":1`,
		`"target":1`, `"target":{"headers":[]}`, `"payload_base64":"?"`, `"labels":{"a":1}`, `"jitter":"x"`,
		`"expires_after":"soon"`, `"delay":"1s","target":{"url":"http://a\\\"b/"}`,
	} {
		f.Add([]byte(`{` + member + `}`))
	}
	addAlmostJSON(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		p := testParser()
		d, err := p.parse(body, &contract.PutObject)
		if err == nil {
			err = p.asSchedule(d, false)
		}
		if err != nil {
			mustBeTheCallers(t, err)
			return
		}
		if !json.Valid(body) {
			t.Fatal("accepted a body that is not JSON")
		}
		spec := d.command.schedule.msg.Spec
		if err := task.CheckSpec(spec); err != nil {
			t.Fatal(err)
		}
		if !spec.PayloadIsBytes && len(spec.Payload) > 0 && !bytes.Contains(body, spec.Payload) {
			t.Fatalf("payload %q was changed", spec.Payload)
		}
		if _, err := proto.Marshal(&d.command.schedule.msg); err != nil { // strings must be UTF-8
			t.Fatal(err)
		}
	})
}

func mustBeTheCallers(t *testing.T, err error) {
	t.Helper()
	p := problemOf(err)
	if p.status < 400 || p.status >= 500 || p.detail == "" {
		t.Fatalf("%d %v", p.status, err)
	}
	if !json.Valid(appendProblem(nil, p)) {
		t.Fatalf("%s is not JSON", appendProblem(nil, p))
	}
}

// FuzzScheduleBody checks that a body is refused with a 4xx, or makes a schedule within the limits. A body that makes
// one is also taken as a patch, and changes nothing of that schedule: a patch with all members is a replacement.
func FuzzScheduleBody(f *testing.F) {
	f.Add([]byte(wholeSchedule))
	f.Add([]byte(`{"repeat":{"every":"15m","anchor":"2026-11-21T10:00:00Z"},"task":{"payload_base64":"/+8="}}`))
	for _, member := range []string{
		`"cron":"@daily"`, `"cron":[""]`, `"cron":["* * * * * *"],"except":["* * * * *"]`, `"every":"1h","jitter":"25h"`,
		`"every":"1h","count":1e9`, `"every":"1h","start":"soon"`, `"cron":["@daily"],"time_zone":"x"`, `"every":"1h"},"note":"\u0000"`,
		`"every":"1h"},"task":{"labels":{"a":1}`, `"every":"1h"},"task":{"id":"a"}`, `"every":"1h"},"misfire":"x"`,
	} {
		f.Add([]byte(`{"repeat":{` + member + `}}`))
	}
	addAlmostJSON(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		p := testParser()
		set, err := p.newSeries(body, "a")
		if err != nil {
			mustBeTheCallers(t, err)
			return
		}
		if err := task.CheckSpec(set.Spec); err != nil {
			t.Fatal(err)
		}
		if _, err := proto.Marshal(set); err != nil || !json.Valid(body) { // strings must be UTF-8
			t.Fatal(err)
		}
		stored := &fsmpb.Task{Id: "a@", State: fsmpb.State_STATE_REPEATING, Spec: set.Spec, Series: set.Series}
		d, err := p.patchSeries(body, stored)
		if err != nil || !proto.Equal(d.set, set) {
			t.Fatalf("%v became %v (%v)", set, d.set, err)
		}
		if out := (scheduleView{task: stored, payload: true}).append(nil); !json.Valid(out) {
			t.Fatalf("%s", out)
		}
	})
}

func FuzzPatchBody(f *testing.F) {
	f.Add([]byte(`{"target":{"headers":{"a":null},"timeout":"1s"},"retry":null,"labels":{"a":"b"},"payload":null}`))
	for _, member := range []string{
		`"target":1`, `"target":{"headers":1}`, `"target":{"x":1}`, `"retry":{"max_attempts":"1"}`, `"labels":[]`,
		`"payload_base64":"/+8="`, `"delay":"x"`, `"revision":1`, `"\u0001\"":1`,
	} {
		f.Add([]byte(`{` + member + `}`))
	}
	addAlmostJSON(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := testParser().patch(body, &contract.PatchObject)
		if err != nil {
			mustBeTheCallers(t, err)
			return
		}
		if _, err := proto.Marshal(d.patch); err != nil || !json.Valid(body) {
			t.Fatal(err)
		}
	})
}

func FuzzBatchLine(f *testing.F) {
	f.Add([]byte(`{"op":"schedule","id":"a","delay":"1h","if_match":7,"key":"k","payload":{}}`))
	f.Add([]byte(`{"op":"touch","id":"a","no_later_than":"1d","or_schedule":{"delay":"1s"}}`))
	f.Add([]byte(`{"op":"patch","id":"a","target":null,"retry":{"max_attempts":null},"payload":null}`))
	f.Add([]byte(`{"labels":{"a":null},"id":"a","op":"patch"}`))
	f.Add([]byte(`{"id":"\ud800"}`))
	for _, member := range []string{
		`"revision":1`, `"x":1`, `"op":1`, `"op":"fire","delay":"1s"`, `"op":"cancel","if_match":"x"`,
	} {
		f.Add([]byte(`{"id":"a",` + member + `}`))
	}
	addAlmostJSON(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		l := testParser().batchLine(data)
		if l.refused == nil {
			if _, err := proto.Marshal(l.cmd); err != nil || l.cmd.Op == nil || l.id != l.cmd.Id {
				t.Fatalf("%v %v", l, err)
			}
			return
		}
		mustBeTheCallers(t, l.refused)
		out, _ := appendRefusal(nil, l.id, l.refused)
		if !json.Valid(out) || bytes.Count(out, []byte("\n")) != 1 {
			t.Fatalf("%q", out)
		}
	})
}

func FuzzCursor(f *testing.F) {
	const l = listing(1)
	whole := l.cursor(listPlace{slot: 7, id: "a"})
	f.Add(whole)
	f.Add(l.cursor(listPlace{dueMs: 1, slot: 7}))
	// The base64 decoder skips line breaks, even in strict mode, so that decode once accepted a cursor with a line break.
	f.Add(whole[:8] + "\r" + whole[8:])
	f.Add("?")
	f.Fuzz(func(t *testing.T, text string) {
		if at, ok := l.decode(text); ok && l.cursor(at) != text {
			t.Fatalf("%q is another way to write %q", text, l.cursor(at))
		}
	})
}

// TestByteSoup checks for any bytes on any route that the answer is no 5xx, and that each refusal is a problem.
func TestByteSoup(t *testing.T) {
	h := newHarness(t)
	h.server.close() // no lease waits here
	scraps := []string{"{", "}", `"delay"`, ":", `"1h"`, ",", `"op"`, `"schedule"`, `"id"`, `"a"`, "null", "[", "]", "1",
		"\n", "\x00", "\xff",
		`"payload"`, `"target"`, `"url"`, `"http://x"`, `"headers"`, `"labels"`, `"or_schedule"`, `"\ud800"`, `"retry"`, "e",
		"-", "."}
	routes := routesOf(h.server)
	rapid.Check(t, func(t *rapid.T) {
		route := rapid.SampledFrom(routes).Draw(t, "route")
		soup := strings.Join(rapid.SliceOfN(rapid.SampledFrom(scraps), 0, 14).Draw(t, "scraps"), "")
		if rapid.Bool().Draw(t, "raw") {
			soup = string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes"))
		}
		id := url.PathEscape(rapid.OneOf(rapid.Just("a"), rapid.String()).Draw(t, "id"))
		path := strings.NewReplacer(":id", id, ":queue", id, ":ns", rapid.SampledFrom([]string{"a", "none", id}).Draw(t, "namespace")).Replace(route.path)
		if q := rapid.OneOf(rapid.Just(""), rapid.StringMatching(`[a-z_]{1,10}=[!-~]{0,10}`)).Draw(t, "query"); q != "" {
			path += "?" + strings.NewReplacer("#", "", " ", "").Replace(q)
		}
		if _, err := url.Parse("http://x" + path); err != nil {
			t.Skip("the HTTP server refuses it")
		}
		r := httptest.NewRequest(route.method, "http://x"+path, strings.NewReader(soup))
		types := []string{jsonType, ndjsonType, mergeType, "text/plain", ""}
		r.Header.Set("Content-Type", rapid.SampledFrom(types).Draw(t, "type"))
		for _, name := range []string{"If-Match", "If-None-Match", keyHeader} {
			if v := rapid.OneOf(rapid.Just(""), rapid.SampledFrom([]string{"*", `"1"`, `W/"1"`, ",", "\x7f"})).Draw(t,
				name); v != "" {
				r.Header.Set(name, v)
			}
		}
		w := httptest.NewRecorder()
		h.server.ServeHTTP(w, r)
		stopping := w.Code == 503 && route.path == "/v1/backup" // which a closed server does not begin
		if w.Code >= 500 && !stopping || w.Code >= 400 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Fatalf("%s %s %q: %d %s", route.method, path, soup, w.Code, w.Body)
		}
		if route.method == http.MethodGet && path != "/metrics" && w.Code >= 400 && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s", w.Body)
		}
	})
}
