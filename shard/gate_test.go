package shard

import (
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// gate is a transport whose outgoing replication the test can hold up. It offers the optional methods that Raft looks
// for in a transport.
type gate struct {
	*raft.InmemTransport

	mu        sync.Mutex
	frozen    chan struct{} // non-nil: heartbeats wait here before they are sent
	answers   chan struct{} // non-nil: the answers to heartbeats wait here
	pace      time.Duration // that a request is on its way
	noEntries bool          // requests with entries fail, heartbeats pass
	held      int           // number of waiting answers
	sent      int           // number of requests
	heartbeat func(raft.RPC)
}

var errGate = errors.New("held up by the test")

func (g *gate) SetHeartbeatHandler(cb func(raft.RPC)) { g.heartbeat = cb }

func (g *gate) AppendEntries(id raft.ServerID, addr raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	g.mu.Lock()
	frozen, answers, noEntries, pace := g.frozen, g.answers, g.noEntries, g.pace
	g.sent++
	if answers != nil && frozen == nil {
		g.held++
	}
	g.mu.Unlock()
	if noEntries && len(req.Entries) > 0 {
		return errGate
	}
	if frozen != nil {
		<-frozen
	}
	if pace > 0 {
		<-time.After(pace)
	}
	err := g.InmemTransport.AppendEntries(id, addr, req, resp)
	if answers != nil && frozen == nil {
		<-answers
	}
	return err
}

// AppendEntriesPipeline returns an error, so that all replication comes through AppendEntries.
func (g *gate) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (g *gate) with(change func(*gate)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g)
}

func (g *gate) stopEntries(stop bool) { g.with(func(g *gate) { g.noEntries = stop }) }

// gates puts a gate before each node's transport and returns the gates by node.
func (c *replicas) gates() map[string]*gate {
	gates := map[string]*gate{}
	c.wire = func(id string, inner *raft.InmemTransport) raft.Transport {
		gates[id] = &gate{InmemTransport: inner}
		return gates[id]
	}
	return gates
}
