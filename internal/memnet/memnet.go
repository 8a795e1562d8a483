package memnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"google.golang.org/grpc/test/bufconn"
)

// buffer is the number of bytes that a connection holds in each direction before its writer waits.
const buffer = 256 << 10

// firstPort is the port of the first listener that names none. The system gives ports below it to no listener of a test.
const firstPort = 40_000

// Network connects the addresses of one test. Its methods are safe for concurrent use.
type Network struct {
	mu   sync.Mutex
	next int // port
	open map[string]*listener
	udp  map[string]*packets
}

// New returns a network without listeners. The test that uses it must call New in its bubble.
func New() *Network {
	return &Network{next: firstPort, open: make(map[string]*listener), udp: make(map[string]*packets)}
}

// Addr returns an address that no listener has had.
func (n *Network) Addr() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addr()
}

func (n *Network) addr() string {
	n.next++
	return fmt.Sprintf("127.0.0.1:%d", n.next-1)
}

// Listen opens the listener and the packet socket of an address, which is an IP address with a port. Port 0 gives a port
// that no other listener has had.
func (n *Network) Listen(addr string) (net.Listener, net.PacketConn, error) {
	want, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if want.Port == 0 {
		if want, err = net.ResolveTCPAddr("tcp", n.addr()); err != nil {
			return nil, nil, err
		}
	}
	key := want.String()
	if n.open[key] != nil {
		return nil, nil, &net.OpError{Op: "listen", Net: "tcp", Addr: want, Err: syscall.EADDRINUSE}
	}
	l := &listener{Listener: bufconn.Listen(buffer), network: n, addr: want}
	p := &packets{
		network: n, addr: &net.UDPAddr{IP: want.IP, Port: want.Port},
		arrived: make(chan packet, queue), closed: make(chan struct{}),
	}
	n.open[key], n.udp[key] = l, p
	return l, p, nil
}

// Dial connects to the listener at an address. It fails at once if there is none.
func (n *Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	to, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	l := n.open[to.String()]
	from, errFrom := net.ResolveTCPAddr("tcp", n.addr())
	n.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: syscall.ECONNREFUSED}
	if l == nil {
		return nil, refused
	}
	c, err := l.DialContext(ctx)
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if err != nil {
		err = refused // the listener was closed while the dial waited
	}
	return &conn{Conn: c, local: from, remote: to}, errors.Join(err, errFrom)
}

// listener accepts the connections to one address.
type listener struct {
	*bufconn.Listener
	network *Network
	addr    *net.TCPAddr
}

// Accept waits for a connection. Its remote address does not tell hosts apart.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.addr, Err: net.ErrClosed}
	}
	return &conn{Conn: c, local: l.addr, remote: &net.TCPAddr{IP: l.addr.IP, Port: 1}}, nil
}

// Close frees the address. Accepted connections stay open.
func (l *listener) Close() error {
	l.network.mu.Lock()
	if key := l.addr.String(); l.network.open[key] == l {
		delete(l.network.open, key)
	}
	l.network.mu.Unlock()
	return l.Listener.Close()
}

func (l *listener) Addr() net.Addr { return l.addr }

// conn is one end of a connection. Its errors are those of a TCP connection.
type conn struct {
	net.Conn
	local, remote net.Addr
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	return n, c.as("read", err, net.ErrClosed)
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	return n, c.as("write", err, syscall.EPIPE)
}

// as returns the error as an operation on a TCP connection would: a deadline that passed, or broken for a connection
// that is closed.
func (c *conn) as(op string, err, broken error) error {
	var timeout net.Error
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case errors.As(err, &timeout) && timeout.Timeout():
		err = os.ErrDeadlineExceeded
	case errors.Is(err, io.ErrClosedPipe):
		err = broken
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

func (c *conn) LocalAddr() net.Addr  { return c.local }
func (c *conn) RemoteAddr() net.Addr { return c.remote }
