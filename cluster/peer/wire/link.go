package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
)

// link is the way to one node by one lane. It has a stream while one is needed and the node can be reached.
type link struct {
	mux    *Mux
	to     route
	client atomic.Pointer[client] // nil: to be dialled

	mu         sync.Mutex
	connecting *connecting // nil: nobody is
	hungUp     time.Time   // when the node did not take a stream; zero: it did, or could not be asked
}

// ErrNotTaken says that a node hangs up on streams. A build from before there were streams does; and so does a node
// that is not the one that is meant, has no room for more, or does not count this one among the cluster's.
var ErrNotTaken = errors.New("the node does not take streams of requests")

// notTakenFor is how long a node is not asked again.
const notTakenFor = time.Minute

// route says which stream.
type route struct {
	node, cluster string
	lane          lane
}

// connecting is one attempt to connect, which all who need it wait for.
type connecting struct {
	done   chan struct{}
	client *client
	err    error
}

// submit sends a call; with an error it is not sent and will not be completed. A stream that had ended before is
// dialled anew, once.
func (l *link) submit(c *call, r *raft.AppendEntriesRequest) error {
	for again := true; ; again = false {
		cl, err := l.connected()
		if err == nil {
			err = cl.send(c, r)
		}
		if err != nil && again && isBroken(err) {
			continue
		}
		if err == nil && c.group.isClosed() {
			c.cancel(raft.ErrTransportShutdown)
		}
		return err
	}
}

func isBroken(err error) bool {
	var broken brokenError
	return errors.As(err, &broken)
}

func (l *link) connected() (*client, error) {
	if cl := l.client.Load(); cl != nil {
		return cl, nil
	}
	l.mu.Lock()
	if cl := l.client.Load(); cl != nil {
		l.mu.Unlock()
		return cl, nil
	}
	if !l.hungUp.IsZero() && time.Since(l.hungUp) < notTakenFor {
		l.mu.Unlock()
		return nil, ErrNotTaken
	}
	if d := l.connecting; d != nil {
		l.mu.Unlock()
		<-d.done
		return d.client, d.err
	}
	d := &connecting{done: make(chan struct{})}
	l.connecting = d
	l.mu.Unlock()
	d.client, d.err = l.open()
	l.mu.Lock()
	l.connecting, l.hungUp = nil, time.Time{}
	if errors.Is(d.err, ErrNotTaken) {
		l.hungUp = time.Now()
	}
	l.mu.Unlock()
	close(d.done)
	return d.client, d.err
}

// askAgain makes the next call find out whether the node takes streams by now.
func (l *link) askAgain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hungUp = time.Time{}
}

// open dials and begins a stream.
func (l *link) open() (*client, error) {
	m := l.mux
	header, err := Header{From: m.cfg.Self, To: l.to.node, Cluster: l.to.cluster, lane: l.to.lane}.append(
		[]byte{m.cfg.FirstByte})
	if err != nil {
		return nil, fmt.Errorf("stream to node: %w", err)
	}
	conn, err := m.dial(l.to.node, header)
	if err != nil {
		return nil, err
	}
	cl := newClient(conn, m.cfg.Self, l.to.node, m.cfg.Timeout, m.metrics, l.lost)
	l.client.Store(cl)
	if !m.start(cl) {
		cl.fail(net.ErrClosed)
		return nil, net.ErrClosed
	}
	return cl, nil
}

func (l *link) lost(cl *client) {
	l.client.CompareAndSwap(cl, nil)
	l.mux.cfg.Logger.Debug("a stream of requests to a node has ended", "node", l.to.node, "err", cl.err)
}

// dial begins a connection and says for what.
func (m *Mux) dial(node string, header []byte) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Timeout)
	defer cancel()
	conn, err := m.greet(ctx, node, header)
	if errors.Is(err, ErrNotTaken) { // or it was going down just then, and now is
		conn, err = m.greet(ctx, node, header)
	}
	return conn, err
}

func (m *Mux) greet(ctx context.Context, node string, header []byte) (net.Conn, error) {
	conn, err := m.cfg.Dial(ctx, node)
	if err != nil {
		return nil, err
	}
	inTime := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err = introduce(conn, header)
	switch {
	case !inTime():
		err = ctx.Err()
	case err == nil:
		return conn, nil
	}
	_ = conn.Close() // it is of no use
	return nil, err
}

// introduce waits for the word that the stream is taken.
func introduce(conn net.Conn, header []byte) error {
	if _, err := conn.Write(header); err != nil {
		return err
	}
	var spoken [1]byte
	if _, err := io.ReadFull(conn, spoken[:]); err != nil {
		if slow := net.Error(nil); errors.As(err, &slow) && slow.Timeout() {
			return err
		}
		return fmt.Errorf("%w: %w", ErrNotTaken, err)
	}
	if spoken[0] == 0 || spoken[0] > version {
		return fmt.Errorf("%w: %d", errVersion, spoken[0])
	}
	return nil
}
