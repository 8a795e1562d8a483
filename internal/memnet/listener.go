package memnet

import (
	"context"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// backlog is the number of connections that wait for Accept. Further dials wait for a place.
const backlog = 128

// listener accepts the connections to one address.
type listener struct {
	network *Network
	host    *Host // nil: none that can be cut off
	addr    *net.TCPAddr

	mu       sync.Mutex // guards the fields below
	changed  *sync.Cond
	waiting  []*conn
	deadline deadline // of Accept
	closed   bool
}

func newListener(n *Network, host *Host, addr *net.TCPAddr) *listener {
	l := &listener{network: n, host: host, addr: addr}
	l.changed = sync.NewCond(&l.mu)
	return l
}

// enqueue adds a connection to those that wait for Accept.
func (l *listener) enqueue(ctx context.Context, c *conn) error {
	stop := context.AfterFunc(ctx, func() { wake(l.changed) })
	defer stop()
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && len(l.waiting) == backlog && ctx.Err() == nil {
		l.changed.Wait()
	}
	switch {
	case l.closed:
		return syscall.ECONNREFUSED
	case ctx.Err() != nil:
		return ctx.Err()
	}
	l.waiting = append(l.waiting, c)
	l.changed.Broadcast()
	return nil
}

// Accept waits for a connection.
func (l *listener) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.closed && len(l.waiting) == 0 && !l.deadline.passed() {
		l.changed.Wait()
	}
	var err error
	switch {
	case l.closed:
		err = net.ErrClosed
	case l.deadline.passed():
		err = os.ErrDeadlineExceeded
	default:
		c := l.waiting[0]
		l.waiting = l.waiting[1:]
		l.changed.Broadcast()
		return c, nil
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: err}
}

// Close frees the address, and resets the connections that wait for Accept. Others stay open.
func (l *listener) Close() error {
	l.network.closed(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return &net.OpError{Op: "close", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	l.closed = true
	l.deadline.set(time.Time{}, l.changed)
	for _, c := range l.waiting {
		l.host.remove(c)
		c.reset()
	}
	l.waiting = nil
	return nil
}

// SetDeadline sets the instant at which Accept fails; zero: never.
func (l *listener) SetDeadline(at time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline.set(at, l.changed)
	return nil
}

// Addr returns the listener's TCP address.
func (l *listener) Addr() net.Addr { return l.addr }

// deadline is the instant after which an operation fails; zero: never.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

// set changes the deadline. The caller holds the lock of changed, which is told of the change and of the deadline.
func (d *deadline) set(at time.Time, changed *sync.Cond) {
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	if d.at = at; !at.IsZero() && time.Now().Before(at) {
		d.timer = time.AfterFunc(time.Until(at), func() { wake(changed) })
	}
	changed.Broadcast()
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// wake makes the waiters look again.
func wake(changed *sync.Cond) {
	changed.L.Lock()
	defer changed.L.Unlock()
	changed.Broadcast()
}
