package control

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/raftgroup"
)

// Shards is the reconciler's way to the replicas of shards.
type Shards interface {
	// Members makes a change of a shard's membership at its leader, if one is set, and returns the membership after it.
	Members(ctx context.Context, shard uint32, ask *clusterpb.MembersCall) (*clusterpb.Membership, error)
	// Applied returns the index of the last entry that a node's replica of a shard has applied.
	Applied(ctx context.Context, node string, shard uint32) (uint64, error)
	// Fit reports whether a node's replica of a shard is fit to lead, as far as known.
	Fit(shard uint32, node string) bool
}

// The mover's pauses and limits.
const (
	moveLook  = 100 * time.Millisecond // between two looks while a shard moves
	moveSoon  = 10 * time.Millisecond  // before the look after a step
	moveCall  = 5 * time.Second        // limit of one call
	movesAll  = 4                      // copies under way in the cluster
	movesNode = 2                      // copies under way to one node
)

// mover takes the shards to their targets, during one leadership of the control group.
type mover struct {
	group  *Group
	shards Shards
	copies map[copied]uint64 // leader's committed index at the last look, by copy

	mu    sync.Mutex
	waits map[uint32]string // reasons why shards wait
}

// copied names a copy of a shard on its way to a node.
type copied struct {
	shard uint32
	node  string
}

func newMover(g *Group) *mover {
	return &mover{group: g, shards: g.cfg.Shards, copies: make(map[copied]uint64), waits: make(map[uint32]string)}
}

// run moves shards until ctx ends.
func (m *mover) run(ctx context.Context) {
	for ctx.Err() == nil {
		state, changed := m.group.machine.watch()
		var again <-chan time.Time
		if moving := movingShards(state); len(moving) > 0 {
			again = time.After(m.round(ctx, moving))
			changed = nil
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
		}
	}
}

func movingShards(state *clusterpb.ControlState) []*clusterpb.Shard {
	return slices.DeleteFunc(slices.Clone(state.Shards), func(s *clusterpb.Shard) bool { return len(s.Target) == 0 })
}

// round looks at all moving shards and takes a step of each. It returns the pause before the next round.
func (m *mover) round(ctx context.Context, moving []*clusterpb.Shard) time.Duration {
	groups := m.observe(ctx, moving)
	under := underWay(moving, groups)
	maps.DeleteFunc(m.copies, func(at copied, _ uint64) bool { return !under.all[at] })
	var taking sync.WaitGroup
	var taken atomic.Int32
	for i, record := range moving {
		step, waits := reshape.Next(reshape.Shard{
			Record: record, Group: groups[i],
			CaughtUp: func(node string) bool { return m.caughtUp(ctx, record.Id, node, groups[i]) },
			Well:     func(node string) bool { return m.shards.Fit(record.Id, node) },
			MayAdd:   func(node string) string { return under.mayAdd(record.Id, node) },
		})
		m.note(record.Id, waits)
		if step != (reshape.Step{}) {
			taking.Go(func() {
				if m.take(ctx, record.Id, step) {
					taken.Add(1)
				}
			})
		}
	}
	taking.Wait()
	if taken.Load() > 0 {
		return moveSoon
	}
	return moveLook
}

// observe asks the leaders of the shards for their memberships. The result has nil for a shard whose leader did not
// answer.
func (m *mover) observe(ctx context.Context, moving []*clusterpb.Shard) []*clusterpb.Membership {
	ctx, cancel := context.WithTimeout(ctx, moveCall)
	defer cancel()
	groups := make([]*clusterpb.Membership, len(moving))
	var asking sync.WaitGroup
	for i, record := range moving {
		asking.Go(func() {
			group, err := m.shards.Members(ctx, record.Id, &clusterpb.MembersCall{})
			if err != nil {
				m.group.cfg.Logger.Debug("a shard's leader does not answer", "shard", record.Id, "err", err)
				return
			}
			groups[i] = group
		})
	}
	asking.Wait()
	return groups
}

// caughtUp reports whether a replica without a vote may become a voter. It must have applied what the leader had
// committed one look ago, by its own word, and must lack few entries by the leader's. The leader alone does not know:
// hashicorp/raft counts an entry as replicated that the node has not applied, and a node that still applies its log
// would answer no call as a leader.
func (m *mover) caughtUp(ctx context.Context, shard uint32, node string, group *clusterpb.Membership) bool {
	at := copied{shard, node}
	before, looked := m.copies[at]
	m.copies[at] = group.Committed
	for _, member := range group.Members {
		if member.Node == node && (member.SilenceMs < 0 || member.Lag > raftgroup.MostLag) {
			return false
		}
	}
	ctx, cancel := context.WithTimeout(ctx, moveCall)
	defer cancel()
	applied, err := m.shards.Applied(ctx, node, shard)
	return err == nil && looked && applied >= before
}

// take makes one step. It reports whether the step has taken effect.
func (m *mover) take(ctx context.Context, shard uint32, step reshape.Step) bool {
	ctx, cancel := context.WithTimeout(ctx, moveCall)
	defer cancel()
	m.group.cfg.Logger.Info("a shard moves", "shard", shard, "step", step.String())
	var err error
	switch {
	case step.Change != nil:
		_, err = m.shards.Members(ctx, shard, step.Change)
	case step.Assign != nil:
		_, err = m.group.propose(ctx, &clusterpb.ControlEntry{
			Version: Version, Op: &clusterpb.ControlEntry_Assign{Assign: step.Assign},
		})
	case step.Settle != nil:
		_, err = m.group.propose(ctx, &clusterpb.ControlEntry{
			Version: Version, Op: &clusterpb.ControlEntry_Retarget{Retarget: step.Settle},
		})
	}
	if err != nil {
		m.note(shard, fmt.Sprintf("%s: %v", step, err))
		m.group.cfg.Logger.Info("a step of a shard is taken again", "shard", shard, "step", step.String(), "err", err)
	}
	return err == nil
}

func (m *mover) note(shard uint32, waits string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waits[shard] = waits; waits == "" {
		delete(m.waits, shard)
	}
}

// load counts the copies under way.
type load struct {
	all    map[copied]bool
	byNode map[string]int
}

// underWay returns the copies under way: replicas that were placed and do not vote yet. A shard whose leader does not
// answer counts with all its replicas that might be copies.
func underWay(moving []*clusterpb.Shard, groups []*clusterpb.Membership) load {
	l := load{all: make(map[copied]bool), byNode: make(map[string]int)}
	for i, record := range moving {
		for _, node := range record.Replicas {
			if slices.Contains(record.Target, node) && !votes(groups[i], node) && record.Joined[node] > 0 {
				l.add(record.Id, node)
			}
		}
	}
	return l
}

func votes(group *clusterpb.Membership, node string) bool {
	return slices.ContainsFunc(group.GetMembers(), func(m *clusterpb.Member) bool { return m.Node == node && m.Voter })
}

func (l load) add(shard uint32, node string) {
	l.all[copied{shard, node}] = true
	l.byNode[node]++
}

// mayAdd returns the reason why a copy may not begin, or "" and counts the copy.
func (l load) mayAdd(shard uint32, node string) string {
	switch {
	case len(l.all) >= movesAll:
		return fmt.Sprintf("%d copies are under way", len(l.all))
	case l.byNode[node] >= movesNode:
		return fmt.Sprintf("node %s receives %d other shards", node, l.byNode[node])
	}
	l.add(shard, node)
	return ""
}
