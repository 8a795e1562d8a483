package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/cluster/clocks"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/shard"
)

func (n *Node) startClocks() *clocks.Clocks {
	return clocks.Start(clocks.Config{
		Self: n.ID(), Clock: n.cfg.Clock, Peers: n.directory.Nodes, Alone: n.directory.IsAlone, Ask: n.askTime,
		MaxOffset: n.cfg.MaxClockOffset, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
}

// Now returns the time by which this node serves callers, and whether the time is reliable; see clocks.Clocks.
func (n *Node) Now() (_ time.Time, sure bool) { return n.clocks.Now() }

func (n *Node) askTime(ctx context.Context, node string) (received, answered time.Time, err error) {
	reply, err := n.peers.rpc(node).Ping(ctx, &clusterpb.PingRequest{})
	if err == nil {
		n.health.Answered(node)
	}
	return time.Unix(0, reply.GetReceivedNs()), time.Unix(0, reply.GetSentNs()), err
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
