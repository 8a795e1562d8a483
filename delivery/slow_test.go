package delivery

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// TestSlowReceivers lists receivers that never finish. Each attempt ends in its time, and its error names its phase.
func TestSlowReceivers(t *testing.T) {
	const timeout = 400 * time.Millisecond
	hang := func(before string) func(world) string {
		return func(t world) string {
			return t.serveRaw(func(c net.Conn) { write(c, before); untilGone(c) })
		}
	}
	trickle := func(before, drop string) func(world) string {
		return func(t world) string { return t.serveRaw(func(c net.Conn) { drip(c, before, drop) }) }
	}
	ok := task.Outcome{Delivered: true}
	late := func(doing string) task.Outcome { return task.Outcome{Error: "timed out after 400ms (" + doing + ")"} }
	failed := task.Outcome{Error: "500 Internal Server Error: x"}
	tests := map[string]struct {
		receiver func(world) string
		want     task.Outcome
		payload  int
	}{
		"accepts, then nothing": {hang(""), late("waiting for the answer"), 100},
		// The payload is larger than a task's may be, since a connection buffers 256 KiB at once.
		"reads nothing at all":      {receiverThatHangsUnread, late("sending"), 16 << 20},
		"hangs in the header":       {hang("HTTP/1.1 200 OK\r\nX-A: "), late("reading the answer"), 100},
		"trickles the header":       {trickle("HTTP/1.1 200 OK\r\n", "X-A: b\r\n"), late("reading the answer"), 100},
		"hangs in the body":         {hang("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"), ok, 100},
		"trickles the body":         {trickle("HTTP/1.1 200 OK\r\n\r\n", "x"), ok, 100},
		"hangs in a failure's body": {hang("HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\nx"), failed, 100},
		"hangs after 101": {hang("HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
			task.Outcome{Error: "101 Switching Protocols"}, 100},
		"hangs in the TLS handshake": {receiverThatHangsInTLS, late("connecting"), 100},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			simulate(t, func(t world) {
				a := attemptOf(test.receiver(t), func(t *fsmpb.Task) { t.Spec.Payload = make([]byte, test.payload) })
				a.Timeout = timeout
				begun := time.Now()
				out := t.webhook().Deliver(t.Context(), a)
				if took := time.Since(begun); took > timeout {
					t.Errorf("took %v", took)
				}
				assert.Equal(t, out, test.want, "outcome")
			})
		})
	}
}

// TestSlowLookUp checks that a look-up without an answer ends with its attempt. Go's resolver has channels that all
// look-ups of the process share, and so none may be made in a bubble.
func TestSlowLookUp(t *testing.T) {
	a := attemptOf("http://shop.test/")
	a.Timeout = 400 * time.Millisecond
	out := newWebhook(t, func(c *Config) { c.Resolver = deafResolver(t) }).Deliver(t.Context(), a)
	assert.Equal(t, out, (task.Outcome{Error: "timed out after 400ms (connecting)"}), "outcome")
}

func drip(c net.Conn, before, drop string) {
	write(c, before)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if _, err := io.WriteString(c, drop); err != nil {
			return
		}
	}
}

func receiverThatHangsUnread(t world) string {
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	return "http://" + t.listen(func(net.Conn) { <-done })
}

func receiverThatHangsInTLS(t world) string { return "https://" + t.listen(untilGone) }

// TestConnectTimeout checks that a receiver that accepts no connection does not use up the whole of a long attempt.
func TestConnectTimeout(t *testing.T) {
	simulate(t, func(t world) {
		begun := time.Now()
		w := t.webhook(func(c *Config) { c.ConnectTimeout = 5 * time.Second })
		out := w.Deliver(t.Context(), attemptOf(receiverThatHangsInTLS(t)))
		if want := (task.Outcome{Error: "timed out after 5s (connecting)"}); out != want || time.Since(begun) != 5*time.Second {
			t.Errorf("outcome %+v after %v", out, time.Since(begun))
		}
	})
}

// TestCallerCountsToo checks a caller whose context has the attempt's own timeout and ends first: the outcome is an
// ordinary timeout, not an abort.
func TestCallerCountsToo(t *testing.T) {
	simulate(t, func(t world) {
		const timeout = 5 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		a := attemptOf(t.serveRaw(untilGone))
		a.Timeout = timeout
		out := t.webhook().Deliver(ctx, a)
		assert.Equal(t, out, (task.Outcome{Error: "timed out after 5s (waiting for the answer)"}), "outcome")
	})
}

// TestBodyPatience checks that an endless reply does not hold an attempt and its credit for a whole long timeout.
func TestBodyPatience(t *testing.T) {
	simulate(t, func(t world) {
		url := t.serveRaw(func(c net.Conn) { drip(c, "HTTP/1.1 200 OK\r\n\r\n", "x") })
		begun := time.Now()
		if out := t.webhook().Deliver(t.Context(), attemptOf(url)); !out.Delivered {
			t.Errorf("outcome %+v", out)
		}
		assert.Equal(t, time.Since(begun), replyPatience, "took")
	})
}

// TestHugeReplies checks that little of a 10 MB reply is read, and that its connection is dropped.
func TestHugeReplies(t *testing.T) {
	const size = 10 << 20
	for _, status := range []int{200, 500} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			sent := make(chan int64, 1)
			url := serveRaw(t, func(c net.Conn) {
				write(c, fmt.Sprintf("HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n", status, size))
				n, _ := io.CopyN(c, zeros{}, size)
				sent <- n
			})
			w := newWebhook(t)
			out := w.Deliver(t.Context(), attemptOf(url))
			if out.Delivered != (status == 200) || len(out.Error) > 300 {
				t.Errorf("outcome %+v", out)
			}
			if n := <-sent; n == size {
				t.Error("all of it was taken")
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestIsolation checks that a receiver with hundreds of hanging attempts delays no other, and leaves nothing behind.
func TestIsolation(t *testing.T) {
	simulate(t, func(t world) {
		const hanging = 300
		arrived := make(chan struct{}, hanging)
		gone := make(chan struct{}, hanging)
		dead := t.serveRaw(func(c net.Conn) {
			arrived <- struct{}{}
			untilGone(c)
			gone <- struct{}{}
		})
		alive := t.serve(answer(200, nil, ""))
		w := t.webhook()
		outcomes := make(chan task.Outcome, hanging)
		for range hanging {
			go func() {
				a := attemptOf(dead)
				a.Timeout = 2 * time.Second
				outcomes <- w.Deliver(t.Context(), a)
			}()
		}
		for range hanging {
			<-arrived
		}
		begun := time.Now()
		for range 100 {
			if out := w.Deliver(t.Context(), attemptOf(alive)); !out.Delivered {
				t.Fatalf("outcome %+v", out)
			}
		}
		assert.Equal(t, time.Since(begun), 0, "100 deliveries took")
		for range hanging {
			if out := <-outcomes; out.Delivered {
				t.Errorf("outcome %+v", out)
			}
			<-gone
		}
	})
}

// TestAbandonedDial checks that the dial of a timed-out or aborted attempt ends with the attempt, not at the connect
// timeout.
func TestAbandonedDial(t *testing.T) {
	tests := map[string]struct{ timeout, abortAfter time.Duration }{
		"timed out": {time.Minute, time.Hour},
		"aborted":   {time.Hour, time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			simulate(t, func(t world) {
				gone, begun := make(chan struct{}), time.Now()
				a := attemptOf("https://" + t.listen(func(c net.Conn) { untilGone(c); close(gone) }))
				a.Timeout = test.timeout
				ctx, cancel := context.WithTimeout(t.Context(), test.abortAfter)
				defer cancel()
				t.webhook(func(c *Config) { c.ConnectTimeout = time.Hour }).Deliver(ctx, a)
				<-gone
				assert.Equal(t, time.Since(begun), time.Minute, "the connection ends after")
			})
		})
	}
}

// TestStaleConnection checks that an idle connection that the receiver has closed fails no attempt.
func TestStaleConnection(t *testing.T) {
	noticed := make(chan struct{})
	url := serveRaw(t, func(c net.Conn) {
		write(c, "HTTP/1.1 204 No Content\r\n\r\n")
		_ = c.(*net.TCPConn).CloseWrite()
		untilGone(c)
		noticed <- struct{}{}
	})
	w := newWebhook(t)
	for range 3 {
		if out := w.Deliver(t.Context(), attemptOf(url)); !out.Delivered {
			t.Fatalf("outcome %+v", out)
		}
		<-noticed
	}
}
