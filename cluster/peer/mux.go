package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/belfryhq/belfry/cluster/peer/internal/wire"
)

// The reasons for which a connection is dropped before it is delivered.
const (
	droppedCrowd   = "crowd"    // too many connections have not yet told their purpose
	droppedSilent  = "silent"   // it did not tell its purpose in time, or hung up
	droppedUnknown = "unknown"  // its first byte is unknown
	droppedKeys    = "keys"     // TLS failed, or the certificate was refused
	droppedGroup   = "group"    // its Raft group is not on this node
	droppedMisled  = "misled"   // it is meant for another node or another cluster
	droppedFull    = "full"     // there are too many connections of its kind
	droppedForeign = "stranger" // it is a Raft connection of a node that is not in the cluster
)

// admit reads the purpose of a new connection and delivers it there, or drops it.
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
	conn, to, reason, err := e.receive(conn, name)
	if reason != "" {
		e.drop(waiting, reason, err)
		return
	}
	_ = raw.SetDeadline(time.Time{})
	e.silent.release(waiting)
	if !to.deliver(conn) {
		e.drop(conn, droppedFull, nil)
	}
}

// acceptor takes over connections of one kind.
type acceptor interface {
	// deliver takes the connection over. It returns false if the acceptor is full or closed: the caller keeps the
	// connection.
	deliver(net.Conn) bool
}

// receive reads the first bytes of a connection and returns its acceptor, or the reason to drop it.
func (e *Endpoint) receive(conn net.Conn, name string) (net.Conn, acceptor, string, error) {
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err != nil {
		return nil, nil, droppedSilent, err
	}
	if first[0] == helloByte {
		if reason, err := e.answerHello(conn); err != nil {
			return nil, nil, reason, err
		}
		if _, err := io.ReadFull(conn, first[:]); err != nil {
			return nil, nil, droppedSilent, err
		}
	}
	return e.sort(conn, first, name)
}

// sort chooses the acceptor by the first byte and the header that follows it.
func (e *Endpoint) sort(conn net.Conn, first [1]byte, name string) (net.Conn, acceptor, string, error) {
	switch first[0] {
	case grpcByte:
		return &prefixed{Conn: conn, name: name, prefix: first[:]}, e.grpc, "", nil
	case gossipByte:
		return conn, e.gossip.room, "", nil
	case groupByte:
		to, reason, err := e.sortGroup(conn, name)
		return conn, to, reason, err
	case wireByte:
		return e.sortWire(conn, name)
	default:
		return nil, nil, droppedUnknown, fmt.Errorf("first byte %#02x", first[0])
	}
}

func (e *Endpoint) sortGroup(conn net.Conn, name string) (acceptor, string, error) {
	h, err := readGroupHeader(conn)
	if err != nil {
		return nil, droppedSilent, err
	}
	if reason, err := e.checkPair(h.to, name); err != nil {
		return nil, reason, err
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

// checkPair returns a reason to drop a Raft connection that is meant for another node, or whose caller is not a member.
func (e *Endpoint) checkPair(to, name string) (reason string, err error) {
	if to != e.cfg.NodeID {
		return droppedMisled, fmt.Errorf("it is meant for node %q", to)
	}
	if name != "" && !e.cfg.Directory.IsMember(name) {
		return droppedForeign, fmt.Errorf("node %q is not in the cluster", name)
	}
	return "", nil
}

// appender is the acceptor of a stream of AppendEntries, of all groups.
type appender struct {
	endpoint *Endpoint
	header   wire.Header
}

// refusals maps the reason for which a stream is dropped to the refusal that its caller receives.
var refusals = map[string]wire.Refusal{
	droppedMisled: wire.WrongNode, droppedForeign: wire.Stranger, droppedFull: wire.NoRoom,
}

func (e *Endpoint) sortWire(conn net.Conn, name string) (net.Conn, acceptor, string, error) {
	h, err := wire.ReadHeader(conn)
	if err != nil {
		return nil, nil, droppedSilent, err
	}
	if reason, err := e.checkStream(h, name); reason != "" {
		return nil, nil, reason, errors.Join(err, e.refuse(conn, reason))
	}
	switch h.Traffic {
	case Calls, Pulls:
		return &Incoming{Conn: conn, Traffic: h.Traffic, From: h.From, Cluster: h.Cluster, Name: name}, e.streams, "", nil
	default:
		return conn, appender{e, h}, "", nil
	}
}

// checkStream returns the reason to refuse a stream, or "".
func (e *Endpoint) checkStream(h wire.Header, name string) (reason string, err error) {
	if reason, err := e.checkPair(h.To, name); err != nil {
		return reason, err
	}
	if e.cfg.Directory.IsRemoved(h.From) {
		return droppedForeign, fmt.Errorf("node %s was removed from the cluster", h.From)
	}
	for _, g := range e.openGroups() {
		if g.cluster != h.Cluster {
			return droppedMisled, fmt.Errorf("it is meant for cluster %q", h.Cluster)
		}
	}
	return "", nil
}

func (e *Endpoint) refuse(conn net.Conn, reason string) error {
	return wire.Refuse(conn, refusals[reason], e.cfg.HeaderTimeout)
}

// deliver serves the stream until it ends.
func (s appender) deliver(conn net.Conn) bool {
	e := s.endpoint
	t, ok := e.requests.add(conn)
	if !ok {
		if err := e.refuse(conn, droppedFull); err != nil {
			e.cfg.Logger.Debug("could not refuse a stream", "from", conn.RemoteAddr(), "err", err)
		}
		return false
	}
	e.wire.Serve(t, s.header)
	return true
}

func (e *Endpoint) drop(conn net.Conn, reason string, err error) {
	e.metrics.dropped(reason)
	if isCertificateRefused(err) {
		e.cfg.Logger.Warn("refused the certificate of a node that dialled", "from", conn.RemoteAddr(), "err", err)
	}
	e.cfg.Logger.Debug("dropped a connection", "from", conn.RemoteAddr(), "reason", reason, "err", err)
	_ = conn.Close() // no data was accepted on it
}

// Addr is the remote address of an accepted gRPC connection, with the node name in its certificate.
type Addr struct {
	net.Addr
	Name string // empty without keys
}

// prefixed is a connection that first returns the byte that receive has read already.
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
