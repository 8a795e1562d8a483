package quotas

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/internal/lend"
	"github.com/belfryhq/belfry/quota"
)

// carrier carries the messages of a node's part in the quotas: to the owners of subjects, from an owner to the holders
// of its levels, and to the shards that have the queues of a namespace.
type carrier struct{ Config }

// Borrowers returns the number of nodes of the cluster.
func (c *carrier) Borrowers() int { return len(c.Control.State().Nodes) }

// Draw asks the owner for tokens.
func (c *carrier) Draw(
	ctx context.Context, key quota.LimitKey, ask lend.Borrow, perSecond float64,
) (lend.Loan, error) {
	reply, err := c.Router.AskOwner(ctx, &clusterpb.QuotaCall{
		Subject: subjectMessage(key.Subject), Quota: uint32(key.Quota),
		Op: &clusterpb.QuotaCall_Draw{Draw: &clusterpb.DrawCall{
			Node: c.Self, PerSecond: perSecond, Want: uint32(ask.Want), Spent: uint32(ask.Spent),
		}},
	})
	return lend.Loan{
		Permits: int(reply.GetTokens()), RetryAfter: time.Duration(reply.GetRetryAfterUs()) * time.Microsecond,
	}, err
}

// Divide asks the owner to divide a level anew.
func (c *carrier) Divide(ctx context.Context, ask quota.Ask) (int64, error) {
	reply, err := c.Router.AskOwner(ctx, &clusterpb.QuotaCall{
		Subject: subjectMessage(ask.Key.Subject), Quota: uint32(ask.Key.Quota),
		Op: &clusterpb.QuotaCall_Divide{Divide: &clusterpb.DivideCall{
			Holder: ask.Holder, Limit: ask.Limit, Want: ask.Want,
		}},
	})
	if err == nil && reply.Unsure {
		err = quota.ErrUnsure
	}
	return reply.GetUsed(), err
}

// Admit asks the owner for a new queue.
func (c *carrier) Admit(ctx context.Context, namespace, queue string, limit uint64) error {
	_, err := c.Router.AskOwner(ctx, &clusterpb.QuotaCall{
		Subject: &clusterpb.QuotaSubject{Namespace: namespace}, Quota: uint32(quota.MaxQueues),
		Op: &clusterpb.QuotaCall_Admit{Admit: &clusterpb.AdmitCall{Queue: queue, Limit: limit}},
	})
	return err
}

func subjectMessage(s quota.Subject) *clusterpb.QuotaSubject {
	return &clusterpb.QuotaSubject{Namespace: s.Namespace, Key: s.Key}
}

// Holders returns the holders of a level: the nodes of that of consumers, or else the shards. The consumers of a node
// that does not answer are not counted: they are at other nodes by then, or get no tasks.
func (c *carrier) Holders(key quota.LimitKey) (all []quota.Holder) {
	if key.Quota == quota.MaxConsumers {
		for _, id := range c.answering() {
			all = append(all, quota.Holder{ID: id, Weight: 1})
		}
		return all
	}
	for id, slots := range c.Router.SlotCounts() {
		all = append(all, quota.Holder{ID: holderOf(id), Weight: slots})
	}
	return all
}

func (c *carrier) Trim(ctx context.Context, holder string, key quota.LimitKey, r quota.Round) (int64, error) {
	reply, err := c.tell(ctx, holder, &clusterpb.QuotaCall{
		Subject: subjectMessage(key.Subject), Quota: uint32(key.Quota),
		Op: &clusterpb.QuotaCall_Trim{Trim: &clusterpb.TrimCall{Term: r.Term, Number: r.Number}},
	})
	if err == nil && reply.Refused {
		err = fmt.Errorf("the holder %s has a later round", holder)
	}
	return reply.GetUsed(), err
}

func (c *carrier) Raise(
	ctx context.Context, holder string, key quota.LimitKey, r quota.Round, limit, ceiling int64,
) error {
	_, err := c.tell(ctx, holder, &clusterpb.QuotaCall{
		Subject: subjectMessage(key.Subject), Quota: uint32(key.Quota),
		Op: &clusterpb.QuotaCall_Raise{Raise: &clusterpb.RaiseCall{
			Term: r.Term, Number: r.Number, Limit: limit, Ceiling: ceiling,
		}},
	})
	return err
}

// tell carries a message to the holder of a level.
func (c *carrier) tell(ctx context.Context, holder string, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
	if quota.Quota(call.Quota) == quota.MaxConsumers {
		return c.askNode(ctx, holder, call)
	}
	id, err := strconv.ParseUint(holder, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is no shard: %w", holder, err)
	}
	return c.Router.AskShard(ctx, uint32(id), call)
}

// answering returns the nodes that have answered this one lately.
func (c *carrier) answering() (ids []string) {
	for _, node := range c.Control.State().Nodes {
		if c.Nodes.Alive(node.Id) {
			ids = append(ids, node.Id)
		}
	}
	return ids
}

func (c *carrier) askNode(
	ctx context.Context, node string, call *clusterpb.QuotaCall,
) (*clusterpb.QuotaReply, error) {
	return calls.Ask[*clusterpb.QuotaReply](ctx, c.Nodes.At(node), 0, call)
}

// Queues returns the names of a namespace's queues: those with a policy, and those that a shard has tasks of.
func (c *carrier) Queues(ctx context.Context, namespace string) ([]string, error) {
	var shards []uint32
	for id := range c.Router.SlotCounts() {
		shards = append(shards, id)
	}
	type names struct {
		list []string
		err  error
	}
	var all []string
	for _, p := range control.Queues(c.Control.State(), namespace) {
		all = append(all, p.Queue)
	}
	for _, part := range gather(shards, func(id uint32) names {
		reply, err := c.Router.AskShard(ctx, id, &clusterpb.QuotaCall{
			Subject: &clusterpb.QuotaSubject{Namespace: namespace}, Quota: uint32(quota.MaxQueues),
			Op: &clusterpb.QuotaCall_Names{Names: &clusterpb.NamesCall{}},
		})
		return names{reply.GetNames(), err}
	}) {
		if part.err != nil {
			return nil, part.err
		}
		all = append(all, part.list...)
	}
	return all, nil
}

// gather calls ask for each element side by side, and returns the answers in order.
func gather[E, A any](of []E, ask func(E) A) []A {
	answers := make([]A, len(of))
	var wg sync.WaitGroup
	for i, e := range of {
		wg.Go(func() { answers[i] = ask(e) })
	}
	wg.Wait()
	return answers
}
