package delivery

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// TestNothingIsLeftBehind runs each kind of bad receiver on a fake clock and over connections in memory. At most a
// second after an attempt, its connection, its goroutines and the receiver's are gone: synctest waits for all of them
// and fails if one never ends. Of an endless reply no more was read than is kept.
func TestNothingIsLeftBehind(t *testing.T) {
	const attempts, timeout = 20, 15 * time.Second
	tests := map[string]struct {
		speak func(net.Conn) // called after a request is read; then the connection is closed, unless kept is set
		want  task.Outcome
		took  time.Duration
		kept  bool // the connection is ready for the next request
	}{
		"never answers": {untilGone, task.Outcome{Error: "timed out after 15s (waiting for the answer)"}, timeout, false},
		"hangs in the header": {hangsAfter("HTTP/1.1 200 OK\r\nX-A: "),
			task.Outcome{Error: "timed out after 15s (reading the answer)"}, timeout, false},
		"hangs in the body": {hangsAfter("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"),
			task.Outcome{Delivered: true}, replyPatience, false},
		"hangs in a failure's body": {hangsAfter("HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\nx"),
			task.Outcome{Error: "500 Internal Server Error: x"}, replyPatience, false},
		"closes unanswered": {func(net.Conn) {},
			task.Outcome{Error: "the receiver closed the connection without an answer"}, 0, false},
		"closes in the body": {writes("HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\nx"),
			task.Outcome{Error: "500 Internal Server Error: x"}, 0, false},
		"10 MB": {writes("HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 10<<20)),
			task.Outcome{Delivered: true}, 0, false},
		"10 MB of failure": {writes("HTTP/1.1 500 Oh\r\n\r\n" + strings.Repeat("x", 10<<20)),
			task.Outcome{Error: "500 Internal Server Error: " + strings.Repeat("x", maxExcerpt-1)}, 0, false},
		"10 MB of header": {writes("HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("x", 10<<20)),
			task.Outcome{Error: "malformed answer, or one with a header over 64 KiB"}, 0, false},
		"redirects home": {writes("HTTP/1.1 307 R\r\nLocation: http://127.0.0.1/\r\nContent-Length: 0\r\n\r\n"),
			task.Outcome{Refused: true, Error: "307 Temporary Redirect: redirects are not followed (to http://127.0.0.1/)"}, 0, true},
		"500":       {writes("HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n"), task.Outcome{Error: "500 Internal Server Error"}, 0, true},
		"delivered": {writes("HTTP/1.1 204 No\r\n\r\n"), task.Outcome{Delivered: true}, 0, true},
		"busy, in seconds": {writes("HTTP/1.1 429 Busy\r\nRetry-After: 120\r\nContent-Length: 0\r\n\r\n"),
			task.Outcome{Error: "429 Too Many Requests", RetryAfter: 2 * time.Minute}, 0, true},
		"busy, until": {writes("HTTP/1.1 503 Busy\r\nRetry-After: Sat, 01 Jan 2000 00:10:00 GMT\r\nContent-Length: 0\r\n\r\n"),
			task.Outcome{Error: "503 Service Unavailable", RetryAfter: 10 * time.Minute}, 0, true},
	}
	for name, test := range tests {
		for how, deliver := range map[string]func(context.Context, *Webhook, task.Attempt) task.Outcome{
			"alone": func(ctx context.Context, w *Webhook, a task.Attempt) task.Outcome { return w.Deliver(ctx, a) },
			"batch": func(ctx context.Context, w *Webhook, a task.Attempt) task.Outcome {
				return w.DeliverBatch(ctx, []task.Attempt{a})[0]
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWebhook(t)
					var open, taken atomic.Int64
					w.transports.plain.DialContext = pipeTo(&open, &taken, test.speak, test.kept)
					outcomes := make(chan task.Outcome, attempts)
					begun := time.Now() // the bubble's: 2000-01-01
					for range attempts {
						go func() {
							a := attemptOf("http://shop.test/")
							a.Timeout = timeout
							outcomes <- deliver(t.Context(), w, a)
						}()
					}
					for range attempts {
						assert.Equal(t, <-outcomes, test.want, "outcome")
					}
					if took := time.Since(begun); took != test.took {
						t.Errorf("took %v, want %v", took, test.took)
					}
					synctest.Wait()
					if n := open.Load(); n != 0 && !test.kept {
						t.Errorf("%d connections are still there", n)
					}
					if n := taken.Load(); n > attempts*2*maxReplyBody {
						t.Errorf("%d bytes taken of each reply", n/attempts)
					}
					w.Close()
					synctest.Wait()
					assert.Equal(t, open.Load(), 0, "connections outlast Close")
				})
			})
		}
	}
}

func writes(text string) func(net.Conn) { return func(c net.Conn) { write(c, text) } }

func hangsAfter(text string) func(net.Conn) {
	return func(c net.Conn) {
		write(c, text)
		untilGone(c)
	}
}

// pipeTo returns a dial function for a receiver in memory. It counts the open connections and the bytes read from them.
func pipeTo(open, taken *atomic.Int64, speak func(net.Conn), kept bool) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		open.Add(1)
		go func() {
			defer theirs.Close()
			for in := bufio.NewReader(theirs); ; {
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				if _, err := io.Copy(io.Discard, req.Body); err != nil {
					return
				}
				if speak(theirs); !kept {
					return
				}
			}
		}()
		return &countedConn{Conn: ours, open: open, taken: taken}, nil
	}
}

type countedConn struct {
	net.Conn
	open, taken *atomic.Int64
	closed      atomic.Bool
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.taken.Add(int64(n))
	return n, err
}

func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}
