package memnet

import (
	"context"
	"net"
)

// Host is a part of a network that can be cut off, such as one node of a cluster. Its listeners and its connections are
// those that it has opened.
type Host struct {
	network *Network

	// The network's mutex guards the fields below.
	cut   bool
	conns map[*conn]struct{}
}

// Host returns a new host.
func (n *Network) Host() *Host { return &Host{network: n, conns: make(map[*conn]struct{})} }

// Listen opens the listener and the packet socket of an address, as Network.Listen does.
func (h *Host) Listen(addr string) (net.Listener, net.PacketConn, error) {
	return h.network.listen(h, addr)
}

// Dial connects to the listener at an address.
func (h *Host) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return h.network.dial(ctx, h, addr)
}

// Cut cuts the host off for good. For all others it looks as if the host's process had been killed: connections are
// reset, and further ones are refused.
func (h *Host) Cut() {
	h.network.mu.Lock()
	h.cut = true
	conns := h.conns
	h.conns = make(map[*conn]struct{})
	h.network.mu.Unlock()
	for c := range conns {
		c.reset()
	}
}

// isCut reports whether the host is cut off. The caller holds the network's mutex.
func (h *Host) isCut() bool { return h != nil && h.cut }

// add notes an end of a connection. The caller holds the network's mutex.
func (h *Host) add(c *conn) {
	if h != nil {
		c.host = h
		h.conns[c] = struct{}{}
	}
}

func (h *Host) remove(c *conn) {
	if h != nil {
		h.network.mu.Lock()
		defer h.network.mu.Unlock()
		delete(h.conns, c)
	}
}
