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

// The largest packet is far below what UDP could carry; memberlist sends 1400 bytes unless told otherwise.
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
			_ = conn.Close() // nobody is left to read it
			return
		}
	}
}

// receive reads packets into one buffer and hands on copies of their own size.
func (g *Gossip) receive() {
	buf := make([]byte, maxPacket)
	for {
		n, from, err := g.endpoint.udp.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || n == 0 {
			continue // an ICMP error of an earlier packet, or nothing
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

// FinalAdvertiseAddr says where others send packets. It ignores its arguments: the endpoint knows.
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

// WriteToAddress is WriteTo; names are not needed.
func (g *Gossip) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	return g.WriteTo(b, addr.Addr)
}

// PacketCh gives the packets that arrive.
func (g *Gossip) PacketCh() <-chan *memberlist.Packet { return g.packets }

// StreamCh gives the streams that arrive.
func (g *Gossip) StreamCh() <-chan net.Conn { return g.streams }

// DialTimeout opens a stream.
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

// DialAddressTimeout is DialTimeout; names are not needed.
func (g *Gossip) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	return g.DialTimeout(addr.Addr, timeout)
}

// Shutdown ends gossip on this port; the port itself stays open for the rest.
func (g *Gossip) Shutdown() error { return g.room.Close() }
