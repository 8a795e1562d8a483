package gossip

import (
	"fmt"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// delegate gives memberlist this node's data.
type delegate struct{ g *Gossip }

// NodeMeta returns this node's metadata. It fits: Start has checked, and a cluster id is as long as a node id.
func (d delegate) NodeMeta(limit int) []byte {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	data, err := proto.Marshal(d.g.self)
	if err != nil || len(data) > limit {
		d.g.cfg.Logger.Error("what this node says about itself is too long", "bytes", len(data), "err", err)
		return nil
	}
	return data
}

func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.g.queue.GetBroadcasts(overhead, limit)
}

func (d delegate) NotifyMsg(msg []byte) { d.g.take(msg, true) }

func (d delegate) MergeRemoteState(state []byte, _ bool) { d.g.take(state, false) }

func (d delegate) LocalState(bool) []byte {
	data, err := proto.Marshal(&clusterpb.LeaderHints{ClusterId: d.g.clusterID(), Hints: d.g.cfg.Leaders.All()})
	if err != nil {
		d.g.cfg.Logger.Error("what this node knows of leaders cannot be told", "err", err)
		return nil
	}
	return data
}

// take uses the hints of a node of the same cluster. It announces the new ones again if pass is set.
func (g *Gossip) take(msg []byte, pass bool) {
	var hints clusterpb.LeaderHints
	if err := proto.Unmarshal(msg, &hints); err != nil {
		g.cfg.Logger.Debug("a message of the mesh cannot be read", "err", err)
		return
	}
	if id := g.clusterID(); id == "" || hints.ClusterId != id {
		return
	}
	for _, h := range hints.Hints {
		if g.cfg.Leaders.Take(h) && pass {
			g.Announce(h)
		}
	}
}

// broadcast is news about one shard; later news of the shard replaces it.
type broadcast struct {
	shard uint32
	msg   []byte
}

var _ memberlist.NamedBroadcast = broadcast{}

func (b broadcast) Name() string                          { return fmt.Sprint(b.shard) }
func (b broadcast) Message() []byte                       { return b.msg }
func (b broadcast) Invalidates(memberlist.Broadcast) bool { return false } // memberlist compares the names
func (b broadcast) Finished()                             {}

// events maintains the members; memberlist calls it under its own lock.
type events struct{ g *Gossip }

func (e events) NotifyJoin(n *memberlist.Node)   { e.g.see(n) }
func (e events) NotifyUpdate(n *memberlist.Node) { e.g.see(n) }

func (e events) NotifyLeave(n *memberlist.Node) {
	e.g.mu.Lock()
	defer e.g.mu.Unlock()
	delete(e.g.members, n.Name)
	e.g.note(n.Name, false)
	e.g.tell()
}

// see records a member that admission has let in, or this node itself.
func (g *Gossip) see(n *memberlist.Node) {
	meta := &clusterpb.GossipMeta{}
	if err := proto.Unmarshal(n.Meta, meta); err != nil || meta.Id == "" {
		g.cfg.Logger.Debug("a node of the mesh says nothing readable about itself", "node", n.Name, "err", err)
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.members[n.Name] = meta
	g.note(n.Name, true)
	g.tell()
}

// tell wakes the watchers of the members. The caller holds the lock.
func (g *Gossip) tell() {
	close(g.changed)
	g.changed = make(chan struct{})
}
