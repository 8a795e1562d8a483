package peer

import (
	"fmt"
	"io"
	"net"
	"time"
)

// Why a connection was dropped before it was anybody's.
const (
	droppedCrowd   = "crowd"    // too many have not yet said what they are
	droppedSilent  = "silent"   // it has not said in time, or hung up
	droppedUnknown = "unknown"  // it said something that is not ours
	droppedKeys    = "keys"     // TLS, or its certificate
	droppedGroup   = "group"    // a Raft group that is not here
	droppedMisled  = "misled"   // for another node or another cluster
	droppedFull    = "full"     // too many of its kind
	droppedForeign = "stranger" // a Raft connection of a node that is not in the cluster
)

// admit finds out what a new connection is for and takes it there, or drops it.
func (e *Endpoint) admit(raw net.Conn) {
	waiting, ok := e.silent.add(raw)
	if !ok {
		e.drop(raw, droppedCrowd, nil)
		return
	}
	_ = raw.SetDeadline(time.Now().Add(e.cfg.HeaderTimeout)) // fails only on a closed connection, as the read then will
	conn, name, err := e.secure(waiting.Conn)
	if err != nil {
		e.drop(waiting, droppedKeys, err)
		return
	}
	conn, r, reason, err := e.sort(conn, name)
	if reason != "" {
		e.drop(waiting, reason, err)
		return
	}
	_ = raw.SetDeadline(time.Time{})
	e.silent.release(waiting)
	if !r.deliver(conn) {
		e.drop(conn, droppedFull, nil)
	}
}

// sort reads a connection's header and says where it belongs, or why nowhere.
func (e *Endpoint) sort(conn net.Conn, name string) (net.Conn, *room, string, error) {
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return nil, nil, droppedSilent, err
	}
	switch first[0] {
	case grpcByte:
		return &prefixed{Conn: conn, name: name, prefix: first[:]}, e.grpc, "", nil
	case gossipByte:
		return conn, e.gossip.room, "", nil
	case groupByte:
		r, reason, err := e.sortGroup(conn, name)
		return conn, r, reason, err
	default:
		return nil, nil, droppedUnknown, fmt.Errorf("first byte %#02x", first[0])
	}
}

func (e *Endpoint) sortGroup(conn net.Conn, name string) (*room, string, error) {
	h, err := readGroupHeader(conn)
	if err != nil {
		return nil, droppedSilent, err
	}
	if h.to != e.cfg.NodeID {
		return nil, droppedMisled, fmt.Errorf("it is meant for node %q", h.to)
	}
	if name != "" && e.cfg.Member != nil && !e.cfg.Member(name) {
		return nil, droppedForeign, fmt.Errorf("node %q is not in the cluster", name)
	}
	e.mu.Lock()
	g := e.groups[h.group]
	e.mu.Unlock()
	switch {
	case g == nil:
		return nil, droppedGroup, fmt.Errorf("group %d is not here", h.group)
	case g.cluster != h.cluster:
		return nil, droppedMisled, fmt.Errorf("it is meant for cluster %q", h.cluster)
	}
	return g.room, "", nil
}

func (e *Endpoint) drop(conn net.Conn, reason string, err error) {
	e.metrics.dropped(reason)
	e.cfg.Logger.Debug("dropped a connection", "from", conn.RemoteAddr(), "reason", reason, "err", err)
	_ = conn.Close() // nothing was promised on it
}

// Addr is the remote address of an accepted gRPC connection, with the name its certificate gives.
type Addr struct {
	net.Addr
	Name string // empty without keys
}

// prefixed gives back the byte that was read to find out what the connection is.
type prefixed struct {
	net.Conn
	name   string
	prefix []byte
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.prefix) == 0 || len(b) == 0 {
		return p.Conn.Read(b)
	}
	n := copy(b, p.prefix)
	p.prefix = p.prefix[n:]
	return n, nil
}

func (p *prefixed) RemoteAddr() net.Addr { return Addr{Addr: p.Conn.RemoteAddr(), Name: p.name} }
