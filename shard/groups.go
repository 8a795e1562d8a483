package shard

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/shard/dispatch"
	"github.com/belfryhq/belfry/shard/internal/groups"
)

type (
	// GroupsAsk is a leader's request for permits of groups of one queue.
	GroupsAsk = groups.Ask
	// GroupsWant is the wish of a group in a GroupsAsk.
	GroupsWant = groups.Want
	// GroupsAnswer is the answer to a GroupsAsk.
	GroupsAnswer = groups.Answer
	// GroupsGiven is the permits that a group gets.
	GroupsGiven = groups.Given
	// GroupsLook asks a shard's leader where groups stand.
	GroupsLook = groups.Look
	// GroupsStanding is the answer to a GroupsLook.
	GroupsStanding = groups.Standing
	// GroupsCount is where a group stands in one shard.
	GroupsCount = groups.Count
	// GroupsOwner identifies a leadership of a queue's owner.
	GroupsOwner = groups.Owner
)

// The errors of a shard that cannot answer about groups at present.
var (
	errNoGroups     = fmt.Errorf("%w: the queue does not limit its groups, as far as this node knows", task.ErrNotProposed)
	errHandingOver  = fmt.Errorf("%w: slots of the shard are being handed over", task.ErrNotProposed)
	errEarlierOwner = fmt.Errorf("%w: a later owner of the queue has looked", task.ErrNotProposed)
)

// AskGroups gives permits of groups, as the owner of their queue. The call may wait half a second for permits. Nothing
// of it is in the log. Errors are *task.NotLeaderError, those that wrap task.ErrNotProposed, and the context's.
func (s *Shard) AskGroups(ctx context.Context, ask GroupsAsk) (GroupsAnswer, error) {
	l, err := s.leadership(ctx)
	if err != nil {
		return GroupsAnswer{}, err
	}
	if err := l.awaitReady(ctx); err != nil {
		return GroupsAnswer{}, err
	}
	policy := s.cfg.Policies.Policy(ask.Namespace, ask.Queue)
	if !task.LimitsGroups(policy) {
		return GroupsAnswer{}, errNoGroups
	}
	owner := groups.Owner{Epoch: ask.Epoch, Term: l.term.Load()}
	limit := groups.Limit{
		InFlight: task.GroupLimit(policy), InOrder: policy.GetFifo(), PerSecond: policy.GetGroupPerSecond(),
	}
	answer, err := l.keeper.Ask(ctx, ask, owner, limit)
	if err == nil && !l.inTouch(ctx) {
		return GroupsAnswer{}, s.notLeader()
	}
	return answer, err
}

// LookGroups returns where groups stand in this shard. Errors are *task.NotLeaderError, those that wrap
// task.ErrNotProposed, and the context's.
func (s *Shard) LookGroups(ctx context.Context, look GroupsLook) (GroupsStanding, error) {
	l, err := s.leadership(ctx)
	if err != nil {
		return GroupsStanding{}, err
	}
	if err := l.awaitReady(ctx); err != nil {
		return GroupsStanding{}, err
	}
	answers := make(chan groupsFound, 1)
	l.proposer.intake.tell(func(p *dispatch.Planner, _ time.Time) { answers <- s.groupsIn(p, look) })
	select {
	case found := <-answers:
		if found.err == nil && !l.inTouch(ctx) {
			return GroupsStanding{}, s.notLeader()
		}
		found.Shard, found.Term = s.cfg.ID, l.term.Load()
		return found.GroupsStanding, found.err
	case <-l.ctx.Done():
		return GroupsStanding{}, s.notLeader()
	case <-ctx.Done():
		return GroupsStanding{}, ctx.Err()
	}
}

type groupsFound struct {
	GroupsStanding
	err error
}

// groupsIn returns where groups stand, between two entries.
func (s *Shard) groupsIn(p *dispatch.Planner, look GroupsLook) groupsFound {
	if isHandingOver(s.machine) {
		return groupsFound{err: errHandingOver}
	}
	standing, ok := p.Standing(look)
	if !ok {
		return groupsFound{err: errEarlierOwner}
	}
	flawForgetsGroups(standing.Groups)
	standing.ClearMs = math.MaxInt64
	if next, waits := s.machine.Next(); waits {
		standing.ClearMs = next - 1
	}
	return groupsFound{GroupsStanding: standing}
}

// isHandingOver reports whether tasks of the shard rest in sealed slots: their attempts are in no lane's count.
func isHandingOver(m *fsm.Machine) bool {
	return m.IsMoving() && slices.ContainsFunc(m.Slots(), func(slot *fsmpb.SlotState) bool {
		return slot.Phase == fsmpb.SlotPhase_SLOT_PHASE_SEALED
	})
}

// askPause is the pause of an asker after an error.
const askPause = 50 * time.Millisecond

// Ask makes an ask, and reports the answer to the planner. cancel ends it early.
func (p *proposer) Ask(ask groups.Ask) (cancel func()) {
	ask.Shard, ask.Term = p.shard.cfg.ID, p.lead.term.Load()
	ctx, cancel := context.WithCancel(p.lead.ctx)
	p.lead.workers.Go(func() {
		answer, err := p.shard.limits.AskGroups(ctx, ask)
		if err != nil && !errors.Is(err, context.Canceled) {
			p.shard.cfg.Logger.Debug("no permits of groups", "queue", ask.Queue, "err", err)
			wait.For(ctx, askPause)
		}
		cancel()
		name := dispatch.QueueName{Namespace: ask.Namespace, Queue: ask.Queue}
		p.intake.tell(func(p *dispatch.Planner, now time.Time) { p.Answered(now, ask.Number, name, answer, err) })
	})
	return cancel
}
