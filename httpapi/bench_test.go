package httpapi

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// quiet is a response writer that discards everything.
type quiet struct{ header http.Header }

func (w *quiet) Header() http.Header         { return w.header }
func (w *quiet) Write(b []byte) (int, error) { return len(b), nil }
func (w *quiet) WriteHeader(int)             {}

func idleBackend(h *harness) {
	h.fake.do = func(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
		replies := make([]task.Reply, len(cmds))
		for i, c := range cmds {
			result := &fsmpb.Result{Code: fsmpb.Code_CODE_CREATED, Revision: uint64(i) + 1}
			if c.Answer != fsmpb.Answer_ANSWER_BRIEF {
				s := c.GetSchedule()
				result.Task = &fsmpb.Task{
					Id: c.Id, Spec: s.GetSpec(), FireAtMs: s.GetFireAtMs(), State: fsmpb.State_STATE_SCHEDULED,
				}
			}
			replies[i].Result = result
		}
		return replies
	}
}

var benchPayload = `{"order":1042,"note":"` + strings.Repeat("x", 175) + `"}`

var benchBody = `{"delay":"1h","payload":` + benchPayload + `,"target":{"url":"https://shop.example/close"}}`

// oneKey is a cluster with one key.
type oneKey struct{ access.KeyRecord }

func (k oneKey) KeysVersion() uint64                    { return 1 }
func (k oneKey) KeysInForce() bool                      { return true }
func (k oneKey) KeyUsed(string)                         {}
func (k oneKey) Key(id string) (access.KeyRecord, bool) { return k.KeyRecord, id == k.ID }

// requireKey makes calls need a key, and returns one that may schedule.
func requireKey(b *testing.B) (key string, change func(*Config)) {
	id, text := access.NewKey()
	authority, err := access.New(access.Config{Source: oneKey{access.KeyRecord{ID: id,
		Grants:  []access.Grant{{Role: access.Schedule, Namespace: "default"}},
		Secrets: []access.KeySecret{{Hash: access.Hash(text)}}}}})
	assert.NoError(b, err)
	return text, func(c *Config) { c.Access = authority }
}

// BenchmarkPut measures one PUT of a 200-byte payload through the handler, without network and commit: while no keys
// are in force, and with a key.
func BenchmarkPut(b *testing.B) {
	b.Run("local", func(b *testing.B) { benchmarkPut(b, "", func(*Config) {}) })
	b.Run("key", func(b *testing.B) {
		key, change := requireKey(b)
		benchmarkPut(b, "Bearer "+key, change)
	})
}

func benchmarkPut(b *testing.B, authorization string, change func(*Config)) {
	h := newHarness(b, change)
	idleBackend(h)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("PUT", "/v1/tasks/order-1042", strings.NewReader(benchBody))
		r.Header.Set("Content-Type", jsonType)
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		h.server.ServeHTTP(&quiet{http.Header{}}, r)
	}
}

// BenchmarkCall measures a PUT, a touch and a DELETE on a connection to the HTTP server, without commit. The client
// allocates nothing.
func BenchmarkCall(b *testing.B) {
	for _, call := range []struct{ name, method, path, body string }{
		{"put", "PUT", "/v1/tasks/order-1042", benchBody},
		{"touch", "POST", "/v1/tasks/order-1042/touch", `{"delay":"1h"}`},
		{"delete", "DELETE", "/v1/tasks/order-1042", ""},
	} {
		b.Run(call.name, func(b *testing.B) {
			h := newHarness(b, func(c *Config) { c.DevClock = nil })
			idleBackend(h)
			conn := dialServer(b, h)
			request := []byte(fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n"+
				"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
				call.method, call.path, len(call.body), call.body))
			answer := make([]byte, 4<<10)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := conn.Write(request); err != nil {
					b.Fatal(err)
				}
				n, err := conn.Read(answer) // one write of the server, which loopback does not split
				if err != nil || !bytes.HasPrefix(answer[:n], []byte("HTTP/1.1 20")) || answer[n-1] != '\n' {
					b.Fatalf("%q, %v", answer[:n], err)
				}
			}
		})
	}
}

// dialServer returns a connection to the HTTP server of a harness.
func dialServer(b *testing.B, h *harness) net.Conn {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	assert.NoError(b, err)
	server := h.server.HTTPServer()
	go func() { _ = server.Serve(l) }() // until Close
	conn, err := net.Dial("tcp", l.Addr().String())
	assert.NoError(b, err)
	b.Cleanup(func() { _, _ = conn.Close(), server.Close() })
	return conn
}

// BenchmarkBatchLine measures one line of a batch of 200-byte payloads through all three steps, without network and
// commit.
func BenchmarkBatchLine(b *testing.B) {
	h := newHarness(b)
	idleBackend(h)
	line := []byte(`{"op":"schedule","id":"order-1042","delay":"1h","payload":` + benchPayload + "}\n")
	r := httptest.NewRequest("POST", "/v1/batch", &countedReader{line: line, limit: int64(b.N * len(line))})
	r.Header.Set("Content-Type", ndjsonType)
	b.ReportAllocs()
	b.ResetTimer()
	h.server.ServeHTTP(&quiet{http.Header{}}, r)
}

// BenchmarkParseLine measures the parsing alone.
func BenchmarkParseLine(b *testing.B) {
	large := `"` + strings.Repeat("x", 16<<10) + `"`
	for name, rest := range map[string]string{
		"plain": benchPayload, "keyed": benchPayload + `,"key":"0123456789abcdef"`, "large": large,
	} {
		b.Run(name, func(b *testing.B) {
			line := []byte(fmt.Sprintf(`{"op":"schedule","id":"order-1042","delay":"1h","payload":%s}`, rest))
			p := testParser()
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				if l := p.batchLine(line); l.refused != nil {
					b.Fatal(l.refused)
				}
			}
		})
	}
}
