package gossip

import (
	"net"
	"os"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
)

// mutable loses packets and streams, outgoing and incoming.
type mutable struct {
	memberlist.NodeAwareTransport
	off     func() bool
	packets chan *memberlist.Packet
	streams chan net.Conn

	end    sync.Once
	ended  chan struct{}
	passes sync.WaitGroup
}

// Mutable returns a transport that loses all messages of t in both directions while off reports true, for tests. It
// behaves like a network that drops packets: it answers and refuses nothing.
func Mutable(t Transport, off func() bool) Transport {
	m := &mutable{
		NodeAwareTransport: t, off: off, packets: make(chan *memberlist.Packet), streams: make(chan net.Conn),
		ended: make(chan struct{}),
	}
	m.passes.Go(func() { pass(m, t.PacketCh(), m.packets, func(*memberlist.Packet) {}) })
	m.passes.Go(func() { pass(m, t.StreamCh(), m.streams, func(c net.Conn) { _ = c.Close() }) })
	return m
}

// pass forwards arriving elements, and loses them while the transport is off.
func pass[T any](m *mutable, from <-chan T, to chan<- T, lose func(T)) {
	for {
		select {
		case <-m.ended:
			return
		case x := <-from:
			if m.off() {
				lose(x)
				continue
			}
			select {
			case to <- x:
			case <-m.ended:
				lose(x)
				return
			}
		}
	}
}

func (m *mutable) PacketCh() <-chan *memberlist.Packet { return m.packets }

func (m *mutable) StreamCh() <-chan net.Conn { return m.streams }

func (m *mutable) WriteTo(b []byte, addr string) (time.Time, error) {
	if m.off() {
		return time.Now(), nil
	}
	return m.NodeAwareTransport.WriteTo(b, addr)
}

func (m *mutable) WriteToAddress(b []byte, addr memberlist.Address) (time.Time, error) {
	if m.off() {
		return time.Now(), nil
	}
	return m.NodeAwareTransport.WriteToAddress(b, addr)
}

func (m *mutable) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	if m.off() {
		return nil, m.unanswered(timeout)
	}
	return m.NodeAwareTransport.DialTimeout(addr, timeout)
}

func (m *mutable) DialAddressTimeout(addr memberlist.Address, timeout time.Duration) (net.Conn, error) {
	if m.off() {
		return nil, m.unanswered(timeout)
	}
	return m.NodeAwareTransport.DialAddressTimeout(addr, timeout)
}

// unanswered waits for the timeout and returns the error of a dial without an answer.
func (m *mutable) unanswered(timeout time.Duration) error {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.ended:
	}
	return os.ErrDeadlineExceeded
}

func (m *mutable) Shutdown() error {
	m.end.Do(func() { close(m.ended) })
	err := m.NodeAwareTransport.Shutdown()
	m.passes.Wait()
	return err
}
