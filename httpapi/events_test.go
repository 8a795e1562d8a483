package httpapi

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/internal/assert"
)

func withEvents(f *fakeEvents) func(*Config) { return func(c *Config) { c.Events = f } }

// lifeOf adds the events of a task that was delivered at its second attempt.
func (f *fakeEvents) lifeOf(id, queue string) {
	at := testNow.UnixMilli()
	for i, e := range []*historypb.Event{
		{Type: historypb.Type_TYPE_SCHEDULED},
		{Type: historypb.Type_TYPE_FIRED, Attempt: 1, LatenessMs: 3, WebhookId: "w1"},
		{Type: historypb.Type_TYPE_FAILED, Attempt: 1, LatenessMs: 4, WebhookId: "w1", Node: "n1", Answer: "500"},
		{Type: historypb.Type_TYPE_FIRED, Attempt: 2, WebhookId: "w1"},
		{Type: historypb.Type_TYPE_DELIVERED, Attempt: 2, WebhookId: "w1", Node: "n2"},
	} {
		e.Task, e.Queue, e.AtMs, e.DueMs = id, queue, at+int64(i), at
		e.Labels = []*historypb.Label{{Name: "tenant", Value: queue}}
		f.add(e)
	}
}

func TestTaskHistory(t *testing.T) {
	f := newFakeEvents()
	h := newHarness(t, withEvents(f))
	h.call("PUT", "/v1/tasks/quiet", `{"delay":"1h"}`).mustStatus(t, 201)
	f.lifeOf("a@2", "q")
	got := h.call("GET", "/v1/tasks/a@2/history", "")
	want := `{"task":"a@2","events":[` +
		`{"type":"scheduled","at":"AT0","task":"a@2","queue":"q","labels":{"tenant":"q"},"due":"AT0","schedule":"a","occurrence":2,"shard":3},` +
		`{"type":"fired","at":"AT1","task":"a@2","queue":"q","labels":{"tenant":"q"},"due":"AT0","lateness":"3ms","attempt":1,"webhook_id":"w1","schedule":"a","occurrence":2,"shard":3}`
	for i := range 2 {
		want = strings.ReplaceAll(want, fmt.Sprint("AT", i), instantText(testNow.UnixMilli()+int64(i)))
	}
	if got.StatusCode != 200 || !strings.HasPrefix(got.text, want) ||
		!strings.HasSuffix(got.text, `"more":false,"complete":true,"complete_since":null,"missing":[]}`+"\n") {
		t.Errorf("%d %s\nwant %s", got.StatusCode, got.text, want)
	}
	cut := h.call("GET", "/v1/tasks/a@2/history?limit=2", "").mustStatus(t, 200)
	if fmt.Sprint(cut["more"], cut["complete"]) != "true false" || len(cut["events"].([]any)) != 2 {
		t.Errorf("%v", cut)
	}
	h.call("GET", "/v1/tasks/quiet/history", "").mustStatus(t, 200)
	h.call("GET", "/v1/tasks/none/history", "").mustProblem(t, 404, "")
	h.call("GET", "/v1/tasks/a@2/history?limit=0", "").mustProblem(t, 400, "limit")
	f.since = testNow
	h.call("GET", "/v1/tasks/none/history", "").mustProblem(t, 410, "")
	part := h.call("GET", "/v1/tasks/a@2/history", "").mustStatus(t, 200)
	if fmt.Sprint(part["complete"], " ", part["complete_since"]) != "false "+instantText(testNow.UnixMilli()) {
		t.Errorf("%v", part)
	}
	f.err = errors.New("down")
	h.call("GET", "/v1/tasks/a@2/history", "").mustProblem(t, 503, "")
	none := newHarness(t, func(c *Config) { c.Events = nil })
	none.call("GET", "/v1/tasks/a/history", "").mustProblem(t, 503, "")
	none.call("GET", "/v1/events", "").mustProblem(t, 503, "")
}

// TestEventsUpToThePresent checks the forms of the stream, its filters, and where it begins and goes on.
func TestEventsUpToThePresent(t *testing.T) {
	f := newFakeEvents()
	h := newHarness(t, withEvents(f))
	f.lifeOf("a", "q")
	f.lifeOf("b", "r")
	count := func(query string, header ...string) (n int, lines []string) {
		got := h.call("GET", "/v1/events?follow=false"+query, "", append([]string{"Accept", ndjsonType}, header...)...)
		assert.MustEqual(t, got.StatusCode, 200, "%s: %s", query, got.text)
		for line := range strings.Lines(got.text) {
			if !strings.HasPrefix(line, `{"heartbeat"`) {
				lines = append(lines, line)
			}
		}
		return len(lines), lines
	}
	for query, want := range map[string]int{
		"": 0, "&since=1h": 10, "&since=1h&queue=q": 5, "&since=1h&type=fired": 4, "&since=1h&type=fired,failed&prefix=b": 3,
		"&since=1h&label=tenant:r&type=failed&type=delivered": 2, "&since=0s": 10,
	} {
		if n, lines := count(query); n != want {
			t.Errorf("%q: %d events, want %d: %v", query, n, want, lines)
		}
	}
	_, lines := count("&since=1h")
	var third struct{ ID, Task, Type string }
	if err := json.Unmarshal([]byte(lines[2]), &third); err != nil || third.Type != "failed" {
		t.Fatalf("%s, %v", lines[2], err)
	}
	for name, n := range map[string]func() (int, []string){
		"after":         func() (int, []string) { return count("&after=" + third.ID) },
		"Last-Event-ID": func() (int, []string) { return count("&after=x", "Last-Event-ID", third.ID) },
	} {
		if got, lines := n(); got != 7 || lines[0] != strings.Replace(lines[0], third.ID, "", 1) {
			t.Errorf("%s: %d: %v", name, got, lines)
		}
	}
	f.gone, f.since = 4, testNow
	h.call("GET", "/v1/events?after="+third.ID, "").mustProblem(t, 410, "")
	if n, lines := count("&since=1h"); n != 7 || lines[0] != `{"type":"gap"}`+"\n" {
		t.Errorf("%d: %v", n, lines)
	}
	for query, field := range map[string]string{
		"type=born": "type", "after=x": "after", "since=x": "since", "follow=x": "follow", "label=x": "label", "queue=a b": "queue",
	} {
		h.call("GET", "/v1/events?"+strings.ReplaceAll(query, " ", "%20"), "").mustProblem(t, 400, field)
	}
	h.call("GET", "/v1/events", "", "Accept", "image/png").mustProblem(t, 400, "accept")
}

// TestEventsAsTheyHappen checks server-sent events on a connection: an event comes when it happens, a heartbeat when
// none does, and the stream ends when the server closes.
func TestEventsAsTheyHappen(t *testing.T) {
	f := newFakeEvents()
	h := newHarness(t, withEvents(f), func(c *Config) { c.StreamBeat = 50 * time.Millisecond })
	server := httptest.NewServer(h.server)
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/v1/events?type=delivered", nil)
	assert.NoError(t, err)
	r.Host = "x"
	resp, err := http.DefaultClient.Do(r)
	assert.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != eventStreamSSE {
		t.Fatalf("%d %v", resp.StatusCode, resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	until := func(prefix string) string {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), prefix) {
				return lines.Text()
			}
		}
		t.Fatalf("no %q: %v", prefix, lines.Err())
		return ""
	}
	until("retry: ")
	until(":")
	f.lifeOf("a", "q")
	if until("id: "); until("event: ") != "event: delivered" {
		t.Error(lines.Text())
	}
	if data := until("data: "); !strings.Contains(data, `"type":"delivered"`) || !strings.Contains(data, `"task":"a"`) {
		t.Error(data)
	}
	h.server.close()
	for lines.Scan() {
	}
	assert.Equal(t, lines.Err(), nil, "the stream did not end in order")
}
