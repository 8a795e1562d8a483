package fsm

import (
	"cmp"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// done returns the result of a command that succeeded, or that found nothing left to do.
func done() *fsmpb.Result { return &fsmpb.Result{Code: fsmpb.Code_CODE_OK} }

// result returns a result with a code, in memory that the results of an entry share. It is valid until the next one if
// the caller wants no results.
func (a *applier) result(code fsmpb.Code) *fsmpb.Result {
	result := &a.unread
	if a.full {
		if a.room == nil {
			a.room = make([]fsmpb.Result, a.commands)
		}
		result, a.room = &a.room[0], a.room[1:]
	}
	result.Reset()
	result.Code = code
	return result
}

// refused returns the result, with this code, of a command that the task's state does not allow.
func refused(t store.Task, code fsmpb.Code) *fsmpb.Result {
	return &fsmpb.Result{Code: code, Revision: t.Revision()}
}

// conflict answers a call that the task's state does not allow.
func conflict(t store.Task) *fsmpb.Result {
	result := refused(t, fsmpb.Code_CODE_CONFLICT)
	result.Task = &fsmpb.Task{State: t.State(), Attempts: t.Attempts()}
	return result
}

// invalid refuses a call that would break a limit of the contract. The task t may not exist yet.
func invalid(t store.Task, err *task.FieldError) *fsmpb.Result {
	result := refused(t, fsmpb.Code_CODE_INVALID)
	result.Field, result.Detail, result.Limit = err.Field, err.Detail, err.Limit
	return result
}

// maxBriefPayload is the largest payload, in bytes, that an unmet condition shows to a caller that wants brief
// answers. It keeps a batch's lines of a few bytes from fetching a quarter of a megabyte each.
const maxBriefPayload = 4 << 10

// unmet answers a call whose condition does not hold. The result contains the existing task if the caller wanted none
// to exist.
func (a *applier) unmet(r request) *fsmpb.Result {
	result := refused(r.task, fsmpb.Code_CODE_PRECONDITION_FAILED)
	if !a.full || !r.task.Exists() || !r.Condition.Absent {
		return result
	}
	result.Task = r.task.View(true)
	if spec := result.Task.Spec; r.Answer == fsmpb.Answer_ANSWER_BRIEF && len(spec.Payload) > maxBriefPayload {
		spec.Payload, spec.PayloadIsBytes = nil, false
	}
	return result
}

// answer adds the task to a result, as far as the caller wants it. It leaves out the history and the lease, which
// change with each attempt: a repeat of the call could not return them again.
func (a *applier) answer(result *fsmpb.Result, t store.Task, want fsmpb.Answer) {
	if !a.full || !t.Exists() || want == fsmpb.Answer_ANSWER_BRIEF {
		return
	}
	v := t.View(want == fsmpb.Answer_ANSWER_FULL)
	v.History, v.Leased, v.LeaseEndMs = nil, false, 0
	result.Task = v
}

// recall answers a call whose key the task remembers. The answer is the recorded one, or CODE_KEY_REUSED if the key
// belongs to a different call. recall returns nil if the call is yet to be carried out.
func (a *applier) recall(r request) *fsmpb.Result {
	switch k := r.task.Recall(r.Key); {
	case k == nil:
		return nil
	case k.Key.Call != r.Key.Call:
		return refused(r.task, fsmpb.Code_CODE_KEY_REUSED)
	default:
		return a.repeat(r, k)
	}
}

// repeatSeries completes the recorded answer to a call about a schedule. The schedule has its present settings.
func repeatSeries(result *fsmpb.Result, k *fsmpb.RememberedKey) *fsmpb.Result {
	result.Number = uint64(k.NextAttemptAtMs)
	if t := result.Task; t != nil {
		t.Revision = k.Revision
	}
	return result
}

// repeat returns the recorded answer again. The fields that a schedule set come from the repeated call, which has the
// same content. The fields that the service set come from the record. Other calls state only a part of the task, so
// the rest has its present values.
func (a *applier) repeat(r request, k *fsmpb.RememberedKey) *fsmpb.Result {
	result := &fsmpb.Result{Code: k.Code, Revision: k.Revision, Previous: k.Previous, Outcome: k.Outcome, Repeated: true}
	a.answer(result, r.task, r.Answer)
	if r.task.State() == fsmpb.State_STATE_REPEATING {
		return repeatSeries(result, k)
	}
	if t := result.Task; t != nil {
		if op := r.GetSchedule(); op != nil {
			t.Spec = store.CopyOf(specOrEmpty(op))
			t.Spec.Queue = cmp.Or(t.Spec.Queue, task.DefaultQueue)
		}
		t.Revision, t.State, t.Attempts = k.Revision, k.State, k.Attempts
		t.FireAtMs, t.CreatedAtMs = k.FireAtMs, k.CreatedAtMs
		t.NextAttemptAtMs, t.Outcome, t.LastError = k.NextAttemptAtMs, 0, k.LastError
		t.Occurrence = cmp.Or(k.Occurrence, k.Revision)
		t.WebhookId = a.store.Origins.WebhookID(t.Namespace, t.Id, t.Occurrence)
	}
	return result
}
