package calls

import (
	"context"
	"fmt"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/shard"
)

// AskGroups asks the shard that owns a queue for permits of its groups.
func (r Remote) AskGroups(ctx context.Context, owner uint32, ask shard.GroupsAsk) (shard.GroupsAnswer, error) {
	call := &clusterpb.GroupsAsk{
		Namespace: ask.Namespace, Queue: ask.Queue, Shard: ask.Shard, Term: ask.Term, Number: ask.Number,
		Ended: ask.Ended, Wait: ask.Wait, Epoch: ask.Epoch,
	}
	for _, w := range ask.Wants {
		call.Wants = append(call.Wants, &clusterpb.GroupWant{Group: w.Group, Permits: uint32(w.Permits)})
	}
	reply, err := r.ask(ctx, &clusterpb.Call{Shard: owner, Op: &clusterpb.Call_AskGroups{AskGroups: call}}, false)
	got := reply.GetGroupsAnswer()
	answer := shard.GroupsAnswer{Owner: shard.GroupsOwner{Epoch: got.GetEpoch(), Term: got.GetTerm()}}
	for _, g := range got.GetGiven() {
		answer.Given = append(answer.Given, shard.GroupsGiven{
			Group: g.Group, Permits: int(g.Permits), FirstMs: g.FirstMs,
		})
	}
	return answer, err
}

func answerAskGroups(
	ctx context.Context, n Node, owner uint32, call *clusterpb.GroupsAsk,
) (*clusterpb.GroupsAnswer, error) {
	call, err := own(call)
	if err != nil {
		return nil, err
	}
	ask := shard.GroupsAsk{
		Namespace: call.GetNamespace(), Queue: call.GetQueue(), Shard: call.GetShard(), Term: call.GetTerm(),
		Number: call.GetNumber(), Ended: call.GetEnded(), Wait: call.GetWait(), Epoch: call.GetEpoch(),
	}
	for _, w := range call.GetWants() {
		ask.Wants = append(ask.Wants, shard.GroupsWant{Group: w.GetGroup(), Permits: int(w.GetPermits())})
	}
	answer, err := n.AskGroups(ctx, owner, ask)
	if err != nil {
		return nil, err
	}
	message := &clusterpb.GroupsAnswer{Epoch: answer.Owner.Epoch, Term: answer.Owner.Term}
	for _, g := range answer.Given {
		message.Given = append(message.Given, &clusterpb.GroupGiven{
			Group: g.Group, Permits: uint32(g.Permits), FirstMs: g.FirstMs,
		})
	}
	return message, nil
}

// LookGroups asks the shard where groups of a queue stand.
func (r Remote) LookGroups(ctx context.Context, id uint32, look shard.GroupsLook) (shard.GroupsStanding, error) {
	call := &clusterpb.GroupsLook{
		Epoch: look.Owner.Epoch, Term: look.Owner.Term, Namespace: look.Namespace, Queue: look.Queue, Groups: look.Groups,
	}
	reply, err := r.ask(ctx, &clusterpb.Call{Shard: id, Op: &clusterpb.Call_LookGroups{LookGroups: call}}, true)
	got := reply.GetGroupsStanding()
	standing := shard.GroupsStanding{Shard: id, Term: got.GetTerm(), Done: got.GetDone(), ClearMs: got.GetClearMs()}
	for _, c := range got.GetGroups() {
		standing.Groups = append(standing.Groups, shard.GroupsCount{
			UnderWay: int(c.UnderWay), Retrying: int(c.Retrying), Waiting: c.Waiting, Priority: int(c.Priority),
			FirstMs: c.FirstMs,
		})
	}
	if err == nil && len(standing.Groups) != len(look.Groups) {
		err = fmt.Errorf("shard %d answered about %d groups of %d", id, len(standing.Groups), len(look.Groups))
	}
	return standing, err
}

func answerLookGroups(
	ctx context.Context, n Node, id uint32, call *clusterpb.GroupsLook,
) (*clusterpb.GroupsStanding, error) {
	call, err := own(call)
	if err != nil {
		return nil, err
	}
	standing, err := n.LookGroups(ctx, id, shard.GroupsLook{
		Owner:     shard.GroupsOwner{Epoch: call.GetEpoch(), Term: call.GetTerm()},
		Namespace: call.GetNamespace(), Queue: call.GetQueue(), Groups: call.GetGroups(),
	})
	if err != nil {
		return nil, err
	}
	message := &clusterpb.GroupsStanding{Term: standing.Term, Done: standing.Done, ClearMs: standing.ClearMs}
	for _, c := range standing.Groups {
		message.Groups = append(message.Groups, &clusterpb.GroupCount{
			UnderWay: uint32(c.UnderWay), Retrying: uint32(c.Retrying), Waiting: c.Waiting, Priority: uint32(c.Priority),
			FirstMs: c.FirstMs,
		})
	}
	return message, nil
}
