package sim

import (
	"context"
	"errors"
	"net/http"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// target is the URL of all pushed tasks. They share it, so a task's lane depends on its queue alone.
const target = "http://receiver.test/hook"

// command returns the command that a node proposes for an operation. The node that receives the call fills in the
// instants that count from its receipt.
func (l *driver) command(op load.Operation) *fsmpb.Command {
	cmd := &fsmpb.Command{
		Id: op.What.ID, Answer: fsmpb.Answer_ANSWER_FULL,
		Key: &fsmpb.Key{Hash: uint64(op.What.Op), Call: uint64(op.What.Op)},
	}
	switch op.What.Kind {
	case history.Schedule:
		cmd.Op, cmd.Condition = &fsmpb.Command_Schedule{Schedule: l.plan(op)}, condition(op.Task)
	case history.Cancel:
		cmd.Op = &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}
	case history.Fire:
		cmd.Op = &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}}
	case history.Touch:
		touch := &fsmpb.Touch{DelayMs: proto.Int64(op.Delay.Milliseconds())}
		if op.Task != nil {
			touch.OrSchedule = l.plan(op)
		}
		cmd.Op = &fsmpb.Command_Touch{Touch: touch}
	case history.Patch:
		patch := &fsmpb.Patch{DelayMs: proto.Int64(op.Delay.Milliseconds())}
		if op.Body != nil {
			patch.Clear, patch.Set = []string{"payload"}, &fsmpb.Spec{Payload: op.Body}
		}
		cmd.Op = &fsmpb.Command_Patch{Patch: patch}
	default:
		cmd.Key = nil // the fence identifies a settle
		settle(cmd, op)
	}
	return cmd
}

func condition(t *load.Task) *fsmpb.Condition {
	switch {
	case t.IfAbsent:
		return &fsmpb.Condition{Absent: true}
	case t.IfRevision > 0:
		return &fsmpb.Condition{Revisions: []uint64{t.IfRevision}}
	}
	return nil
}

// plan returns the schedule of an operation's task.
func (l *driver) plan(op load.Operation) *fsmpb.Schedule {
	s := &fsmpb.Schedule{Spec: l.spec(op)}
	if op.Task.FireAt.IsZero() {
		s.DelayMs = proto.Int64(op.Task.Delay.Milliseconds())
	} else {
		s.FireAtMs = ceilMs(op.Task.FireAt)
	}
	return s
}

func (l *driver) spec(op load.Operation) *fsmpb.Spec {
	t := op.Task
	s := &fsmpb.Spec{Queue: t.Queue, Payload: op.Body, ExpiresAfterMs: t.Expires.Milliseconds()}
	if t.Queue == "" {
		s.Target, s.Retry = &fsmpb.Target{Url: target}, l.retry(t.MaxAttempts)
	}
	if t.Follow {
		s.OnDelivered = &fsmpb.FollowUp{Spec: &fsmpb.Spec{
			Payload: op.FollowUp(), Target: &fsmpb.Target{Url: target}, Retry: l.retry(load.FollowUpAttempts),
		}}
		s.OnDead = s.OnDelivered
	}
	return s
}

// retry returns the retries of a task that is pushed.
func (l *driver) retry(attempts int) *fsmpb.Retry {
	longest := min(10*time.Minute, l.world.cfg.pace.maxDelay/20)
	return &fsmpb.Retry{MaxAttempts: uint32(attempts), MinBackoffMs: 200, MaxBackoffMs: longest.Milliseconds()}
}

// settle makes cmd the settle of op's lease.
func settle(cmd *fsmpb.Command, op load.Operation) {
	if op.What.Kind == history.Extend {
		cmd.Op = &fsmpb.Command_Extend{Extend: &fsmpb.Extend{
			Fence: op.Lease.Fence, Occurrence: op.Lease.Occurrence, LeaseMs: op.Delay.Milliseconds(),
		}}
		return
	}
	s := &fsmpb.Settle{
		Fence: op.Lease.Fence, Occurrence: op.Lease.Occurrence, Consumer: true, Verdict: verdicts[op.What.Kind],
	}
	if op.What.Kind == history.Nack {
		s.Error = "as the seed would have it"
		if op.Delay > 0 {
			s.DelayMs = proto.Int64(op.Delay.Milliseconds())
		}
	}
	cmd.Op = &fsmpb.Command_Settle{Settle: s}
}

var verdicts = map[history.Kind]fsmpb.Verdict{
	history.Ack: fsmpb.Verdict_VERDICT_DELIVERED, history.Nack: fsmpb.Verdict_VERDICT_RETRY,
	history.Release: fsmpb.Verdict_VERDICT_RELEASED,
}

// ceilMs returns the Unix milliseconds of t, rounded up as the service does.
func ceilMs(t time.Time) int64 { return load.Ceil(t).UnixMilli() }

func instant(ms int64) history.Instant { return history.At(time.UnixMilli(ms)) }

// scheduledAt returns the instant of the rule for an occurrence, and 0 for a plain task.
func scheduledAt(t *fsmpb.Task) history.Instant {
	if _, _, ok := task.SplitOccurrence(t.Id); !ok {
		return 0
	}
	return instant(task.ScheduledMs(t))
}

// statuses are the HTTP statuses that stand for the answers of a node in the record.
var statuses = map[fsmpb.Code]int{
	fsmpb.Code_CODE_OK: http.StatusOK, fsmpb.Code_CODE_CREATED: http.StatusCreated,
	fsmpb.Code_CODE_NOT_FOUND: http.StatusNotFound, fsmpb.Code_CODE_PRECONDITION_FAILED: http.StatusPreconditionFailed,
	fsmpb.Code_CODE_CONFLICT: http.StatusConflict, fsmpb.Code_CODE_KEY_REUSED: http.StatusUnprocessableEntity,
	fsmpb.Code_CODE_NO_DELAY: http.StatusBadRequest, fsmpb.Code_CODE_STALE: http.StatusConflict,
	fsmpb.Code_CODE_REPLACED: http.StatusOK,
}

// answerTo converts a reply to the outcome and the answer that the record keeps.
func answerTo(reply task.Reply) (history.Outcome, history.Answer) {
	if reply.Err != nil {
		return answerToError(reply.Err)
	}
	r := reply.Result
	a := answerOf(r.Task)
	a.Status, a.Revision, a.Cancel = statuses[r.Code], r.Revision, cancelName(r.Outcome)
	if r.Previous != 0 {
		a.Previous = stateName(r.Previous)
	}
	a.Replaced = r.Code == fsmpb.Code_CODE_REPLACED
	if !a.Replaced && (a.Status == http.StatusOK || a.Status == http.StatusCreated) {
		return history.OK, a
	}
	a.Revision = 0
	a.Error = r.Code.String()
	return history.Failed, a
}

func answerToError(err error) (history.Outcome, history.Answer) {
	switch {
	case errors.Is(err, task.ErrUnknown):
		return history.Unknown, history.Answer{Status: http.StatusGatewayTimeout, Error: err.Error()}
	case errors.Is(err, task.ErrNotProposed), errors.Is(err, task.ErrOverloaded):
		return history.Failed, history.Answer{Status: http.StatusServiceUnavailable, Error: err.Error()}
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return history.Unknown, history.Answer{Status: http.StatusGatewayTimeout, Error: err.Error()}
	}
	return history.Unknown, history.Answer{Error: err.Error()}
}

// answerOf converts a task to the answer that the record keeps. A nil task becomes an empty answer.
func answerOf(t *fsmpb.Task) history.Answer {
	if t == nil {
		return history.Answer{}
	}
	return history.Answer{
		Revision: t.Revision, Shard: t.Shard, State: stateName(t.State), FireAt: instant(t.FireAtMs),
		Attempts: int(t.Attempts), Body: history.Fingerprint(t.Spec.GetPayload()), Wrote: load.Decode(t.Spec.GetPayload()).Op,
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
