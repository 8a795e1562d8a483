package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/internal/contract"
)

// State is a state of a task.
type State = view.TaskState

// The states of a task. The last three are tombstones.
const (
	StateScheduled State = "scheduled" // waits for its time
	StateReady     State = "ready"     // due, and no attempt has begun
	StateFiring    State = "firing"    // an attempt is granted
	StateRetrying  State = "retrying"  // between attempts
	StateDelivered State = "delivered"
	StateDead      State = "dead"
	StateCancelled State = "cancelled"
)

// Outcome is the final result of a cancel.
type Outcome string

// The outcomes of a cancel.
const (
	OutcomeCancelled    Outcome = "cancelled"     // no attempt was begun, and none will be
	OutcomeStopped      Outcome = "stopped"       // an attempt was begun and may have been delivered; no other will be
	OutcomeAlreadyFired Outcome = "already_fired" // the task was delivered or dead already
)

// Task is a task, in requests and in answers. Requests do not send the fields that the service sets.
type Task struct {
	ID    string // empty in Schedule: a new one is made
	Queue string // empty: "default"

	// FireAt is the due time, rounded up to whole milliseconds. If FireAt is zero, the task is due Delay after the call's
	// receipt.
	FireAt time.Time
	Delay  time.Duration

	Payload      json.RawMessage // any JSON, delivered byte for byte; see Batch for the one exception
	PayloadBytes []byte          // in place of Payload: any bytes
	ContentType  string          // empty: application/json

	Target       *Target // nil: the queue's
	Retry        *Retry  // nil: the queue's
	ExpiresAfter time.Duration
	Labels       map[string]string
	Window       *Window // in which attempts may begin; nil: the queue's

	// Group is what the task belongs to, such as a customer. The queue may limit the attempts of each group, or keep the
	// order of their due times.
	Group    string
	Priority int // 1 to 5, the first first; 0: 3

	// OnDelivered and OnDead are the tasks that follow the end of this one; nil: the queue's.
	OnDelivered, OnDead *FollowUp

	// Jitter spreads tasks with the same due time: the task is due up to Jitter later, by a part that depends on its id
	// only. Jitter is not stored: an answer has the resulting FireAt.
	Jitter time.Duration

	// The service sets the fields below.
	State         State
	Attempts      int       // begun so far
	NextAttemptAt time.Time // zero: none is scheduled
	WaitsFor      string    // "window": the task is due, and waits until NextAttemptAt for its window to open
	LastError     string
	Revision      uint64
	Shard         uint32
	CreatedAt     time.Time
	WebhookID     string    // the webhook-id of all attempts of this occurrence
	Outcome       Outcome   // of a cancelled task
	Previous      State     // in Schedule's answer: the replaced task's state; empty: there was none
	History       []Past    // the last few ended attempts, oldest first
	LeaseEndsAt   time.Time // zero: not leased
	Schedule      string    // id of the schedule of which the task is an occurrence; empty: none
	Occurrence    uint64    // number of the occurrence; 0: the task is none
	Scheduled     time.Time // instant that the rule names for the occurrence; a jitter or a backfill changes FireAt
}

// FollowUp is a task that the log entry which ends another one makes, with the id "{id}@delivered" or "{id}@dead". It
// may have follow-ups, three in a row at most.
type FollowUp struct {
	// Task has no ID, FireAt or Jitter. Its Delay counts from the end of the other task. Without a payload, it gets the
	// outcome of that task: TaskOutcome of the API. A payload with line breaks is compacted.
	Task
	KeepAnswer bool // the outcome has the first 16 KiB of the receiver's answer
}

func (f *FollowUp) members() []member {
	content := f.content()
	return append([]member{
		{contract.Queue, &f.Queue, 0}, {contract.Delay, &f.Delay, 0}, {contract.KeepAnswer, &f.KeepAnswer, 0},
	}, content[:]...)
}

// UnmarshalJSON reads a follow-up as the service writes it.
func (f *FollowUp) UnmarshalJSON(data []byte) error {
	return unlessNull(data, func(r *contract.Reader) error { return readObject(r, "follow-up", f.members()) })
}

// MarshalJSON writes a follow-up as the service does.
func (f FollowUp) MarshalJSON() ([]byte, error) {
	b, err := appendMembers(nil, f.members(), false)
	return contract.Close(b, 0), err
}

var errFollowUp = errors.New("a follow-up has no id, time or jitter of its own")

// appendFollowUp appends a member whose value is a follow-up, unless it is nil.
func appendFollowUp(b []byte, field contract.Field, f *FollowUp) ([]byte, error) {
	if f == nil {
		return b, nil
	}
	if f.ID != "" || !f.FireAt.IsZero() || f.Jitter != 0 {
		return b, fmt.Errorf("%s: %w", field, errFollowUp)
	}
	flat := *f
	flat.Payload = oneLine(f.Payload)
	return appendObject(b, field, flat.members(), false)
}

// Target is the receiver of a task.
type Target struct {
	URL     string
	Method  string // of a webhook: POST, PUT, PATCH, DELETE, or GET, which carries no payload; empty: POST
	Auth    *Auth  // proves to the receiver of a webhook who sends it; nil: nothing does
	Headers map[string]string
	Timeout time.Duration // of one attempt; 0: the queue's
}

// Auth is how the requests of a webhook prove to the receiver who sends them: by a token, a certificate, or both.
type Auth struct {
	JWT *JWT `json:"jwt,omitempty"` // the header authorization has a token; nil: it has none
	// ClientCertificate is the name of a certificate that the nodes show to the receiver: NAME.crt and NAME.key of
	// "belfry serve --receiver-certs". Empty: they show none.
	ClientCertificate string `json:"client_certificate,omitempty"`
}

// JWT describes the token that the cluster signs for each request. GET /.well-known/jwks.json has the keys.
type JWT struct {
	Audience  string          `json:"audience"`            // the claim aud
	Claims    json.RawMessage `json:"claims,omitempty"`    // an object with further claims; empty: none
	Algorithm string          `json:"algorithm,omitempty"` // EdDSA or RS256; empty: EdDSA
}

// Retry sets the number and the pauses of a task's attempts. A zero field takes the queue's value.
type Retry struct {
	MaxAttempts int
	MinBackoff  time.Duration
	MaxBackoff  time.Duration
	// Delays are the pauses after the first, second, … failed attempt, in place of a backoff. With MaxAttempts 0 there
	// is one attempt more than delays. With more attempts the last delay repeats.
	Delays []time.Duration
}

// IsZero reports whether r sets nothing.
func (r Retry) IsZero() bool {
	return r.MaxAttempts == 0 && r.MinBackoff == 0 && r.MaxBackoff == 0 && len(r.Delays) == 0
}

// Past is an ended attempt.
type Past struct {
	Attempt   int       `json:"attempt"`
	Fence     uint64    `json:"fence"`
	StartedAt time.Time `json:"started_at"` // zero: unknown
	EndedAt   time.Time `json:"ended_at"`   // zero: unknown
	Node      string    `json:"node"`       // the node that made it; empty: a consumer's attempt, or unknown
	Error     string    `json:"error"`      // empty: delivered
}

// content returns the members of a task that a caller sets, except its id, queue and time.
func (t *Task) content() [12]member {
	return [...]member{
		{contract.Payload, &t.Payload, 0}, {contract.PayloadBase64, &t.PayloadBytes, rare},
		{contract.ContentType, &t.ContentType, 0}, {contract.Target, &t.Target, rare}, {contract.Retry, &t.Retry, rare},
		{contract.ExpiresAfter, &t.ExpiresAfter, rare}, {contract.Labels, &t.Labels, rare},
		{contract.Window, &t.Window, rare}, {contract.Group, &t.Group, rare}, {contract.Priority, &t.Priority, rare},
		{contract.OnDelivered, &t.OnDelivered, rare}, {contract.OnDead, &t.OnDead, rare},
	}
}

// status returns the members of a task that the service sets.
func (t *Task) status() [16]member {
	return [...]member{
		{contract.State, &t.State, always}, {contract.Attempts, &t.Attempts, always},
		{contract.NextAttemptAt, &t.NextAttemptAt, always | rare}, {contract.WaitsFor, &t.WaitsFor, rare},
		{contract.LastError, &t.LastError, always}, {contract.Revision, &t.Revision, always},
		{contract.Shard, &t.Shard, always}, {contract.CreatedAt, &t.CreatedAt, always},
		{contract.WebhookID, &t.WebhookID, 0}, {contract.Outcome, &t.Outcome, rare},
		{contract.Previous, &t.Previous, rare}, {contract.LeaseEndsAt, &t.LeaseEndsAt, 0},
		{contract.Schedule, &t.Schedule, rare}, {contract.Occurrence, &t.Occurrence, rare},
		{contract.Scheduled, &t.Scheduled, rare | silent}, {contract.History, &t.History, rare},
	}
}

func (t *Target) members() []member {
	return []member{
		{contract.URL, &t.URL, always}, {contract.Method, &t.Method, 0}, {contract.Auth, &t.Auth, rare},
		{contract.Headers, &t.Headers, 0}, {contract.Timeout, &t.Timeout, 0},
	}
}

func (r *Retry) members() []member {
	return []member{
		{contract.MaxAttempts, &r.MaxAttempts, 0}, {contract.MinBackoff, &r.MinBackoff, 0},
		{contract.MaxBackoff, &r.MaxBackoff, 0}, {contract.Delays, &r.Delays, 0},
	}
}

func (p *Past) members() []member {
	return []member{
		{contract.Attempt, &p.Attempt, always}, {contract.Fence, &p.Fence, always},
		{contract.StartedAt, &p.StartedAt, always}, {contract.EndedAt, &p.EndedAt, always},
		{contract.Node, &p.Node, always}, {contract.Error, &p.Error, always},
	}
}

func (t *Task) read(r *contract.Reader) error {
	var l Leased
	err := l.read(r)
	*t = l.Task
	return err
}

// read reads a task, and its lease if it has one.
func (l *Leased) read(r *contract.Reader) error {
	*l = Leased{}
	t := &l.Task
	lease := [...]member{
		{contract.Receipt, &l.Receipt, 0}, {contract.Attempt, &l.Attempt, 0}, {contract.Fence, &l.Fence, 0},
	}
	list := [35]member{
		{contract.ID, &t.ID, 0}, {contract.Queue, &t.Queue, 0}, {contract.FireAt, &t.FireAt, 0},
		{contract.Delay, &t.Delay, rare},
	}
	for i, m := range t.content() { // one by one: copy would move the task to the heap
		list[4+i] = m
	}
	for i, m := range t.status() {
		list[16+i] = m
	}
	for i, m := range lease {
		list[32+i] = m
	}
	return readObject(r, "task", list[:])
}

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
	list := t.content()
	return appendMembers(contract.AppendSpan(b, contract.Jitter, t.Jitter), list[:], false)
}

// appendTemplate appends the members of a schedule's task.
func appendTemplate(b []byte, t *Task) ([]byte, error) {
	if err := t.checkTemplate(); err != nil {
		return b, err
	}
	list := t.content()
	return appendMembers(contract.AppendTextIf(b, contract.Queue, t.Queue), list[:], false)
}

// checkTemplate refuses a task with an id or a time, which a schedule gives to its tasks.
func (t *Task) checkTemplate() error {
	if t.ID != "" || !t.FireAt.IsZero() || t.Delay != 0 || t.Jitter != 0 {
		return errTemplate
	}
	return nil
}

// UnmarshalJSON reads a task as the service writes it.
func (t *Task) UnmarshalJSON(data []byte) error { return unlessNull(data, t.read) }

// MarshalJSON writes a task as the service does, with the fields that the service sets.
func (t Task) MarshalJSON() ([]byte, error) {
	b, err := appendTask(contract.AppendTextIf(nil, contract.ID, t.ID), &t)
	if err != nil {
		return nil, err
	}
	list := t.status()
	b, err = appendMembers(b, list[:], false)
	return contract.Close(b, 0), err
}

// Patch is a change to a waiting task. Zero fields leave the task's fields unchanged; Clear restores defaults.
type Patch struct {
	FireAt      time.Time
	Delay       time.Duration   // counted from receipt
	Payload     json.RawMessage // replaces the whole payload
	ContentType string
	Target      *Target           // zero fields leave the task's; headers are merged, and an empty value removes one
	Retry       *Retry            // zero fields leave the task's
	Labels      map[string]string // merged; an empty value removes a label
	Window      *Window           // replaces the whole window
	Group       string
	Priority    int
	OnDelivered *FollowUp // replaces the whole follow-up
	OnDead      *FollowUp // replaces the whole follow-up
	// Clear names fields to reset, with a dot for a field of an object: "target", "target.timeout", "labels".
	Clear []string
}

// fields returns the merge patch of RFC 7396, without the payload.
func (p Patch) fields() (map[string]any, error) {
	m, err := (&Task{
		ContentType: p.ContentType, Target: p.Target, Retry: p.Retry, Labels: p.Labels, Window: p.Window, Group: p.Group,
		Priority: p.Priority, OnDelivered: p.OnDelivered, OnDead: p.OnDead,
	}).patch()
	if err != nil {
		return nil, err
	}
	if !p.FireAt.IsZero() {
		m["fire_at"] = p.FireAt.UTC()
	}
	setDuration(m, "delay", p.Delay)
	return m, clearFields(m, p.Clear)
}

// patch returns the members of the content that are given, without the payload, as a merge patch.
func (t *Task) patch() (map[string]any, error) {
	list := t.content()
	return mergePatch(list[1:]) // the payload stays byte for byte
}

// unlessNull reads a text with read. A null leaves the value unchanged.
func unlessNull(data []byte, read func(*contract.Reader) error) error {
	if string(data) == "null" {
		return nil
	}
	return whole(data, read)
}

// ParseDuration reads a duration as the service does: in Go's format with d for days of 24 hours ("7d", "1.5d",
// "1d12h"), or in the format of ISO 8601 ("PT30M", "P2D", "P1W"; no years and no months). It rounds parts finer than a
// nanosecond up. A duration that overflows time.Duration becomes the longest possible one, which the service refuses by
// its limit.
func ParseDuration(text string) (time.Duration, error) {
	d, err := contract.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q %w", text, err)
	}
	return d, nil
}

// ParseInstant reads an instant as the service does: RFC 3339 with any offset, rounded up to whole milliseconds.
func ParseInstant(text string) (time.Time, error) {
	ms, err := contract.ParseInstant(text)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q %w", text, err)
	}
	return time.UnixMilli(ms).UTC(), nil
}
