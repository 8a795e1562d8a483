package quotas

import (
	"context"
	"fmt"
	"strconv"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/lend"
	"github.com/belfryhq/belfry/quota"
)

// owner is the memory of one leadership that owns subjects whose slots came to the shard in one epoch.
type owner struct {
	term      uint64
	rates     *lend.Lender[quota.LimitKey, string]
	arbiter   *quota.Arbiter
	registrar *quota.Registrar
}

type ownerID struct {
	shard uint32
	epoch uint64
}

// Answer answers a message as the leader of a shard, or as this node if the shard is 0. The error is a
// *task.NotLeaderError if this node does not lead, or a *quota.Exceeded for a queue that is refused.
func (q *Quotas) Answer(ctx context.Context, id uint32, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
	key := quota.LimitKey{
		Subject: quota.Subject{Namespace: call.GetSubject().GetNamespace(), Key: call.GetSubject().GetKey()},
		Quota:   quota.Quota(call.Quota),
	}
	if id == 0 {
		return answerLevel(q.consumers(key), call)
	}
	s, err := q.carrier.Replicas.Replica(id)
	if err != nil {
		return nil, err
	}
	term, err := s.Lead(ctx)
	if err != nil {
		return nil, err
	}
	switch call.Op.(type) {
	case *clusterpb.QuotaCall_Draw, *clusterpb.QuotaCall_Divide, *clusterpb.QuotaCall_Admit, *clusterpb.QuotaCall_Use:
		return answerOwner(ctx, q.owner(id, term, key.Subject), key, call)
	case *clusterpb.QuotaCall_Names:
		names, err := s.Queues(ctx, key.Namespace)
		return &clusterpb.QuotaReply{Names: names}, err
	}
	reply, err := answerLevel(q.level(s, term, key), call)
	if err == nil && call.GetTrim() != nil {
		err = s.StillLead(ctx) // the use of a former leader is too low
	}
	return reply, err
}

// answerOwner answers a message for the owner of a subject.
func answerOwner(
	ctx context.Context, o *owner, key quota.LimitKey, call *clusterpb.QuotaCall,
) (*clusterpb.QuotaReply, error) {
	switch op := call.Op.(type) {
	case *clusterpb.QuotaCall_Draw:
		return o.draw(ctx, key, op.Draw), nil
	case *clusterpb.QuotaCall_Divide:
		return o.divide(ctx, key, op.Divide)
	case *clusterpb.QuotaCall_Admit:
		return &clusterpb.QuotaReply{}, o.registrar.Admit(ctx, key.Namespace, op.Admit.Queue, op.Admit.Limit)
	}
	return &clusterpb.QuotaReply{
		SchedulesPerSecond: o.rates.Rate(quota.LimitKey{Subject: key.Subject, Quota: quota.SchedulesPerSecond}),
		CallsPerSecond:     o.rates.Rate(quota.LimitKey{Subject: key.Subject, Quota: quota.CallsPerSecond}),
	}, nil
}

func (o *owner) draw(ctx context.Context, key quota.LimitKey, d *clusterpb.DrawCall) *clusterpb.QuotaReply {
	ask := lend.Borrow{Want: int(d.Want), Spent: int(d.Spent)}
	loan := o.rates.Lend(ctx, key, d.Node, ask, lend.Limit{PerSecond: d.PerSecond})
	return &clusterpb.QuotaReply{Tokens: uint32(loan.Permits), RetryAfterUs: loan.RetryAfter.Microseconds()}
}

func (o *owner) divide(
	ctx context.Context, key quota.LimitKey, d *clusterpb.DivideCall,
) (*clusterpb.QuotaReply, error) {
	used, err := o.arbiter.Divide(ctx, quota.Ask{Key: key, Holder: d.Holder, Limit: d.Limit, Want: d.Want})
	if err == quota.ErrUnsure { //nolint:errorlint // Divide returns it unwrapped
		return &clusterpb.QuotaReply{Unsure: true}, nil
	}
	return &clusterpb.QuotaReply{Used: used}, err
}

// answerLevel answers a message for the holder of a level.
func answerLevel(level *quota.Level, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
	switch op := call.Op.(type) {
	case *clusterpb.QuotaCall_Trim:
		held, ok := level.Trim(quota.Round{Term: op.Trim.Term, Number: op.Trim.Number})
		return &clusterpb.QuotaReply{Used: held, Refused: !ok}, nil
	case *clusterpb.QuotaCall_Raise:
		r := quota.Round{Term: op.Raise.Term, Number: op.Raise.Number}
		level.Raise(r, op.Raise.Limit, op.Raise.Ceiling)
		return &clusterpb.QuotaReply{}, nil
	case *clusterpb.QuotaCall_Use:
		return &clusterpb.QuotaReply{Used: level.Held()}, nil
	}
	return nil, fmt.Errorf("%w: a quota's message that this build does not know", task.ErrNotProposed)
}

// owner returns the memory of a leadership as the owner of a subject, and makes it if there is none. Each owner of a
// subject has a later term than the one before: by the epoch of the subject's slot if another shard was the owner, and
// else by the term of the shard's leader.
func (q *Quotas) owner(id uint32, term uint64, s quota.Subject) *owner {
	at := ownerID{id, q.carrier.Router.QuotaEpoch(s)}
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owners[at]
	if o == nil || o.term < term {
		o = &owner{
			term: term, rates: lend.NewLender[quota.LimitKey, string](lend.OfRates),
			arbiter:   quota.NewArbiter(at.epoch<<32|term, q.carrier, q.carrier.Trip),
			registrar: quota.NewRegistrar(q.carrier),
		}
		q.owners[at] = o
	}
	return o
}

func holderOf(shard uint32) string { return strconv.FormatUint(uint64(shard), 10) }
