package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

// A caller receives the reason of a refusal. The refusal is not remembered: the next request dials anew.
func TestRefusedStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		from := w.node(1).open(1)
		for _, why := range []Refusal{WrongNode, Stranger, NoRoom, 0xff} {
			stop := w.listen(2, func(conn net.Conn) {
				defer conn.Close()
				_, err := io.ReadFull(conn, make([]byte, 1+2+3*idBytes))
				assert.Equal(t, err, nil, "the header")
				assert.Equal(t, Refuse(conn, why, time.Second), nil, "refusing")
			})
			before := w.dials.Load()
			_, err := sendHeartbeat(from, 2)
			assert.ErrorIs(t, err, why, "a heartbeat")
			assert.ErrorIs(t, replicate(from, 2, 1), why, "an entry")
			_, err = from.Pipeline(nodeID(2))
			assert.ErrorIs(t, err, why, "a pipeline")
			assert.Equal(t, w.dials.Load()-before, 3, "connections for three requests")
			stop()
		}
		go respond(w.node(2).open(1), 7)
		if term, err := sendHeartbeat(from, 2); err != nil || term != 7 {
			t.Errorf("once it takes streams: term %d, %v", term, err)
		}
	})
}

// The next request dials a node again that hung up because it is shutting down.
func TestNodeThatHangsUpOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		one := w.node(1)
		defer one.stop() // before the relay, which waits for it
		from := one.open(1)
		var first atomic.Bool
		two := w.node(2)
		go respond(two.open(1), 7)
		through := w.addrs[nodeID(2)]
		w.listen(2, func(conn net.Conn) {
			defer conn.Close()
			if first.CompareAndSwap(false, true) {
				return
			}
			w.relay(t.Context(), conn, through)
		})
		assert.Error(t, replicate(from, 2, 1), "an entry was taken by a node that hangs up")
		assert.Equal(t, replicate(from, 2, 1), nil)
	})
}

// relay connects two ends until one hangs up.
func (w *world) relay(ctx context.Context, conn net.Conn, addr string) {
	other, err := w.network.Dial(ctx, addr)
	if err != nil {
		return
	}
	back := make(chan struct{})
	go func() {
		defer close(back)
		pour(conn, other)
	}()
	pour(other, conn)
	<-back
}

func pour(to, from net.Conn) {
	buf := make([]byte, 4<<10)
	for {
		n, err := from.Read(buf)
		if err == nil {
			_, err = to.Write(buf[:n])
		}
		if err != nil {
			_ = errors.Join(to.Close(), from.Close()) // one of them has hung up
			return
		}
	}
}

// A node that is closing does not wait for its dials.
func TestCloseEndsDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.timeout = time.Hour
		one := w.node(1)
		from := one.open(1)
		reached := make(chan struct{})
		w.listen(2, func(conn net.Conn) {
			close(reached)
			_, _ = conn.Read(make([]byte, 1<<10))
			_, _ = conn.Read(make([]byte, 1)) // until it is closed
			_ = conn.Close()
		})
		done := begin(func() error { return replicate(from, 2, 1) })
		<-reached
		one.stop()
		assert.ErrorIs(t, await(t, "a dial", done), context.Canceled, "ended with")
	})
}

// A newer build receives the version that both speak. An answer with a version that this build does not speak fails the
// request.
func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		two := w.node(2)
		go respond(two.open(1), 7)
		header, err := Header{From: nodeID(1), To: nodeID(2), Cluster: testCluster}.append([]byte{testByte})
		assert.NoError(t, err)
		header[1] = version + 7
		conn, err := w.DialNode(t.Context(), nodeID(2))
		assert.NoError(t, err)
		defer conn.Close()
		assert.Equal(t, introduce(conn, header), nil, "a newer build")
		for _, spoken := range []byte{0, version + 1} {
			w.listen(3, func(conn net.Conn) {
				_, _ = conn.Write([]byte{spoken})
				_, _ = conn.Read(make([]byte, 1<<10))
				_ = conn.Close()
			})
			assert.ErrorIs(t, replicate(w.node(int(spoken)+10).open(1), 3, 1), errVersion, "version %d", spoken)
		}
	})
}
