//go:build unix

package delivery

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// narrow listens on loopback. Its connections take few bytes before they are read.
func narrow(t *testing.T) net.Listener {
	t.Helper()
	var set error
	cfg := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		err := raw.Control(func(fd uintptr) { set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
		return errors.Join(err, set)
	}}
	l, err := cfg.Listen(t.Context(), "tcp", "127.0.0.1:0")
	assert.NoError(t, err)
	return l
}

// TestNoRequestOutlivesItsAttempt lets attempts end while most of their request waits to be sent. A receiver that reads
// on afterwards must not get it.
func TestNoRequestOutlivesItsAttempt(t *testing.T) {
	const size = 1 << 20
	large := func(t *fsmpb.Task) { t.Spec.Payload = make([]byte, size) }
	certified := httptest.NewTLSServer(nil)
	t.Cleanup(certified.Close)
	secure := &tls.Config{Certificates: certified.TLS.Certificates}
	ends := map[string]func(context.CancelFunc){
		"timeout":   func(context.CancelFunc) {},
		"cancelled": func(cancel context.CancelFunc) { cancel() },
	}
	for scheme, speak := range map[string]func(net.Conn) net.Conn{
		"http":  func(c net.Conn) net.Conn { return c },
		"https": func(c net.Conn) net.Conn { return tls.Server(c, secure) },
	} {
		for name, end := range ends {
			t.Run(scheme+", "+name, func(t *testing.T) {
				t.Parallel()
				ctx, cancel := context.WithCancel(t.Context())
				ended, got := make(chan struct{}), make(chan int64, 1)
				l := narrow(t)
				accept(t, l, func(c net.Conn) {
					c = speak(c)
					first, err := c.Read(make([]byte, 1))
					assert.Equal(t, err, nil)
					end(cancel)
					<-ended
					rest, _ := io.Copy(io.Discard, c) // it ends with the connection, however that does
					got <- int64(first) + rest
				})
				w := newWebhook(t, func(c *Config) {
					c.RootCAs = certified.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
				})
				a := attemptOf(scheme+"://"+l.Addr().String(), large)
				if name == "timeout" {
					a.Timeout = 2 * time.Second
				}
				if out := w.Deliver(ctx, a); out.Delivered {
					t.Errorf("outcome %+v", out)
				}
				close(ended)
				if n := <-got; n >= size {
					t.Errorf("the receiver got %d bytes after the end of the attempt", n)
				}
			})
		}
	}
}

// TestIdleConnectionsCloseInOrder checks that a receiver that has answered sees the end of its connection and no reset.
func TestIdleConnectionsCloseInOrder(t *testing.T) {
	closed := make(chan error, 1)
	url := serveRaw(t, func(c net.Conn) {
		write(c, "HTTP/1.1 204 No Content\r\n\r\n")
		_, err := c.Read(make([]byte, 1))
		closed <- err
	})
	w := newWebhook(t)
	if out := w.Deliver(t.Context(), attemptOf(url)); !out.Delivered {
		t.Fatalf("outcome %+v", out)
	}
	w.Close()
	assert.ErrorIs(t, <-closed, io.EOF, "the receiver saw")
}

// TestEndOfTheProcessDropsItsRequests checks the setting by which the system drops the bytes of a process that has
// died.
func TestEndOfTheProcessDropsItsRequests(t *testing.T) {
	conn, err := newDialer(newWebhook(t).cfg).connect(t.Context(), "tcp", listen(t, untilGone))
	assert.NoError(t, err)
	defer conn.Close()
	raw, err := conn.(*wire).tcp.(syscall.Conn).SyscallConn()
	assert.NoError(t, err)
	var linger *unix.Linger
	ctl := raw.Control(func(fd uintptr) {
		linger, err = unix.GetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER)
	})
	if ctl != nil || err != nil {
		t.Fatal(ctl, err)
	}
	if linger.Onoff == 0 || linger.Linger != 0 {
		t.Errorf("the system lingers: %+v", *linger)
	}
}
