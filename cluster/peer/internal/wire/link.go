package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/raft"
)

// link is the path to one node for one kind of traffic. It has a stream while one is needed and the node can be
// reached.
type link struct {
	mux    *Mux
	to     route
	client atomic.Pointer[client] // nil: not connected

	mu         sync.Mutex
	connecting *connecting // nil: no attempt is in progress
}

// route identifies the streams to a node: cluster, node and kind of traffic.
type route struct {
	node, cluster string
	traffic       Traffic
}

// connecting is one attempt to connect, shared by all goroutines that need the stream.
type connecting struct {
	done   chan struct{}
	client *client
	err    error
}

// submit begins an exchange. If it returns an error, the exchange will not be completed. It dials anew, once, if the
// stream had ended already.
func (l *link) submit(c *exchange, r *raft.AppendEntriesRequest) error {
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
	l.connecting = nil
	l.mu.Unlock()
	close(d.done)
	return d.client, d.err
}

// open dials the node and begins a stream.
func (l *link) open() (*client, error) {
	m := l.mux
	conn, err := m.Dial(m.ctx, l.to.node, l.to.cluster, l.to.traffic)
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

// Dial connects to a node for a stream, and returns once the node has taken the stream. A refusal of the node is a
// Refusal.
func (m *Mux) Dial(ctx context.Context, node, cluster string, t Traffic) (net.Conn, error) {
	header, err := Header{From: m.cfg.Self, To: node, Cluster: cluster, Traffic: t}.append([]byte{m.cfg.FirstByte})
	if err != nil {
		return nil, fmt.Errorf("stream to node: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, m.cfg.Timeout)
	defer cancel()
	conn, err := m.cfg.Nodes.DialNode(ctx, node)
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
	_ = conn.Close() // the node did not take the stream
	return nil, err
}

// introduce sends the header and waits for the answer: the version that both nodes speak, or a Refusal.
func introduce(conn net.Conn, header []byte) error {
	if _, err := conn.Write(header); err != nil {
		return err
	}
	var answer [1]byte
	if _, err := io.ReadFull(conn, answer[:]); err != nil {
		return fmt.Errorf("the node does not answer the header of a stream: %w", err)
	}
	switch b := answer[0]; {
	case b >= byte(WrongNode):
		return Refusal(b)
	case b == 0 || b > version:
		return fmt.Errorf("%w: %d", errVersion, b)
	}
	return nil
}
