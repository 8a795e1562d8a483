package memnet

import (
	"net"
	"sync"
	"time"
)

// queue is the number of packets that a socket holds. The network drops further ones, as a socket does.
const queue = 1024

type packet struct {
	data []byte
	from net.Addr
}

// packets is the packet socket of one address.
type packets struct {
	network *Network
	host    *Host // nil: none that can be cut off
	addr    *net.UDPAddr
	arrived chan packet
	closed  chan struct{}
	once    sync.Once
}

func (p *packets) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case got := <-p.arrived:
		return copy(b, got.data), got.from, nil
	case <-p.closed:
		return 0, nil, net.ErrClosed
	}
}

// WriteTo sends a packet. A packet to an address without a socket is lost.
func (p *packets) WriteTo(b []byte, to net.Addr) (int, error) {
	select {
	case <-p.closed:
		return 0, net.ErrClosed
	default:
	}
	p.network.mu.Lock()
	target := p.network.udp[to.String()]
	lost := target == nil || p.host.isCut() || target.host.isCut()
	p.network.mu.Unlock()
	if !lost {
		select {
		case target.arrived <- packet{append([]byte(nil), b...), p.addr}:
		default:
		}
	}
	return len(b), nil
}

func (p *packets) Close() error {
	p.once.Do(func() {
		p.network.mu.Lock()
		if key := p.addr.String(); p.network.udp[key] == p {
			delete(p.network.udp, key)
		}
		p.network.mu.Unlock()
		close(p.closed)
	})
	return nil
}

func (p *packets) LocalAddr() net.Addr { return p.addr }

// SetDeadline and its kin do nothing: no reader of a packet socket here sets one.
func (*packets) SetDeadline(time.Time) error      { return nil }
func (*packets) SetReadDeadline(time.Time) error  { return nil }
func (*packets) SetWriteDeadline(time.Time) error { return nil }
