package memnet

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
)

// firstPort is the port of the first listener that names none. The system gives ports below it to no listener of a test.
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
	l := newListener(n, want)
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
	l, from := n.open[to.String()], &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: n.caller}
	if n.caller++; n.caller > lastCaller {
		n.caller = firstCaller
	}
	n.mu.Unlock()
	if err = ctx.Err(); err == nil && l == nil {
		err = syscall.ECONNREFUSED
	}
	if err == nil {
		ours, theirs := pair(from, to)
		if err = l.enqueue(ctx, theirs); err == nil {
			return ours, nil
		}
	}
	return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: to, Err: err}
}

// closed frees the address of a listener.
func (n *Network) closed(l *listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if key := l.addr.String(); n.open[key] == l {
		delete(n.open, key)
	}
}
