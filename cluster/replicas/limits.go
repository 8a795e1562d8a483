package replicas

import (
	"context"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/lend"
	"github.com/belfryhq/belfry/shard"
)

// lendPermits asks the replica, whose shard owns a limited queue, for permits.
func lendPermits(ctx context.Context, s *shard.Shard, c *clusterpb.LendCall) (*clusterpb.Loan, error) {
	loan, err := s.Lend(ctx, shard.Borrow{
		Namespace: c.Namespace, Queue: c.Queue, Shard: c.Borrower, Borrow: lend.Borrow{
			Term: c.Term, Round: c.Round, InFlight: int(c.InFlight), Unused: int(c.Unused), Want: int(c.Want),
			Priority: int(c.Priority),
		},
	})
	return &clusterpb.Loan{
		Permits: uint32(loan.Permits), LifeUs: loan.Life.Microseconds(), RetryAfterUs: loan.RetryAfter.Microseconds(),
	}, err
}

// askGroups asks the replica, whose shard owns a queue, for permits of groups.
func askGroups(ctx context.Context, s *shard.Shard, c *clusterpb.GroupsAsk) (*clusterpb.GroupsAnswer, error) {
	ask := shard.GroupsAsk{
		Namespace: c.Namespace, Queue: c.Queue, Shard: c.Shard, Term: c.Term,
		Number: c.Number, Wants: wantsOf(c.Wants), Ended: c.Ended, Unused: wantsOf(c.Unused), Lost: c.Lost,
		Wait: c.Wait, Epoch: c.Epoch,
	}
	answer, err := s.AskGroups(ctx, ask)
	message := &clusterpb.GroupsAnswer{Epoch: answer.Owner.Epoch, Term: answer.Owner.Term}
	for _, g := range answer.Given {
		message.Given = append(message.Given, &clusterpb.GroupGiven{
			Group: g.Group, Permits: uint32(g.Permits), FirstMs: g.FirstMs,
		})
	}
	return message, err
}

func wantsOf(messages []*clusterpb.GroupWant) []shard.GroupsWant {
	wants := make([]shard.GroupsWant, len(messages))
	for i, m := range messages {
		wants[i] = shard.GroupsWant{Group: m.Group, Permits: int(m.Permits)}
	}
	return wants
}

// lookGroups asks the replica where groups stand.
func lookGroups(ctx context.Context, s *shard.Shard, c *clusterpb.GroupsLook) (*clusterpb.GroupsStanding, error) {
	standing, err := s.LookGroups(ctx, shard.GroupsLook{
		Owner: shard.GroupsOwner{Epoch: c.Epoch, Term: c.Term}, Namespace: c.Namespace, Queue: c.Queue, Groups: c.Groups,
	})
	message := &clusterpb.GroupsStanding{Term: standing.Term, Done: standing.Done, ClearMs: standing.ClearMs}
	for _, g := range standing.Groups {
		message.Groups = append(message.Groups, &clusterpb.GroupCount{
			UnderWay: uint32(g.UnderWay), Retrying: uint32(g.Retrying), Waiting: g.Waiting, Priority: uint32(g.Priority),
			FirstMs: g.FirstMs,
		})
	}
	return message, err
}
