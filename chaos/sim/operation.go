package sim

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// taskSpec is a schedule's request.
type taskSpec struct {
	fireAt      time.Time
	delay       time.Duration // in place of fireAt
	queue       string
	fail        uint32        // attempts that the receiver fails
	hold        time.Duration // for which it keeps its answer back
	gone        bool          // it wants no further attempt
	maxAttempts uint32        // 0: the queue's, or the default
	expires     time.Duration
	ifAbsent    bool
	ifRevision  uint64
}

// operation is one change, for as many tries as it takes.
type operation struct {
	what history.Call
	cmd  *fsmpb.Command
}

// target is where pushed tasks go. Its lane is the queue's.
const target = "http://receiver.test/hook"

func (l *load) spec(op int64, t taskSpec) *fsmpb.Spec {
	s := &fsmpb.Spec{
		Queue:          t.queue,
		Payload:        payload{Op: op, Fail: t.fail, Hold: t.hold.Milliseconds(), Gone: t.gone}.encode(),
		ExpiresAfterMs: t.expires.Milliseconds(),
	}
	if t.queue == "" {
		s.Target = &fsmpb.Target{Url: target}
		s.Retry = &fsmpb.Retry{MaxAttempts: t.maxAttempts, MinBackoffMs: 200, MaxBackoffMs: l.backoff.Milliseconds()}
	}
	return s
}

// plan is a schedule of a task. What counts from its receipt is filled in by the node that receives it.
func (l *load) plan(op int64, t taskSpec) *fsmpb.Schedule {
	s := &fsmpb.Schedule{Spec: l.spec(op, t)}
	if t.fireAt.IsZero() {
		s.DelayMs = proto.Int64(t.delay.Milliseconds())
	} else {
		s.FireAtMs = ceilMs(t.fireAt)
	}
	return s
}

// ceilMs rounds as the service does.
func ceilMs(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

func (l *load) operation(kind history.Kind, id string, ask history.Ask) operation {
	op := l.world.rec.NextOp()
	return operation{
		what: history.Call{Op: op, Kind: kind, ID: id, Ask: ask},
		cmd:  &fsmpb.Command{Id: id, Answer: fsmpb.Answer_ANSWER_FULL, Key: &fsmpb.Key{Hash: uint64(op), Call: uint64(op)}},
	}
}

func (l *load) schedule(id string, t taskSpec) operation {
	o := l.operation(history.Schedule, id, history.Ask{
		IfAbsent: t.ifAbsent, IfRevision: t.ifRevision, Expires: t.expires > 0,
	})
	s := l.plan(o.what.Op, t)
	o.cmd.Op = &fsmpb.Command_Schedule{Schedule: s}
	if o.what.Ask.Delay = t.delay; !t.fireAt.IsZero() {
		o.what.Ask.FireAt = instant(s.FireAtMs)
	}
	o.what.Ask.Body = history.Fingerprint(s.Spec.Payload)
	switch {
	case t.ifAbsent:
		o.cmd.Condition = &fsmpb.Condition{Absent: true}
	case t.ifRevision > 0:
		o.cmd.Condition = &fsmpb.Condition{Revisions: []uint64{t.ifRevision}}
	}
	return o
}

func (l *load) cancel(id string) operation {
	o := l.operation(history.Cancel, id, history.Ask{})
	o.cmd.Op = &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}
	return o
}

func (l *load) fire(id string) operation {
	o := l.operation(history.Fire, id, history.Ask{})
	o.cmd.Op = &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}}
	return o
}

// touch starts the delay again; with orSchedule it also makes a task where there is none.
func (l *load) touch(id string, delay time.Duration, orSchedule bool) operation {
	o := l.operation(history.Touch, id, history.Ask{Delay: delay, OrSchedule: orSchedule})
	touch := &fsmpb.Touch{DelayMs: proto.Int64(delay.Milliseconds())}
	if orSchedule {
		touch.OrSchedule = l.plan(o.what.Op, taskSpec{delay: delay})
		o.what.Ask.Body = history.Fingerprint(touch.OrSchedule.Spec.Payload)
	}
	o.cmd.Op = &fsmpb.Command_Touch{Touch: touch}
	return o
}

// patch moves a task, and swaps its payload if swap is set.
func (l *load) patch(id string, delay time.Duration, swap bool) operation {
	o := l.operation(history.Patch, id, history.Ask{Delay: delay})
	patch := &fsmpb.Patch{DelayMs: proto.Int64(delay.Milliseconds())}
	if swap {
		patch.Payload = &fsmpb.Payload{Data: payload{Op: o.what.Op}.encode()}
		o.what.Ask.Body = history.Fingerprint(patch.Payload.Data)
	}
	o.cmd.Op = &fsmpb.Command_Patch{Patch: patch}
	return o
}

func instant(ms int64) history.Instant { return history.At(time.UnixMilli(ms)) }

// Statuses as HTTP would have them.
const (
	statusOK           = 200
	statusCreated      = 201
	statusBad          = 400
	statusNotFound     = 404
	statusConflict     = 409
	statusPrecondition = 412
	statusKeyReused    = 422
	statusUncommitted  = 503
	statusUnknown      = 504
)

var statuses = map[fsmpb.Code]int{
	fsmpb.Code_CODE_OK: statusOK, fsmpb.Code_CODE_CREATED: statusCreated, fsmpb.Code_CODE_NOT_FOUND: statusNotFound,
	fsmpb.Code_CODE_PRECONDITION_FAILED: statusPrecondition, fsmpb.Code_CODE_CONFLICT: statusConflict,
	fsmpb.Code_CODE_KEY_REUSED: statusKeyReused, fsmpb.Code_CODE_NO_DELAY: statusBad,
	fsmpb.Code_CODE_STALE: statusConflict, fsmpb.Code_CODE_REPLACED: statusOK,
}

// told is what a reply says.
func told(reply task.Reply) (history.Outcome, history.Answer) {
	if reply.Err != nil {
		return toldError(reply.Err)
	}
	r := reply.Result
	a := shown(r.Task)
	a.Status, a.Revision, a.Cancel = statuses[r.Code], r.Revision, cancelName(r.Outcome)
	if r.Previous != 0 {
		a.Previous = stateName(r.Previous)
	}
	a.Replaced = r.Code == fsmpb.Code_CODE_REPLACED
	if !a.Replaced && (a.Status == statusOK || a.Status == statusCreated) {
		return history.OK, a
	}
	a.Revision = 0
	a.Error = r.Code.String()
	return history.Failed, a
}

func toldError(err error) (history.Outcome, history.Answer) {
	switch {
	case errors.Is(err, task.ErrUnknown):
		return history.Unknown, history.Answer{Status: statusUnknown, Error: err.Error()}
	case errors.Is(err, task.ErrNotProposed), errors.Is(err, task.ErrOverloaded):
		return history.Failed, history.Answer{Status: statusUncommitted, Error: err.Error()}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return history.Unknown, history.Answer{Status: statusUnknown, Error: err.Error()}
	}
	return history.Unknown, history.Answer{Error: err.Error()}
}

// shown is a task as an answer shows it.
func shown(t *fsmpb.Task) history.Answer {
	if t == nil {
		return history.Answer{}
	}
	return history.Answer{
		Revision: t.Revision, Shard: t.Shard, State: stateName(t.State), FireAt: instant(t.FireAtMs),
		Attempts: int(t.Attempts), Body: history.Fingerprint(t.Spec.GetPayload()), Wrote: decode(t.Spec.GetPayload()).Op,
		Cancel: cancelName(t.Outcome),
	}
}

func stateName(s fsmpb.State) string {
	return map[fsmpb.State]string{
		fsmpb.State_STATE_SCHEDULED: "scheduled", fsmpb.State_STATE_READY: "ready", fsmpb.State_STATE_FIRING: "firing",
		fsmpb.State_STATE_RETRYING: "retrying", fsmpb.State_STATE_DELIVERED: "delivered", fsmpb.State_STATE_DEAD: "dead",
		fsmpb.State_STATE_CANCELLED: "cancelled",
	}[s]
}

func cancelName(o fsmpb.CancelOutcome) string {
	return map[fsmpb.CancelOutcome]string{
		fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED: "cancelled", fsmpb.CancelOutcome_CANCEL_OUTCOME_STOPPED: "stopped",
		fsmpb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FIRED: "already_fired",
	}[o]
}
