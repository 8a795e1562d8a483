package cluster

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// View is the cluster as this node sees it.
type View struct {
	ClusterID string
	Map       string      // see Node.MapVersion
	Nodes     []NodeView  // by id
	Shards    []ShardView // by id
}

// NodeView is one node.
type NodeView struct {
	ID, Name, HTTPAddr, PeerAddr string
	Alive                        bool
	DiskLow                      bool          // less than its reserve is free
	MemoryFull                   bool          // its replicas' shards take no more tasks
	ClockOffset                  time.Duration // its clock ahead of this node's; 0 if not known
	ClockBound                   time.Duration // by how much that may be wrong
}

// ShardView is one shard.
type ShardView struct {
	ID        uint32
	FirstSlot uint32
	EndSlot   uint32 // exclusive
	Leader    string // node id; empty: none known
	Preferred string
	Term      uint64
	Tasks     uint64 // tombstones included
	Replicas  []ReplicaView
}

// ReplicaView is one replica, as its own node tells.
type ReplicaView struct {
	Node     string
	State    string // leader, follower, candidate, shutdown; absent: not on its node; unknown: its node does not answer
	Applied  uint64 // Raft index,
	Commands uint64 // how many commands had been applied there in the shard's life,
	Hash     uint64 // and the state's hash
	Diverged bool   // it differs from another replica, and is not known to have a majority on its side
}

// viewPatience is how long other nodes have to answer.
const viewPatience = 500 * time.Millisecond

// View asks every node about its replicas. One that does not answer soon is shown without.
func (n *Node) View(ctx context.Context) View {
	state := n.state()
	told := n.askAll(ctx, state)
	v := View{ClusterID: n.ClusterID(), Map: n.MapVersion()}
	for _, node := range state.Nodes {
		v.Nodes = append(v.Nodes, n.viewNode(node, told[node.Id]))
	}
	slots := make(map[uint32]*clusterpb.SlotRange)
	for _, r := range state.Slots {
		slots[r.Shard] = r
	}
	for _, s := range state.Shards {
		v.Shards = append(v.Shards, n.viewShard(s, slots[s.Id], told))
	}
	return v
}

// account is what a node says about itself and its replicas, by shard. nil: it did not answer.
type account struct {
	replicas   map[uint32]*clusterpb.ReplicaStatus
	diskLow    bool
	memoryFull bool
}

func newAccount(reply *clusterpb.StatusReply) *account {
	a := &account{
		replicas: make(map[uint32]*clusterpb.ReplicaStatus), diskLow: reply.GetHealth().GetDiskLow(),
		memoryFull: reply.GetHealth().GetMemoryFull() != "",
	}
	for _, r := range reply.Replicas {
		a.replicas[r.Shard] = r
	}
	return a
}

// askAll returns what each node that answered says, by its id.
func (n *Node) askAll(ctx context.Context, state *clusterpb.ControlState) map[string]*account {
	ctx, cancel := context.WithTimeout(ctx, viewPatience)
	defer cancel()
	told := make(map[string]*account)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, node := range state.Nodes {
		wg.Go(func() {
			reply, err := n.askStatus(ctx, node.Id)
			if err != nil {
				n.cfg.Logger.Debug("a node does not tell its status", "node", node.Id, "err", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			told[node.Id] = newAccount(reply)
		})
	}
	wg.Wait()
	return told
}

func (n *Node) askStatus(ctx context.Context, node string) (*clusterpb.StatusReply, error) {
	if node == n.ID() {
		return n.status(), nil
	}
	return n.peers.get(node).rpc.Status(ctx, &clusterpb.StatusRequest{})
}

func (n *Node) viewNode(node *clusterpb.Node, told *account) NodeView {
	v := NodeView{ID: node.Id, Name: node.Name, HTTPAddr: node.HttpAddr, PeerAddr: node.PeerAddr}
	v.Alive = told != nil || n.health.Alive(node.Id)
	v.DiskLow = told != nil && told.diskLow
	v.MemoryFull = told != nil && told.memoryFull
	if offset, bound, known := n.clocks.Offset(node.Id); known {
		v.ClockOffset, v.ClockBound = offset, bound
	}
	return v
}

// viewShard believes the highest term about the leader, and the replica that has applied most about the tasks.
func (n *Node) viewShard(s *clusterpb.Shard, slots *clusterpb.SlotRange, told map[string]*account) ShardView {
	v := ShardView{ID: s.Id, FirstSlot: slots.GetFirst(), EndSlot: slots.GetEnd(), Preferred: s.Preferred}
	most := uint64(0)
	for _, node := range s.Replicas {
		var r *clusterpb.ReplicaStatus
		if told[node] != nil {
			r = told[node].replicas[s.Id]
		}
		switch {
		case told[node] == nil:
			v.Replicas = append(v.Replicas, ReplicaView{
				Node: node, State: "unknown", Diverged: n.comparer.Diverged(s.Id, node)})
			continue
		case r == nil:
			v.Replicas = append(v.Replicas, ReplicaView{Node: node, State: "absent"})
			continue
		}
		v.Replicas = append(v.Replicas, ReplicaView{
			Node: node, State: r.State, Applied: r.Applied, Commands: r.Commands, Hash: r.Hash,
			Diverged: r.Diverged || n.comparer.Diverged(s.Id, node)})
		if r.Term > v.Term || r.Term == v.Term && v.Leader == "" {
			v.Term, v.Leader = r.Term, r.Leader
		}
		if r.Applied >= most {
			most, v.Tasks = r.Applied, r.Tasks
		}
	}
	return v
}

// mapped is the map's version, and the beliefs from which it was computed.
type mapped struct {
	state   *clusterpb.ControlState
	news    uint64
	version string
}

// MapVersion names what this node believes of which slots are in which shard, who leads it, and where callers find that
// node: equal beliefs have equal versions, on all nodes. It costs next to nothing while nothing changes.
func (n *Node) MapVersion() string {
	state, news := n.state(), n.leaders.News()
	if m := n.mapped.Load(); m != nil && m.state == state && m.news == news {
		return m.version
	}
	m := &mapped{state: state, news: news, version: n.computeMapVersion(state)}
	n.mapped.Store(m)
	return m.version
}

func (n *Node) computeMapVersion(state *clusterpb.ControlState) string {
	h := xxhash.New()
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(h, format, args...) } // a Digest's writes never fail
	for _, r := range state.Slots {
		leader := n.leaders.Leader(r.Shard)
		say("%d %d %d %q\n", r.First, r.End, r.Shard, leader)
	}
	for _, node := range state.Nodes {
		say("%q %q\n", node.Id, node.HttpAddr)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}
