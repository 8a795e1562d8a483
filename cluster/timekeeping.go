package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster/clocks"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/shard"
)

// Now returns the time by which this node serves callers, and whether the time is reliable; see clocks.Clocks.
func (n *Node) Now() (_ time.Time, sure bool) { return n.clocks.Now() }

func (n *Node) askTime(ctx context.Context, node string) (received, answered time.Time, err error) {
	reply, err := n.peers.get(node).rpc.Ping(ctx, &clusterpb.PingRequest{})
	if err == nil {
		n.health.Answered(node)
	}
	return time.Unix(0, reply.GetReceivedNs()), time.Unix(0, reply.GetSentNs()), err
}

// isAlone reports whether this node is the only one of its cluster. It requires that all shards are placed, because a
// log that is read again after a restart registers nodes one by one and places shards on them after that.
func (n *Node) isAlone() bool {
	state := n.state()
	unplaced := func(s *clusterpb.Shard) bool { return len(s.Replicas) == 0 }
	return len(state.Nodes) == 1 && !slices.ContainsFunc(state.Shards, unplaced)
}

// clockAgrees compares this node's clock with the voters'.
func (n *Node) clockAgrees(ctx context.Context, voters []string) error {
	err := n.clocks.Agrees(ctx, voters)
	if errors.Is(err, clocks.ErrApart) {
		return fmt.Errorf("%w: %w", shard.ErrClockApart, err)
	}
	return err
}

// clockLook is the period at which a node checks whether its clock has left the others'.
const clockLook = time.Second

// keepTime gives the node's leaderships away, as far as others can lead, while its clock is further than the bound
// from the median. Shards compare clocks themselves when they begin to lead, and after a clock was set. keepTime finds
// a clock that drifts slowly, and keeps the node from being elected.
func (n *Node) keepTime() {
	for n.sleep(clockLook) {
		by, apart := n.clocks.Apart()
		if apart == n.health.ClockApart() {
			continue
		}
		if apart {
			n.cfg.Logger.Error("this node's clock is apart from the others': it gives its leaderships away",
				"median_ahead_by", by)
		} else {
			n.cfg.Logger.Info("this node's clock agrees with the others' again")
		}
		n.health.SetClockApart(apart)
	}
}
