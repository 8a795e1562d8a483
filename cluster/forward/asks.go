package forward

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// controlGroup is the number of the control group among the shards.
const controlGroup = 0

// Get asks for one task; nil: there is none.
func (c *Client) Get(ctx context.Context, shard uint32, namespace, id string, stale bool) (*fsmpb.Task, error) {
	get := &clusterpb.GetCall{Namespace: namespace, Id: id, Stale: stale}
	reply, err := c.askOne(ctx, &clusterpb.Call{Shard: shard, Op: &clusterpb.Call_Get{Get: get}}, true)
	return reply.GetTask(), err
}

// List asks for one page of one shard.
func (c *Client) List(ctx context.Context, shard uint32, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
	list := &clusterpb.ListCall{Query: q, Stale: stale}
	reply, err := c.askOne(ctx, &clusterpb.Call{Shard: shard, Op: &clusterpb.Call_List{List: list}}, true)
	return reply.GetPage(), err
}

// Queues asks how many tasks a shard holds of queues.
func (c *Client) Queues(ctx context.Context, shard uint32, ask *clusterpb.QueuesCall) ([]*fsmpb.QueueCounts, error) {
	reply, err := c.askOne(ctx, &clusterpb.Call{Shard: shard, Op: &clusterpb.Call_Queues{Queues: ask}}, true)
	return reply.GetCounts(), err
}

// Lend asks the shard that owns a queue for permits. Like a read it may be asked again: the borrower says each time
// what it holds, and a loan that did not arrive is forgotten then.
func (c *Client) Lend(ctx context.Context, shard uint32, ask *clusterpb.LendCall) (*clusterpb.Loan, error) {
	reply, err := c.askOne(ctx, &clusterpb.Call{Shard: shard, Op: &clusterpb.Call_Lend{Lend: ask}}, true)
	return reply.GetLoan(), err
}

// ChangeQueue has the control group commit a change; the node must lead it.
func (c *Client) ChangeQueue(ctx context.Context, change *clusterpb.QueueChange) (*clusterpb.QueueChanged, error) {
	msg := &clusterpb.Call{Shard: controlGroup, Op: &clusterpb.Call_ChangeQueue{ChangeQueue: change}}
	reply, err := c.askOne(ctx, msg, false)
	return reply.GetQueue(), err
}

// askOne returns a reply or an error, whichever side that was made on.
func (c *Client) askOne(ctx context.Context, msg *clusterpb.Call, repeatable bool) (*clusterpb.CallReply, error) {
	reply, err := c.ask(ctx, msg, repeatable)
	if err == nil {
		err = decodeError(reply.Error, msg.Shard, c.cfg.Node)
	}
	if err != nil {
		return nil, err
	}
	return reply, nil
}
