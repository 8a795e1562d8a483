package memnet

import (
	"errors"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/internal/assert"
)

// listen opens an address until the end of the test.
func listen(t *testing.T, n *Network, addr string) (net.Listener, net.PacketConn) {
	t.Helper()
	l, p, err := n.Listen(addr)
	assert.NoError(t, err)
	t.Cleanup(func() { _, _ = l.Close(), p.Close() }) // some tests have closed them
	return l, p
}

func receive(t *testing.T, p net.PacketConn) (string, net.Addr) {
	t.Helper()
	buf := make([]byte, 100)
	size, from, err := p.ReadFrom(buf)
	assert.NoError(t, err)
	return string(buf[:size]), from
}

// TestAddressIsUsedAgain checks that an address belongs to one listener at a time, that a later one may have it, and that
// another Close of the first does not end the later one.
func TestAddressIsUsedAgain(t *testing.T) {
	n := New()
	addr := n.Addr()
	if conn, err := n.Dial(t.Context(), addr); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("before there is a listener: %v, %v", conn, err)
	}
	first, socket := listen(t, n, addr)
	if _, _, err := n.Listen(addr); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second listener: %v", err)
	}
	assert.NoError(t, errors.Join(first.Close(), socket.Close()))
	_, later := listen(t, n, addr)
	_, _ = first.Close(), socket.Close()
	conn, err := n.Dial(t.Context(), addr)
	assert.NoError(t, err)
	_ = conn.Close() // nothing was sent
	if _, err := later.WriteTo([]byte("self"), later.LocalAddr()); err != nil {
		t.Error(err)
	}
	if got, from := receive(t, later); got != "self" || from.String() != addr {
		t.Errorf("%q from %v", got, from)
	}
}

// TestAddressesDiffer checks that addresses without a given port are distinct.
func TestAddressesDiffer(t *testing.T) {
	n := New()
	seen := []string{n.Addr(), n.Addr()}
	for range 2 {
		l, _ := listen(t, n, "127.0.0.1:0")
		seen = append(seen, l.Addr().String())
	}
	slices.Sort(seen)
	assert.Equal(t, len(slices.Compact(slices.Clone(seen))), len(seen), "%v", seen)
	_, _, err := n.Listen("nonsense")
	assert.Error(t, err, "listens at no address")
	_, err = n.Dial(t.Context(), "nonsense")
	assert.Error(t, err, "dialled no address")
}

// TestPackets checks that packets arrive in order, and that those to an address without a socket and those beyond a full
// queue are lost.
func TestPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		_, from := listen(t, n, "127.0.0.1:0")
		_, to := listen(t, n, "127.0.0.1:0")
		nowhere, err := net.ResolveUDPAddr("udp", n.Addr())
		assert.NoError(t, err)
		send := func(to net.Addr, text string) {
			t.Helper()
			if size, err := from.WriteTo([]byte(text), to); err != nil || size != len(text) {
				t.Fatalf("%d bytes, %v", size, err)
			}
		}
		send(nowhere, "lost")
		send(to.LocalAddr(), "first")
		for range queue {
			send(to.LocalAddr(), "more")
		}
		want := "first"
		for range queue {
			if got, sender := receive(t, to); got != want || sender.String() != from.LocalAddr().String() {
				t.Fatalf("%q from %v, want %q", got, sender, want)
			}
			want = "more"
		}
		ended := make(chan error)
		go func() {
			_, _, err := to.ReadFrom(make([]byte, 1))
			ended <- err
		}()
		synctest.Wait() // no packet is left, and the reader waits
		assert.NoError(t, to.Close())
		assert.ErrorIs(t, <-ended, net.ErrClosed, "a read ended with")
		if _, err := to.WriteTo(nil, nowhere); !errors.Is(err, net.ErrClosed) {
			t.Errorf("sent after the end: %v", err)
		}
		send(to.LocalAddr(), "lost") // its socket is gone
	})
}
