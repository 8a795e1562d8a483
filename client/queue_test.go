package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

const kept = `{"queue":"q","target":{"url":"http://x/","timeout":"20s"},"retry":{"max_attempts":3},"max_in_flight":7,
	"max_per_second":0.5,"batch_max":10,"paused":true,"keep_done":"3d","keep_dead":"30d",
	"signing":{"secrets":["sha256:01234567"]},
	"counts":{"scheduled":4,"leased":2,"oldest_overdue":"2026-11-21T10:00:00.000Z","due_1m":1}}`

func TestQueueCalls(t *testing.T) {
	c, s := start(t, Config{}, answer(200, kept), answer(201, kept), answer(200, kept))
	q, err := c.Queue(t.Context(), "q")
	if err != nil || q.Target.Timeout != 20*time.Second || q.Retry.MaxAttempts != 3 || q.KeepDone != 72*time.Hour ||
		q.Counts.Leased != 2 || q.Counts.OldestOverdue.Hour() != 10 || q.Secrets[0] != "sha256:01234567" {
		t.Fatalf("%+v %v", q, err)
	}
	if _, err := c.PutQueue(t.Context(), *q); err != nil {
		t.Fatal(err)
	}
	assert.NoError(t, c.DeleteQueue(t.Context(), "q"))
	got := s.requests()
	want := `{"queue":"q","target":{"url":"http://x/","timeout":"20s"},"retry":{"max_attempts":3},"max_in_flight":7,` +
		`"max_per_second":0.5,"batch_max":10,"paused":true,"keep_done":"3d","keep_dead":"30d",` +
		`"signing":{"secrets":["sha256:01234567"]}}`
	if got[1].body != want || got[1].key == "" || got[1].method != http.MethodPut {
		t.Errorf("put %+v", got[1])
	}
	if got[2].method != http.MethodDelete || got[2].uri != "/v1/queues/q" || got[2].key == "" {
		t.Errorf("deleted %+v", got[2])
	}
}

func TestQueueIsPatched(t *testing.T) {
	c, s := start(t, Config{}, answer(200, kept), answer(200, kept), answer(200, kept))
	q, err := c.PatchQueue(t.Context(), "q", QueuePatch{
		Target:      &Target{Headers: map[string]string{"x-a": "1", "x-b": ""}, Timeout: 5 * time.Second},
		Retry:       &Retry{MaxBackoff: time.Hour},
		MaxInFlight: 7, MaxPerSecond: 0.5, Paused: new(bool), KeepDone: time.Minute, Secrets: []string{"sha256:01234567"},
		Clear: []string{"retry.max_attempts", "batch_max", "keep_dead"},
	})
	if err != nil || q.MaxInFlight != 7 || !q.Paused {
		t.Fatalf("%+v %v", q, err)
	}
	if q, err := c.PauseQueue(t.Context(), "q"); err != nil || q.Name != "q" {
		t.Errorf("%+v %v", q, err)
	}
	if q, err := c.ResumeQueue(t.Context(), "q"); err != nil || q.Name != "q" {
		t.Errorf("%+v %v", q, err)
	}
	got := s.requests()
	want := `{"batch_max":null,"keep_dead":null,"keep_done":"1m","max_in_flight":7,"max_per_second":0.5,"paused":false,` +
		`"retry":{"max_attempts":null,"max_backoff":"1h"},"signing":{"secrets":["sha256:01234567"]},` +
		`"target":{"headers":{"x-a":"1","x-b":null},"timeout":"5s"}}`
	if got[0].method != http.MethodPatch || got[0].uri != "/v1/queues/q" || got[0].body != want || got[0].key == "" {
		t.Errorf("patched %+v", got[0])
	}
	for i, verb := range []string{"pause", "resume"} {
		if r := got[i+1]; r.method != http.MethodPost || r.uri != "/v1/queues/q/"+verb || r.body != "" || r.key == "" {
			t.Errorf("%s: %+v", verb, r)
		}
	}
	for _, clear := range []string{"paused", "retry.max_attempts"} {
		patch := QueuePatch{Paused: new(bool), Retry: &Retry{MaxAttempts: 3}, Clear: []string{clear}}
		_, err := c.PatchQueue(t.Context(), "q", patch)
		assert.Error(t, err, "%s is both set and cleared", clear)
	}
}

func TestQueuesPageByPage(t *testing.T) {
	c, s := start(t, Config{}, answer(200, `{"queues":[{"queue":"a"},{"queue":"b"}],"next_cursor":"x"}`),
		answer(200, `{"queues":[{"queue":"c"}],"next_cursor":null}`))
	var names []string
	for q, err := range c.Queues(t.Context()) {
		assert.NoError(t, err)
		names = append(names, q.Name)
	}
	if fmt.Sprint(names) != "[a b c]" || s.requests()[1].uri != "/v1/queues?cursor=x&limit=1000" {
		t.Errorf("%v of %+v", names, s.requests())
	}
}

func TestLease(t *testing.T) {
	c, s := start(t, Config{}, answer(200, `{"tasks":[
		{"id":"a","state":"firing","payload":{"n": 1},"receipt":"r1","attempt":2,
		"fence":9,"lease_ends_at":"2026-11-21T10:00:30.000Z","history":[{"attempt":1,"started_at":null,
		"ended_at":"2026-11-21T10:00:00.000Z","error":"no"}]}]}`), answer(200, `{"tasks":[]}`))
	tasks, err := c.Lease(t.Context(), "q", Demand{Max: 5, Wait: 20 * time.Second, Lease: time.Minute})
	if err != nil || len(tasks) != 1 {
		t.Fatalf("%v %v", tasks, err)
	}
	got := tasks[0]
	if got.ID != "a" || got.Receipt != "r1" || got.Attempt != 2 || got.Fence != 9 || got.LeaseEndsAt.Second() != 30 ||
		string(got.Payload) != `{"n": 1}` || got.History[0].Error != "no" || !got.History[0].StartedAt.IsZero() {
		t.Errorf("%+v", got)
	}
	text, err := json.Marshal(got)
	var again Leased
	if err != nil || json.Unmarshal(text, &again) != nil || again.Receipt != "r1" || again.ID != "a" || again.Fence != 9 {
		t.Errorf("%s %v", text, err)
	}
	if tasks, err := c.Lease(t.Context(), "q", Demand{}); err != nil || len(tasks) != 0 {
		t.Errorf("%v %v", tasks, err)
	}
	sent := s.requests()
	if sent[0].uri != "/v1/queues/q/lease" || sent[0].body != `{"max":5,"wait":"20s","lease":"1m"}` ||
		sent[1].body != `{}` {
		t.Errorf("sent %+v", sent)
	}
}

// TestSettledTellsReplaced checks that a settle of a replaced task's lease is reported as Replaced, without an error.
func TestSettledTellsReplaced(t *testing.T) {
	c, _ := start(t, Config{}, answer(200, `{"results":[{"receipt":"ra","id":"a","status":200,"outcome":"replaced"},
		{"receipt":"rb","id":"b","status":200}]}`))
	got := c.Settle(t.Context(), "q", Settlement{Ack: []string{"ra", "rb"}})
	if !got[0].Replaced || got[0].Err != nil || got[1].Replaced || got[1].Err != nil {
		t.Errorf("%+v", got)
	}
}

// TestLeaseIsPatient checks that a node may stay silent for as long as the lease call's wait.
func TestLeaseIsPatient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wait = 20 * time.Second
		c := newSilent(t, Config{Addrs: []string{"live:1"}, AttemptTimeout: time.Second, MaxAttempts: 1}, wait, `{"tasks":[]}`)
		defer c.Close()
		_, err := c.Lease(t.Context(), "q", Demand{Wait: wait})
		assert.Equal(t, err, nil)
	})
}

func TestSettleRepeatsOnlyWhatItMust(t *testing.T) {
	passing := `{"receipt":"x","id":"%s","status":503,"problem":{"status":503,"committed":"no"}}`
	c, s := start(t, Config{},
		answer(200, `{"results":[{"id":"a","status":200},`+fmt.Sprintf(passing, "b")+`,
			{"id":"c","status":409,"problem":{"type":"urn:belfry:problem:lease-ended","status":409,"title":"ended"}},`+
			fmt.Sprintf(passing, "d")+`]}`),
		answer(200, `{"results":[{"id":"b","status":200},
			{"id":"d","status":404,"problem":{"type":"urn:belfry:problem:task-not-found","status":404}}]}`))
	got := c.Settle(t.Context(), "q", Settlement{
		Ack:     []string{"ra"},
		Nack:    []Nack{{Receipt: "rb", Delay: new(time.Duration), Reason: "no stock"}, {Receipt: "rc"}},
		Extend:  []Extend{{Receipt: "rd", Lease: time.Minute}},
		Release: nil,
	})
	for i, want := range []struct {
		receipt, id string
		err         error
	}{{"ra", "a", nil}, {"rb", "b", nil}, {"rc", "c", ErrConflict}, {"rd", "d", ErrNotFound}} {
		if got[i].Receipt != want.receipt || got[i].ID != want.id || !errors.Is(got[i].Err, want.err) {
			t.Errorf("%d: %+v", i, got[i])
		}
	}
	first, second := s.requests()[0].body, s.requests()[1].body
	if first != `{"ack":["ra"],"nack":[{"receipt":"rb","delay":"0s","reason":"no stock"},{"receipt":"rc"}],`+
		`"extend":[{"receipt":"rd","lease":"1m"}]}` {
		t.Errorf("sent %s", first)
	}
	if second != `{"nack":[{"receipt":"rb","delay":"0s","reason":"no stock"}],"extend":[{"receipt":"rd","lease":"1m"}]}` {
		t.Errorf("repeated %s", second)
	}
}

func TestSettleInChunks(t *testing.T) {
	c, s := start(t, Config{MaxAttempts: 1})
	s.exhaust = func(w http.ResponseWriter, r *http.Request) {
		got := s.requests()
		n := strings.Count(got[len(got)-1].body, `"r`)
		one := `{"status":200},`
		answer(200, `{"results":[`+strings.TrimSuffix(strings.Repeat(one, n), ",")+`]}`)(w, r)
	}
	var acks []string
	for i := range 2500 {
		acks = append(acks, fmt.Sprint("r", i))
	}
	results := c.Settle(t.Context(), "q", Settlement{Ack: acks})
	for i, r := range results {
		if r.Err != nil || r.Receipt != acks[i] {
			t.Fatalf("%d: %+v", i, r)
		}
	}
	if len(results) != 2500 || len(s.requests()) != 3 {
		t.Errorf("%d results of %d requests", len(results), len(s.requests()))
	}
	s.exhaust = answer(200, `{"results":[]}`)
	got := c.Settle(t.Context(), "q", Settlement{Release: acks[:1]})
	assert.Error(t, got[0].Err, "an answer without results is taken for one")
}

func TestDeadLetters(t *testing.T) {
	c, s := start(t, Config{}, answer(200, `{"count":7}`), answer(200, `{"count":0}`))
	if n, err := c.Replay(t.Context(), "q", DeadFilter{Prefix: "a", Limit: 9}); n != 7 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if n, err := c.DropDead(t.Context(), "q", DeadFilter{IDs: []string{"a", "b"}}); n != 0 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	s.exhaust = answer(401, `{"type":"urn:belfry:problem:unauthenticated","title":"t","status":401,"count":1000}`)
	if n, err := c.Replay(t.Context(), "q", DeadFilter{}); n != 1000 || !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("%d %v of a replay that broke off", n, err)
	}
	got := s.requests()
	if got[0].method != "POST" || got[0].uri != "/v1/queues/q/dead/replay?limit=9&prefix=a" ||
		got[1].method != "DELETE" || got[1].uri != "/v1/queues/q/dead?id=a&id=b" {
		t.Errorf("%+v", got)
	}
}

func TestJitterIsSent(t *testing.T) {
	c, s := start(t, Config{SingleCalls: true}, answer(201, `{"id":"a"}`))
	_, err := c.Schedule(t.Context(), Task{ID: "a", Delay: time.Hour, Jitter: time.Minute})
	assert.NoError(t, err)
	assert.Equal(t, s.requests()[0].body, `{"delay":"1h","jitter":"1m"}`, "sent")
}

// TestLeasesAreNotSentTwice checks that a settle or lease on a lost connection has an unknown outcome, and that
// net/http does not repeat it.
func TestLeasesAreNotSentTwice(t *testing.T) {
	calls := map[string]func(c *Client) error{
		"settle": func(c *Client) error { return c.Settle(t.Context(), "q", Settlement{Ack: []string{"r"}})[0].Err },
		"lease":  func(c *Client) error { _, err := c.Lease(t.Context(), "q", Demand{}); return err },
	}
	for name, call := range calls {
		c, s := start(t, Config{MaxAttempts: 1}, answer(200, `{}`), hangUp,
			answer(200, `{"results":[{"receipt":"r","status":503,"problem":{"status":503,"committed":"no"}}]}`))
		if err := c.Ready(t.Context()); err != nil { // leaves a kept connection
			t.Fatal(err)
		}
		if err := call(c); !errors.Is(err, ErrUnknown) || len(s.requests()) != 2 {
			t.Errorf("%s: %v, of %d requests", name, err, len(s.requests()))
		}
	}
}
