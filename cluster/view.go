package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
)

// View is the cluster as this node sees it.
type View struct {
	view.Cluster
	Records map[uint32]*clusterpb.Shard // of the shards, by id, as the control group has them

	statuses statuses
}

// viewPatience is the time that other nodes have for their answers.
const viewPatience = 500 * time.Millisecond

// viewer makes the views of a node.
type viewer struct {
	n      *Node
	mapped atomic.Pointer[mapped] // nil: not computed yet
}

// View asks every node about its replicas. A node that does not answer in time is shown without its reports.
func (n *Node) View(ctx context.Context) View { return n.viewer.view(ctx) }

func (w *viewer) view(ctx context.Context) View {
	state := w.n.control.State()
	reports, _ := w.askAll(ctx, nodesOf(state))
	v := View{
		Cluster: view.Cluster{
			ID: w.n.ClusterID(), CommandVersion: control.InForce(state), Map: w.mapVersion(), Control: viewControl(reports),
			Backups: viewBackups(state.GetBackups()),
		},
		Records: make(map[uint32]*clusterpb.Shard), statuses: reports,
	}
	for _, node := range state.Nodes {
		v.Nodes = append(v.Nodes, w.viewNode(node, reports[node.Id]))
	}
	slots, shape := slotsOf(state), shapeOf(reports)
	for _, s := range state.Shards {
		v.Records[s.Id] = s
		shard := w.viewShard(s, slots[s.Id], reports)
		shard.Target, shard.Waits, shard.Step = s.Target, shape.GetShards()[s.Id], shape.GetSteps()[s.Id]
		v.Shards = append(v.Shards, shard)
	}
	now, _ := w.n.Now()
	v.fillShape(state, shape, now)
	return v
}

func viewBackups(b *clusterpb.Backups) *view.Backups {
	if b == nil {
		return nil
	}
	return &view.Backups{
		Running: viewTry(b.Running), LastKept: viewTry(b.LastKept), LastFailed: viewTry(b.LastFailed),
	}
}

func viewTry(t *clusterpb.BackupTry) *view.BackupTry {
	if t == nil {
		return nil
	}
	return &view.BackupTry{
		Node: t.Node, BegunAt: view.InstantOf(t.BegunMs), SeenAt: view.InstantOf(t.SeenMs), Place: t.Place,
		Bytes: int64(t.Bytes), Error: t.Error,
	}
}

// viewControl describes the control group by the report with the highest term, the leader's own if that is there.
func viewControl(reports statuses) view.ControlGroup {
	var best *clusterpb.ReplicaStatus
	for node := range reports {
		r := reports.replica(node, control.Number)
		newer := r.GetTerm() > best.GetTerm() || r.GetTerm() == best.GetTerm() && best.GetLeader() == ""
		if r != nil && (newer || r.Term == best.GetTerm() && r.State == "leader") {
			best = r
		}
	}
	voters := slices.Clone(best.GetVoters())
	slices.Sort(voters)
	return view.ControlGroup{Leader: best.GetLeader(), Term: best.GetTerm(), Voters: voters}
}

// shapeOf returns the report of the control group's leader, or nil if it did not answer.
func shapeOf(reports statuses) *clusterpb.Shape {
	for _, r := range reports {
		if r.Shape != nil {
			return r.Shape
		}
	}
	return nil
}

// statuses are the reports of the nodes that answered, by node id.
type statuses map[string]*clusterpb.StatusReply

// replica returns a node's report on its replica of a group, or nil.
func (s statuses) replica(node string, group uint32) *clusterpb.ReplicaStatus {
	for _, r := range s[node].GetReplicas() {
		if r.Shard == group {
			return r
		}
	}
	return nil
}

func nodesOf(state *clusterpb.ControlState) (ids []string) {
	for _, node := range state.Nodes {
		ids = append(ids, node.Id)
	}
	return ids
}

// askAll returns the reports of the nodes that answered, and the errors of the others, by node id.
func (w *viewer) askAll(ctx context.Context, nodes []string) (statuses, map[string]error) {
	return askAll(ctx, nodes, w.n.cfg.Logger, w.askStatus)
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
	return calls.Ask[*clusterpb.StatusReply](ctx, allNodes{w.n}.At(node), 0, &clusterpb.StatusRequest{})
}

// status reports the state of the replicas here, the control group's first.
func (w *viewer) status(context.Context, *clusterpb.StatusRequest) (*clusterpb.StatusReply, error) {
	reply := &clusterpb.StatusReply{Health: w.n.health.Report(), Vitals: ownState{w.n}.vitals()}
	if g := w.n.control.Group(); g != nil {
		st := g.Stats()
		reply.Replicas = append(reply.Replicas, &clusterpb.ReplicaStatus{
			Leader: st.Leader, Term: st.Term, Applied: st.Taken, State: st.Role, Voters: g.Voters()})
		reply.Shape = g.Shape()
	}
	for _, s := range w.n.replicas.All() {
		st := s.Status()
		reply.Replicas = append(reply.Replicas, &clusterpb.ReplicaStatus{
			Shard: st.ID, Leader: st.Leader, Term: st.Term, Applied: st.Applied, State: st.State,
			Tasks: uint64(st.Counts.Tasks), Commands: st.Commands, Hash: st.Hash,
			Diverged: w.n.health.Diverged(st.ID, w.n.ID()), Voters: s.Voters(),
			Bytes:         uint64(max(st.Counts.Bytes-st.Counts.Free, 0)),
			SnapshotBytes: uint64(st.Arriving.Size), ReceivedBytes: uint64(st.Arriving.Received),
			ReceivedRate: uint64(st.Arriving.Rate),
		})
	}
	return reply, nil
}

func (w *viewer) viewNode(node *clusterpb.Node, report *clusterpb.StatusReply) view.Node {
	ahead, _, _ := w.n.clocks.Offset(node.Id)
	v := view.Node{
		ID: node.Id, Name: node.Name, HTTPAddr: node.HttpAddr, HTTPURL: control.URL(node), PeerAddr: node.PeerAddr,
		Zone: node.Zone, Weight: int(node.Weight), CommandVersion: node.CommandVersion,
		Alive:         report != nil || w.n.health.Alive(node.Id),
		ClockOffsetMs: float64(ahead.Round(time.Microsecond)) / float64(time.Millisecond),
	}
	if report != nil {
		health, vitals := report.GetHealth(), report.GetVitals()
		v.DiskLow, v.MemoryFull = health.GetDiskLow(), health.GetMemoryFull() != ""
		v.Build, v.DiskFree, v.DiskTotal = vitals.GetBuild(), vitals.GetDiskFree(), vitals.GetDiskTotal()
	}
	return v
}

// viewShard takes the leader from the report with the highest term, and the tasks from the replica that has applied
// most. The shard's bytes are those of the replica where they are most: the size of a snapshot is close.
func (w *viewer) viewShard(s *clusterpb.Shard, slots view.SlotList, reports statuses) view.Shard {
	v := view.Shard{ID: s.Id, Slots: slots}
	most, voters := uint64(0), votersOf(s, reports)
	for _, node := range s.Replicas {
		r := reports.replica(node, s.Id)
		switch {
		case reports[node] == nil:
			v.Replicas = append(v.Replicas, view.Replica{
				Node: node, State: "unknown", Voter: voters[node], Diverged: w.n.health.Diverged(s.Id, node)})
			continue
		case r == nil:
			v.Replicas = append(v.Replicas, view.Replica{Node: node, State: "absent"})
			continue
		}
		replica := view.Replica{
			Node: node, State: r.State, Applied: r.Applied, Commands: r.Commands,
			Diverged: r.Diverged || w.n.health.Diverged(s.Id, node), Voter: voters[node],
		}
		if r.Applied > 0 {
			replica.Hash = fmt.Sprintf("%016x", r.Hash)
		}
		if r.SnapshotBytes > 0 {
			part := float64(r.ReceivedBytes) / float64(r.SnapshotBytes)
			replica.Received = &part
		}
		v.Replicas = append(v.Replicas, replica)
		v.Bytes = max(v.Bytes, r.Bytes)
		if r.Term > v.Term || r.Term == v.Term && v.Leader == "" {
			v.Term, v.Leader = r.Term, r.Leader
		}
		if r.Applied >= most {
			most, v.Tasks = r.Applied, int64(r.Tasks)
		}
	}
	return v
}

// votersOf returns the voters of a shard's group, by the report with the highest term. Without a report they are the
// nodes of its record.
func votersOf(s *clusterpb.Shard, reports statuses) map[string]bool {
	ids, term := s.Replicas, uint64(0)
	for _, node := range s.Replicas {
		if r := reports.replica(node, s.Id); r != nil && r.Term >= term && len(r.Voters) > 0 {
			ids, term = r.Voters, r.Term
		}
	}
	voters := make(map[string]bool, len(ids))
	for _, id := range ids {
		voters[id] = true
	}
	return voters
}
