package control

import (
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/fsm/task"
)

// prepareBegin judges an operation, and counts what it has to move. An operation that has begun before, by its id, or
// an equal one under way is the answer instead, without moves. A preview is answered without an entry. The error is an
// *task.ImpossibleError for an operation that could not end.
func prepareBegin(r *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	begin, state := c.Entry.GetBegin(), r.group.State()
	op := begin.GetOperation()
	if op == nil {
		return nil, incomplete("an operation")
	}
	if old := begunBefore(state, op); old != nil && !c.Preview {
		c.Entry = nil
		return &clusterpb.ControlChanged{Operation: old}, nil
	}
	op.BeganMs, op.Name = r.group.cfg.Clock().UnixMilli(), Node(state, op.Node).GetName()
	moves, err := r.judge(op)
	if err != nil {
		return nil, err
	}
	if c.Preview {
		c.Entry = nil
		return &clusterpb.ControlChanged{Operation: op, Moves: moves}, nil
	}
	if Leaves(orderOf[op.Kind]) && !r.group.cfg.Shards.Up(op.Node) {
		begin.Waive = Version
	}
	return &clusterpb.ControlChanged{Moves: moves}, nil
}

func answerBegin(c *clusterpb.ControlChanged, _, after *clusterpb.ControlState, begin *clusterpb.Begin) {
	c.Operation = begunBefore(after, begin.GetOperation()) // another request for the same may have been faster
}

// judge returns the moves that an operation needs, and sets its total. The error is a *task.ImpossibleError if the
// operation could not end.
func (r *reconciler) judge(op *clusterpb.Operation) ([]*clusterpb.PlannedMove, error) {
	if onSlots(op) {
		return r.judgeSlots(op)
	}
	before := r.group.State()
	after := shallowCopy(before)
	if err := applyBegin(after, op); err != nil {
		return nil, &task.ImpossibleError{Reason: err.Error()}
	}
	nodes := reshape.Nodes(after, r.hopeful, r.group.cfg.Limits)
	if err := r.checkEnd(after, op, nodes); err != nil {
		return nil, err
	}
	aimed, _, err := reshape.Targets(after, nodes)
	if err != nil {
		return nil, &task.ImpossibleError{Reason: err.Error()}
	}
	if aimed == nil {
		aimed = &clusterpb.Retarget{}
	}
	if err := applyRetarget(after, aimed); err != nil {
		return nil, &task.ImpossibleError{Reason: err.Error()}
	}
	if err := r.checkClear(after, op, nodes); err != nil {
		return nil, err
	}
	op.Total = ReplicasLeft(before, op)
	if op.Kind == clusterpb.OperationKind_OPERATION_KIND_REST {
		op.Total = r.group.leads(op.Node)
	}
	var moves []*clusterpb.PlannedMove
	for _, m := range placement.Compare(standing(before), reshape.Placement(after)).Moves {
		moves = append(moves, &clusterpb.PlannedMove{Shard: uint32(m.Shard) + 1, Action: string(m.Action), Node: m.Node})
	}
	return moves, nil
}

// hopeful returns the sight of a node. A node that is up counts as up for long enough to take replicas, because an
// operation may wait for that.
func (r *reconciler) hopeful(node string) reshape.Sight {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := r.seen.of(node, time.Now())
	if seen.Up {
		seen.For = r.group.cfg.Limits.Calm
	}
	return seen
}

// checkEnd refuses an operation that could not end, as far as the state after it shows.
func (r *reconciler) checkEnd(after *clusterpb.ControlState, op *clusterpb.Operation, nodes []placement.Node) error {
	active := slices.ContainsFunc(nodes, func(n placement.Node) bool { return n.State == placement.Active })
	switch {
	case op.Kind == clusterpb.OperationKind_OPERATION_KIND_REST:
		return r.checkRest(after, op)
	case !active:
		return &task.ImpossibleError{Reason: "no other node is up and takes replicas"}
	case op.Kind == clusterpb.OperationKind_OPERATION_KIND_REPLICATION:
		return checkReplication(nodes, int(op.Replication))
	case op.Kind == clusterpb.OperationKind_OPERATION_KIND_RESUME:
		return nil
	}
	for _, s := range after.Shards {
		if slices.Contains(s.Replicas, op.Node) && !r.hasMajority(s) {
			return &task.ImpossibleError{Reason: fmt.Sprintf(
				"shard %d has no majority of its replicas up, so no other node can copy it; see `belfry doctor`", s.Id)}
		}
	}
	return nil
}

// checkRest checks that the shards of a node can be led elsewhere.
func (r *reconciler) checkRest(after *clusterpb.ControlState, op *clusterpb.Operation) error {
	rests := func(node string) bool { return after.Orders[node] == clusterpb.NodeOrder_NODE_ORDER_REST }
	for _, s := range after.Shards {
		heir := slices.ContainsFunc(s.Replicas, func(node string) bool {
			return r.group.cfg.Shards.Up(node) && !rests(node)
		})
		if slices.Contains(s.Replicas, op.Node) && !heir {
			return &task.ImpossibleError{
				Reason: fmt.Sprintf("no other node with a replica of shard %d is up and may lead it", s.Id),
			}
		}
	}
	return nil
}

// checkReplication checks a replication factor.
func checkReplication(nodes []placement.Node, replicas int) error {
	if err := placement.CheckReplication(replicas); err != nil {
		return &task.ImpossibleError{Reason: err.Error()}
	}
	if replicas > reshape.Takers(nodes) {
		return &task.ImpossibleError{Reason: fmt.Sprintf("%d replicas of each shard need as many nodes, and %d may hold one",
			replicas, reshape.Takers(nodes))}
	}
	return nil
}

// hasMajority reports whether a majority of a shard's replicas is up.
func (r *reconciler) hasMajority(s *clusterpb.Shard) bool {
	up := 0
	for _, node := range s.Replicas {
		if r.group.cfg.Shards.Up(node) {
			up++
		}
	}
	return 2*up > len(s.Replicas)
}

// checkClear checks that an operation that empties a node leaves nothing there.
func (r *reconciler) checkClear(after *clusterpb.ControlState, op *clusterpb.Operation, nodes []placement.Node) error {
	kept := 0
	for _, s := range reshape.Placement(after) {
		if empties(after.Orders[op.Node]) && slices.Contains(s.Nodes, op.Node) {
			kept++
		}
	}
	if kept == 0 {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(nodes), func(n placement.Node) bool { return n.ID == op.Node })
	return &task.ImpossibleError{Reason: fmt.Sprintf(
		"%d shards would keep a replica on the node: each shard has %d replicas, and %d other nodes may hold one; "+
			"let another node join, or lower the replication factor first", kept, reshape.Factor(after, nodes),
		reshape.Takers(others))}
}

// standing returns where the replicas of the shards are. Unlike reshape.Placement it takes no account of targets, so
// the moves of a preview include those that are under way.
func standing(state *clusterpb.ControlState) []placement.Replicas {
	var now []placement.Replicas
	for _, s := range state.Shards {
		now = append(now, placement.Replicas{Nodes: s.Replicas, Preferred: s.Preferred})
	}
	return now
}

// Shape returns the reasons why the cluster has not the shape that it should have. It returns nil if this replica does
// not lead.
func (g *Group) Shape() *clusterpb.Shape {
	r := g.leading.Load()
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	shape := &clusterpb.Shape{
		Waits: r.waits, Steps: r.mover.taken(), AwayMs: r.seen.away(time.Now()),
		ReplaceAfterMs: r.group.cfg.Limits.ReplaceAfter.Milliseconds(), Deletions: r.erase.underway(),
		BulkWaits: r.bulks.reasons(),
	}
	r.mover.fill(shape)
	r.slots.sights.fill(r.group.State(), shape)
	r.grows.fill(shape)
	return shape
}
