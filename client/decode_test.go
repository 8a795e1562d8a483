package client

import (
	"encoding/json"
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
