package sim

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/consume"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// askArrived asks another node which leases of a shard, given by their fences, arrived there.
func (p *process) askArrived(ctx context.Context, node string, shard uint32, fences []uint64) (desk.Arrivals, error) {
	return askThere(ctx, p, node, func(_ context.Context, h here) (desk.Arrivals, error) {
		return h.p.consumers.ArrivedHere(shard, fences), nil
	})
}

// streamPatience is how long a broken stream goes unnoticed.
const streamPatience = 5 * time.Second

// openPull opens a stream to another node, on which this node sends the demand of its consumers.
func (p *process) openPull(ctx context.Context, node string) (consume.Stream, error) {
	return wire.Dial(ctx, p.host, node, streamPatience,
		func(at *wire.Host, s *wire.Stream[*clusterpb.PullRequest, *clusterpb.PullReply]) {
			if other := p.world.processAt(at); other != nil {
				_ = other.consumers.Serve(s, at.Life().Done()) // the asking side sees why the stream ended
			}
		})
}
