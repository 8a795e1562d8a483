package router

import (
	"context"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
)

// lendPatience limits one search for the lender and the lender's own waiting. After that the borrower looks again.
const lendPatience = 2 * time.Second

var _ shard.Limits = (*Router)(nil)

// Borrow asks the leader of the shard that owns a queue's limits for permits, on whichever node. With AskGroups and
// LookGroups, it makes Router a shard.Limits. An ask may be repeated: each time the borrower states the permits that it
// holds, and so the owner forgets a loan that did not arrive.
func (r *Router) Borrow(ctx context.Context, ask shard.Borrow) (shard.Loan, error) {
	ctx, cancel := context.WithTimeout(ctx, lendPatience)
	defer cancel()
	l := r.layout()
	if l == nil {
		return shard.Loan{}, errNoMap
	}
	owner := l.slots[ownerSlot(ask.Namespace, ask.Queue)].Shard
	loan, err := read[*clusterpb.Loan](ctx, r, owner, false, &clusterpb.LendCall{
		Namespace: ask.Namespace, Queue: ask.Queue, Borrower: ask.Shard, Term: ask.Term, Round: ask.Round,
		InFlight: uint32(ask.InFlight), Unused: uint32(ask.Unused), Want: uint32(ask.Want), Priority: uint32(ask.Priority),
	})
	return shard.Loan{
		Permits: int(loan.GetPermits()), Life: time.Duration(loan.GetLifeUs()) * time.Microsecond,
		RetryAfter: time.Duration(loan.GetRetryAfterUs()) * time.Microsecond,
	}, err
}

// AskGroups asks the leader of the shard that owns a queue for permits of its groups. A repeated ask does no harm: its
// asker uses only the permits of the last answer.
func (r *Router) AskGroups(ctx context.Context, ask shard.GroupsAsk) (shard.GroupsAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, lendPatience)
	defer cancel()
	l := r.layout()
	if l == nil {
		return shard.GroupsAnswer{}, errNoMap
	}
	slot := l.slots[ownerSlot(ask.Namespace, ask.Queue)]
	call := &clusterpb.GroupsAsk{
		Namespace: ask.Namespace, Queue: ask.Queue, Shard: ask.Shard, Term: ask.Term, Number: ask.Number,
		Wants: wantsOf(ask.Wants), Ended: ask.Ended, Unused: wantsOf(ask.Unused), Lost: ask.Lost,
		Wait: ask.Wait, Epoch: slot.Epoch,
	}
	got, err := read[*clusterpb.GroupsAnswer](ctx, r, slot.Shard, false, call)
	answer := shard.GroupsAnswer{Owner: shard.GroupsOwner{Epoch: got.GetEpoch(), Term: got.GetTerm()}}
	for _, g := range got.GetGiven() {
		answer.Given = append(answer.Given, shard.GroupsGiven{
			Group: g.Group, Permits: int(g.Permits), FirstMs: g.FirstMs,
		})
	}
	return answer, err
}

func wantsOf(wants []shard.GroupsWant) []*clusterpb.GroupWant {
	messages := make([]*clusterpb.GroupWant, len(wants))
	for i, w := range wants {
		messages[i] = &clusterpb.GroupWant{Group: w.Group, Permits: uint32(w.Permits)}
	}
	return messages
}

// LookGroups asks the leaders of all shards where groups of a queue stand.
func (r *Router) LookGroups(ctx context.Context, look shard.GroupsLook) ([]shard.GroupsStanding, error) {
	shards := r.shards()
	answers, err := eachShard[*clusterpb.GroupsStanding](ctx, r, shards, &clusterpb.GroupsLook{
		Epoch: look.Owner.Epoch, Term: look.Owner.Term, Namespace: look.Namespace, Queue: look.Queue, Groups: look.Groups,
	})
	if err != nil {
		return nil, err
	}
	standings := make([]shard.GroupsStanding, len(shards))
	for i, id := range shards {
		if got := len(answers[i].GetGroups()); got != len(look.Groups) {
			return nil, fmt.Errorf("shard %d answered about %d groups of %d", id, got, len(look.Groups))
		}
		standings[i] = standingOf(id, answers[i])
	}
	return standings, nil
}

func standingOf(id uint32, m *clusterpb.GroupsStanding) shard.GroupsStanding {
	standing := shard.GroupsStanding{Shard: id, Term: m.GetTerm(), Done: m.GetDone(), ClearMs: m.GetClearMs()}
	for _, c := range m.GetGroups() {
		standing.Groups = append(standing.Groups, shard.GroupsCount{
			UnderWay: int(c.UnderWay), Retrying: int(c.Retrying), Waiting: c.Waiting, Priority: int(c.Priority),
			FirstMs: c.FirstMs,
		})
	}
	return standing
}

// ownerSlot spreads the queues over the shards. Task ids have no slash, so no id can be made to share a queue's key.
func ownerSlot(namespace, queue string) uint32 { return task.Slot(namespace, "queue/"+queue) }
