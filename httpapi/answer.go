package httpapi

import (
	"encoding/base64"
	"net/http"
	"strconv"
	"sync"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// view is a task as an answer shows it.
type view struct {
	task     *fsmpb.Task
	revision uint64
	previous fsmpb.State // shown if set
	// The payload is not the task's own when the answer repeats what the request brought.
	payload        []byte
	payloadIsBytes bool
	receipt        bool // shown, for the consumer whose lease the task as it stands is
}

func viewOf(t *fsmpb.Task) view {
	return view{task: t, revision: t.Revision, payload: t.Spec.GetPayload(), payloadIsBytes: t.Spec.GetPayloadIsBytes()}
}

// append writes the task as a JSON object. The payload goes in as it came.
func (v view) append(b []byte) []byte {
	t, spec := v.task, v.task.GetSpec()
	b = appendString(append(b, `{"id":`...), t.Id)
	b = appendString(append(b, `,"queue":`...), orElse(spec.GetQueue(), task.DefaultQueue))
	b = appendInstant(append(b, `,"fire_at":`...), t.FireAtMs)
	b = v.appendPayload(b)
	b = appendString(append(b, `,"content_type":`...), orElse(spec.GetContentType(), task.DefaultContentType))
	b = appendSettings(b, spec)
	b = appendString(append(b, `,"state":`...), stateName(t.State))
	b = strconv.AppendUint(append(b, `,"attempts":`...), uint64(t.Attempts), 10)
	b = appendOptionalInstant(append(b, `,"next_attempt_at":`...), t.NextAttemptAtMs)
	b = appendString(append(b, `,"last_error":`...), t.LastError)
	b = strconv.AppendUint(append(b, `,"revision":`...), v.revision, 10)
	b = strconv.AppendUint(append(b, `,"shard":`...), uint64(t.Shard), 10)
	b = appendInstant(append(b, `,"created_at":`...), t.CreatedAtMs)
	return append(v.appendExtras(b), '}')
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

func (v view) appendPayload(b []byte) []byte {
	switch {
	case v.payloadIsBytes:
		b = append(b, `,"payload_base64":"`...)
		return append(base64.StdEncoding.AppendEncode(b, v.payload), '"')
	case len(v.payload) > 0:
		return append(append(b, `,"payload":`...), v.payload...)
	}
	return b
}

// appendExtras writes what only some tasks have.
func (v view) appendExtras(b []byte) []byte {
	if v.task.WebhookId != "" {
		b = appendString(append(b, `,"webhook_id":`...), v.task.WebhookId)
	}
	if v.task.Outcome != fsmpb.CancelOutcome_CANCEL_OUTCOME_UNSPECIFIED {
		b = appendString(append(b, `,"outcome":`...), outcomeName(v.task.Outcome))
	}
	if v.previous != fsmpb.State_STATE_UNSPECIFIED {
		b = appendString(append(b, `,"previous":`...), stateName(v.previous))
	}
	if v.task.Leased {
		b = appendInstant(append(b, `,"lease_ends_at":`...), v.task.LeaseEndMs)
	}
	if v.receipt {
		b = append(receiptOf(v.task).append(append(b, `,"receipt":"`...)), '"')
		b = strconv.AppendUint(append(b, `,"attempt":`...), uint64(v.task.Attempts), 10)
		b = strconv.AppendUint(append(b, `,"fence":`...), v.task.Fence, 10)
	}
	return appendHistory(b, v.task.History)
}

// appendHistory writes the last few attempts, oldest first.
func appendHistory(b []byte, history []*fsmpb.Past) []byte {
	if len(history) == 0 {
		return b
	}
	b = append(b, `,"history":[`...)
	for i, p := range history {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(append(b, `{"attempt":`...), uint64(p.Attempt), 10)
		b = strconv.AppendUint(append(b, `,"fence":`...), p.Fence, 10)
		b = appendOptionalInstant(append(b, `,"started_at":`...), p.StartedAtMs)
		b = appendOptionalInstant(append(b, `,"ended_at":`...), p.EndedAtMs)
		b = appendString(append(b, `,"node":`...), p.Node)
		b = append(appendString(append(b, `,"error":`...), p.Error), '}')
	}
	return append(b, ']')
}

// appendOptionalInstant writes null for an instant that there is not.
func appendOptionalInstant(b []byte, ms int64) []byte {
	if ms == 0 {
		return append(b, "null"...)
	}
	return appendInstant(b, ms)
}

// appendSettings writes what the task says itself, and leaves out what is its queue's.
func appendSettings(b []byte, spec *fsmpb.Spec) []byte {
	if t := spec.GetTarget(); t != nil {
		b = appendString(append(b, `,"target":{"url":`...), t.Url)
		if len(t.Headers) > 0 {
			b = append(b, `,"headers":{`...)
			for i, h := range t.Headers {
				b = appendMember(b, i, h.Name, shownValue(h))
			}
			b = append(b, '}')
		}
		b = append(appendSpan(b, `,"timeout":`, t.TimeoutMs), '}')
	}
	if r := spec.GetRetry(); r != nil {
		b = appendRetry(b, r)
	}
	b = appendSpan(b, `,"expires_after":`, spec.GetExpiresAfterMs())
	if len(spec.GetLabels()) > 0 {
		b = append(b, `,"labels":{`...)
		for i, l := range spec.Labels {
			b = appendMember(b, i, l.Name, l.Value)
		}
		b = append(b, '}')
	}
	return b
}

// shownValue is what answers show of a header's value. It is the one place that keeps credentials back: every answer
// with a target, of a task or of a queue, is written by appendSettings.
func shownValue(h *fsmpb.Header) string {
	if task.IsCredential(h.Name) {
		return task.Masked
	}
	return h.Value
}

func appendRetry(b []byte, r *fsmpb.Retry) []byte {
	begin := len(b)
	if r.MaxAttempts > 0 {
		b = strconv.AppendUint(append(b, `,"max_attempts":`...), uint64(r.MaxAttempts), 10)
	}
	b = appendSpan(b, `,"min_backoff":`, r.MinBackoffMs)
	b = appendSpan(b, `,"max_backoff":`, r.MaxBackoffMs)
	b = appendDelays(b, r.DelaysMs)
	if len(b) == begin {
		return b
	}
	const opening = `,"retry":{`
	members := append([]byte(nil), b[begin+1:]...) // without the first comma
	b = append(append(b[:begin], opening...), members...)
	return append(b, '}')
}

func appendDelays(b []byte, delays []int64) []byte {
	for i, ms := range delays {
		name := `,`
		if i == 0 {
			name = `,"delays":[`
		}
		b = appendSpan(b, name, ms)
	}
	if len(delays) > 0 {
		b = append(b, ']')
	}
	return b
}

// appendSpan writes a duration with the name before it, unless it is unset.
func appendSpan(b []byte, name string, ms int64) []byte {
	if ms == 0 {
		return b
	}
	return append(appendDuration(append(append(b, name...), '"'), ms), '"')
}

func appendMember(b []byte, i int, name, value string) []byte {
	if i > 0 {
		b = append(b, ',')
	}
	return appendString(append(appendString(b, name), ':'), value)
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

const keptBuffer = 256 << 10 // larger ones are left to the collector

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

// writeJSON answers with a whole body. A failed write is the connection's end, which the server notices itself.
func writeJSON(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = []string{"application/json"}
	h["Cache-Control"] = []string{"no-store"}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

// writeTask answers with one task and its ETag.
func (s *Server) writeTask(w http.ResponseWriter, status int, v view) {
	b := s.buffers.get()
	defer s.buffers.put(b)
	*b = append(v.append(*b), '\n')
	w.Header()["Etag"] = []string{string(appendETag(nil, v.revision))}
	writeJSON(w, status, *b)
}
