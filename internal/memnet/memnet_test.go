package memnet

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"

	"github.com/belfryhq/belfry/internal/assert"
)

// TestConn holds connections against the rules of net.Conn.
func TestConn(t *testing.T) {
	nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
		c1, c2, l, err := connect(t.Context(), New())
		return c1, c2, func() { _, _, _ = c1.Close(), c2.Close(), l.Close() }, err
	})
}

// connect returns both ends of a connection to a new listener.
func connect(ctx context.Context, n *Network) (caller, callee net.Conn, l net.Listener, err error) {
	l, packets, err := n.Listen("127.0.0.1:0")
	if err != nil {
		return nil, nil, nil, err
	}
	_ = packets.Close()
	if caller, err = n.Dial(ctx, l.Addr().String()); err != nil {
		return nil, nil, nil, err
	}
	callee, err = l.Accept()
	return caller, callee, l, err
}

// TestEnds checks what one end of a connection reads and writes after the other end has closed in each way.
func TestEnds(t *testing.T) {
	for name, test := range map[string]struct {
		end         func(*conn)
		read        string // before the error
		onRead      error
		onWrite     error // nil: the peer still reads
		onOwn       error // of the closed end's own reads
		stillWrites bool
	}{
		"close":     {func(c *conn) { _ = c.Close() }, "said", io.EOF, syscall.EPIPE, net.ErrClosed, false},
		"half":      {func(c *conn) { _ = c.CloseWrite() }, "said", io.EOF, nil, nil, true},
		"reset":     {func(c *conn) { _ = c.SetLinger(0); _ = c.Close() }, "", syscall.ECONNRESET, syscall.ECONNRESET, net.ErrClosed, false},
		"no linger": {func(c *conn) { _ = c.SetLinger(0); _ = c.SetLinger(-1); _ = c.Close() }, "said", io.EOF, syscall.EPIPE, net.ErrClosed, false},
	} {
		ours, theirs, l, err := connect(t.Context(), New())
		assert.NoError(t, err)
		if _, err := io.WriteString(theirs, "said"); err != nil {
			t.Fatal(err)
		}
		test.end(theirs.(*conn))
		got := make([]byte, 10)
		n, err := ours.Read(got)
		if test.read != "" {
			if string(got[:n]) != test.read || err != nil {
				t.Errorf("%s: read %q, %v", name, got[:n], err)
			}
			_, err = ours.Read(got)
		}
		assert.ErrorIs(t, err, test.onRead, "%s: read ends with", name)
		if _, err := io.WriteString(ours, "back"); !errors.Is(err, test.onWrite) {
			t.Errorf("%s: write: %v", name, err)
		}
		if n, err := theirs.Read(got); !errors.Is(err, test.onOwn) || test.stillWrites && string(got[:n]) != "back" {
			t.Errorf("%s: own read: %q, %v", name, got[:n], err)
		}
		_, _, _ = ours.Close(), theirs.Close(), l.Close()
	}
}

// TestReadable checks that a connection with nothing to read, one with bytes and one that has ended can be told apart.
func TestReadable(t *testing.T) {
	ours, theirs, l, err := connect(t.Context(), New())
	assert.NoError(t, err)
	defer l.Close()
	readable := func(want bool) {
		t.Helper()
		assert.Equal(t, ours.(*conn).Readable(), want, "readable")
	}
	readable(false)
	_, _ = io.WriteString(theirs, "b") // the buffer has room
	readable(true)
	_, _ = ours.Read(make([]byte, 1))
	_ = ours.SetDeadline(time.Now().Add(-time.Second)) // of an earlier exchange
	readable(false)
	_ = theirs.Close()
	readable(true)
}

// TestFullBuffer checks that a writer waits for its reader, also beyond a deadline.
func TestFullBuffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs, l, err := connect(t.Context(), New())
		assert.NoError(t, err)
		text := strings.Repeat("x", 3*buffer)
		_ = ours.SetWriteDeadline(time.Now().Add(time.Hour))
		begun := time.Now()
		n, err := io.WriteString(ours, text)
		if n != buffer || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Hour {
			t.Errorf("wrote %d, %v after %v", n, err, time.Since(begun))
		}
		_ = ours.SetWriteDeadline(time.Time{})
		go func() {
			_, err := io.WriteString(ours, text)
			assert.Equal(t, errors.Join(err, ours.Close()), nil)
		}()
		if n, err := io.Copy(io.Discard, theirs); n != 4*buffer || err != nil {
			t.Errorf("read %d, %v", n, err)
		}
		_, _ = theirs.Close(), l.Close()
	})
}

// TestListener checks dials to a listener that accepts none, that is closed, and that is not there, and deadlines of
// Accept.
func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := New()
		l, packets, err := network.Listen("127.0.0.1:0")
		assert.NoError(t, err)
		defer packets.Close()
		assert.NoError(t, l.(*listener).SetDeadline(time.Now().Add(time.Hour)))
		begun := time.Now()
		if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begun) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		assert.NoError(t, l.(*listener).SetDeadline(time.Time{}))
		addr := l.Addr().String()
		first, err := network.Dial(t.Context(), addr)
		for range backlog - 1 {
			if err == nil {
				_, err = network.Dial(t.Context(), addr)
			}
		}
		assert.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		if _, err := network.Dial(ctx, addr); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial to a full listener: %v", err)
		}
		if c, err := l.Accept(); err != nil || c.RemoteAddr().String() != first.LocalAddr().String() {
			t.Errorf("accepted %v, %v, not %v", c, err, first.LocalAddr())
		}
		second, err := network.Dial(t.Context(), addr)
		assert.NoError(t, err)
		assert.NoError(t, l.Close())
		if _, err := second.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection that was never accepted: %v", err)
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept: %v", err)
		}
		if _, err := network.Dial(t.Context(), addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial: %v", err)
		}
	})
}

// TestHost checks that a host that is cut off reaches no other and is reached by none.
func TestHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := New()
		one, other := network.Host(), network.Host()
		here, hereUDP, err := one.Listen("127.0.0.1:0")
		assert.NoError(t, err)
		there, thereUDP, err := other.Listen("127.0.0.1:0")
		assert.NoError(t, err)
		dialled, err := one.Dial(t.Context(), there.Addr().String())
		assert.NoError(t, err)
		peer, err := there.Accept()
		assert.NoError(t, err)
		waiting, err := other.Dial(t.Context(), here.Addr().String())
		assert.NoError(t, err)
		one.Cut()
		for _, c := range []net.Conn{peer, waiting} {
			_, err := c.Read(make([]byte, 1))
			assert.ErrorIs(t, err, syscall.ECONNRESET, "read")
			_, err = c.Write(make([]byte, 1))
			assert.ErrorIs(t, err, syscall.ECONNRESET, "write")
		}
		if _, err := dialled.Read(make([]byte, 1)); err == nil {
			t.Error("the host reads on")
		}
		if _, err := other.Dial(t.Context(), here.Addr().String()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial to the host: %v", err)
		}
		if _, err := one.Dial(t.Context(), there.Addr().String()); !errors.Is(err, syscall.ENETUNREACH) {
			t.Errorf("dial from the host: %v", err)
		}
		for from, to := range map[net.PacketConn]net.PacketConn{hereUDP: thereUDP, thereUDP: hereUDP} {
			if _, err := from.WriteTo([]byte("x"), to.LocalAddr()); err != nil || len(to.(*packets).arrived) > 0 {
				t.Errorf("a packet arrives, or %v", err)
			}
		}
		for _, c := range []io.Closer{dialled, peer, waiting, here, there, hereUDP, thereUDP} {
			assert.Equal(t, c.Close(), nil)
		}
		assert.Equal(t, len(one.conns)+len(other.conns), 0, "connections are noted")
	})
}
