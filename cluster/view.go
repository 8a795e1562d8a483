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

// NodeView describes one node.
type NodeView struct {
	ID, Name, HTTPAddr, PeerAddr string
	Alive                        bool
	DiskLow                      bool          // its free disk space is below its reserve
	MemoryFull                   bool          // the shards of its replicas take no more tasks
	ClockOffset                  time.Duration // the lead of its clock over this node's; 0 if not known
	ClockBound                   time.Duration // largest error of ClockOffset
}

// ShardView describes one shard.
type ShardView struct {
	ID        uint32
	FirstSlot uint32
	EndSlot   uint32 // exclusive
	Leader    string // node id; empty: no leader is known
	Preferred string
	Term      uint64
	Tasks     uint64 // tombstones included
	Replicas  []ReplicaView
}

// ReplicaView describes one replica, as its own node reports it.
type ReplicaView struct {
	Node     string
	State    string // leader, follower, candidate, shutdown; absent: not on its node; unknown: its node does not answer
	Applied  uint64 // Raft index,
	Commands uint64 // number of commands applied there in the shard's life,
	Hash     uint64 // and the state's hash
	Diverged bool   // the replica differs from another one, and is not known to agree with a majority
}

// viewPatience is the time that other nodes have for their answers.
const viewPatience = 500 * time.Millisecond

// View asks every node about its replicas. A node that does not answer in time is shown without its reports.
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

// account is a node's report on itself and its replicas, by shard. A nil account means that the node did not answer.
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

// askAll returns the accounts of the nodes that answered, by node id.
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

// viewShard takes the leader from the report with the highest term, and the tasks from the replica that has applied
// most.
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

// mapped is the map's version and the beliefs that it was computed from.
type mapped struct {
	state   *clusterpb.ControlState
	news    uint64
	version string
}

// MapVersion returns a digest of this node's beliefs about the slots of each shard, the shards' leaders, and the nodes'
// addresses for callers. Equal beliefs have equal versions on all nodes. The call costs next to nothing while the
// beliefs stay the same.
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
