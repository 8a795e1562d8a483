package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
)

// applySettle ends an attempt. A pushed success counts under any fence of the current occurrence, because some attempt
// delivered the task. Any other settle counts only under the current fence, and a consumer's settle only while the
// consumer has the task.
func (a *applier) applySettle(r request) *fsmpb.Result {
	op, t := r.GetSettle(), a.store.FindAt(r.at, r.Namespace, r.Id)
	result := a.result(fsmpb.Code_CODE_OK)
	switch {
	case !t.Exists():
		result.Code = fsmpb.Code_CODE_NOT_FOUND
	case isRepeatedAck(t, op):
	case isReplaced(t, op):
		result.Code = fsmpb.Code_CODE_REPLACED
	case !accepts(t, op):
		result.Code = fsmpb.Code_CODE_STALE
	case flawDropsSettle(a.store.Number):
	default:
		a.settle(t, op)
	}
	result.Revision = t.Revision()
	return result
}

// isRepeatedAck reports whether a consumer repeats an accepted report that it is done with the task.
func isRepeatedAck(t store.Task, op *fsmpb.Settle) bool {
	return op.Consumer && op.Verdict == fsmpb.Verdict_VERDICT_DELIVERED && t.State() == fsmpb.State_STATE_DELIVERED &&
		t.Occurrence() == op.Occurrence && t.Fence() == op.Fence && isOfQueue(t, op.Queue)
}

// isReplaced reports whether a consumer settles a lease of an earlier occurrence of the task.
func isReplaced(t store.Task, op *fsmpb.Settle) bool {
	return op.Consumer && 0 < op.Occurrence && op.Occurrence < op.Fence && op.Fence < t.Occurrence()
}

func accepts(t store.Task, op *fsmpb.Settle) bool {
	switch {
	case op.Consumer:
		return isLeasedUnder(t, op)
	case t.State() == fsmpb.State_STATE_SCHEDULED || t.Occurrence() != op.Occurrence:
		return false
	case op.Verdict == fsmpb.Verdict_VERDICT_DELIVERED:
		return op.Fence != 0 && op.Fence <= t.Fence() && t.State() != fsmpb.State_STATE_DELIVERED
	}
	return op.Fence == t.Fence() && t.State() == fsmpb.State_STATE_FIRING
}

// lease is the part of a consumer's command that names its lease.
type lease interface {
	GetFence() uint64
	GetOccurrence() uint64
	GetQueue() string
}

// isLeasedUnder reports whether a consumer has the task by the grant that l names, from the queue that l names.
func isLeasedUnder(t store.Task, l lease) bool {
	return t.Leased() && t.Fence() == l.GetFence() && t.Occurrence() == l.GetOccurrence() && isOfQueue(t, l.GetQueue())
}

// isOfQueue reports whether a task is of the queue that a consumer names. The nodes' own commands, which give back
// leases that reached no consumer, name none.
func isOfQueue(t store.Task, queue string) bool { return queue == "" || queue == t.Queue() }

func (a *applier) settle(t store.Task, op *fsmpb.Settle) {
	a.store.Change(t, func(e store.Edit) {
		switch op.Verdict {
		case fsmpb.Verdict_VERDICT_RELEASED:
			a.release(e)
		case fsmpb.Verdict_VERDICT_HELD:
			a.hold(e, op.RetryAtMs)
		default:
			end(e, op)
		}
	})
	if op.Verdict == fsmpb.Verdict_VERDICT_PROBED && t.State() == fsmpb.State_STATE_RETRYING {
		a.store.Change(t, a.uncount)
	}
	a.store.TrimTombstones()
}

// uncount takes back the count of a failed probe. The receiver failed for all of its tasks, and the task may expire
// before the next attempt.
func (a *applier) uncount(e store.Edit) {
	e.SetAttempts(e.Attempts() - 1)
	if expiry := expiryOf(e.Task); expiry != 0 && e.WaitsUntilMs() > expiry+a.store.HorizonMs {
		e.WaitUntil(expiry + a.store.HorizonMs)
	}
}

// end ends an attempt that was made.
func end(e store.Edit, op *fsmpb.Settle) {
	delivered := op.Verdict == fsmpb.Verdict_VERDICT_DELIVERED
	attempt := store.Ended{Fence: op.Fence, StartedMs: op.StartedAtMs, Node: op.Node}
	if !delivered {
		attempt.Error = op.Error
	}
	e.EndAttempt(attempt)
	switch {
	case delivered:
		e.Entomb(fsmpb.State_STATE_DELIVERED)
	case e.Outcome() != 0:
		e.Entomb(fsmpb.State_STATE_CANCELLED)
	case op.Verdict == fsmpb.Verdict_VERDICT_RETRY, op.Verdict == fsmpb.Verdict_VERDICT_PROBED:
		e.AwaitRetry(op.RetryAtMs)
	default:
		e.Bury()
	}
}

// release takes back an attempt that never started: it is not counted, and the task goes before all others of its
// lane.
func (a *applier) release(e store.Edit) {
	if !takeBack(e) {
		return
	}
	e.StopWaiting()
	e.WaitFirst()
	e.SetState(fsmpb.State_STATE_READY)
	if expiry := expiryOf(e.Task); expiry != 0 {
		e.WaitUntil(expiry + a.store.HorizonMs)
	}
}

// takeBack takes back the count of an attempt that never started. It ends a task that was cancelled meanwhile, and then
// returns false.
func takeBack(e store.Edit) (goesOn bool) {
	e.SetAttempts(e.Attempts() - 1)
	if e.Outcome() == 0 {
		return true
	}
	e.Entomb(fsmpb.State_STATE_CANCELLED)
	return false
}

// hold takes back an attempt that never started because its window is closed: it is not counted, and the task waits in
// the wheel until the opening, or until it expires.
func (a *applier) hold(e store.Edit, opensMs int64) {
	if !takeBack(e) {
		return
	}
	if expiry := expiryOf(e.Task); expiry != 0 {
		opensMs = min(opensMs, expiry+a.store.HorizonMs)
	}
	e.Hold(opensMs)
}
