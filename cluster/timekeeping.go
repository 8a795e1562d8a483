package cluster

import (
	"context"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// Now returns the time by which this node serves callers, and whether the time is reliable; see clocks.Clocks.
func (n *Node) Now() (_ time.Time, sure bool) { return n.clocks.Now() }

func (a allNodes) AskTime(ctx context.Context, node string) (received, answered time.Time, err error) {
	reply, err := a.n.peers.Peer(node).Ping(ctx, &clusterpb.PingRequest{})
	if err == nil {
		a.n.health.Answered(node)
	}
	return time.Unix(0, reply.GetReceivedNs()), time.Unix(0, reply.GetSentNs()), err
}

// clockLook is the period at which a node checks whether its clock has left the others'.
const clockLook = time.Second

// keepTime gives the node's leaderships away, as far as others can lead, while its clock is further than the bound
// from the median. Shards compare clocks themselves when they begin to lead, and after a clock was set. keepTime finds
// a clock that drifts slowly, and keeps the node from being elected.
func (n *Node) keepTime(ctx context.Context) {
	ticker := time.NewTicker(clockLook)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			n.judgeClock()
		case <-ctx.Done():
			return
		}
	}
}

func (n *Node) judgeClock() {
	by, apart := n.clocks.Apart()
	if apart == n.health.ClockApart() {
		return
	}
	if apart {
		n.cfg.Logger.Error("this node's clock is apart from the others': it gives its leaderships away",
			"median_ahead_by", by)
	} else {
		n.cfg.Logger.Info("this node's clock agrees with the others' again")
	}
	n.health.SetClockApart(apart)
}
