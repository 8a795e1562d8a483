package wire

import (
	"context"
	"errors"
	"fmt"
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

	mu      sync.Mutex
	dialing *dialing // nil: nobody is
}

// route says which stream.
type route struct {
	node, cluster string
	lane          lane
}

// dialing is one attempt to connect, which all who need it wait for.
type dialing struct {
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
	if d := l.dialing; d != nil {
		l.mu.Unlock()
		<-d.done
		return d.client, d.err
	}
	d := &dialing{done: make(chan struct{})}
	l.dialing = d
	l.mu.Unlock()
	d.client, d.err = l.open()
	l.mu.Lock()
	l.dialing = nil
	l.mu.Unlock()
	close(d.done)
	return d.client, d.err
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

func (m *Mux) dial(node string, header []byte) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(m.ctx, m.cfg.Timeout)
	defer cancel()
	conn, err := m.cfg.Dial(ctx, node)
	if err != nil {
		return nil, err
	}
	err = conn.SetWriteDeadline(time.Now().Add(m.cfg.Timeout))
	if err == nil {
		_, err = conn.Write(header)
	}
	if err == nil {
		err = conn.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}
