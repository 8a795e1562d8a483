package httpapi

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// endless is a body that begins with a line and never ends.
type endless struct {
	first string
	read  atomic.Int64
}

func (e *endless) Read(b []byte) (int, error) {
	n := copy(b, e.first)
	e.first = e.first[n:]
	for i := n; i < len(b); i++ {
		b[i] = 'x'
	}
	e.read.Add(int64(len(b)))
	return len(b), nil
}

// TestEndlessLine checks that an endless line is answered at the limit, over both versions of HTTP, and that the server
// stops reading it.
func TestEndlessLine(t *testing.T) {
	const slack = 32 << 20 // more than the buffers of both ends hold
	for _, proto := range versions {
		h := newHarness(t)
		url, client := h.listen(), h.client(proto)
		for path, first := range map[string]string{
			"/v1/batch": `{"op":"fire","id":"a"}` + "\n", "/v1/queues/q/stream": `{"ack":["torn"]}` + "\n",
		} {
			body := &endless{first: first}
			r, err := client.Post(url+path, ndjsonType, body)
			assert.NoError(t, err, "%s %s", proto, path)
			text, err := io.ReadAll(r.Body)
			_ = r.Body.Close()
			lines := strings.Split(strings.TrimSpace(string(text)), "\n")
			if err != nil || len(lines) != 2 || !strings.Contains(lines[1], "too-large") ||
				!strings.Contains(lines[1], `"limit":"524288 bytes"`) {
				t.Errorf("%s %s: %v: %s", proto, path, err, text)
			}
			if n := body.read.Load(); n > slack {
				t.Errorf("%s %s: %d bytes were taken", proto, path, n)
			}
		}
	}
}

// TestEndlessLineOfADeafClient checks that the connection ends if the client of an endless line never reads its answer.
func TestEndlessLineOfADeafClient(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	url := h.listen()
	for _, head := range []string{batchHead, strings.Replace(batchHead, "/v1/batch", "/v1/queues/q/stream", 1)} {
		c := h.dial(url)
		send(t, c, head+"Transfer-Encoding: chunked\r\n\r\n")
		if sent := flood(c, 256<<20); sent >= 256<<20 {
			t.Errorf("all of %d bytes were taken", sent)
		}
	}
}

// TestEndlessBody checks that an endless body is refused at the limit, and that the connection takes little more of it.
func TestEndlessBody(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	url := h.listen()
	for path, method := range map[string]string{"/v1/tasks/a": "PUT", "/v1/tasks": "POST", "/v1/queues/q/settle": "POST"} {
		body := new(endless)
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, body)
		assert.NoError(t, err)
		r.Header.Set("Content-Type", jsonType)
		resp, err := http.DefaultClient.Do(r)
		assert.NoError(t, err, "%s", path)
		p := read(t, resp).mustProblem(t, 413, "")
		if n := body.read.Load(); p["limit"] == "" || n > 32<<20 {
			t.Errorf("%s: %d bytes were taken: %v", path, n, p)
		}
	}
	c := h.dial(url) // a client that does not read its answer
	send(t, c, putHead+"Transfer-Encoding: chunked\r\n\r\n")
	if sent := flood(c, 48<<20); sent >= 48<<20 {
		t.Errorf("all of %d bytes were taken", sent)
	}
}

// flood writes chunks until the connection takes no more, or most bytes are sent. It returns the number of bytes sent.
func flood(c net.Conn, most int) (sent int) {
	chunk := fmt.Sprintf("%x\r\n%s\r\n", 64<<10, strings.Repeat("x", 64<<10))
	for sent < most {
		if _, err := io.WriteString(c, chunk); err != nil {
			break
		}
		sent += len(chunk)
	}
	return sent
}

// trickle is an endless body with a little text every second. It records the deadline of its connection.
type trickle struct {
	*httptest.ResponseRecorder
	text     string
	deadline atomic.Pointer[time.Time]
}

func (b *trickle) SetReadDeadline(at time.Time) error {
	b.deadline.Store(&at)
	return nil
}

func (b *trickle) Read(p []byte) (int, error) {
	wait := time.Second
	if at := b.deadline.Load(); at != nil && time.Until(*at) < wait {
		<-time.After(max(time.Until(*at), 0))
		return 0, os.ErrDeadlineExceeded
	}
	<-time.After(wait)
	return copy(p, b.text), nil
}

// TestBatchIsIdleWithoutLines checks that blank lines, or parts of one line, do not keep a batch open.
func TestBatchIsIdleWithoutLines(t *testing.T) {
	for _, text := range []string{"\n", " ", "x"} {
		synctest.Test(t, func(t *testing.T) {
			h := newHarness(t, func(c *Config) { c.BatchIdle = 10 * time.Second })
			body := &trickle{ResponseRecorder: httptest.NewRecorder(), text: text}
			r := httptest.NewRequest("POST", "/v1/batch", body)
			r.Header.Set("Content-Type", ndjsonType)
			began := time.Now()
			h.server.ServeHTTP(body, r)
			if took := time.Since(began); took > 11*time.Second {
				t.Errorf("%q: it went on for %v", text, took)
			}
			if got := body.Body.String(); !strings.Contains(got, `"status":408`) || !strings.Contains(got, `"limit":"10s"`) {
				t.Errorf("%q: %s", text, got)
			}
		})
	}
}
