package cluster

import (
	"context"
	"io"

	"google.golang.org/grpc"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/cuts"
)

// BackupSummary describes a backup that was written whole.
type BackupSummary = cuts.Summary

func (n *Node) newTaker() *cuts.Taker {
	return cuts.New(cuts.Config{
		Self: n.ID(), State: n.control.State, Local: n.replicas.Find, Remote: n.peers.rpc, Search: n.router.Search,
		Clock: n.cfg.Clock,
	})
}

// Backup writes a backup of the cluster to w; see cuts.Taker.
func (n *Node) Backup(ctx context.Context, w io.Writer) (BackupSummary, error) {
	return n.taker.Backup(ctx, w)
}

// Backup sends another node the state of a shard that this node leads.
func (s service) Backup(req *clusterpb.BackupRequest, stream grpc.ServerStreamingServer[clusterpb.BackupReply]) error {
	return cuts.Serve(stream, s.n.replicas.Find, req.Shard, s.draining)
}
