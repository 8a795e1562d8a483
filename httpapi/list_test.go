package httpapi

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
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
	if !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if a := h.call("GET", "/v1/tasks?include=payload&limit=1", ""); !strings.Contains(a.text, `"payload":1`) {
		t.Errorf("no payload: %s", a.text)
	}
	if a := h.call("GET", "/v1/tasks?prefix=none", ""); a.text != `{"tasks":[],"next_cursor":null}`+"\n" {
		t.Errorf("empty page: %s", a.text)
	}
}

func TestNoCursorBehindTheLastSlot(t *testing.T) {
	w := httptest.NewRecorder()
	newHarness(t).server.writePage(w, &fsmpb.ListPage{More: true, Slot: fsm.Slots}, false)
	if w.Body.String() != `{"tasks":[],"next_cursor":null}`+"\n" {
		t.Errorf("%s", w.Body)
	}
}

func TestListQuery(t *testing.T) {
	h := newHarness(t)
	h.call("GET", "/v1/tasks?state=ready,dead&state=firing&queue=mail&prefix=a&label=t:x:y&label=u:&label=v%3Dw:x%3D&limit=1000"+
		"&due_before=2026-11-21T11:00:00+01:00", "").mustStatus(t, 200)
	q := h.fake.queries[0]
	states := []fsmpb.State{fsmpb.State_STATE_READY, fsmpb.State_STATE_DEAD, fsmpb.State_STATE_FIRING}
	if !slices.Equal(q.States, states) || q.Queue != "mail" || q.Prefix != "a" || q.Limit != 1000 || q.IncludePayload ||
		len(q.Labels) != 3 || q.Labels[2].Name != "v" || q.Labels[2].Value != "w:x=" || q.Labels[0].Value != "x:y" || q.DueBeforeMs != 1795255200000 {
		t.Errorf("query %v", q)
	}
	h.call("GET", "/v1/tasks", "").mustStatus(t, 200)
	if q := h.fake.queries[1]; q.Limit != fsm.DefaultListLimit || len(q.States) != 0 ||
		q.Namespace != fsm.DefaultNamespace {
		t.Errorf("default query %v", q)
	}
	for query, field := range map[string]string{
		"state=done": "state", "state=": "state", "queue=": "queue", "queue=a/b": "queue", "prefix=%2F": "prefix",
		"label=x": "label", "label=:x": "label", "label=%3Dx": "label", "due_before=soon": "due_before", "limit=0": "limit", "limit=1001": "limit",
		"limit=-1":        "limit",
		"limit=1&limit=2": "limit", "limit=ten": "limit", "cursor=": "cursor", "cursor=abc": "cursor", "cursor=!!": "cursor",
		"include=all": "include", "sort=id": "sort", "include=payload&include=payload": "include",
		strings.Repeat("&label=a:b", 17)[1:]: "label",
	} {
		h.call("GET", "/v1/tasks?"+query, "").mustProblem(t, 400, field)
	}
}

func TestCursor(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slot := rapid.Uint32Range(0, fsm.Slots-1).Draw(t, "slot")
		id := rapid.StringMatching(`([A-Za-z0-9][A-Za-z0-9._:~-]{0,199})?`).Draw(t, "id")
		text := encodeCursor(slot, id)
		if url.QueryEscape(text) != text {
			t.Fatalf("%q must be escaped in a query", text)
		}
		gotSlot, gotID, ok := decodeCursor(text)
		if !ok || gotSlot != slot || gotID != id {
			t.Fatalf("%d %q became %d %q %v", slot, id, gotSlot, gotID, ok)
		}
		i := rapid.IntRange(0, len(text)-1).Draw(t, "i")
		c := rapid.SampledFrom([]byte("Aaz09-_!")).Draw(t, "c")
		if bent := text[:i] + string(c) + text[i+1:]; bent != text {
			if _, _, ok := decodeCursor(bent); ok {
				t.Fatalf("%q passes for %q", bent, text)
			}
		}
	})
}
