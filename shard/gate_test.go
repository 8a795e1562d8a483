package shard

import (
	"errors"
	"sync"

	"github.com/hashicorp/raft"
)

// gate is a transport whose outgoing replication can be held up. It passes on what Raft looks for in a transport.
type gate struct {
	*raft.InmemTransport

	mu        sync.Mutex
	frozen    chan struct{} // not nil: heartbeats wait here before they are sent
	answers   chan struct{} // not nil: their answers wait here
	noEntries bool          // requests with entries fail, heartbeats pass
	held      int           // answers that wait
	sent      int           // requests
	heartbeat func(raft.RPC)
}

var errGate = errors.New("held up by the test")

func (g *gate) SetHeartbeatHandler(cb func(raft.RPC)) { g.heartbeat = cb }

func (g *gate) AppendEntries(id raft.ServerID, addr raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	g.mu.Lock()
	frozen, answers, noEntries := g.frozen, g.answers, g.noEntries
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
	err := g.InmemTransport.AppendEntries(id, addr, req, resp)
	if answers != nil && frozen == nil {
		<-answers
	}
	return err
}

// AppendEntriesPipeline is refused, so that all replication comes through AppendEntries.
func (g *gate) AppendEntriesPipeline(raft.ServerID, raft.ServerAddress) (raft.AppendPipeline, error) {
	return nil, raft.ErrPipelineReplicationNotSupported
}

func (g *gate) with(change func(*gate)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(g)
}

func (g *gate) stopEntries(stop bool) { g.with(func(g *gate) { g.noEntries = stop }) }

// gates puts one before each node.
func (c *replicas) gates() map[string]*gate {
	gates := map[string]*gate{}
	c.wire = func(id string, inner *raft.InmemTransport) raft.Transport {
		gates[id] = &gate{InmemTransport: inner}
		return gates[id]
	}
	return gates
}
