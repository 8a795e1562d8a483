package cluster

import (
	"context"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Outlook adds up the tasks that wait in the timing wheels of shards, from all nodes; shard 0 stands for all shards. It
// leaves out the shards whose leaders do not answer within two seconds, and returns their ids.
func (n *Node) Outlook(ctx context.Context, shard uint32) (sum *fsmpb.Outlook, missing []uint32, err error) {
	return n.router.Outlook(ctx, shard)
}

// Activity adds up the events of shards in the last quarter of an hour, in the steps that begin after an instant in
// Unix milliseconds; see Outlook.
func (n *Node) Activity(
	ctx context.Context, shard uint32, afterMs int64,
) (sum *fsmpb.Activity, missing []uint32, err error) {
	return n.router.Activity(ctx, shard, afterMs)
}
