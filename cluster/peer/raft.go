package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/peer/internal/wire"
)

// RaftTransport is the transport of one Raft group over the port. Its addresses are node ids. Heartbeats and entries,
// nearly all of the traffic, use the streams that all groups share. Votes, snapshots and leadership transfers use
// connections of the group's own.
type RaftTransport struct {
	*raft.NetworkTransport
	wire *wire.Group
}

// AppendEntries sends a heartbeat or entries, and waits for the answer.
func (t RaftTransport) AppendEntries(_ raft.ServerID, node raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return t.wire.AppendEntries(string(node), req, resp)
}

// AppendEntriesPipeline opens a pipeline that sends entries without waiting for each answer. It lasts until a
// connection fails.
func (t RaftTransport) AppendEntriesPipeline(_ raft.ServerID, node raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := t.wire.Pipeline(string(node))
	if err != nil {
		return nil, err // a nil *Pipeline would be a non-nil interface
	}
	return p, nil
}

// Consumer returns the channel of requests from the shared streams and from the group's own connections.
func (t RaftTransport) Consumer() <-chan raft.RPC { return t.wire.Consumer() }

// Close removes the group from the port.
func (t RaftTransport) Close() error {
	return errors.Join(t.NetworkTransport.Close(), t.wire.Close())
}

// forward passes on the requests of the group's own connections.
func (t RaftTransport) forward() {
	for {
		select {
		case rpc := <-t.NetworkTransport.Consumer():
			t.wire.SawRequest(rpc.Command)
			if !t.wire.Offer(rpc) {
				return
			}
		case <-t.wire.Done():
			return
		}
	}
}

// SetHeartbeatHandler does nothing, so every heartbeat goes through Raft's main loop: see the package comment.
func (RaftTransport) SetHeartbeatHandler(func(raft.RPC)) {}

// Raft opens the transport of one group of one cluster. Closing the transport removes the group from the port.
func (e *Endpoint) Raft(number uint32, clusterID string, logger hclog.Logger) (*RaftTransport, error) {
	if len(clusterID) != idBytes {
		return nil, fmt.Errorf("peer: group %d without a cluster id", number)
	}
	g := &group{room: newRoom(nodeAddr(e.cfg.NodeID), e.cfg.MaxConns), endpoint: e, number: number, cluster: clusterID}
	g.leave = func() { e.removeGroup(g) }
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups[number] != nil {
		return nil, fmt.Errorf("peer: group %d is open already", number)
	}
	select {
	case <-e.done:
		return nil, net.ErrClosed
	default:
	}
	shared, err := e.wire.Open(number, clusterID)
	if err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	e.groups[number] = g
	t := &RaftTransport{wire: shared, NetworkTransport: raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream:  g,
		MaxPool: 3,
		Timeout: e.cfg.DialTimeout,
		Logger:  logger,
	})}
	t.TimeoutScale = e.cfg.snapshotScale()
	go t.forward()
	return t, nil
}

func (e *Endpoint) removeGroup(g *group) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.groups[g.number] == g {
		delete(e.groups, g.number)
	}
}

// group is a raft.StreamLayer: it accepts a group's connections and dials the group's peers.
type group struct {
	*room
	endpoint *Endpoint
	number   uint32
	cluster  string
}

// nodeAddr is a node id as a net.Addr, so the transport names itself by its node id.
type nodeAddr string

func (nodeAddr) Network() string  { return "node" }
func (a nodeAddr) String() string { return string(a) }

// Dial connects to the group's replica on a node, at the node's present address.
func (g *group) Dial(node raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := g.connect(node, timeout)
	if err != nil {
		return nil, err
	}
	again := func() (net.Conn, error) { return g.connect(node, timeout) }
	t, ok := g.conns.add(&pooled{conn: conn, again: again, used: time.Now()})
	if !ok {
		return nil, errors.Join(net.ErrClosed, conn.Close())
	}
	return t, nil
}

func (g *group) connect(node raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	header, err := groupHeader{group: g.number, to: string(node), cluster: g.cluster}.encode()
	if err != nil {
		return nil, fmt.Errorf("peer: node %q: %w", node, err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := g.endpoint.DialNode(ctx, string(node))
	if err != nil {
		return nil, err
	}
	if err := conn.SetWriteDeadline(time.Now().Add(timeout)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if _, err := conn.Write(header); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, conn.SetWriteDeadline(time.Time{})
}
