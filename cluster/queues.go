package cluster

import (
	"context"
	"fmt"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Queues asks the replica here.
func (h *hosts) Queues(_ context.Context, id uint32, _ *clusterpb.QueuesCall) ([]*fsmpb.QueueCounts, error) {
	return nil, fmt.Errorf("%w: shard %d counts no queues yet", fsm.ErrNotProposed, id)
}

// Lend asks the replica here.
func (h *hosts) Lend(_ context.Context, id uint32, _ *clusterpb.LendCall) (*clusterpb.Loan, error) {
	return nil, fmt.Errorf("%w: shard %d lends nothing yet", fsm.ErrNotProposed, id)
}
