package httpapi

import (
	"fmt"
	"math"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/internal/assert"
)

func TestListPagesShowEveryTaskOnce(t *testing.T) {
	h := newHarness(t)
	var want, got []string
	for i := range 25 {
		id := fmt.Sprintf("task-%02d", i)
		h.call("PUT", "/v1/tasks/"+id, `{"delay":"1h","payload":1}`)
		want = append(want, id)
	}
	for cursor := ""; ; {
		p := h.call("GET", "/v1/tasks?limit=7"+cursor, "").mustStatus(t, 200)
		for _, task := range p["tasks"].([]any) {
			if _, has := task.(map[string]any)["payload"]; has {
				t.Fatal("a payload that was not asked for")
			}
			got = append(got, task.(map[string]any)["id"].(string))
		}
		next, ok := p["next_cursor"].(string)
		if !ok {
			break
		}
		cursor = "&cursor=" + next
	}
	slices.Sort(got)
	assert.EqualSlices(t, got, want, "got")
	a := h.call("GET", "/v1/tasks?include=payload&limit=1", "")
	assert.Contains(t, a.text, `"payload":1`, "no payload")
	a = h.call("GET", "/v1/tasks?prefix=none", "")
	assert.Equal(t, a.text, `{"tasks":[],"next_cursor":null}`+"\n", "empty page")
}

// Pages in due order continue behind the instant of the page before, and have no ended task unless that is asked for.
func TestListInDueOrder(t *testing.T) {
	h := newHarness(t)
	for id, delay := range map[string]string{"c": "3h", "a": "1h", "d": "4h", "b": "2h", "e": "1h"} {
		h.call("PUT", "/v1/tasks/"+id, `{"delay":"`+delay+`"}`).mustStatus(t, 201)
	}
	h.call("DELETE", "/v1/tasks/e", "").mustStatus(t, 200)
	list := func(query string) (ids []string) {
		for cursor := ""; ; {
			page := h.call("GET", "/v1/tasks?order=due&limit=2"+query+cursor, "").mustStatus(t, 200)
			for _, listed := range page["tasks"].([]any) {
				ids = append(ids, listed.(map[string]any)["id"].(string))
			}
			next, ok := page["next_cursor"].(string)
			if !ok {
				return ids
			}
			cursor = "&cursor=" + next
		}
	}
	assert.EqualSlices(t, list(""), []string{"a", "b", "c", "d"}, "tasks")
	assert.EqualSlices(t, list("&state=cancelled"), []string{"e"}, "cancelled tasks")
	h.call("GET", "/v1/schedules?order=due", "").mustStatus(t, 200)
	for _, q := range h.fake.queries {
		assert.Equal(t, q.Order, fsmpb.ListOrder_LIST_ORDER_DUE, "query %v", q)
	}
	h.call("GET", "/v1/schedules?order=next", "").mustProblem(t, 400, "order")
	h.call("GET", "/v1/schedules?due_after=1h", "").mustProblem(t, 400, "due_after")
	h.call("GET", "/v1/queues?order=due", "").mustProblem(t, 400, "order")
	h.call("POST", "/v1/queues/q/dead/replay?order=due", "").mustProblem(t, 400, "order")
}

func TestNoCursorBehindTheLastSlot(t *testing.T) {
	w := httptest.NewRecorder()
	newHarness(t).server.writePage(w, &fsmpb.ListPage{More: true, Slot: task.Slots}, new(fsmpb.ListQuery), listedTasks, admission.NewGate(1, 0, nil).Turn(""))
	assert.Equal(t, w.Body.String(), `{"tasks":[],"next_cursor":null}`+"\n", "%s", w.Body)
}

func TestListQuery(t *testing.T) {
	h := newHarness(t)
	h.call("GET", "/v1/tasks?state=ready,dead&state=firing&queue=mail&prefix=a&label=t:x:y&label=u:&label=v%3Dw:x%3D&limit=1000"+
		"&due_before=2026-11-21T11:00:00+01:00&due_after=2026-11-21T09:00:00Z", "").mustStatus(t, 200)
	q := h.fake.queries[0]
	states := []fsmpb.State{fsmpb.State_STATE_READY, fsmpb.State_STATE_DEAD, fsmpb.State_STATE_FIRING}
	if !slices.Equal(q.States, states) || q.Queue != "mail" || q.Prefix != "a" || q.Limit != 1000 || q.IncludePayload ||
		len(q.Labels) != 3 || q.Labels[2].Name != "v" || q.Labels[2].Value != "w:x=" || q.Labels[0].Value != "x:y" || q.DueBeforeMs != 1795255200000 ||
		q.DueAfterMs != 1795251600000 {
		t.Errorf("query %v", q)
	}
	h.call("GET", "/v1/tasks", "").mustStatus(t, 200)
	if q := h.fake.queries[1]; q.Limit != task.DefaultListLimit || len(q.States) != 0 ||
		q.Namespace != task.DefaultNamespace {
		t.Errorf("default query %v", q)
	}
	for query, field := range map[string]string{
		"state=done": "state", "state=": "state", "queue=": "queue", "queue=a/b": "queue", "prefix=%2F": "prefix",
		"label=x": "label", "label=:x": "label", "label=%3Dx": "label", "due_before=soon": "due_before", "due_after=soon": "due_after", "limit=0": "limit", "limit=1001": "limit",
		"limit=-1":        "limit",
		"limit=1&limit=2": "limit", "limit=ten": "limit", "cursor=": "cursor", "cursor=abc": "cursor", "cursor=!!": "cursor",
		"order=": "order", "order=fire_at": "order", "order=DUE": "order", "order=due&order=due": "order",
		"include=all": "include", "sort=id": "sort", "include=payload&include=payload": "include",
		strings.Repeat("&label=a:b", 17)[1:]: "label",
	} {
		h.call("GET", "/v1/tasks?"+query, "").mustProblem(t, 400, field)
	}
}

func TestCursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := listPlace{
			dueMs: rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "due"),
			slot:  rapid.Uint32Range(0, task.Slots-1).Draw(t, "slot"),
			id:    rapid.StringMatching(`([A-Za-z0-9][A-Za-z0-9._:~-]{0,199})?`).Draw(t, "id"),
		}
		l := listing(rapid.Uint64().Draw(t, "listing"))
		text := l.cursor(at)
		if url.QueryEscape(text) != text {
			t.Fatalf("%q must be escaped in a query", text)
		}
		if got, ok := l.decode(text); !ok || got != at {
			t.Fatalf("%v became %v %v", at, got, ok)
		}
		if _, ok := (l ^ 1).decode(text); ok {
			t.Fatalf("%q passes in another listing", text)
		}
		i := rapid.IntRange(0, len(text)-1).Draw(t, "i")
		c := rapid.SampledFrom([]byte("Aaz09-_!")).Draw(t, "c")
		if bent := text[:i] + string(c) + text[i+1:]; bent != text {
			if _, ok := l.decode(bent); ok {
				t.Fatalf("%q passes for %q", bent, text)
			}
		}
	})
}

// TestCursorBelongsToItsListing checks that a cursor continues its own listing, at any node and with pages of any size,
// and no other listing.
func TestCursorBelongsToItsListing(t *testing.T) {
	h := newHarness(t)
	another := newHarness(t)
	for _, id := range []string{"a", "b", "c"} {
		h.call("PUT", "/v1/tasks/"+id, `{"delay":"1h","queue":"q-`+id+`"}`).mustStatus(t, 201)
	}
	const filters = "state=scheduled&state=ready&label=a:1&label=b:2&prefix=a&queue=q&due_before=2027-01-01T00:00:00Z"
	next := func(query string) string {
		t.Helper()
		cursor, ok := h.call("GET", query, "").mustStatus(t, 200)["next_cursor"].(string)
		if !ok {
			t.Fatalf("%s has no next page", query)
		}
		return "&cursor=" + cursor
	}
	tasks, queues := next("/v1/tasks?limit=1"), next("/v1/queues?limit=1")
	due := next("/v1/tasks?limit=1&order=due")
	filtered := "&cursor=" + listingOf(listsTasks, mustParseList(t, filters)).cursor(listPlace{slot: 1, id: "a"})
	for _, query := range []string{
		"/v1/tasks?limit=1&order=id" + tasks, "/v1/tasks?order=due&limit=2" + due,
		"/v1/tasks?limit=1" + tasks, "/v1/tasks?limit=7&include=payload" + tasks, "/v1/queues?limit=1" + queues,
		"/v1/tasks?" + filters + filtered,
		"/v1/tasks?state=ready,scheduled&label=b=2&label=a:1&prefix=a&queue=q&due_before=2027-01-01T01:00:00%2B01:00" + filtered,
	} {
		h.call("GET", query, "").mustStatus(t, 200)
		another.call("GET", query, "").mustStatus(t, 200)
	}
	for _, query := range []string{
		"/v1/tasks?" + queues, "/v1/queues?" + tasks, "/v1/tasks?prefix=a" + tasks, "/v1/tasks?queue=q-a" + tasks,
		"/v1/tasks?state=scheduled" + tasks, "/v1/tasks?label=a:1" + tasks, "/v1/tasks?due_before=2027-01-01T00:00:00Z" + tasks,
		"/v1/tasks?due_after=2027-01-01T00:00:00Z" + tasks, "/v1/tasks?order=due" + tasks, "/v1/tasks?order=id" + due,
		"/v1/queues?prefix=q" + queues, "/v1/tasks?" + filtered, "/v1/tasks?state=ready&" + filters[len("state=scheduled&state=ready&"):] + filtered,
		"/v1/tasks?" + strings.Replace(filters, "a:1", "a:2", 1) + filtered,
	} {
		h.call("GET", query, "").mustProblem(t, 400, "cursor")
	}
}

func mustParseList(t *testing.T, query string) *fsmpb.ListQuery {
	t.Helper()
	values, err := url.ParseQuery(query)
	assert.NoError(t, err)
	q, err := parseList(listsTasks, "default", values, testNow)
	assert.NoError(t, err)
	return q
}

// TestParametersAreGivenOnce checks that a parameter may be given once, or, if it may be repeated, several times with
// different values.
func TestParametersAreGivenOnce(t *testing.T) {
	h := newHarness(t)
	h.ready("q", "a")
	for call, field := range map[string]string{
		"GET /v1/tasks?limit=1&limit=1":                                                 "limit",
		"GET /v1/tasks?limit=1&limit=2":                                                 "limit",
		"GET /v1/tasks?prefix=a&queue=q&prefix=b":                                       "prefix",
		"GET /v1/tasks?include=payload&include=payload":                                 "include",
		"GET /v1/tasks?cursor=a&cursor=a":                                               "cursor",
		"GET /v1/tasks?due_before=2027-01-01T00:00:00Z&due_before=2027-01-01T00:00:00Z": "due_before",
		"GET /v1/tasks?state=dead&state=dead":                                           "state",
		"GET /v1/tasks?state=ready,dead&state=dead":                                     "state",
		"GET /v1/tasks?state=dead,dead":                                                 "state",
		"GET /v1/tasks?label=a:1&label=a:1":                                             "label",
		"GET /v1/tasks?label=a:1&label=a=1":                                             "label",
		"GET /v1/tasks/a?consistency=stale&consistency=stale":                           "consistency",
		"GET /v1/queues?limit=1&limit=1":                                                "limit",
		"POST /v1/queues/q/dead/replay?limit=1&limit=1":                                 "limit",
		"POST /v1/queues/q/dead/replay?id=a&id=a":                                       "id",
		"DELETE /v1/queues/q/dead?prefix=a&prefix=a":                                    "prefix",
		"POST /v1/queues/q/stream?credit=1&credit=2":                                    "credit",
		"POST /v1/queues/q/stream?lease=1m&lease=1m":                                    "lease",
		"PUT /v1/tasks/a?x=1&x=1":                                                       "x",
	} {
		method, path, _ := strings.Cut(call, " ")
		h.call(method, path, "").mustProblem(t, 400, field)
	}
	for _, call := range []string{
		"GET /v1/tasks?state=dead&state=ready", "GET /v1/tasks?state=dead,ready&state=firing", "GET /v1/tasks?label=a:1&label=b:1",
		"GET /v1/tasks?label=a:1&label=a:2", "POST /v1/queues/q/dead/replay?id=a&id=b",
	} {
		method, path, _ := strings.Cut(call, " ")
		h.call(method, path, "").mustStatus(t, 200)
	}
}
