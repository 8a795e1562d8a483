package quotas

import (
	"context"
	"fmt"
	"strconv"
	"time"

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

// draw asks the owner for tokens.
func (q *Quotas) draw(
	ctx context.Context, key quota.LimitKey, ask lend.Borrow, perSecond float64,
) (lend.Loan, error) {
	reply, err := q.cfg.Owner(ctx, &clusterpb.QuotaCall{
		Subject: subjectMessage(key.Subject), Quota: uint32(key.Quota),
		Op: &clusterpb.QuotaCall_Draw{Draw: &clusterpb.DrawCall{
			Node: q.cfg.Self, PerSecond: perSecond, Want: uint32(ask.Want), Spent: uint32(ask.Spent),
		}},
	})
	return lend.Loan{
		Permits: int(reply.GetTokens()), RetryAfter: time.Duration(reply.GetRetryAfterUs()) * time.Microsecond,
	}, err
}

// divide asks the owner to divide a level anew.
func (q *Quotas) divide(ctx context.Context, ask quota.Ask) (int64, error) {
	reply, err := q.cfg.Owner(ctx, &clusterpb.QuotaCall{
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

// admit asks the owner for a new queue.
func (q *Quotas) admit(ctx context.Context, namespace, queue string, limit uint64) error {
	_, err := q.cfg.Owner(ctx, &clusterpb.QuotaCall{
		Subject: &clusterpb.QuotaSubject{Namespace: namespace}, Quota: uint32(quota.MaxQueues),
		Op: &clusterpb.QuotaCall_Admit{Admit: &clusterpb.AdmitCall{Queue: queue, Limit: limit}},
	})
	return err
}

func subjectMessage(s quota.Subject) *clusterpb.QuotaSubject {
	return &clusterpb.QuotaSubject{Namespace: s.Namespace, Key: s.Key}
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
	s, err := q.cfg.Replica(id)
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

// owner returns the memory of a leadership as the owner of a subject, and makes it if there is none.
func (q *Quotas) owner(id uint32, term uint64, s quota.Subject) *owner {
	at := ownerID{id, q.cfg.Epoch(s)}
	q.mu.Lock()
	defer q.mu.Unlock()
	o := q.owners[at]
	if o == nil || o.term < term {
		o = &owner{
			term: term, rates: lend.NewLender[quota.LimitKey, string](lend.OfRates),
			arbiter:   quota.NewArbiter(q.arbiterConfig(at, term)),
			registrar: quota.NewRegistrar(quota.RegistrarConfig{List: q.names, Now: q.cfg.Now}),
		}
		q.owners[at] = o
	}
	return o
}

// arbiterConfig connects the Arbiter of an owner. Each owner of a subject has a later term than the one before: by the
// epoch of the subject's slot if another shard was the owner, and else by the term of the shard's leader.
func (q *Quotas) arbiterConfig(at ownerID, term uint64) quota.ArbiterConfig {
	return quota.ArbiterConfig{
		Term: at.epoch<<32 | term, Trip: q.cfg.Trip, Now: q.cfg.Now, Trim: q.trim, Raise: q.raise, Holders: q.holders,
	}
}

// holders returns the holders of a level: the nodes of that of consumers, or else the shards. The consumers of a node
// that does not answer are not counted: they are at other nodes by then, or get no tasks.
func (q *Quotas) holders(key quota.LimitKey) (all []quota.Holder) {
	if key.Quota == quota.MaxConsumers {
		for _, id := range q.cfg.Members() {
			if q.cfg.Alive(id) {
				all = append(all, quota.Holder{ID: id, Weight: 1})
			}
		}
		return all
	}
	for id, slots := range q.cfg.Slots() {
		all = append(all, quota.Holder{ID: holderOf(id), Weight: slots})
	}
	return all
}

func holderOf(shard uint32) string { return strconv.FormatUint(uint64(shard), 10) }

func (q *Quotas) trim(ctx context.Context, holder string, key quota.LimitKey, r quota.Round) (int64, error) {
	reply, err := q.tell(ctx, holder, &clusterpb.QuotaCall{
		Subject: subjectMessage(key.Subject), Quota: uint32(key.Quota),
		Op: &clusterpb.QuotaCall_Trim{Trim: &clusterpb.TrimCall{Term: r.Term, Number: r.Number}},
	})
	if err == nil && reply.Refused {
		err = fmt.Errorf("the holder %s has a later round", holder)
	}
	return reply.GetUsed(), err
}

func (q *Quotas) raise(
	ctx context.Context, holder string, key quota.LimitKey, r quota.Round, limit, ceiling int64,
) error {
	_, err := q.tell(ctx, holder, &clusterpb.QuotaCall{
		Subject: subjectMessage(key.Subject), Quota: uint32(key.Quota),
		Op: &clusterpb.QuotaCall_Raise{Raise: &clusterpb.RaiseCall{
			Term: r.Term, Number: r.Number, Limit: limit, Ceiling: ceiling,
		}},
	})
	return err
}

// tell carries a message to the holder of a level.
func (q *Quotas) tell(ctx context.Context, holder string, call *clusterpb.QuotaCall) (*clusterpb.QuotaReply, error) {
	if quota.Quota(call.Quota) == quota.MaxConsumers {
		return q.cfg.Node(ctx, holder, call)
	}
	id, err := strconv.ParseUint(holder, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is no shard: %w", holder, err)
	}
	return q.cfg.Shard(ctx, uint32(id), call)
}
