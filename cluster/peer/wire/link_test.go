package wire

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

// hangUp makes a node one that takes no streams, as a build from before there were any. It counts its callers.
func (w *world) hangUp(n int) (callers *atomic.Int64, stop func()) {
	callers = new(atomic.Int64)
	stop = w.listen(n, func(conn net.Conn) {
		callers.Add(1)
		_, _ = conn.Read(make([]byte, 1))
		_ = conn.Close()
	})
	return callers, stop
}

// Who hangs up is known for it and left alone, by each lane, until somebody says that it may have changed.
func TestNodeThatTakesNoStreams(t *testing.T) {
	w := newWorld(t)
	from := w.node(1).open(1)
	callers, stop := w.hangUp(2)
	for range 3 {
		if _, err := sendHeartbeat(from, 2); !errors.Is(err, ErrNotTaken) {
			t.Errorf("a heartbeat: %v", err)
		}
		if err := replicate(from, 2, 1); !errors.Is(err, ErrNotTaken) {
			t.Errorf("an entry: %v", err)
		}
		if _, err := from.Pipeline(nodeID(2)); !errors.Is(err, ErrNotTaken) {
			t.Errorf("a pipeline: %v", err)
		}
	}
	if n := callers.Load(); n != 4 { // each lane has made sure
		t.Errorf("%d connections", n)
	}
	stop()
	from.AskAgain(nodeID(2))
	if err := replicate(from, 2, 1); err == nil || errors.Is(err, ErrNotTaken) {
		t.Errorf("to nobody: %v", err)
	}
	go respond(w.node(2).open(1), 7)
	if err := replicate(from, 2, 1); err != nil {
		t.Error(err)
	}
	if term, err := sendHeartbeat(from, 2); err != nil || term != 7 {
		t.Errorf("term %d, %v", term, err)
	}
}

// A node that hangs up because it is going down is not known for taking no streams.
func TestNodeThatHangsUpOnce(t *testing.T) {
	w := newWorld(t)
	one := w.node(1)
	defer one.stop() // before whoever relays
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
		relay(t.Context(), conn, through)
	})
	if err := replicate(from, 2, 1); err != nil {
		t.Error(err)
	}
}

// relay connects two ends until one hangs up.
func relay(ctx context.Context, conn net.Conn, addr string) {
	other, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
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
			_ = errors.Join(to.Close(), from.Close()) // one of them is gone
			return
		}
	}
}

// A node that is closing does not wait for those that it is about to reach.
func TestCloseEndsDials(t *testing.T) {
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
	if err := await(t, "a dial", done); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

// A newer build is answered with the version that both speak; an answer that this build cannot have given ends it.
func TestVersions(t *testing.T) {
	w := newWorld(t)
	two := w.node(2)
	go respond(two.open(1), 7)
	header, err := Header{From: nodeID(1), To: nodeID(2), Cluster: testCluster}.append([]byte{testByte})
	if err != nil {
		t.Fatal(err)
	}
	header[1] = version + 7
	conn, err := w.dial(t.Context(), nodeID(2))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := introduce(conn, header); err != nil {
		t.Errorf("a newer build: %v", err)
	}
	for _, spoken := range []byte{0, version + 1} {
		w.listen(3, func(conn net.Conn) {
			_, _ = conn.Write([]byte{spoken})
			_, _ = conn.Read(make([]byte, 1<<10))
			_ = conn.Close()
		})
		if err := replicate(w.node(int(spoken)+10).open(1), 3, 1); !errors.Is(err, errVersion) {
			t.Errorf("version %d: %v", spoken, err)
		}
	}
}
