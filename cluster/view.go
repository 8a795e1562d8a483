package cluster

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/internal/compare"
	"github.com/belfryhq/belfry/cluster/internal/health"
	"github.com/belfryhq/belfry/cluster/leaders"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/raftgroup/install"
)

// View is the cluster as this node sees it.
type View struct {
	ClusterID      string
	CommandVersion uint32      // newest command version that the cluster may write
	Map            string      // see Node.MapVersion
	Control        ControlView // the control group
	Nodes          []NodeView  // by id
	Shards         []ShardView // by id
	// Waits is the reason why the cluster has not the shape that it should have; empty: none is known.
	Waits string
	// Replication is the number of replicas that each shard should have, and Fewest the number that the shard with the
	// fewest has.
	Replication, Fewest int
	Operations          []OperationView // those under way and those that ended last, in the order of their beginning
	Bulks               []BulkView      // bulk operations, likewise
	Moves               []SlotMoveView  // moves of slots under way, in the order of their beginning
	// AutoSplit tells about shards that split by themselves; nil: none does, or the control group's leader is not known.
	AutoSplit *clusterpb.AutoSplit
}

// ControlView describes the control group. Its leader plans all moves.
type ControlView struct {
	Leader string // node id; empty: no leader is known
	Term   uint64
	Voters []string // node ids, sorted
}

// NodeView describes one node.
type NodeView struct {
	ID, Name, HTTPAddr, PeerAddr string
	URL                          string // HTTPAddr with its scheme
	Zone                         string // empty: a zone of its own
	Weight                       int    // 0: the node runs a build without weights
	Alive                        bool
	DiskLow                      bool          // its free disk space is below its reserve
	MemoryFull                   bool          // the shards of its replicas take no more tasks
	CommandVersion               uint32        // newest command version that it reads, or the one that it holds
	ClockOffset                  time.Duration // the lead of its clock over this node's; 0 if not known
	// Away is the time for which the control group's leader has missed it; 0: it does not, or is not known itself.
	Away                time.Duration
	Order               clusterpb.NodeOrder
	Replicas, Leads     int    // placed on it; led by it
	Build               string // version of its binary; empty if it does not answer
	DiskFree, DiskTotal uint64 // bytes; 0 if not known
}

// SlotRange is the slots [First, End).
type SlotRange struct{ First, End uint32 }

// Owns reports whether the shard owns a slot.
func (s *ShardView) Owns(slot uint32) bool {
	return slices.ContainsFunc(s.Slots, func(r SlotRange) bool { return r.First <= slot && slot < r.End })
}

// ShardView describes one shard.
type ShardView struct {
	ID        uint32
	Slots     []SlotRange // sorted
	Leader    string      // node id; empty: no leader is known
	Preferred string
	Target    []string          // nodes that should hold the replicas; empty: where they are
	Joined    map[string]uint64 // revision of the shard's record at which a node got its replica; absent: the first one
	// Waits is the reason why the shard's move waits; empty: it does not, or the control group's leader is not known.
	Waits string
	// Step is the step of its move that is under way; empty: none, or the control group's leader is not known.
	Step     string
	Term     uint64
	Tasks    uint64 // tombstones included
	Replicas []ReplicaView
}

// ReplicaView describes one replica, as its own node reports it.
type ReplicaView struct {
	Node     string
	State    string // leader, follower, candidate, shutdown; absent: not on its node; unknown: its node does not answer
	Applied  uint64 // Raft index,
	Commands uint64 // number of commands applied there in the shard's life,
	Hash     uint64 // and the state's hash
	Voter    bool   // it votes in the shard's group
	Bytes    uint64 // memory that its tasks take, without what dropped tasks have left free
	// Arriving is the leader's snapshot that arrives at the replica.
	Arriving install.Arriving
	Diverged bool // the replica differs from another one, and is not known to agree with a majority
}

// viewPatience is the time that other nodes have for their answers.
const viewPatience = 500 * time.Millisecond

// viewer makes the views of a node.
type viewer struct {
	self     string        // node id
	cluster  func() string // returns the id of the cluster
	control  *control.Replica
	replicas *replicas.Set
	leaders  *leaders.Beliefs
	health   *health.Nodes
	comparer *compare.Comparer
	vitals   func() *clusterpb.Vitals               // describes this node
	offset   func(node string) time.Duration        // returns the lead of a node's clock; 0 if not known
	peer     func(node string) clusterpb.PeerClient // asks another node
	log      *slog.Logger

	mapped atomic.Pointer[mapped] // nil: not computed yet
}

func (n *Node) newViewer() *viewer {
	return &viewer{
		self: n.ID(), cluster: n.ClusterID, control: n.control, replicas: n.replicas, leaders: n.leaders,
		health: n.health, comparer: n.comparer, peer: n.peers.rpc, log: n.cfg.Logger,
		vitals: n.vitals,
		offset: func(node string) time.Duration {
			offset, _, _ := n.clocks.Offset(node)
			return offset
		},
	}
}

// View asks every node about its replicas. A node that does not answer in time is shown without its reports.
func (n *Node) View(ctx context.Context) View { return n.viewer.view(ctx) }

func (w *viewer) view(ctx context.Context) View {
	state := w.control.State()
	accounts, _ := w.askAll(ctx, nodesOf(state))
	v := View{
		ClusterID: w.cluster(), CommandVersion: control.InForce(state), Map: w.mapVersion(), Control: viewControl(accounts),
	}
	for _, node := range state.Nodes {
		v.Nodes = append(v.Nodes, w.viewNode(node, accounts[node.Id]))
	}
	slots, shape := slotsOf(state), shapeOf(accounts)
	for _, s := range state.Shards {
		shard := w.viewShard(s, slots[s.Id], accounts)
		shard.Joined = s.Joined
		shard.Target, shard.Waits, shard.Step = s.Target, shape.GetShards()[s.Id], shape.GetSteps()[s.Id]
		v.Shards = append(v.Shards, shard)
	}
	v.fillShape(state, shape)
	return v
}

// viewControl describes the control group by the report with the highest term, the leader's own if that is there.
func viewControl(accounts map[string]*account) ControlView {
	var best *clusterpb.ReplicaStatus
	for _, a := range accounts {
		r := a.report(control.Number)
		newer := r.GetTerm() > best.GetTerm() || r.GetTerm() == best.GetTerm() && best.GetLeader() == ""
		if r != nil && (newer || r.Term == best.GetTerm() && r.State == "leader") {
			best = r
		}
	}
	voters := slices.Clone(best.GetVoters())
	slices.Sort(voters)
	return ControlView{Leader: best.GetLeader(), Term: best.GetTerm(), Voters: voters}
}

// shapeOf returns the report of the control group's leader, or nil if it did not answer.
func shapeOf(accounts map[string]*account) *clusterpb.Shape {
	for _, a := range accounts {
		if a.shape != nil {
			return a.shape
		}
	}
	return nil
}

// account is a node's report on itself and its replicas, by shard. A nil account means that the node did not answer.
type account struct {
	replicas   map[uint32]*clusterpb.ReplicaStatus
	vitals     *clusterpb.Vitals
	diskLow    bool
	memoryFull string           // the limit that is reached; empty: there is memory
	shape      *clusterpb.Shape // nil: the node does not lead the control group
}

func newAccount(reply *clusterpb.StatusReply) *account {
	a := &account{
		replicas: make(map[uint32]*clusterpb.ReplicaStatus), diskLow: reply.GetHealth().GetDiskLow(),
		memoryFull: reply.GetHealth().GetMemoryFull(), vitals: reply.GetVitals(), shape: reply.Shape,
	}
	for _, r := range reply.Replicas {
		a.replicas[r.Shard] = r
	}
	return a
}

func nodesOf(state *clusterpb.ControlState) (ids []string) {
	for _, node := range state.Nodes {
		ids = append(ids, node.Id)
	}
	return ids
}

// askAll returns the accounts of the nodes that answered, and the errors of the others, by node id.
func (w *viewer) askAll(ctx context.Context, nodes []string) (map[string]*account, map[string]error) {
	return askAll(ctx, nodes, w.log, func(ctx context.Context, node string) (*account, error) {
		reply, err := w.askStatus(ctx, node)
		if err != nil {
			return nil, err
		}
		return newAccount(reply), nil
	})
}

// askAll asks nodes side by side, and returns the answers and the errors by node id.
func askAll[T any](ctx context.Context, nodes []string, log *slog.Logger,
	ask func(ctx context.Context, node string) (T, error)) (answers map[string]T, failed map[string]error) {
	return askWithin(ctx, viewPatience, nodes, log, ask)
}

// askWithin is askAll with another time for the answers.
func askWithin[T any](ctx context.Context, patience time.Duration, nodes []string, log *slog.Logger,
	ask func(ctx context.Context, node string) (T, error)) (answers map[string]T, failed map[string]error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	answers, failed = make(map[string]T), make(map[string]error)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, node := range nodes {
		wg.Go(func() {
			answer, err := ask(ctx, node)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[node] = err
				log.Debug("a node does not report", "node", node, "err", err)
				return
			}
			answers[node] = answer
		})
	}
	wg.Wait()
	return answers, failed
}

func (w *viewer) askStatus(ctx context.Context, node string) (*clusterpb.StatusReply, error) {
	if node == w.self {
		return w.status(), nil
	}
	return w.peer(node).Status(ctx, &clusterpb.StatusRequest{})
}

// status returns the state of the replicas here, the control group's first.
func (w *viewer) status() *clusterpb.StatusReply {
	reply := &clusterpb.StatusReply{Health: w.health.Report(), Vitals: w.vitals()}
	if g := w.control.Group(); g != nil {
		st := g.Stats()
		reply.Replicas = append(reply.Replicas, &clusterpb.ReplicaStatus{
			Leader: st.Leader, Term: st.Term, Applied: st.Taken, State: st.Role, Voters: g.Voters()})
		reply.Shape = g.Shape()
	}
	for _, s := range w.replicas.All() {
		st := s.Status()
		reply.Replicas = append(reply.Replicas, &clusterpb.ReplicaStatus{
			Shard: st.ID, Leader: st.Leader, Term: st.Term, Applied: st.Applied, State: st.State,
			Tasks: uint64(st.Counts.Tasks), Commands: st.Commands, Hash: st.Hash,
			Diverged: w.comparer.Diverged(st.ID, w.self), Voters: s.Voters(),
			Bytes:         uint64(max(st.Counts.Bytes-st.Counts.Free, 0)),
			SnapshotBytes: uint64(st.Arriving.Size), ReceivedBytes: uint64(st.Arriving.Received),
			ReceivedRate: uint64(st.Arriving.Rate),
		})
	}
	return reply
}

func (w *viewer) viewNode(node *clusterpb.Node, report *account) NodeView {
	v := NodeView{
		ID: node.Id, Name: node.Name, HTTPAddr: node.HttpAddr, PeerAddr: node.PeerAddr, Zone: node.Zone,
		Weight: int(node.Weight), URL: control.URL(node),
	}
	v.Alive = report != nil || w.health.Alive(node.Id)
	v.DiskLow = report != nil && report.diskLow
	v.MemoryFull = report != nil && report.memoryFull != ""
	v.ClockOffset, v.CommandVersion = w.offset(node.Id), node.CommandVersion
	if report != nil {
		v.Build, v.DiskFree, v.DiskTotal = report.vitals.GetBuild(), report.vitals.GetDiskFree(), report.vitals.GetDiskTotal()
	}
	return v
}

// viewShard takes the leader from the report with the highest term, and the tasks from the replica that has applied
// most.
func (w *viewer) viewShard(
	s *clusterpb.Shard, slots []SlotRange, accounts map[string]*account,
) ShardView {
	v := ShardView{ID: s.Id, Slots: slots, Preferred: s.Preferred}
	most, voters := uint64(0), votersOf(s, accounts)
	for _, node := range s.Replicas {
		var r *clusterpb.ReplicaStatus
		if accounts[node] != nil {
			r = accounts[node].replicas[s.Id]
		}
		switch {
		case accounts[node] == nil:
			v.Replicas = append(v.Replicas, ReplicaView{
				Node: node, State: "unknown", Voter: voters[node], Diverged: w.comparer.Diverged(s.Id, node)})
			continue
		case r == nil:
			v.Replicas = append(v.Replicas, ReplicaView{Node: node, State: "absent"})
			continue
		}
		v.Replicas = append(v.Replicas, ReplicaView{
			Node: node, State: r.State, Applied: r.Applied, Commands: r.Commands, Hash: r.Hash,
			Diverged: r.Diverged || w.comparer.Diverged(s.Id, node), Voter: voters[node], Bytes: r.Bytes,
			Arriving: install.Arriving{
				Size: int64(r.SnapshotBytes), Received: int64(r.ReceivedBytes), Rate: float64(r.ReceivedRate),
			},
		})
		if r.Term > v.Term || r.Term == v.Term && v.Leader == "" {
			v.Term, v.Leader = r.Term, r.Leader
		}
		if r.Applied >= most {
			most, v.Tasks = r.Applied, r.Tasks
		}
	}
	return v
}

// votersOf returns the voters of a shard's group, by the report with the highest term. Without a report they are the
// nodes of its record.
func votersOf(s *clusterpb.Shard, accounts map[string]*account) map[string]bool {
	ids, term := s.Replicas, uint64(0)
	for _, node := range s.Replicas {
		if r := accounts[node].report(s.Id); r != nil && r.Term >= term && len(r.Voters) > 0 {
			ids, term = r.Voters, r.Term
		}
	}
	voters := make(map[string]bool, len(ids))
	for _, id := range ids {
		voters[id] = true
	}
	return voters
}
