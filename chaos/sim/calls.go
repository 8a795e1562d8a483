package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/chaos/sim/wire"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/router"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
)

// here answers calls from the replicas of one process.
type here struct{ p *process }

var _ router.Shards = here{}

func (h here) Do(ctx context.Context, id uint32, cmds []*fsmpb.Command) []task.Reply {
	s, err := h.p.shard(id)
	if err == nil {
		return s.Do(ctx, cmds)
	}
	return refuse(len(cmds), err)
}

func refuse(n int, err error) []task.Reply {
	replies := make([]task.Reply, n)
	for i := range replies {
		replies[i].Err = err
	}
	return replies
}

func (h here) Get(ctx context.Context, id uint32, namespace, task string, stale bool) (*fsmpb.Task, error) {
	s, err := h.p.shard(id)
	if err != nil {
		return nil, err
	}
	return s.Get(ctx, namespace, task, stale)
}

func (h here) List(ctx context.Context, id uint32, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
	s, err := h.p.shard(id)
	if err != nil {
		return nil, err
	}
	return s.List(ctx, q, stale)
}

func (h here) Queues(ctx context.Context, id uint32, ask *clusterpb.QueuesCall) ([]*fsmpb.QueueCounts, error) {
	s, err := h.p.shard(id)
	if err != nil {
		return nil, err
	}
	return s.QueueCounts(ctx, ask.Namespace, ask.Queue)
}

func (h here) Lend(ctx context.Context, id uint32, ask *clusterpb.LendCall) (*clusterpb.Loan, error) {
	s, err := h.p.shard(id)
	if err != nil {
		return nil, err
	}
	loan, err := s.Lend(ctx, shard.Borrow{
		Namespace: ask.Namespace, Queue: ask.Queue, Shard: ask.Borrower, Term: ask.Term, Round: ask.Round,
		InFlight: int(ask.InFlight), Unused: int(ask.Unused), Want: int(ask.Want),
	})
	if err != nil {
		return nil, err
	}
	return &clusterpb.Loan{
		Permits: uint32(loan.Permits), LifeUs: loan.Life.Microseconds(), RetryAfterUs: loan.RetryAfter.Microseconds(),
	}, nil
}

// there has another node answer calls.
type there struct {
	p    *process // who asks
	node string
}

var _ router.Shards = there{}

// Do sends copies: the other side writes into them.
func (t there) Do(ctx context.Context, id uint32, cmds []*fsmpb.Command) []task.Reply {
	sent := make([]*fsmpb.Command, len(cmds))
	for i, c := range cmds {
		sent[i] = proto.CloneOf(c)
	}
	replies, err := wire.Call(ctx, t.p.host, t.node, func(ctx context.Context, at *wire.Host) []task.Reply {
		p := t.p.world.processAt(at)
		if p == nil {
			return refuse(len(sent), task.ErrNotProposed)
		}
		return here{p}.Do(ctx, id, sent)
	})
	if err != nil {
		return refuse(len(cmds), callError(err))
	}
	return replies
}

// callError tells what is certain: a call that was not sent was not carried out.
func callError(err error) error {
	if errors.Is(err, wire.ErrNotSent) {
		return fmt.Errorf("%w: %w", task.ErrNotProposed, err)
	}
	return fmt.Errorf("%w: %w", task.ErrUnknown, err)
}

// askThere is a call that changes nothing.
func askThere[T any](ctx context.Context, t there, ask func(context.Context, here) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	a, err := wire.Call(ctx, t.p.host, t.node, func(ctx context.Context, at *wire.Host) answer {
		p := t.p.world.processAt(at)
		if p == nil {
			return answer{err: task.ErrNotProposed}
		}
		value, err := ask(ctx, here{p})
		return answer{value, err}
	})
	if err != nil {
		return a.value, callError(err)
	}
	return a.value, a.err
}

func (t there) Get(ctx context.Context, id uint32, namespace, task string, stale bool) (*fsmpb.Task, error) {
	return askThere(ctx, t, func(ctx context.Context, h here) (*fsmpb.Task, error) {
		return h.Get(ctx, id, namespace, task, stale)
	})
}

func (t there) List(ctx context.Context, id uint32, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
	return askThere(ctx, t, func(ctx context.Context, h here) (*fsmpb.ListPage, error) {
		return h.List(ctx, id, q, stale)
	})
}

func (t there) Queues(ctx context.Context, id uint32, ask *clusterpb.QueuesCall) ([]*fsmpb.QueueCounts, error) {
	return askThere(ctx, t, func(ctx context.Context, h here) ([]*fsmpb.QueueCounts, error) {
		return h.Queues(ctx, id, ask)
	})
}

func (t there) Lend(ctx context.Context, id uint32, ask *clusterpb.LendCall) (*clusterpb.Loan, error) {
	return askThere(ctx, t, func(ctx context.Context, h here) (*clusterpb.Loan, error) { return h.Lend(ctx, id, ask) })
}

// askTime is the exchange by which clocks are compared.
func (p *process) askTime(ctx context.Context, node string) (received, answered time.Time, err error) {
	at, err := askThere(ctx, there{p, node}, func(_ context.Context, h here) (time.Time, error) {
		return h.p.node.clock.now(), nil
	})
	return at, at, err
}

// limits lets a process's shards borrow permits.
type limits struct{ p *process }

var _ shard.Limits = limits{}

func (l limits) Borrow(ctx context.Context, ask shard.Borrow) (shard.Loan, error) {
	loan, err := l.p.router.Lend(ctx, &clusterpb.LendCall{
		Namespace: ask.Namespace, Queue: ask.Queue, Borrower: ask.Shard, Term: ask.Term, Round: ask.Round,
		InFlight: uint32(ask.InFlight), Unused: uint32(ask.Unused), Want: uint32(ask.Want),
	})
	if err != nil {
		return shard.Loan{}, err
	}
	return shard.Loan{
		Permits: int(loan.GetPermits()), Life: time.Duration(loan.GetLifeUs()) * time.Microsecond,
		RetryAfter: time.Duration(loan.GetRetryAfterUs()) * time.Microsecond,
	}, nil
}
