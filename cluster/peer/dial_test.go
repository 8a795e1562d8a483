package peer

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// silentAddr returns an address that accepts connections and sends nothing on them.
func (b *book) silentAddr(t *testing.T) string {
	t.Helper()
	l, _, err := b.network.Listen("127.0.0.1:0")
	assert.NoError(t, err)
	var held []net.Conn
	accepting := make(chan struct{})
	go func() {
		defer close(accepting)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			held = append(held, conn)
		}
	}()
	t.Cleanup(func() {
		_ = l.Close() // no connection was promised
		<-accepting
		for _, conn := range held {
			_ = conn.Close() // nor data
		}
	})
	return l.Addr().String()
}

// aside is the admission of a node that takes no part.
type aside struct{}

func (aside) TakesPart() bool { return false }

// closedAddr returns an address that refuses connections.
func (b *book) closedAddr(t *testing.T) string {
	t.Helper()
	l, _, err := b.network.Listen("127.0.0.1:0")
	assert.NoError(t, err)
	assert.NoError(t, l.Close())
	return l.Addr().String()
}

// visits records the addresses at which dials found nodes.
type visits struct {
	found
	mu sync.Mutex
	at map[string]string
}

func (v *visits) Reached(id, addr string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.at == nil {
		v.at = make(map[string]string)
	}
	v.at[id] = addr
}

// A dial of several addresses finds the node. Stale, silent and foreign addresses cost moments.
func TestDialTriesEveryAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		two, three := listen(t, b, 2), listen(t, b, 3)
		var seen visits
		silent, closed := b.silentAddr(t), b.closedAddr(t)
		one := listen(t, b, 1, func(c *Config) {
			seen.found = found{b, []Target{
				{Addr: silent}, {Addr: closed}, {Addr: three.Addr()}, {Addr: silent}, {Addr: two.Addr()},
			}}
			c.Directory = &seen
		})
		began := time.Now()
		conn, err := one.DialNode(t.Context(), nodeID(2))
		assert.NoError(t, err)
		defer conn.Close()
		if took := time.Since(began); took != 2*headStart { // one for each silent address
			t.Errorf("it took %v", took)
		}
		if _, err := io.WriteString(conn, "PRI"); err != nil {
			t.Fatal(err)
		}
		expect(t, accept(t, two.GRPC()), "PRI")
		seen.mu.Lock()
		defer seen.mu.Unlock()
		if len(seen.at) != 2 || seen.at[nodeID(2)] != two.Addr() || seen.at[nodeID(3)] != three.Addr() {
			t.Errorf("reached: %v", seen.at)
		}
	})
}

// A vote gets through despite an address that accepts and stays silent.
func TestRaftIsNotHeldUpByASilentAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		two := listen(t, b, 2)
		silent := b.silentAddr(t)
		one := listen(t, b, 1, func(c *Config) {
			c.Directory = found{b, []Target{{Addr: silent}, {Addr: two.Addr()}}}
		})
		from, to := transport(t, one, 7, cluster), transport(t, two, 7, cluster)
		go answer(to, 2, t.Context().Done())
		began := time.Now()
		if term, err := vote(from, 2); err != nil || term != 2 {
			t.Fatalf("term %d, %v", term, err)
		}
		assert.Equal(t, time.Since(began), headStart, "a vote took")
	})
}

func TestDialSaysWhyEachAddressFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		three := listen(t, b, 3)
		silent := b.silentAddr(t)
		one := listen(t, b, 1, func(c *Config) {
			c.DialTimeout = 2 * headStart
			c.Directory = found{b, []Target{{Addr: three.Addr()}, {Addr: silent}}}
		})
		_, err := one.DialNode(t.Context(), nodeID(2))
		if err == nil {
			t.Fatal("a node was found that does not run")
		}
		for _, want := range []string{`"` + nodeID(3) + `", not "` + nodeID(2), silent + " does not say"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("want %q: %v", want, err)
			}
		}
	})
}

// With keys, a node whose certificate has another name is refused, whatever id it sends.
func TestHelloDoesNotReplaceTheCertificate(t *testing.T) {
	a, b := newAuthority(t), newBook()
	two := listen(t, b, 2, a.keys(t, "n2"))
	for name, ok := range map[string]bool{"n2": true, "n3": false} {
		one := listen(t, b, 1, a.keys(t, "n1"), func(c *Config) {
			c.Directory = found{b, []Target{{Addr: two.Addr(), Name: name}}}
		})
		conn, err := one.DialNode(t.Context(), nodeID(2))
		assert.Equal(t, err == nil, ok, "as %s: %v", name, err)
		if err == nil {
			_ = conn.Close() // nothing was sent on it
		}
	}
}

// A dial passes over a process that proves to be the node but does not take part, as a copy of its folder does, for one
// that takes part. It connects to the process if there is no other, and does not report the address to Reached.
func TestCopyIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBubbleBook()
		seen := visits{found: found{book: b}}
		one := listen(t, b, 1, func(c *Config) { c.Directory = &seen })
		stands := func(c *Config) { c.Admission = aside{} }
		original, duplicate := listen(t, b, 2), listen(t, newBookOn(b.network), 2, stands)
		for _, targets := range [][]Target{
			{{Addr: duplicate.Addr()}, {Addr: original.Addr()}}, {{Addr: original.Addr()}, {Addr: duplicate.Addr()}},
		} {
			won, err := one.race(t.Context(), nodeID(2), targets)
			if err != nil || won.standsBy || won.target.Addr != original.Addr() {
				t.Fatalf("connected to %+v, %v", won.target, err)
			}
			won.hangUp()
		}
		seen.found.at = []Target{{Addr: b.closedAddr(t)}, {Addr: duplicate.Addr()}}
		conn, err := one.DialNode(t.Context(), nodeID(2))
		assert.NoError(t, err)
		_ = conn.Close() // nothing was sent on it
		assert.Equal(t, len(seen.at), 0, "remembered: %v", seen.at)
		won, err := one.race(t.Context(), nodeID(2), []Target{{Addr: b.silentAddr(t)}, {Addr: duplicate.Addr()}})
		if err != nil || !won.standsBy {
			t.Fatalf("beside a silent address: %+v, %v", won, err)
		}
		won.hangUp()
	})
}
