package client

import (
	"encoding/json"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// The types below are the wire format for encoding/json, the reference for this package's own encoder and decoder.

// duration is a time.Duration on the wire.
type duration time.Duration

func (d duration) MarshalJSON() ([]byte, error) {
	return contract.AppendDuration(nil, time.Duration(d)), nil
}

func (d *duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	parsed, err := ParseDuration(text)
	*d = duration(parsed)
	return err
}

// instant is a time.Time on the wire.
type instant struct{ time.Time }

func (i instant) MarshalJSON() ([]byte, error) {
	ms := time.UnixMilli(contract.CeilUnixMs(i.Time)).UTC() // the service keeps milliseconds, rounded up
	if ms.Year() < 0 || ms.Year() > 9999 {
		return nil, errYear
	}
	return []byte(ms.Format(`"2006-01-02T15:04:05.000Z"`)), nil
}

// wireTask is a task in a caller's JSON.
type wireTask struct {
	ID            string            `json:"id,omitempty"`
	Queue         string            `json:"queue,omitempty"`
	FireAt        *instant          `json:"fire_at,omitempty"`
	Delay         *duration         `json:"delay,omitempty"`
	Jitter        duration          `json:"jitter,omitzero"`
	Payload       json.RawMessage   `json:"payload,omitempty"`
	PayloadBase64 []byte            `json:"payload_base64,omitempty"`
	ContentType   string            `json:"content_type,omitempty"`
	Target        *wireTarget       `json:"target,omitempty"`
	Retry         *wireRetry        `json:"retry,omitempty"`
	ExpiresAfter  duration          `json:"expires_after,omitzero"`
	Labels        map[string]string `json:"labels,omitempty"`
}

// wireAnswer is a task in the service's answers.
type wireAnswer struct {
	wireTask
	wireStatus
}

type wireStatus struct {
	State         State    `json:"state"`
	Attempts      int      `json:"attempts"`
	NextAttemptAt *instant `json:"next_attempt_at"`
	LastError     string   `json:"last_error"`
	Revision      uint64   `json:"revision"`
	Shard         uint32   `json:"shard"`
	CreatedAt     *instant `json:"created_at"`
	WebhookID     string   `json:"webhook_id,omitempty"`
	Outcome       Outcome  `json:"outcome,omitempty"`
	Previous      State    `json:"previous,omitempty"`
	History       []Past   `json:"history,omitempty"`
	LeaseEndsAt   *instant `json:"lease_ends_at,omitempty"`
	Schedule      string   `json:"schedule,omitempty"`
	Occurrence    uint64   `json:"occurrence,omitempty"`
	Scheduled     *instant `json:"scheduled,omitempty"`
}

type wireTarget struct {
	URL     string            `json:"url"`
	Method  string            `json:"method,omitempty"`
	Auth    *Auth             `json:"auth,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
	Timeout duration          `json:"timeout,omitzero"`
}

type wireRetry struct {
	MaxAttempts int        `json:"max_attempts,omitempty"`
	MinBackoff  duration   `json:"min_backoff,omitzero"`
	MaxBackoff  duration   `json:"max_backoff,omitzero"`
	Delays      []duration `json:"delays,omitempty"`
}

func newWireTask(t Task) wireTask {
	w := wireTask{
		ID: t.ID, Queue: t.Queue, FireAt: optionalTime(t.FireAt), Jitter: duration(t.Jitter), Payload: t.Payload,
		PayloadBase64: t.PayloadBytes, ContentType: t.ContentType, Target: newWireTarget(t.Target),
		Retry: newWireRetry(t.Retry), ExpiresAfter: duration(t.ExpiresAfter), Labels: t.Labels,
	}
	if t.FireAt.IsZero() || t.Delay != 0 { // the service refuses both, with the reason
		w.Delay = (*duration)(&t.Delay)
	}
	return w
}

func newWireTarget(t *Target) *wireTarget {
	if t == nil {
		return nil
	}
	return &wireTarget{t.URL, t.Method, t.Auth, t.Headers, duration(t.Timeout)}
}

func (w *wireTarget) target() *Target {
	if w == nil {
		return nil
	}
	return &Target{w.URL, w.Method, w.Auth, w.Headers, time.Duration(w.Timeout)}
}

func newWireRetry(r *Retry) *wireRetry {
	if r == nil {
		return nil
	}
	return &wireRetry{r.MaxAttempts, duration(r.MinBackoff), duration(r.MaxBackoff), wireDelays(r.Delays)}
}

func wireDelays(delays []time.Duration) []duration {
	var w []duration
	for _, d := range delays {
		w = append(w, duration(d))
	}
	return w
}

func (w *wireRetry) retry() *Retry {
	if w == nil {
		return nil
	}
	r := &Retry{
		MaxAttempts: w.MaxAttempts, MinBackoff: time.Duration(w.MinBackoff), MaxBackoff: time.Duration(w.MaxBackoff),
	}
	for _, d := range w.Delays {
		r.Delays = append(r.Delays, time.Duration(d))
	}
	return r
}

func optionalTime(t time.Time) *instant {
	if t.IsZero() {
		return nil
	}
	return &instant{t}
}
