package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
)

// Gossip is a memberlist.Transport over the port: packets in UDP, streams among the TCP connections.
type Gossip struct {
	endpoint *Endpoint
	room     *room
	packets  chan *memberlist.Packet
	streams  chan net.Conn
}

var _ memberlist.NodeAwareTransport = (*Gossip)(nil)

// maxPacket is the size of the receive buffer in bytes. Packets are far smaller: memberlist sends 1400 bytes by
// default.
const maxPacket = 64 << 10

func newGossip(e *Endpoint) *Gossip {
	g := &Gossip{
		endpoint: e,
		room:     newRoom(e.tcp.Addr(), e.cfg.MaxConns),
		packets:  make(chan *memberlist.Packet),
		streams:  make(chan net.Conn),
	}
	e.wg.Go(g.accept)
	return g
}

func (g *Gossip) accept() {
	for {
		conn, err := g.room.Accept()
		if err != nil {
			return
		}
		select {
		case g.streams <- conn:
		case <-g.room.done:
			_ = conn.Close() // no reader is left
			return
		}
	}
}

// receive reads packets into one buffer and passes on copies of their own size.
func (g *Gossip) receive() {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := g.endpoint.udp.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n == 0 {
			continue // an ICMP error of an earlier packet, or an empty packet
		}
		g.endpoint.metrics.packets.Inc()
		packet := &memberlist.Packet{Buf: append([]byte(nil), buf[:n]...), From: from, Timestamp: time.Now()}
		select {
		case g.packets <- packet:
		case <-g.room.done:
			return
		}
	}
}

// FinalAdvertiseAddr returns the address to which others send packets. It ignores its arguments and uses the
// endpoint's.
func (g *Gossip) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	host, service, err := net.SplitHostPort(g.endpoint.addr)
	if err != nil {
		return nil, 0, fmt.Errorf("peer address to advertise: %w", err)
	}
	port, err := strconv.ParseUint(service, 10, 16)
	if err != nil {
		return nil, 0, fmt.Errorf("peer address to advertise: %w", err)
	}
	addr, err := net.ResolveIPAddr("ip", host)
	if err != nil {
		return nil, 0, fmt.Errorf("peer address to advertise: %w", err)
	}
	if v4 := addr.IP.To4(); v4 != nil {
		return v4, int(port), nil
	}
	return addr.IP, int(port), nil
}

// WriteTo sends a packet.
func (g *Gossip) WriteTo(b []byte, addr string) (time.Time, error) {
	to, err := net.ResolveUDPAddr("udp", addr)
	if err != nil {
		return time.Time{}, err
	}
	_, err = g.endpoint.udp.WriteTo(b, to)
	return time.Now(), err
}

// WriteToAddress is WriteTo; the transport does not need the name in addr.
func (g *Gossip) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	return g.WriteTo(b, addr.Addr)
}

// PacketCh returns the channel of arriving packets.
func (g *Gossip) PacketCh() <-chan *memberlist.Packet { return g.packets }

// StreamCh returns the channel of arriving streams.
func (g *Gossip) StreamCh() <-chan net.Conn { return g.streams }

// DialTimeout opens a gossip stream to an address.
func (g *Gossip) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := g.endpoint.DialAddr(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if _, err := conn.Write([]byte{gossipByte}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, conn.SetWriteDeadline(time.Time{})
}

// DialAddressTimeout is DialTimeout; the transport does not need the name in addr.
func (g *Gossip) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return g.DialTimeout(addr.Addr, timeout)
}

// Shutdown ends gossip on this port and leaves the port open for everything else.
func (g *Gossip) Shutdown() error { return g.room.Close() }
