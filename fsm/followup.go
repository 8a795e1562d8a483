package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// follow makes the follow-ups of the tasks that a command has ended, at its end, when no task is being changed. settle
// is the command if it settles an attempt, else nil.
func (a *applier) follow(settle *fsmpb.Settle) {
	for _, ended := range a.store.TakeFollowed() {
		if flawForgetsFollowUp(a.store.Number) {
			continue
		}
		ended.Status, ended.Answer = settle.GetStatus(), settle.GetAnswer()
		f, now := ended.FollowUp, a.store.NowMs
		content := store.Content{Spec: followUpSpec(ended), CreatedMs: now, DelayMs: f.DelayMs}
		a.takeOver(ended.Namespace, task.FollowUpID(ended.ID, ended.State), content, now+f.DelayMs)
	}
}

// followUpSpec returns the spec of a follow-up: what its caller gave, and the outcome as its payload if the caller gave
// none.
func followUpSpec(ended store.Followed) *fsmpb.Spec {
	spec, f := &fsmpb.Spec{}, ended.FollowUp
	if f.Spec != nil {
		task.CopySpec(spec, f.Spec)
	}
	if spec.Traceparent == "" {
		spec.Traceparent = ended.Traceparent
	}
	if task.WantsOutcome(f) {
		if !f.KeepAnswer {
			ended.Answer = nil
		}
		spec.Payload = ended.Outcome()
	}
	return spec
}
