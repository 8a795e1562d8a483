package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/disk"
	"github.com/belfryhq/belfry/cluster/witness"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/raftgroup/raftlog"
	"github.com/belfryhq/belfry/shard"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// replicas runs this node's replicas, as the control group places them, and answers calls for them and no others.
type replicas struct {
	node *Node
	gate *semaphore.Weighted // one snapshot at a time

	mu     sync.RWMutex
	shards map[uint32]*shard.Shard
	failed map[uint32]error // replicas that should be here and could not be opened
}

func newReplicas(n *Node) *replicas {
	return &replicas{
		node: n, gate: semaphore.NewWeighted(1),
		shards: make(map[uint32]*shard.Shard), failed: make(map[uint32]error),
	}
}

// follow opens what the control group places here, until ctx ends.
func (r *replicas) follow(ctx context.Context, g *control.Group) {
	for {
		state, changed := g.Watch()
		r.openPlaced(ctx, state)
		var again <-chan time.Time
		if r.lacksRoom() {
			again = time.After(openAgain)
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
			return
		}
	}
}

// opensAtOnce is how many replicas are opened at the same time. Each waits for its disk, and then reads its snapshot on
// one core; more than these would take memory for reading, and take cores from those that run.
const opensAtOnce = 4

// openAgain is how often a replica for which the disk was full is opened again.
const openAgain = time.Second

// openPlaced opens what a state places here and does not run yet.
func (r *replicas) openPlaced(ctx context.Context, state *clusterpb.ControlState) {
	room := semaphore.NewWeighted(opensAtOnce)
	var opening sync.WaitGroup
	defer opening.Wait()
	for _, s := range state.Shards {
		if !slices.Contains(s.Replicas, r.node.ID()) || r.has(s.Id) {
			continue
		}
		if room.Acquire(ctx, 1) != nil {
			return
		}
		opening.Go(func() {
			defer room.Release(1)
			r.open(state, s)
			r.node.setStandings()
		})
	}
}

// has reports whether nothing is left to be tried for a replica: it runs, or failed for another reason than a full
// disk.
func (r *replicas) has(id uint32) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	err := r.failed[id]
	return (r.shards[id] != nil || err != nil) && !disk.IsFull(err)
}

// lacksRoom reports whether a replica is to be opened again, because the disk was full.
func (r *replicas) lacksRoom() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, err := range r.failed {
		if disk.IsFull(err) {
			return true
		}
	}
	return false
}

// open starts one replica. One that cannot be opened does not keep the others from running: its shard has a majority
// elsewhere, and an operator is needed here. Where only the disk was full, it is opened when there is room.
func (r *replicas) open(state *clusterpb.ControlState, s *clusterpb.Shard) {
	r.mu.RLock()
	opened, before := r.shards[s.Id], r.failed[s.Id]
	r.mu.RUnlock()
	var err error
	if opened == nil {
		opened, err = r.openShard(state, s)
	}
	if err == nil {
		err = r.node.identity.RecordOpened(s.Id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if opened != nil && r.shards[s.Id] == nil {
		r.node.seen.Follow(s.Id, func() witness.Position { return position(opened.Position()) })
		r.shards[s.Id] = opened
	}
	switch {
	case err != nil:
		r.failed[s.Id] = err
		if before == nil {
			r.node.cfg.Logger.Error("a replica placed here does not run", "shard", s.Id, "err", err)
		}
	case before != nil:
		delete(r.failed, s.Id)
		r.node.cfg.Logger.Info("there is room: the replica runs", "shard", s.Id)
	}
}

func (r *replicas) openShard(state *clusterpb.ControlState, s *clusterpb.Shard) (*shard.Shard, error) {
	n := r.node
	disk, err := n.diskOf(s.Id)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(state.Slots, func(r *clusterpb.SlotRange) bool { return r.Shard == s.Id })
	if at < 0 {
		return nil, fmt.Errorf("shard %d owns no slots", s.Id)
	}
	transport, err := n.endpoint.Raft(s.Id, state.ClusterId, raftlog.New(n.cfg.Logger.With("shard", s.Id)))
	if err != nil {
		return nil, err
	}
	opened, err := shard.Open(shard.Config{
		ID: s.Id, NodeID: n.ID(), FirstSlot: state.Slots[at].First, EndSlot: state.Slots[at].End,
		Dir: n.identity.GroupDir(s.Id), Existing: n.identity.Opened(s.Id), Disk: disk,
		Applied: n.seen.Kept(s.Id).Index, Owner: n.owner(s.Id),
		Replicas: votersOfShard(s), Preferred: s.Preferred, Transport: transport, LogStore: n.cfg.LogStore, Journal: n.journal,
		Deliver: n.cfg.Deliver, Clock: n.cfg.Clock, ClockAgrees: n.clockAgrees,
		Arrived: func(ctx context.Context, fences []uint64) []desk.Arrivals { return n.puller.Arrived(ctx, s.Id, fences) },
		MayLead: func(node string) bool { return n.mayLead(s.Id, node) }, Policies: policiesHere{n}, Limits: n.router,
		OnLeader: n.onLeader, Fatal: n.cfg.Fatal, Timing: n.cfg.Timing, Policy: n.policyOf(state),
		SnapshotGate: r.gate, SnapshotRoom: n.disk.Fits, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
		SnapshotLog: n.cfg.Snapshots.Log, SnapshotPart: n.cfg.Snapshots.Part, SnapshotTail: n.cfg.Snapshots.Tail,
		MaxPending: n.cfg.MaxPending,
	})
	if err != nil {
		return nil, errors.Join(err, transport.Close())
	}
	return opened, nil
}

func position(term, applied uint64) witness.Position {
	return witness.Position{Term: term, Index: applied}
}

// policyOf is the policy of the replicas here. Each has its part of what tombstones may take on this node: there may be
// more or fewer replicas than this node's settings say shards, which are those of a new cluster.
func (n *Node) policyOf(state *clusterpb.ControlState) shard.Policy {
	here := 0
	for _, s := range state.Shards {
		if slices.Contains(s.Replicas, n.ID()) {
			here++
		}
	}
	policy := n.cfg.Policy
	policy.TombstoneBytes = n.cfg.TombstoneBytes / int64(max(here, 1))
	return policy
}

func votersOfShard(s *clusterpb.Shard) []shard.Replica {
	var voters []shard.Replica
	for _, id := range s.Replicas {
		voters = append(voters, shard.Replica{NodeID: id})
	}
	return voters
}

// groupRegisterer keeps the metrics of one Raft group apart from those of others.
func groupRegisterer(r prometheus.Registerer, group uint32) prometheus.Registerer {
	if r == nil {
		return nil
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"shard": fmt.Sprint(group)}, r)
}

// onLeader notes what a replica here sees, and tells the others when it is about this very node.
func (n *Node) onLeader(c shard.Change) {
	if n.leaders.Note(c.Shard, c.Term, c.Leader) && c.Leader == n.ID() {
		n.gossip.Announce(&clusterpb.LeaderHint{Shard: c.Shard, Term: c.Term, Leader: c.Leader})
	}
}

// find returns the replica, or an error that says where the shard is led, as far as that is known.
func (r *replicas) find(id uint32) (*shard.Shard, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if s := r.shards[id]; s != nil {
		return s, nil
	}
	leader := r.node.leaders.Leader(id)
	if leader == r.node.ID() {
		leader = ""
	}
	return nil, &task.NotLeaderError{Shard: id, Leader: leader}
}

// Do gives commands to the replica here.
func (r *replicas) Do(ctx context.Context, id uint32, cmds []*fsmpb.Command) []task.Reply {
	s, err := r.find(id)
	if err == nil {
		return s.Do(ctx, cmds)
	}
	return calls.Refuse(len(cmds), err)
}

// Get asks the replica here.
func (r *replicas) Get(ctx context.Context, id uint32, namespace, task string, stale bool) (*fsmpb.Task, error) {
	s, err := r.find(id)
	if err != nil {
		return nil, err
	}
	return s.Get(ctx, namespace, task, stale)
}

// List asks the replica here.
func (r *replicas) List(ctx context.Context, id uint32, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
	s, err := r.find(id)
	if err != nil {
		return nil, err
	}
	return s.List(ctx, q, stale)
}

// all is every replica that runs here, by shard.
func (r *replicas) all() []*shard.Shard {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var ids []uint32
	for id := range r.shards {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	var shards []*shard.Shard
	for _, id := range ids {
		shards = append(shards, r.shards[id])
	}
	return shards
}

func (r *replicas) ready(state *clusterpb.ControlState) error {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, s := range state.Shards {
		if !slices.Contains(s.Replicas, r.node.ID()) {
			continue
		}
		if err := r.failed[s.Id]; err != nil {
			return fmt.Errorf("the replica of shard %d does not run: %w", s.Id, err)
		}
		running := r.shards[s.Id]
		if running == nil {
			return fmt.Errorf("the replica of shard %d is not open yet", s.Id)
		}
		select {
		case <-running.CaughtUp():
		default:
			return fmt.Errorf("the replica of shard %d has not caught up yet", s.Id)
		}
	}
	return nil
}

// close ends all replicas side by side. They stay findable, and refuse.
func (r *replicas) close(ctx context.Context) error {
	shards := r.all()
	errs := make([]error, len(shards))
	var wg sync.WaitGroup
	for i, s := range shards {
		wg.Go(func() { errs[i] = s.Close(ctx) })
	}
	wg.Wait()
	return errors.Join(errs...)
}
