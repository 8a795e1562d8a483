package control

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/bulk"
	"github.com/belfryhq/belfry/fsm/task"
)

// FindBulk returns a bulk operation of the state, or nil if there is none.
func FindBulk(s *clusterpb.ControlState, id string) *clusterpb.BulkOperation { return bulk.Find(s, id) }

// newBulks returns the driver of the bulk operations, for one leadership.
func newBulks(g *Group) *bulk.Runner {
	return bulk.New(bulk.Config{
		Cluster: g.cfg.Tasks, Watch: g.Watch, Clock: g.cfg.Clock, Logger: g.cfg.Logger,
		Commit: func(ctx context.Context, entry *clusterpb.ControlEntry) error {
			_, err := g.propose(ctx, entry)
			return err
		},
	})
}

// ChangeBulk begins or stops a bulk operation, and returns it. It answers with the reason if the state, or a node with
// an older build, does not allow the change. An operation that has begun before, by its id, is returned instead. The
// error is a *task.NotLeaderError on a node that is not the leader. ChangeBulk only reads the message.
func (g *Group) ChangeBulk(ctx context.Context, change *clusterpb.BulkChange) (*clusterpb.BulkChanged, error) {
	if g.leading.Load() == nil {
		leader, _ := g.Leader()
		return nil, &task.NotLeaderError{Leader: leader}
	}
	entry, id := g.bulkEntry(change)
	if entry == nil {
		return &clusterpb.BulkChanged{Operation: bulk.Find(g.State(), id)}, nil
	}
	_, err := g.decide(ctx, entry)
	var behind *BehindError
	var refusal *bulk.Refusal
	switch {
	case errors.As(err, &behind):
		return &clusterpb.BulkChanged{Impossible: behind.Error()}, nil
	case errors.As(err, &refusal):
		return &clusterpb.BulkChanged{Impossible: refusal.Error()}, nil
	case err != nil:
		return nil, err
	}
	return &clusterpb.BulkChanged{Operation: bulk.Find(g.State(), id)}, nil
}

// bulkEntry returns the entry of a change, and the id of its operation. The entry is nil if nothing is to change.
func (g *Group) bulkEntry(change *clusterpb.BulkChange) (entry *clusterpb.ControlEntry, id string) {
	now := g.cfg.Clock().UnixMilli()
	if op := change.GetBegin(); op != nil {
		if bulk.Find(g.State(), op.Id) != nil {
			return nil, op.Id
		}
		op = proto.CloneOf(op)
		op.BeganMs = now
		return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_BeginBulk{
			BeginBulk: &clusterpb.BeginBulk{Operation: op},
		}}, op.Id
	}
	id = change.GetStop()
	if op := bulk.Find(g.State(), id); op == nil || op.EndedMs > 0 {
		return nil, id
	}
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_StopBulk{
		StopBulk: &clusterpb.StopBulk{Id: id, AtMs: now, Detail: "an operator has stopped it"},
	}}, id
}

// ChangeBulk begins or stops a bulk operation through the node's group, which must lead; see Group.
func (r *Replica) ChangeBulk(ctx context.Context, change *clusterpb.BulkChange) (*clusterpb.BulkChanged, error) {
	g := r.Group()
	if g == nil {
		return nil, fmt.Errorf("%w: this node is in no cluster yet", task.ErrNotProposed)
	}
	return g.ChangeBulk(ctx, change)
}
