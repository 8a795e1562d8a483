package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestEventsGoOn checks that a stream that breaks off goes on behind its last event, at the next address, that
// heartbeats are no events, and that an error that stays ends the sequence.
func TestEventsGoOn(t *testing.T) {
	var requests atomic.Int32
	serve := func(w http.ResponseWriter, r *http.Request) {
		event := func(id int) { _, _ = fmt.Fprintf(w, `{"id":"e%d","type":"fired","task":"t","shard":1}`+"\n", id) }
		switch n, after := requests.Add(1), r.URL.Query().Get("after"); n {
		case 1:
			if r.URL.Query().Get("since") == "" || r.URL.Query().Get("type") != "fired" || after != "" {
				t.Errorf("asks for %s", r.URL)
			}
			_, _ = fmt.Fprintln(w, `{"heartbeat":"2026-11-21T10:00:00.000Z"}`)
			event(1)
			event(2)
		case 2:
			http.Error(w, `{}`, http.StatusServiceUnavailable)
		case 3:
			if after != "e2" || r.URL.Query().Has("since") {
				t.Errorf("goes on with %s", r.URL)
			}
			event(3)
			_, _ = fmt.Fprintln(w, `{"type":"gap"}`)
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusGone)
			_, _ = fmt.Fprintln(w, `{"type":"urn:belfry:problem:events-gone","title":"x","status":410}`)
		}
	}
	one, two := httptest.NewServer(http.HandlerFunc(serve)), httptest.NewServer(http.HandlerFunc(serve))
	defer one.Close()
	defer two.Close()
	c, err := New(Config{Addrs: []string{one.URL, two.URL}})
	assert.NoError(t, err)
	var got []string
	var failed error
	for e, err := range c.Events(t.Context(), EventFilter{Types: []string{"fired"}, Since: time.Unix(1, 0)}) {
		if failed = err; err == nil {
			got = append(got, e.Type+e.ID)
		}
	}
	if fmt.Sprint(got) != "[firede1 firede2 firede3 gap]" || !errors.Is(failed, ErrGone) {
		t.Errorf("%v, %v", got, failed)
	}
}

// TestEventsEnd checks that a sequence ends with the present, and when its caller breaks off.
func TestEventsEnd(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for i := range 3 {
			_, _ = fmt.Fprintf(w, `{"id":"e%d","type":"fired","task":"t","shard":1}`+"\n", i)
		}
		if r.URL.Query().Get("follow") != "false" {
			<-r.Context().Done()
		}
	}))
	defer s.Close()
	c, err := New(Config{Addrs: []string{s.URL}})
	assert.NoError(t, err)
	n := 0
	for _, err := range c.Events(t.Context(), EventFilter{Ends: true}) {
		assert.NoError(t, err)
		n++
	}
	assert.Equal(t, n, 3, "events")
}

// TestStreamedProblem checks that a problem inside a stream is an error of the sequence.
func TestStreamedProblem(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, `{"problem":{"type":"urn:belfry:problem:unauthenticated","title":"x","status":401}}`)
	}))
	defer s.Close()
	c, err := New(Config{Addrs: []string{s.URL}})
	assert.NoError(t, err)
	for _, err := range c.Events(t.Context(), EventFilter{}) {
		assert.ErrorIs(t, err, ErrUnauthenticated)
	}
}

// TestUnreadableEvents checks that an event that cannot be read is an error with its id, that the sequence goes on
// behind it, also after a reconnection, and that a line without an end is a broken connection.
func TestUnreadableEvents(t *testing.T) {
	event := func(id int) string { return fmt.Sprintf(`{"id":"e%d","type":"fired","task":"t","shard":1}`+"\n", id) }
	for name, c := range map[string]struct {
		line  string
		after string // of the request behind the line
	}{
		"a wrong type":      {`{"id":"e2","type":"fired","attempt":"one"}` + "\n", "e2"},
		"no JSON behind id": {`{"type":"fired","shard":1,"id":"e2","at":` + "\n", "e2"},
		"no type":           {`{"id":"e2"}` + "\n", "e2"},
		"no end":            {`{"id":"e2","type":"fi`, "e1"},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if requests.Add(1) == 1 {
					_, _ = fmt.Fprint(w, event(1), c.line)
					return
				}
				if after := r.URL.Query().Get("after"); after != c.after {
					t.Errorf("goes on behind %q", after)
				}
				_, _ = fmt.Fprint(w, event(3))
			}))
			defer s.Close()
			conn, err := New(Config{Addrs: []string{s.URL}})
			assert.NoError(t, err)
			var got []string
			for e, err := range conn.Events(t.Context(), EventFilter{}) {
				var unreadable *EventError
				switch {
				case errors.As(err, &unreadable):
					got = append(got, "!"+unreadable.ID)
				case err != nil:
					t.Fatal(err)
				default:
					got = append(got, e.ID)
				}
				if e != nil && e.ID == "e3" {
					break
				}
			}
			want := "[e1 !e2 e3]"
			if c.after == "e1" {
				want = "[e1 e3]"
			}
			assert.Equal(t, fmt.Sprint(got), want)
		})
	}
}

// TestNoStreamOfEvents checks that a sequence ends with an error at a server that is not the service.
func TestNoStreamOfEvents(t *testing.T) {
	for name, body := range map[string]string{
		"a page": "<html>\n<p>Welcome\n", "other JSON": `{"hello":"world"}` + "\n", "a list": "[1]\n",
		"a long line": strings.Repeat("x", maxEventLine+1),
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = fmt.Fprint(w, body)
			}))
			defer s.Close()
			conn, err := New(Config{Addrs: []string{s.URL}})
			assert.NoError(t, err)
			var errs []error
			for _, err := range conn.Events(t.Context(), EventFilter{}) {
				errs = append(errs, err)
			}
			var unreadable *EventError
			if len(errs) != 1 || !errors.As(errs[0], &unreadable) || unreadable.ID != "" {
				t.Errorf("%v", errs)
			}
		})
	}
}
