package client

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

func TestPatchBody(t *testing.T) {
	tests := []struct {
		name  string
		patch Patch
		want  string
	}{
		{"time", Patch{Delay: time.Minute}, `{"delay":"1m"}`},
		{"payload alone", Patch{Payload: json.RawMessage(`[1, 2]`)}, `{"payload":[1, 2]}`},
		{"target merged", Patch{Target: &Target{Headers: map[string]string{"a": "1", "b": ""}}},
			`{"target":{"headers":{"a":"1","b":null}}}`},
		{"cleared", Patch{Clear: []string{"retry", "target.timeout"}}, `{"retry":null,"target":{"timeout":null}}`},
		{"set and cleared inside", Patch{Target: &Target{URL: "http://x/"}, Clear: []string{"target.timeout"}},
			`{"target":{"timeout":null,"url":"http://x/"}}`},
		{"retry set and cleared", Patch{Retry: &Retry{MaxAttempts: 1}, Clear: []string{"retry.min_backoff"}},
			`{"retry":{"max_attempts":1,"min_backoff":null}}`},
		{"labels and payload", Patch{Labels: map[string]string{"a": ""}, Payload: json.RawMessage(`1`)},
			`{"labels":{"a":null},"payload":1}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, s := start(t, Config{}, answer(200, `{}`))
			_, err := c.Patch(t.Context(), "a", tt.patch, IfRevision(7))
			assert.NoError(t, err)
			got := s.requests()[0]
			if got.body != tt.want || got.method != "PATCH" || got.header.Get("If-Match") != `"7"` {
				t.Errorf("sent %+v, want %s", got, tt.want)
			}
		})
	}
}

func TestPatchRefusesContradictions(t *testing.T) {
	c, s := start(t, Config{})
	for _, p := range []Patch{
		{Delay: 1, Clear: []string{"delay"}},
		{Retry: &Retry{MaxAttempts: 1}, Clear: []string{"retry.max_attempts"}},
		{Retry: &Retry{MaxAttempts: 1}, Clear: []string{"retry"}},
	} {
		if _, err := c.Patch(t.Context(), "a", p); err == nil || len(s.requests()) != 0 {
			t.Errorf("took %+v: %v", p, err)
		}
	}
}

func TestTouchBody(t *testing.T) {
	tests := []struct {
		name  string
		touch Touch
		want  string
	}{
		{"again", Touch{}, `{}`},
		{"until an instant", Touch{Delay: time.Second, NoLaterThan: time.Unix(0, 0)},
			`{"delay":"1s","no_later_than":"1970-01-01T00:00:00.000Z"}`},
		{"until an age", Touch{NoOlderThan: time.Hour}, `{"no_later_than":"1h"}`},
		{"or schedule", Touch{OrSchedule: &Task{Delay: time.Second, Payload: json.RawMessage(`{"a":1}`)}},
			`{"or_schedule":{"delay":"1s","payload":{"a":1}}}`},
		{"with a payload", Touch{Payload: json.RawMessage(`{"a": 1}`)}, `{"payload":{"a": 1}}`},
		{"with more elements", Touch{Append: []json.RawMessage{json.RawMessage(`1`), json.RawMessage(`{"a": 2}`)}},
			`{"append":[1,{"a": 2}]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, s := start(t, Config{SingleCalls: true}, answer(200, `{}`))
			_, err := c.Touch(t.Context(), "a", tt.touch)
			assert.NoError(t, err)
			if got := s.requests()[0]; got.body != tt.want || got.uri != "/v1/tasks/a/touch" {
				t.Errorf("sent %+v, want %s", got, tt.want)
			}
		})
	}
}

func TestTaskKeepsItsJSON(t *testing.T) {
	in := `{"id":"a","queue":"q","fire_at":"2026-11-21T10:00:00.000Z","payload":{"n":1},"target":{"url":"http://x/",` +
		`"timeout":"1s"},"expires_after":"1h","state":"dead","attempts":3,"next_attempt_at":null,` +
		`"last_error":"no","revision":8,"shard":2,"created_at":"2026-11-20T10:00:00.000Z",` +
		`"webhook_id":"msg_1"}`
	var task Task
	assert.NoError(t, json.Unmarshal([]byte(in), &task))
	out, err := json.Marshal(task)
	if err != nil || string(out) != in {
		t.Errorf("%v\n got %s\nwant %s", err, out, in)
	}
}
