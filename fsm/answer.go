package fsm

import (
	"cmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// done is the result of a command that has done its work, or had none left to do.
func done() *fsmpb.Result { return &fsmpb.Result{Code: fsmpb.Code_CODE_OK} }

// refused is the result of a command that the task's state does not allow.
func refused(t store.Task, code fsmpb.Code) *fsmpb.Result {
	return &fsmpb.Result{Code: code, Revision: t.Revision()}
}

// conflict answers a call that the task's state does not allow.
func conflict(t store.Task) *fsmpb.Result {
	result := refused(t, fsmpb.Code_CODE_CONFLICT)
	result.Task = &fsmpb.Task{State: t.State(), Attempts: t.Attempts()}
	return result
}

// invalid refuses a call that would leave the task, which may not exist yet, against the rules.
func invalid(t store.Task, err *task.FieldError) *fsmpb.Result {
	result := refused(t, fsmpb.Code_CODE_INVALID)
	result.Field, result.Detail, result.Limit = err.Field, err.Detail, err.Limit
	return result
}

// maxBriefPayload is the largest payload, in bytes, that an unmet condition shows to a caller who wants brief answers:
// a few bytes of a batch's line must not bring a quarter of a megabyte each.
const maxBriefPayload = 4 << 10

// unmet answers a call whose condition does not hold. If the caller wanted no task to exist, the result has the
// existing one.
func (m *Machine) unmet(r request) *fsmpb.Result {
	result := refused(r.task, fsmpb.Code_CODE_PRECONDITION_FAILED)
	if !m.full || !r.task.Exists() || !r.Condition.Absent {
		return result
	}
	result.Task = r.task.View(true)
	if spec := result.Task.Spec; r.Answer == fsmpb.Answer_ANSWER_BRIEF && len(spec.Payload) > maxBriefPayload {
		spec.Payload, spec.PayloadIsBytes = nil, false
	}
	return result
}

// answer adds the task to a result, as far as its caller wants it. Parts that come and go with attempts are left out: a
// repeat of the call could not give them again.
func (m *Machine) answer(result *fsmpb.Result, t store.Task, want fsmpb.Answer) {
	if !m.full || !t.Exists() || want == fsmpb.Answer_ANSWER_BRIEF {
		return
	}
	v := t.View(want == fsmpb.Answer_ANSWER_FULL)
	v.History, v.Leased, v.LeaseEndMs = nil, false, 0
	result.Task = v
}

// recall answers a call whose key the task remembers: as it was answered then, or that the key was another call's.
// nil: the call is to be carried out.
func (m *Machine) recall(r request) *fsmpb.Result {
	switch k := r.task.Recall(r.Key); {
	case k == nil:
		return nil
	case k.Key.Call != r.Key.Call:
		return refused(r.task, fsmpb.Code_CODE_KEY_REUSED)
	default:
		return m.repeat(r, k)
	}
}

// repeat gives the remembered answer again. The parts that a schedule set are taken from the repeated call, which is
// the same one; the parts that the service set, from memory. Other calls state only a part of the task: the rest is
// today's.
func (m *Machine) repeat(r request, k *fsmpb.RememberedKey) *fsmpb.Result {
	result := &fsmpb.Result{Code: k.Code, Revision: k.Revision, Previous: k.Previous, Outcome: k.Outcome, Repeated: true}
	m.answer(result, r.task, r.Answer)
	if t := result.Task; t != nil {
		if op := r.GetSchedule(); op != nil {
			t.Spec = store.CopyOf(specOrEmpty(op))
			t.Spec.Queue = cmp.Or(t.Spec.Queue, task.DefaultQueue)
		}
		t.Revision, t.State, t.Attempts = k.Revision, k.State, k.Attempts
		t.FireAtMs, t.CreatedAtMs = k.FireAtMs, k.CreatedAtMs
		t.NextAttemptAtMs, t.Outcome, t.LastError = k.NextAttemptAtMs, 0, k.LastError
		t.Occurrence = cmp.Or(k.Occurrence, k.Revision)
		t.WebhookId = m.store.WebhookID(t.Occurrence)
	}
	return result
}
