package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"
)

// Network opens the sockets of an endpoint. Its listeners have TCP addresses, and its packet sockets UDP addresses. A
// connection that is not the system's has a method Readable() bool, which reports whether a Read without a deadline
// would return at once: a connection at rest is dead then.
type Network interface {
	// Listen opens the TCP and the UDP port of one number at host:port; port 0 picks one.
	Listen(addr string) (net.Listener, net.PacketConn, error)
	// Dial connects to host:port.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// connectTimeout is the limit of a TCP connect: long enough for one lost packet. TCP repeats its packets to an
// unreachable node at longer and longer intervals, so a new attempt finds a returning node sooner.
const connectTimeout = 1500 * time.Millisecond

// system is the network of the operating system. It closes connections whose sent bytes stay unacknowledged for the
// time silence.
type system struct{ silence time.Duration }

// Listen opens both ports. With port 0 the system picks the TCP port; Listen tries again if its number is taken in UDP.
func (s system) Listen(addr string) (net.Listener, net.PacketConn, error) {
	const attempts = 16
	want, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, nil, fmt.Errorf("peer address to bind: %w", err)
	}
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // nodes never dial it, and it does not support endSilence
	for attempt := 1; ; attempt++ {
		listener, err := plain.Listen(context.Background(), "tcp", want.String())
		if err != nil {
			return nil, nil, fmt.Errorf("peer port: %w", err)
		}
		tcp := listener.(*net.TCPListener)
		if err := endSilence(tcp, s.silence); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("peer port: %w", err), tcp.Close())
		}
		bound := tcp.Addr().(*net.TCPAddr)
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: bound.IP, Port: bound.Port, Zone: bound.Zone})
		if err == nil {
			return tcp, udp, nil
		}
		err = errors.Join(err, tcp.Close())
		if want.Port != 0 || attempt == attempts {
			return nil, nil, fmt.Errorf("peer port, for packets: %w", err)
		}
	}
}

func (s system) Dial(ctx context.Context, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{Timeout: connectTimeout}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if err := endSilence(conn.(*net.TCPConn), s.silence); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}
