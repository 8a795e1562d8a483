package control

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/raftgroup"
)

// Groups is the mover's way to the groups of shards.
type Groups interface {
	// Members makes a change of a shard's membership at its leader, if one is set, and returns the membership after it.
	Members(ctx context.Context, shard uint32, ask *clusterpb.MembersCall) (*clusterpb.Membership, error)
	// Applied returns the index of the last entry that a node's replica of a shard has applied.
	// An earlier replica on the node than the one that joined at a revision does not count.
	Applied(ctx context.Context, node string, shard uint32, joined uint64) (uint64, error)
	// Fit reports whether a node's replica of a shard is fit to lead, as far as known.
	Fit(shard uint32, node string) bool
}

// Shards is the reconciler's way to the replicas of shards.
type Shards interface {
	Groups
	// Leader returns the believed leader of a shard, or "" if none.
	Leader(shard uint32) string
	// Up reports whether a node has answered within the last seconds.
	Up(node string) bool
	// Faults returns the faulty replicas, as far as nodes answer.
	Faults(ctx context.Context) []Fault
	// Commands returns the number of commands that each shard has applied in its life, as far as nodes answer.
	Commands(ctx context.Context) map[uint32]uint64
	// Census asks the nodes for the sizes of the shards and for their room. Only automatic splits need it.
	Census(ctx context.Context) Census
}

// The mover's pauses and limits.
const (
	moveLook  = 100 * time.Millisecond // between two looks while a shard moves
	moveAsk   = time.Second            // limit of a look at a shard's group
	moveCall  = 5 * time.Second        // limit of a step
	movesAll  = 4                      // copies under way in the cluster
	movesNode = 2                      // copies under way to one node
)

// Mover takes the shards to their targets, during one leadership of the control group. The steps of a shard follow each
// other, and no shard waits for a step of another.
type Mover struct {
	Pause time.Duration // before each step, so that tests see it; 0: none

	decisions Decisions
	shards    Groups
	log       *slog.Logger
	copies    map[copied]uint64                // leader's committed index at the last look, by copy
	groups    map[uint32]*clusterpb.Membership // as last seen
	taking    sync.WaitGroup
	stepped   chan struct{} // gets a value after a step

	mu    sync.Mutex
	steps map[uint32]string  // names of the steps under way, by shard
	waits map[uint32]blocked // of shards that wait
}

// blocked is the reason why a shard waits, and since when.
type blocked struct {
	reshape.Wait
	since time.Time
}

// copied names a copy of a shard on its way to a node.
type copied struct {
	shard uint32
	node  string
}

// NewMover returns a Mover that is not running yet.
func NewMover(d Decisions, s Groups, log *slog.Logger) *Mover {
	return &Mover{
		decisions: d, shards: s, log: log, copies: make(map[copied]uint64), groups: make(map[uint32]*clusterpb.Membership),
		stepped: make(chan struct{}, 1), steps: make(map[uint32]string), waits: make(map[uint32]blocked),
	}
}

// Run moves shards until ctx ends.
func (m *Mover) Run(ctx context.Context) {
	defer m.taking.Wait()
	for ctx.Err() == nil {
		state, changed := m.decisions.Watch()
		var again <-chan time.Time
		if moving := movingShards(state); len(moving) > 0 {
			m.round(ctx, moving)
			again = time.After(moveLook)
			changed = nil
		}
		select {
		case <-changed:
		case <-again:
		case <-m.stepped:
		case <-ctx.Done():
		}
	}
}

func movingShards(state *clusterpb.ControlState) []*clusterpb.Shard {
	return slices.DeleteFunc(slices.Clone(state.Shards), func(s *clusterpb.Shard) bool { return len(s.Target) == 0 })
}

// round looks at the moving shards that take no step, and begins a step of each.
func (m *Mover) round(ctx context.Context, moving []*clusterpb.Shard) {
	free := m.free(moving)
	m.observe(ctx, free)
	under := m.underWay(moving)
	maps.DeleteFunc(m.copies, func(at copied, _ uint64) bool { return !under.all[at] })
	for _, record := range free {
		group := m.groups[record.Id]
		step, waits := reshape.Next(reshape.Shard{
			Record: record, Group: group,
			CaughtUp: func(node string) bool { return m.caughtUp(ctx, record, node, group) },
			Well:     func(node string) bool { return m.shards.Fit(record.Id, node) },
			MayAdd:   func(node string) string { return under.mayAdd(record.Id, node) },
		})
		m.note(record.Id, waits, step.Name)
		if step != (reshape.Step{}) {
			m.taking.Go(func() { m.take(ctx, record.Id, step) })
		}
	}
}

// free returns the shards without a step under way. It forgets the shards that move no more.
func (m *Mover) free(moving []*clusterpb.Shard) []*clusterpb.Shard {
	m.mu.Lock()
	defer m.mu.Unlock()
	moves := func(id uint32) bool {
		return slices.ContainsFunc(moving, func(s *clusterpb.Shard) bool { return s.Id == id })
	}
	maps.DeleteFunc(m.waits, func(id uint32, _ blocked) bool { return !moves(id) })
	maps.DeleteFunc(m.groups, func(id uint32, _ *clusterpb.Membership) bool { return !moves(id) })
	return slices.DeleteFunc(slices.Clone(moving), func(s *clusterpb.Shard) bool { return m.steps[s.Id] != "" })
}

// observe asks the leaders of the shards for their memberships. A shard whose leader does not answer has none.
func (m *Mover) observe(ctx context.Context, shards []*clusterpb.Shard) {
	ctx, cancel := context.WithTimeout(ctx, moveAsk)
	defer cancel()
	groups := make([]*clusterpb.Membership, len(shards))
	var asking sync.WaitGroup
	for i, record := range shards {
		asking.Go(func() {
			group, err := m.shards.Members(ctx, record.Id, &clusterpb.MembersCall{})
			if err != nil {
				m.log.Debug("a shard's leader does not answer", "shard", record.Id, "err", err)
				return
			}
			groups[i] = group
		})
	}
	asking.Wait()
	for i, record := range shards {
		m.groups[record.Id] = groups[i]
	}
}

// caughtUp reports whether a replica without a vote may become a voter. It must have applied all entries that were
// committed one look ago, by its own word, and must lack few entries by the leader's. The leader alone does not know:
// hashicorp/raft counts an entry as replicated that the node has not applied, and a node that still applies its log
// would answer no call as a leader. And the leader may be in touch with an earlier replica on the node: a node that has
// not heard yet that the replica was removed, and another placed there, is going to delete it, with its vote.
func (m *Mover) caughtUp(ctx context.Context, record *clusterpb.Shard, node string, group *clusterpb.Membership) bool {
	at := copied{record.Id, node}
	if flawPromotesEarly() {
		return true
	}
	before, looked := m.copies[at]
	m.copies[at] = group.Committed
	for _, member := range group.Members {
		if member.Node == node && (member.SilenceMs < 0 || member.Lag > raftgroup.MostLag) {
			return false
		}
	}
	ctx, cancel := context.WithTimeout(ctx, moveAsk)
	defer cancel()
	applied, err := m.shards.Applied(ctx, node, record.Id, record.Joined[node])
	return err == nil && looked && applied >= before
}

// take makes one step of a shard.
func (m *Mover) take(ctx context.Context, shard uint32, step reshape.Step) {
	m.log.Info("a shard moves", "shard", shard, "step", step.String())
	wait.For(ctx, m.Pause) // the step fails if ctx has ended
	limited, cancel := context.WithTimeout(ctx, moveCall)
	err := m.make(limited, shard, step)
	cancel()
	var waits reshape.Wait
	if err != nil {
		waits = reshape.Wait{
			Class: clusterpb.MoveWait_MOVE_WAIT_STEP_FAILED, Reason: fmt.Sprintf("%s: %v", step, err),
		}
		m.log.Info("a step of a shard is taken again", "shard", shard, "step", step.String(), "err", err)
		wait.For(ctx, moveLook) // a mover that ends looks no more
	}
	m.note(shard, waits, "")
	select {
	case m.stepped <- struct{}{}:
	default: // a look is due already
	}
}

func (m *Mover) make(ctx context.Context, shard uint32, step reshape.Step) error {
	var entry clusterpb.ControlEntry
	switch {
	case step.Change != nil:
		_, err := m.shards.Members(ctx, shard, step.Change)
		return err
	case step.Assign != nil:
		entry.Op = &clusterpb.ControlEntry_Assign{Assign: step.Assign}
	case step.Settle != nil:
		entry.Op = &clusterpb.ControlEntry_Retarget{Retarget: step.Settle}
	}
	return m.decisions.Propose(ctx, &entry)
}

// note records the step that a shard takes, "" for none, and why it waits.
func (m *Mover) note(shard uint32, w reshape.Wait, step string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.steps[shard] = step; step == "" {
		delete(m.steps, shard)
	}
	switch {
	case w == reshape.Wait{}:
		delete(m.waits, shard)
	case m.waits[shard].Wait != w:
		m.waits[shard] = blocked{w, time.Now()}
	}
}

// fill tells why shards wait, and for how long they have, unless they wait for their turn.
func (m *Mover) fill(shape *clusterpb.Shape) {
	m.mu.Lock()
	defer m.mu.Unlock()
	shape.Shards, shape.WaitsFor = make(map[uint32]string), make(map[uint32]clusterpb.MoveWait)
	shape.StuckMs = make(map[uint32]int64)
	for shard, w := range m.waits {
		shape.Shards[shard], shape.WaitsFor[shard] = w.Reason, w.Class
		if w.Class != clusterpb.MoveWait_MOVE_WAIT_TURN {
			shape.StuckMs[shard] = time.Since(w.since).Milliseconds()
		}
	}
}

// taken returns the names of the steps under way, by shard.
func (m *Mover) taken() map[uint32]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.steps)
}

// load counts the copies under way.
type load struct {
	all    map[copied]bool
	byNode map[string]int
}

// underWay returns the copies under way: replicas in the target that do not vote. One of the first replicas of a shard
// may be among them, if it left the group and the target changed before its node left the record. A shard whose leader
// does not answer counts with all its replicas that were placed later.
func (m *Mover) underWay(moving []*clusterpb.Shard) load {
	l := load{all: make(map[copied]bool), byNode: make(map[string]int)}
	for _, record := range moving {
		for _, node := range record.Replicas {
			group := m.groups[record.Id]
			known := group != nil || record.Joined[node] > 0
			if known && slices.Contains(record.Target, node) && !votes(group, node) {
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
