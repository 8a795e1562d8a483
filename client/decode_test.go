package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/contract"
)

// task returns the wire's task, as encoding/json reads it.
func (w wireAnswer) task() Task {
	t := Task{
		ID: w.ID, Queue: w.Queue, FireAt: timeOrZero(w.FireAt), Payload: w.Payload, PayloadBytes: w.PayloadBase64,
		ContentType: w.ContentType, ExpiresAfter: time.Duration(w.ExpiresAfter), Labels: w.Labels,
		State: w.State, Attempts: w.Attempts, NextAttemptAt: timeOrZero(w.NextAttemptAt), LastError: w.LastError,
		Revision: w.Revision, Shard: w.Shard, CreatedAt: timeOrZero(w.CreatedAt),
		WebhookID: w.WebhookID, Outcome: w.Outcome, Previous: w.Previous,
		History: w.History, LeaseEndsAt: timeOrZero(w.LeaseEndsAt), Schedule: w.Schedule, Occurrence: w.Occurrence,
		Scheduled: timeOrZero(w.Scheduled),
		Target:    w.Target.target(), Retry: w.Retry.retry(),
	}
	if w.Delay != nil {
		t.Delay = time.Duration(*w.Delay)
	}
	return t
}

func timeOrZero(t *instant) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

// leasedLine is a leased task as the service writes it.
const leasedLine = `{"id":"order-1042-close-0000001","queue":"orders","fire_at":"2026-11-21T10:00:00.001Z","payload":` +
	orderPayload + `,"content_type":"application/json","state":"firing","attempts":1,"next_attempt_at":null,` +
	`"last_error":"","revision":8841,"shard":5,"created_at":"2026-11-21T09:00:00.000Z",` +
	`"webhook_id":"msg_0123456789abcdef","lease_ends_at":"2026-11-21T10:00:30.000Z","receipt":"AQECAwQFBgcICQ","attempt":1,` +
	`"fence":8842}`

func TestLeasedTaskIsDecoded(t *testing.T) {
	var l Leased
	assert.NoError(t, json.Unmarshal([]byte(leasedLine), &l))
	want := Leased{
		Task: Task{
			ID: "order-1042-close-0000001", Queue: "orders", FireAt: time.Date(2026, 11, 21, 10, 0, 0, 1e6, time.UTC),
			Payload: json.RawMessage(orderPayload), ContentType: "application/json", State: StateFiring, Attempts: 1,
			Revision: 8841, Shard: 5, CreatedAt: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
			WebhookID: "msg_0123456789abcdef", LeaseEndsAt: time.Date(2026, 11, 21, 10, 0, 30, 0, time.UTC),
		},
		Receipt: "AQECAwQFBgcICQ", Attempt: 1, Fence: 8842,
	}
	if !reflect.DeepEqual(l, want) {
		t.Errorf("%+v\nwant %+v", l, want)
	}
}

// TestTaskIsDecodedAsByTheBook checks that tasks of any kind are read as encoding/json reads them.
func TestTaskIsDecodedAsByTheBook(t *testing.T) {
	check(t, func(t *testing.T, d draws) {
		task := d.task()
		if contract.Valid(task.Payload) != nil {
			task.Payload = nil
		}
		task.FireAt = task.FireAt.UTC()
		task.ID, task.LastError = d.text(0), d.text(0)
		task.State = []State{"scheduled", "dead", "new", ""}[d.IntN(4)]
		task.Attempts = d.IntN(1 << 30)
		task.Revision, task.Shard = d.Uint64(), d.Uint32()
		task.NextAttemptAt = time.Unix(d.Int64N(1<<37), 0).UTC()
		if d.yes() {
			task.History = []Past{{Attempt: 1, Fence: 7, EndedAt: time.Unix(1<<30, 0).UTC(), Node: "n1", Error: "no"}}
		}
		if d.yes() {
			task.Schedule, task.Occurrence = d.text(1), d.Uint64()
			task.Scheduled = time.Unix(1+d.Int64N(1<<37), 0).UTC()
		}
		text, err := json.Marshal(task)
		if err != nil {
			return // a year of five digits
		}
		var wire wireAnswer
		assert.NoError(t, json.Unmarshal(text, &wire))
		var got Task
		assert.NoError(t, whole(text, got.read))
		if want := wire.task(); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\n got %+v\nwant %+v", text, got, want)
		}
	})
}

// FuzzDecodeTask checks for any text that there is an error or a task, and that a text that is no JSON gives an error.
func FuzzDecodeTask(f *testing.F) {
	for _, v := range append(values, leasedLine, `{"id":"a","labels":{"a":"b"},"target":null,"retry":{"max_attempts":3}}`,
		`{"id":"a","x":1,"history":[{"attempt":1}]}`, `{"id":"\u0061","state":"new","attempts":null}`) {
		f.Add([]byte(v))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var task Task
		if whole(text, task.read) == nil && !json.Valid(text) {
			t.Errorf("took %q", text)
		}
	})
}

func BenchmarkDecodeLeased(b *testing.B) {
	text := []byte(leasedLine)
	b.ReportAllocs()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		var l Leased
		assert.NoError(b, whole(text, l.read))
	}
}

var resultLines = []string{
	`{"id":"a","status":201,"revision":7}`, `{"id":"a","status":200,"revision":8,"previous":"retrying"}` + "\n",
	`{"id":"a","status":200,"revision":18446744073709551615,"outcome":"already_fired"}`, `{"id":"a","status":200}`,
	`{"id":"a","status":503}`, `{"id":"a","status":404,"problem":{"type":"x","status":404,"detail":"no \"}\""}}`,
	`{"id":"a","status":200,"outcome":"new"}`, `{"id":"a","status":200,"extra":"x","more":12}`, `{"id":"b","status":200}`,
	`{"id":"a","status":200,"extra":{"status":7}}`, `{"id":"a","status":200,"extra":"\u0022","revision":3}`,
	`{"id":"a", "status":200}`, `{"status":200,"id":"a"}`, `{"id":"a","status":200} `, `{"id":"a","status":200}x`,
	`{"id":"a","status":200,}`, `{"id":"a","status":200`, `{"id":"a","status":2x}`, `{"id":"a","status":-1}`, `{"id":"a"}`, ``,
	`{"id":"a","status":200,"revision":1.5}`, `{"id":"a","status":20000000000000000000}`, `{"id":"a","status":0200}`, `null`,
	`{"id":"a","status":200,"revision":7,"revision":8}`, `{"id":"","status":400,"problem":{"status":400}}`,
	`{"id":"a","status":200,"x":"` + "\x01" + `"}`,
}

// FuzzReadResult compares readResult with encoding/json, which checks neither UTF-8 nor depth.
func FuzzReadResult(f *testing.F) {
	for _, line := range resultLines {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		got, refusal, err := readResult(line, "a")
		want, problem, wantErr := resultByTheBook(line)
		if contract.Valid(line) == nil && !bytes.Contains(line, []byte(`\u`)) && (err != nil) != (wantErr != nil) {
			t.Fatalf("%q: %v, want %v", line, err, wantErr)
		}
		if err != nil {
			return
		}
		if wantErr != nil || got != want {
			t.Fatalf("%q: %+v, want %+v, %v", line, got, want, wantErr)
		}
		var e *Error
		if good := !problem && want.Status >= 200 && want.Status < 300; good != (refusal == nil) ||
			refusal != nil && !(errors.As(refusal, &e) && e.Status == want.Status) {
			t.Errorf("%q: refused with %v", line, refusal)
		}
	})
}

// resultByTheBook is readResult by encoding/json, for lines with names as in the contract.
func resultByTheBook(line []byte) (r Result, refused bool, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil || members == nil {
		return r, false, errors.New("not an object")
	}
	r.ID = "a"
	var problem *struct {
		Type, Title, Detail, Field, Committed, State string
		Status, Attempts                             uint
		RetryAfter                                   uint32 `json:"retry_after"`
	}
	var status int
	for name, out := range map[string]any{"status": &status, "revision": &r.Revision, "outcome": &r.Outcome,
		"previous": &r.Previous, "problem": &problem} {
		if text, ok := members[name]; ok {
			err = cmp.Or(err, json.Unmarshal(text, out))
		}
	}
	r.Status = status
	return r, problem != nil, err
}

func BenchmarkReadResult(b *testing.B) {
	line := []byte(`{"id":"order-1042-close-0000001","status":201,"revision":123456}` + "\n")
	b.ReportAllocs()
	for b.Loop() {
		if r, refusal, err := readResult(line, "order-1042-close-0000001"); err != nil || refusal != nil || r.Status != 201 {
			b.Fatal(r, refusal, err)
		}
	}
}
