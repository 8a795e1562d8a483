package memnet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// firstPort is the port of the first listener that names none. Callers have lower ports.
const firstPort = 40_000

// firstCaller and lastCaller bound the ports of connections at the end that dialled. They are used in turn.
const firstCaller, lastCaller = 10_000, 39_999

// Network connects the addresses of one test. Its methods are safe for concurrent use.
type Network struct {
	mu     sync.Mutex
	next   int // port of a listener
	caller int // port of a dial
	open   map[string]*listener
	udp    map[string]*packets
}

// New returns a network without listeners. The test that uses it must call New in its bubble.
func New() *Network {
	return &Network{
		next: firstPort, caller: firstCaller, open: make(map[string]*listener), udp: make(map[string]*packets),
	}
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

// Listen opens the listener and the packet socket of an address, which is an IP address with a port. Port 0 gives a
// port that no other listener has had.
func (n *Network) Listen(addr string) (net.Listener, net.PacketConn, error) {
	return n.listen(nil, addr)
}

// ListenTCP opens the listener of an address alone, for a server that gets no packets; see Listen.
func (n *Network) ListenTCP(addr string) (net.Listener, error) {
	l, packets, err := n.Listen(addr)
	if err != nil {
		return nil, err
	}
	return l, packets.Close()
}

func (n *Network) listen(host *Host, addr string) (net.Listener, net.PacketConn, error) {
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
	l := newListener(n, host, want)
	p := &packets{
		network: n, host: host, addr: &net.UDPAddr{IP: want.IP, Port: want.Port},
		arrived: make(chan packet, queue), closed: make(chan struct{}),
	}
	n.open[key], n.udp[key] = l, p
	return l, p, nil
}

// Dial connects to the listener at an address. It fails at once if there is none.
func (n *Network) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return n.dial(ctx, nil, addr)
}

func (n *Network) dial(ctx context.Context, host *Host, addr string) (net.Conn, error) {
	to, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, err
	}
	if err = ctx.Err(); err == nil {
		var l *listener
		var ours, theirs *conn
		if l, ours, theirs, err = n.connect(host, to); err == nil {
			if err = l.enqueue(ctx, theirs); err == nil {
				return ours, nil
			}
			host.remove(ours)
			l.host.remove(theirs)
		}
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: err}
}

// connect returns the listener at an address, and both ends of a connection to it.
func (n *Network) connect(host *Host, to *net.TCPAddr) (l *listener, ours, theirs *conn, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	l = n.open[to.String()]
	switch {
	case host.isCut():
		return nil, nil, nil, syscall.ENETUNREACH
	case l == nil || l.host.isCut():
		return nil, nil, nil, syscall.ECONNREFUSED
	}
	from := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n.caller}
	if n.caller++; n.caller > lastCaller {
		n.caller = firstCaller
	}
	ours, theirs = pair(from, to)
	host.add(ours)
	l.host.add(theirs)
	return l, ours, theirs, nil
}

// closed frees the address of a listener.
func (n *Network) closed(l *listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if key := l.addr.String(); n.open[key] == l {
		delete(n.open, key)
	}
}
