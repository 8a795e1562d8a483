package client

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

var (
	errYear     = errors.New("an instant is not between the years 0 and 9999")
	errTemplate = errors.New("the task of a schedule has no id, time or jitter of its own: see Repeat")
)

// appendTask appends the members of a task that a caller sets, except the id.
func appendTask(b []byte, t *Task) ([]byte, error) {
	b = contract.AppendTextIf(b, contract.Queue, t.Queue)
	if !t.FireAt.IsZero() {
		var err error
		if b, err = appendInstant(b, contract.FireAt, t.FireAt); err != nil {
			return b, err
		}
	}
	if t.FireAt.IsZero() || t.Delay != 0 { // the service refuses both, with the reason
		b = appendDuration(b, contract.Delay, t.Delay)
	}
	return appendContent(contract.AppendSpan(b, contract.Jitter, t.Jitter), t)
}

// appendTemplate appends the members of a schedule's task. The task must have neither an id nor a time, which the
// schedule gives it.
func appendTemplate(b []byte, t *Task) ([]byte, error) {
	if t.ID != "" || !t.FireAt.IsZero() || t.Delay != 0 || t.Jitter != 0 {
		return b, errTemplate
	}
	return appendContent(contract.AppendTextIf(b, contract.Queue, t.Queue), t)
}

// appendContent appends the members of a task that a caller sets, except its id, queue and time.
func appendContent(b []byte, t *Task) ([]byte, error) {
	b, err := appendPayload(b, t.Payload)
	if err != nil {
		return b, err
	}
	if len(t.PayloadBytes) > 0 {
		b = contract.AppendBase64(b, contract.PayloadBase64, t.PayloadBytes)
	}
	b = contract.AppendTextIf(b, contract.ContentType, t.ContentType)
	b = appendTarget(b, t.Target)
	b = appendRetry(b, t.Retry)
	b = contract.AppendSpan(b, contract.ExpiresAfter, t.ExpiresAfter)
	b, err = appendWindow(appendMap(b, contract.Labels, t.Labels), t.Window)
	b = contract.AppendTextIf(b, contract.Group, t.Group)
	return appendInt(b, contract.Priority, t.Priority), err
}

// appendPayload appends a payload byte for byte after checking that it is one JSON value, since other bytes could pass
// for members.
func appendPayload(b []byte, payload json.RawMessage) ([]byte, error) {
	if payload == nil {
		return b, nil
	}
	if err := contract.Valid(payload); err != nil {
		return b, fmt.Errorf("payload is not JSON (%w); other bytes belong in PayloadBytes", err)
	}
	return append(contract.AppendName(b, contract.Payload), payload...), nil
}

// breaksLine reports whether b has a line break, so that it cannot stand in a line.
func breaksLine(b []byte) bool {
	return bytes.IndexByte(b, '\n') >= 0 || bytes.IndexByte(b, '\r') >= 0
}

func appendTarget(b []byte, t *Target) []byte {
	if t == nil {
		return b
	}
	b = contract.AppendName(b, contract.Target)
	begin := len(b)
	b = contract.AppendText(b, contract.URL, t.URL)
	b = appendMap(b, contract.Headers, t.Headers)
	return contract.Close(contract.AppendSpan(b, contract.Timeout, t.Timeout), begin)
}

func appendRetry(b []byte, r *Retry) []byte {
	if r == nil {
		return b
	}
	b = contract.AppendName(b, contract.Retry)
	begin := len(b)
	b = appendInt(b, contract.MaxAttempts, r.MaxAttempts)
	b = contract.AppendSpan(b, contract.MinBackoff, r.MinBackoff)
	b = contract.AppendSpan(b, contract.MaxBackoff, r.MaxBackoff)
	return contract.Close(contract.AppendSpans(b, contract.Delays, r.Delays), begin)
}

// appendTouch appends the members of a touch.
func appendTouch(b []byte, t *Touch) ([]byte, error) {
	b = contract.AppendSpan(b, contract.Delay, t.Delay)
	var err error
	switch {
	case !t.NoLaterThan.IsZero():
		if b, err = appendInstant(b, contract.NoLaterThan, t.NoLaterThan); err != nil {
			return b, err
		}
	case t.NoOlderThan != 0:
		b = appendDuration(b, contract.NoLaterThan, t.NoOlderThan)
	}
	if t.OrSchedule == nil {
		return b, nil
	}
	b = contract.AppendName(b, contract.OrSchedule)
	begin := len(b)
	if b, err = appendTask(b, t.OrSchedule); err != nil {
		return b, err
	}
	return contract.Close(b, begin), nil
}

func appendDuration(b []byte, f contract.Field, d time.Duration) []byte {
	return contract.AppendDuration(contract.AppendName(b, f), d)
}

func appendInstant(b []byte, f contract.Field, t time.Time) ([]byte, error) {
	// RFC 3339 has four digits for the year.
	const first, last = -62167219200000, 253402300799999
	ms := contract.CeilUnixMs(t)
	if ms < first || ms > last {
		return b, errYear
	}
	return contract.AppendTime(b, f, ms), nil
}

// appendTimeOrNull appends an instant, or null for the zero time.
func appendTimeOrNull(b []byte, f contract.Field, t time.Time) []byte {
	if t.IsZero() {
		return contract.AppendTimeOrNull(b, f, 0)
	}
	return contract.AppendTimeOrNull(b, f, contract.CeilUnixMs(t))
}

// appendInt appends a number, unless it is 0.
func appendInt(b []byte, f contract.Field, n int) []byte {
	if n == 0 {
		return b
	}
	return contract.AppendInt(b, f, int64(n))
}

// appendMap appends an object of strings, unless it is empty. The members are sorted by name, so that equal calls have
// equal bytes.
func appendMap(b []byte, f contract.Field, m map[string]string) []byte {
	if len(m) == 0 {
		return b
	}
	b = append(contract.AppendName(b, f), '{')
	for i, name := range slices.Sorted(maps.Keys(m)) {
		b = contract.AppendPair(b, i, name, m[name])
	}
	return append(b, '}')
}

// appendAnswer appends the members of a task that the service sets.
func appendAnswer(b []byte, t *Task) []byte {
	b = contract.AppendText(b, contract.State, string(t.State))
	b = contract.AppendInt(b, contract.Attempts, int64(t.Attempts))
	b = appendTimeOrNull(b, contract.NextAttemptAt, t.NextAttemptAt)
	b = contract.AppendTextIf(b, contract.WaitsFor, t.WaitsFor)
	b = contract.AppendText(b, contract.LastError, t.LastError)
	b = contract.AppendUint(b, contract.Revision, t.Revision)
	b = contract.AppendUint(b, contract.Shard, uint64(t.Shard))
	b = appendTimeOrNull(b, contract.CreatedAt, t.CreatedAt)
	b = contract.AppendTextIf(b, contract.WebhookID, t.WebhookID)
	b = contract.AppendTextIf(b, contract.Outcome, string(t.Outcome))
	b = contract.AppendTextIf(b, contract.Previous, string(t.Previous))
	if !t.LeaseEndsAt.IsZero() {
		b = appendTimeOrNull(b, contract.LeaseEndsAt, t.LeaseEndsAt)
	}
	if t.Schedule != "" {
		b = contract.AppendText(b, contract.Schedule, t.Schedule)
		b = contract.AppendUint(b, contract.Occurrence, t.Occurrence)
	}
	return appendHistory(b, t.History)
}

func appendHistory(b []byte, history []Past) []byte {
	if len(history) == 0 {
		return b
	}
	b = append(contract.AppendName(b, contract.History), '[')
	for i, p := range history {
		if i > 0 {
			b = append(b, ',')
		}
		begin := len(b)
		b = contract.AppendInt(b, contract.Attempt, int64(p.Attempt))
		b = contract.AppendUint(b, contract.Fence, p.Fence)
		b = appendTimeOrNull(b, contract.StartedAt, p.StartedAt)
		b = appendTimeOrNull(b, contract.EndedAt, p.EndedAt)
		b = contract.AppendText(b, contract.Node, p.Node)
		b = contract.Close(contract.AppendText(b, contract.Error, p.Error), begin)
	}
	return append(b, ']')
}

// appendQueue appends the members of a queue.
func appendQueue(b []byte, q *Queue) ([]byte, error) {
	b = contract.AppendTextIf(b, contract.Queue, q.Name)
	b = appendTarget(b, q.Target)
	b = appendRetry(b, q.Retry)
	b = appendInt(b, contract.MaxInFlight, q.MaxInFlight)
	if q.MaxPerSecond != 0 {
		b = contract.AppendFloat(b, contract.MaxPerSecond, q.MaxPerSecond)
	}
	b = appendInt(b, contract.BatchMax, q.BatchMax)
	b = appendGroups(b, q)
	b = contract.AppendBool(b, contract.Paused, q.Paused)
	b = contract.AppendSpan(b, contract.KeepDone, q.KeepDone)
	b = contract.AppendSpan(b, contract.KeepDead, q.KeepDead)
	b = contract.AppendSigning(b, q.Secrets)
	b, err := appendWindow(b, q.Window)
	if q.Counts == nil {
		return b, err
	}
	b = contract.AppendName(b, contract.Counts)
	begin := len(b)
	for _, m := range q.Counts.members() {
		if n, ok := m.place.(*uint64); ok {
			b = contract.AppendUint(b, m.field, *n)
		}
	}
	var overdue time.Time
	if q.Counts.OldestOverdue != nil {
		overdue = *q.Counts.OldestOverdue
	}
	b = contract.Close(appendTimeOrNull(b, contract.OldestOverdue, overdue), begin)
	return appendBroken(b, q.Broken), err
}

func appendBroken(b []byte, broken []BrokenReceiver) []byte {
	if len(broken) == 0 {
		return b
	}
	b = append(contract.AppendName(b, contract.Broken), '[')
	for i, r := range broken {
		if i > 0 {
			b = append(b, ',')
		}
		begin := len(b)
		b = contract.AppendText(b, contract.Receiver, r.Receiver)
		b = contract.AppendText(b, contract.Path, r.Path)
		b = contract.AppendTime(b, contract.Since, r.Since.UnixMilli())
		b = contract.AppendText(b, contract.LastError, r.LastError)
		b = contract.Close(contract.AppendUint(b, contract.Waiting, r.Waiting), begin)
	}
	return append(b, ']')
}
