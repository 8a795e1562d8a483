package control

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/bulk"
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

// prepareBeginBulk sets the time of a bulk operation. One that has begun before, by its id, is the answer instead.
func prepareBeginBulk(r *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	op := c.Entry.GetBeginBulk().GetOperation()
	if op == nil {
		return nil, incomplete("an operation")
	}
	if begun := bulk.Find(r.group.State(), op.Id); begun != nil {
		c.Entry = nil
		return &clusterpb.ControlChanged{Bulk: begun}, nil
	}
	op.BeganMs = r.group.cfg.Clock().UnixMilli()
	return nil, nil
}

// prepareStopBulk sets the time and the reason of a stop. An operation that has ended is the answer instead.
func prepareStopBulk(r *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	stop := c.Entry.GetStopBulk()
	if op := bulk.Find(r.group.State(), stop.GetId()); op == nil || op.EndedMs > 0 {
		c.Entry = nil
		return &clusterpb.ControlChanged{Bulk: op}, nil
	}
	stop.AtMs, stop.Detail = r.group.cfg.Clock().UnixMilli(), "an operator has stopped it"
	return nil, nil
}

func answerBeginBulk(c *clusterpb.ControlChanged, _, after *clusterpb.ControlState, begin *clusterpb.BeginBulk) {
	c.Bulk = bulk.Find(after, begin.GetOperation().GetId())
}

func answerStopBulk(c *clusterpb.ControlChanged, _, after *clusterpb.ControlState, stop *clusterpb.StopBulk) {
	c.Bulk = bulk.Find(after, stop.GetId())
}
