package store

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Followed is a task that the current command has ended, with its follow-up.
type Followed struct {
	task.End
	Namespace   string
	Traceparent string // of the task
	FollowUp    *fsmpb.FollowUp
}

// noteFollowUp records the end of a task that has a follow-up. A cancel that was accepted leaves the task without one,
// even if the attempt under way delivers it.
func (e Edit) noteFollowUp(state fsmpb.State) {
	if state != fsmpb.State_STATE_DELIVERED && state != fsmpb.State_STATE_DEAD || e.Outcome() != 0 {
		return
	}
	own, rule := e.followUps(), e.Rule()
	if own == nil && rule.OnDelivered == nil && rule.OnDead == nil {
		return
	}
	namespace, id := e.ID()
	f := task.FollowUpOf(state, id, own, rule.OnDelivered, rule.OnDead)
	if f == nil {
		return
	}
	end := task.End{
		ID: id, Queue: e.Queue(), State: state, Attempts: e.Attempts(), DueMs: e.FireAtMs(), AtMs: e.s.NowMs,
	}
	if state == fsmpb.State_STATE_DEAD {
		end.Error = e.history().lastError
	}
	c := e.cold()
	e.s.followed = append(e.s.followed, Followed{end, namespace, e.s.mem.extraOf(&c).Spec.Traceparent, f})
}

// followUps returns a spec with the task's own follow-ups, or nil if it has none.
func (e Edit) followUps() *fsmpb.Spec {
	blob := e.s.mem.blobs.Get(e.record().cold)
	if _, _, manner := coldShared(blob); manner != 0 {
		if spec := e.s.mem.manners.at(manner).value.extra.Spec; spec.OnDelivered != nil || spec.OnDead != nil {
			return spec
		}
	}
	if blob[0]&coldHasExtra == 0 { // as most tasks: the code below makes garbage
		return nil
	}
	c := readCold(blob)
	spec := e.s.mem.extraOf(&c).Spec
	if spec.OnDelivered == nil && spec.OnDead == nil {
		return nil
	}
	return spec
}

// TakeFollowed returns the tasks with follow-ups that the current command has ended since the last call.
func (s *Store) TakeFollowed() []Followed {
	followed := s.followed
	s.followed = nil
	return followed
}
