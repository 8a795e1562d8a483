package control

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Change checks a change that a node asks for, commits it, and returns its answer. The answer has the reason if the
// state, or a node with an older build, does not allow the change. The error is a *task.FieldError or a
// *task.QueuesFullError if the change breaks a limit, and a *task.NotLeaderError on a node that does not lead; see also
// package task. Change only reads the message, and the caller must not change the answer's parts.
func (g *Group) Change(ctx context.Context, change *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	changed, err := g.change(ctx, change)
	if reason := impossible(err); reason != "" {
		return &clusterpb.ControlChanged{Impossible: reason}, nil
	}
	return changed, err
}

// impossible returns the reason of an error that tells that a change cannot be made, and "" for any other error.
func impossible(err error) string {
	var field *task.FieldError
	var full *task.QueuesFullError
	var judged *task.ImpossibleError
	var behind *BehindError
	var refused *refusal
	switch {
	case errors.As(err, &field), errors.As(err, &full): // the asking node knows these
		return ""
	case errors.As(err, &judged):
		return judged.Reason
	case errors.As(err, &behind):
		return behind.Error()
	case errors.As(err, &refused):
		return refused.reason.Error()
	}
	return ""
}

// change is Change, and returns the reason as a *task.ImpossibleError, a *BehindError or an ErrRefused.
func (g *Group) change(ctx context.Context, asked *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	leading := g.leading.Load()
	if leading == nil {
		leader, _ := g.Leader()
		return nil, &task.NotLeaderError{Leader: leader}
	}
	change := proto.CloneOf(asked)
	k, _, known := kindOf(change.GetEntry())
	if !known || k.prepare == nil {
		return nil, fmt.Errorf("%w: a change for which no node may ask, or that this build does not know",
			task.ErrNotProposed)
	}
	draft, err := k.prepare(leading, change)
	switch {
	case err != nil:
		return nil, err
	case change.Entry == nil:
		draft.Index = g.machine.lastChange()
		return draft, nil
	}
	changed, err := g.decide(ctx, change.Entry)
	if err == nil {
		changed.Moves = draft.GetMoves()
	}
	return changed, err
}

// asIs leaves a change as the node asks for it.
func asIs(*reconciler, *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) { return nil, nil }

// incomplete is the error of a change without a part that every asking node sets.
func incomplete(what string) error {
	return fmt.Errorf("%w: a change without %s", task.ErrNotProposed, what)
}
