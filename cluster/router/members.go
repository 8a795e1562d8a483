package router

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Members makes a change of a shard's membership, if one is set, at the shard's leader, and returns the membership
// after it. A change may be repeated, since it is bound to the membership that it was decided for. A leader that gives
// its leadership away has all of the caller's time, because it first waits for running attempts.
func (r *Router) Members(
	ctx context.Context, shard uint32, ask *clusterpb.MembersCall,
) (*clusterpb.Membership, error) {
	ctx, cancel := r.patient(ctx)
	defer cancel()
	limit := readPatience
	if _, gives := ask.Change.(*clusterpb.MembersCall_Transfer); gives {
		limit = r.cfg.Patience
	}
	return readWithin(ctx, r, shard, false, limit, asking[*clusterpb.Membership](shard, ask))
}
