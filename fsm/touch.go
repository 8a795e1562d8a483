package fsm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// applyTouch starts the task's delay again, and changes its payload if the call says so.
func (a *applier) applyTouch(r request) *fsmpb.Result {
	op, t := r.GetTouch(), r.task
	switch {
	case !t.Exists() && op.OrSchedule == nil:
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	case !t.Exists() || t.Begun() && op.OrSchedule != nil:
		return a.schedule(r, op.OrSchedule)
	case t.Begun():
		return conflict(t)
	}
	last := t.DelayMs()
	delay := last
	if op.DelayMs != nil {
		delay = *op.DelayMs
	}
	if delay == store.NoDelay {
		return refused(t, fsmpb.Code_CODE_NO_DELAY)
	}
	content, refusal := touchedContent(op, t)
	if refusal != nil {
		return refusal
	}
	a.store.Change(t, func(e store.Edit) {
		if content != nil {
			e.Rewrite(*content)
		}
		if delay != last {
			e.SetDelay(delay)
		}
		e.Reschedule(touchedDue(op, delay, t.CreatedMs()))
	})
	return done()
}

// touchedContent returns the content of a task with the payload that a touch brings, or nil if it brings none.
func touchedContent(op *fsmpb.Touch, t store.Task) (*store.Content, *fsmpb.Result) {
	if op.Payload == nil && len(op.Append) == 0 {
		return nil, nil
	}
	content := t.Content(true)
	spec := content.Spec
	if op.Payload != nil {
		spec.Payload, spec.PayloadIsBytes = op.Payload.Data, op.Payload.IsBytes
	} else {
		whole, ok := appended(spec, op.Append)
		if !ok {
			return nil, invalid(t, &task.FieldError{Field: "append", Detail: "needs a payload that is a JSON array"})
		}
		if most := cmp.Or(op.MaxPayload, task.MaxPayloadBytes); int64(len(whole)) > most {
			result := invalid(t, &task.FieldError{Field: "append", Limit: fmt.Sprintf("%d bytes", most),
				Detail: fmt.Sprintf("makes a payload of %d bytes", len(whole))})
			result.Code = fsmpb.Code_CODE_TOO_LARGE
			return nil, result
		}
		spec.Payload = whole
	}
	if err := task.CheckSpec(spec); err != nil {
		return nil, invalid(t, err)
	}
	return &content, nil
}

// appended returns the payload of a spec with further elements of a JSON array. No payload is an empty array. ok is
// false if the payload is no array.
func appended(spec *fsmpb.Spec, elements []byte) (whole []byte, ok bool) {
	within, ok := task.Elements(spec)
	if len(within) > 0 {
		elements = slices.Concat(within, []byte{','}, elements)
	}
	return slices.Concat([]byte{'['}, elements, []byte{']'}), ok
}

// touchedDue returns the receipt plus delay, bounded by the limits of the debounce, in Unix milliseconds.
func touchedDue(op *fsmpb.Touch, delay, created int64) int64 {
	due := op.ReceivedAtMs + delay
	if op.NoLaterThanMs != nil {
		due = min(due, *op.NoLaterThanMs)
	}
	if op.NoLaterThanAgeMs != nil {
		due = min(due, created+*op.NoLaterThanAgeMs)
	}
	return due
}

// applyFireNow makes the task due at the entry's instant.
func (a *applier) applyFireNow(r request) *fsmpb.Result {
	switch r.task.State() {
	case fsmpb.State_STATE_SCHEDULED, fsmpb.State_STATE_RETRYING:
		a.store.Change(r.task, func(e store.Edit) { e.Hasten(a.store.NowMs) })
	case fsmpb.State_STATE_READY: // due already
	default:
		return conflict(r.task)
	}
	return done()
}
