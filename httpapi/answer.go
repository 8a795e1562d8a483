package httpapi

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// taskView is a task as an answer shows it.
type taskView struct {
	task     *fsmpb.Task
	revision uint64
	previous fsmpb.State // shown unless unspecified
	// The payload is the request's instead of the task's own if the answer repeats the request.
	payload        []byte
	payloadIsBytes bool
	lease          receiptKey // signs the receipt that the consumer gets with the lease; nil: none
}

func viewOf(t *fsmpb.Task) taskView {
	return taskView{
		task: t, revision: t.Revision, payload: t.Spec.GetPayload(), payloadIsBytes: t.Spec.GetPayloadIsBytes(),
	}
}

// append appends the task as a JSON object, with the payload byte for byte.
func (v taskView) append(b []byte) []byte {
	t, spec, begin := v.task, v.task.GetSpec(), len(b)
	b = contract.AppendText(b, contract.ID, t.Id)
	b = contract.AppendText(b, contract.Queue, orElse(spec.GetQueue(), task.DefaultQueue))
	b = contract.AppendTime(b, contract.FireAt, t.FireAtMs)
	b = appendPayload(b, v.payload, v.payloadIsBytes)
	b = contract.AppendText(b, contract.ContentType, task.ContentType(spec))
	b = appendSettings(b, spec)
	b = contract.AppendText(b, contract.State, stateName(t.State))
	b = contract.AppendUint(b, contract.Attempts, uint64(t.Attempts))
	b = contract.AppendTimeOrNull(b, contract.NextAttemptAt, t.NextAttemptAtMs)
	if t.State == fsmpb.State_STATE_SCHEDULED && t.NextAttemptAtMs != 0 {
		b = contract.AppendText(b, contract.WaitsFor, contract.Window.String())
	}
	b = contract.AppendText(b, contract.LastError, t.LastError)
	b = contract.AppendUint(b, contract.Revision, v.revision)
	b = contract.AppendUint(b, contract.Shard, uint64(t.Shard))
	b = contract.AppendTime(b, contract.CreatedAt, t.CreatedAtMs)
	return contract.Close(v.appendExtras(b), begin)
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

// appendExtras appends the members that only some tasks have.
func (v taskView) appendExtras(b []byte) []byte {
	if schedule, number, ok := task.SplitOccurrence(v.task.Id); ok {
		b = contract.AppendUint(contract.AppendText(b, contract.Schedule, schedule), contract.Occurrence, number)
		b = contract.AppendTime(b, contract.Scheduled, task.ScheduledMs(v.task))
	}
	b = contract.AppendTextIf(b, contract.WebhookID, v.task.WebhookId)
	b = appendOutcome(b, v.task.Outcome)
	b = appendPrevious(b, v.previous)
	if v.task.Leased {
		b = contract.AppendTime(b, contract.LeaseEndsAt, v.task.LeaseEndMs)
	}
	if v.lease != nil {
		b = append(contract.AppendName(b, contract.Receipt), '"')
		b = append(v.lease.append(b, receiptOf(v.task)), '"')
		b = contract.AppendUint(b, contract.Attempt, uint64(v.task.Attempts))
		b = contract.AppendUint(b, contract.Fence, v.task.Fence)
	}
	return appendHistory(b, v.task.History)
}

func appendOutcome(b []byte, o fsmpb.CancelOutcome) []byte {
	if o == fsmpb.CancelOutcome_CANCEL_OUTCOME_UNSPECIFIED {
		return b
	}
	return contract.AppendText(b, contract.Outcome, outcomeName(o))
}

func appendPrevious(b []byte, s fsmpb.State) []byte {
	if s == fsmpb.State_STATE_UNSPECIFIED {
		return b
	}
	return contract.AppendText(b, contract.Previous, stateName(s))
}

// appendHistory appends the last few attempts, oldest first.
func appendHistory(b []byte, history []*fsmpb.Past) []byte {
	if len(history) == 0 {
		return b
	}
	return appendList(contract.AppendName(b, contract.History), history, func(b []byte, p *fsmpb.Past) []byte {
		begin := len(b)
		b = contract.AppendUint(b, contract.Attempt, uint64(p.Attempt))
		b = contract.AppendUint(b, contract.Fence, p.Fence)
		b = contract.AppendTimeOrNull(b, contract.StartedAt, p.StartedAtMs)
		b = contract.AppendTimeOrNull(b, contract.EndedAt, p.EndedAtMs)
		b = contract.AppendText(b, contract.Node, p.Node)
		return contract.Close(contract.AppendText(b, contract.Error, p.Error), begin)
	})
}

// appendList appends an array, each element by write.
func appendList[T any](b []byte, list []T, write func(b []byte, one T) []byte) []byte {
	b = append(b, '[')
	for i, one := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = write(b, one)
	}
	return append(b, ']')
}

func stateName(s fsmpb.State) string {
	switch s {
	case fsmpb.State_STATE_SCHEDULED:
		return "scheduled"
	case fsmpb.State_STATE_READY:
		return "ready"
	case fsmpb.State_STATE_FIRING:
		return "firing"
	case fsmpb.State_STATE_RETRYING:
		return "retrying"
	case fsmpb.State_STATE_DELIVERED:
		return "delivered"
	case fsmpb.State_STATE_DEAD:
		return "dead"
	case fsmpb.State_STATE_CANCELLED:
		return "cancelled"
	}
	return "unknown"
}

func outcomeName(o fsmpb.CancelOutcome) string {
	switch o {
	case fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED:
		return "cancelled"
	case fsmpb.CancelOutcome_CANCEL_OUTCOME_STOPPED:
		return "stopped"
	case fsmpb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FIRED:
		return "already_fired"
	}
	return "unknown"
}

// buffers lends out byte slices for answers.
type buffers struct{ pool sync.Pool }

const keptBuffer = 256 << 10 // the collector takes larger ones

func (p *buffers) get() *[]byte {
	if b, ok := p.pool.Get().(*[]byte); ok {
		*b = (*b)[:0]
		return b
	}
	b := make([]byte, 0, 1<<10)
	return &b
}

func (p *buffers) put(b *[]byte) {
	if cap(*b) <= keptBuffer {
		p.pool.Put(b)
	}
}

// uncached is the header Cache-Control of all answers in JSON.
var uncached = []string{"no-store"}

// writeJSON answers with a whole body. A failed write means that the connection has ended, which the server notices
// itself.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"], h["Cache-Control"] = jsonBodies, uncached
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// writeTask answers with one task and its ETag.
func (s *core) writeTask(w http.ResponseWriter, status int, v taskView) {
	b := s.buffers.get()
	defer s.buffers.put(b)
	*b = append(v.append(*b), '\n')
	w.Header()["Etag"] = etag(v.revision)
	writeJSON(w, status, *b)
}

// resultProblem returns the problem for a result, or nil for a success.
func resultProblem(r *fsmpb.Result) *problem {
	switch r.Code {
	case fsmpb.Code_CODE_OK, fsmpb.Code_CODE_CREATED:
		return nil
	case fsmpb.Code_CODE_NOT_FOUND:
		return notFound()
	case fsmpb.Code_CODE_PRECONDITION_FAILED:
		return conditionProblem(r)
	case fsmpb.Code_CODE_CONFLICT:
		return stateProblem(r.Task)
	case fsmpb.Code_CODE_KEY_REUSED:
		return &problem{kind: keyReused, field: keyHeader, detail: "was used before with another call or body"}
	case fsmpb.Code_CODE_KEY_FORGOTTEN:
		return &problem{kind: keyForgotten, field: keyHeader, detail: "made a task that has been changed since"}
	case fsmpb.Code_CODE_NO_DELAY:
		return &problem{kind: noDelay, field: "delay", detail: "is absent, and the task was not given one before"}
	case fsmpb.Code_CODE_STALE:
		return &problem{kind: leaseEnded, detail: "the task was settled, released, leased again or scheduled anew since"}
	case fsmpb.Code_CODE_INVALID:
		return fieldProblem(r.Field, r.Detail, r.Limit)
	case fsmpb.Code_CODE_TOO_LARGE:
		return &problem{kind: tooLarge, field: r.Field, detail: r.Detail, limit: r.Limit}
	}
	detail := "unexpected result " + r.Code.String()
	return &problem{kind: internalError, detail: detail, committed: "unknown", retryAfter: 1}
}

// conditionProblem describes the present task of a failed condition; revision 0 means that there is none.
func conditionProblem(r *fsmpb.Result) *problem {
	detail := noSuchTask
	if r.Revision != 0 {
		detail = fmt.Sprintf("the task exists, at revision %d", r.Revision)
	}
	p := &problem{kind: conditionFailed, detail: detail}
	if r.Task != nil {
		p.member, p.present = contract.Task, viewOf(r.Task)
	}
	return p
}

func stateProblem(t *fsmpb.Task) *problem {
	state := stateName(t.GetState())
	return &problem{kind: wrongState, state: state, attempts: t.GetAttempts(), detail: "the task is " + state}
}
