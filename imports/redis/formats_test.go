package redis

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/belfryhq/belfry/internal/assert"
)

// shown returns a converted record in one line.
func shown(r *converted) string {
	if r.Err != nil {
		return "! " + r.Err.Error()
	}
	t := &r.Task
	return fmt.Sprintf("%s %s %s %v %d %v %s%s", r.Key, t.FireAt.Format(time.RFC3339Nano), t.Queue, t.Labels,
		t.Retry.MaxAttempts, t.ExpiresAfter, t.Payload, t.PayloadBytes)
}

// taskMessage encodes a message of asynq, with fields that an import passes over.
func taskMessage(payload string, retry, retried, deadline uint64) []byte {
	var b []byte
	text := func(n protowire.Number, value string) {
		b = protowire.AppendString(protowire.AppendTag(b, n, protowire.BytesType), value)
	}
	number := func(n protowire.Number, value uint64) {
		b = protowire.AppendVarint(protowire.AppendTag(b, n, protowire.VarintType), value)
	}
	text(fieldKind, "mail:welcome")
	text(fieldPayload, payload)
	text(3, "id-1")
	number(fieldRetry, retry)
	number(fieldRetried, retried)
	number(8, 1800)
	number(fieldDeadline, deadline)
	text(fieldUnique, "asynq:{mails}:unique:x")
	number(99, 1)
	return b
}

func TestAsynqMessages(t *testing.T) {
	e := entry{set: set{queue: "mails"}, member: "id-1", score: "1893492000"}
	headers := protowire.AppendString(protowire.AppendTag(taskMessage("{}", 1, 0, 0), fieldHeaders, protowire.BytesType), "x")
	for want, text := range map[string][]byte{
		` 2030-01-01T10:00:00Z mails map[type:mail:welcome] 26 0s {"n": 1}`: taskMessage(`{"n": 1}`, 25, 0, 0),
		` 2030-01-01T10:00:00Z mails map[type:mail:welcome] 3 1h0m0s hello`: taskMessage("hello", 5, 3, 1893492000+3600),
		` 2030-01-01T10:00:00Z mails map[type:mail:welcome] 1 1ms `:         taskMessage("", 5, 9, 1),
		"! " + errHeaders.Error(): headers,
		"! the message of the task: " + protowire.ParseError(-1).Error(): headers[:len(headers)-1],
	} {
		var r converted
		r.Err = r.setAsynq(e, text)
		assert.Equal(t, shown(&r), want)
		if r.Err == nil {
			assert.Equal(t, r.remnant.lock, "asynq:{mails}:unique:x")
		}
	}
}

func TestBullMQJobs(t *testing.T) {
	e := entry{set: set{key: "jobs:mails:delayed", queue: "jobs:mails"}, member: "7"}
	e.score = fmt.Sprint(uint64(1893492000123)<<counterBits + 4095)
	for want, opts := range map[string]string{
		` 2030-01-01T10:00:00.123Z mails map[type:welcome] 1 0s {"n":1}`: `{"delay":1}`,
		` 2030-01-01T10:00:00.123Z mails map[type:welcome] 3 0s {"n":1}`: `{"attempts":5}`,
		"! the options of the job: unexpected end of JSON input":         "",
	} {
		var r converted
		r.Err = r.setBullMQ(e, map[string]string{"name": "welcome", "data": `{"n":1}`, "opts": opts, "atm": "2"})
		assert.Equal(t, shown(&r), want)
	}
}

func TestSidekiqJobs(t *testing.T) {
	job := func(more string) string {
		return `{"class":"Mailer","jid":"ab12","queue":"mails","args":[1]` + more + `}`
	}
	wrapped := `,"retry":false,"wrapped":"HardJob"`
	for member, want := range map[string]string{
		job(`,"retry":true`): "sidekiq:ab12 2030-01-01T10:00:00.5Z mails map[type:Mailer] 26 0s " + job(`,"retry":true`),
		job(`,"retry":5,"retry_count":1`): "sidekiq:ab12 2030-01-01T10:00:00.5Z mails map[type:Mailer] 4 0s " +
			job(`,"retry":5,"retry_count":1`),
		job(wrapped):         "sidekiq:ab12 2030-01-01T10:00:00.5Z mails map[type:HardJob] 1 0s " + job(wrapped),
		`{"class":"Mailer"}`: "! " + errNoJob.Error(),
		"[":                  "! the job: unexpected end of JSON input",
	} {
		all, err := sidekiq{}.records(nil, []entry{{set: set{key: "schedule"}, member: member, score: "1893492000.5"}})
		assert.NoError(t, err)
		assert.Equal(t, shown(&all[0]), want)
		if all[0].Key == "" {
			t.Errorf("%s has no key", member)
		}
	}
}

// Members are payloads of their own kind, and each has an id of its own.
func TestMembers(t *testing.T) {
	keys := map[string]bool{}
	for _, c := range []struct{ member, score, want, contentType string }{
		{`{"n": 1}`, "1893492000", `{"n": 1}`, ""},
		{"order-1", "1893492000123", "order-1", "text/plain; charset=utf-8"},
		{"\xff", "1893492000.25", "\xff", "application/octet-stream"},
	} {
		all, err := plain{}.records(nil, []entry{{set: set{key: "delayed"}, member: c.member, score: c.score}})
		assert.NoError(t, err)
		r := &all[0]
		if r.Err != nil || string(r.Task.Payload)+string(r.Task.PayloadBytes) != c.want || r.Task.ContentType != c.contentType ||
			r.Task.FireAt.Year() != 2030 || !strings.HasPrefix(r.Key, "delayed:") || keys[r.Key] {
			t.Errorf("%q: %+v", c.member, r.Record)
		}
		keys[r.Key] = true
		_, err = json.Marshal(r.Task)
		assert.NoError(t, err)
	}
	all, err := plain{}.records(nil, []entry{{member: "x", score: "inf"}})
	assert.NoError(t, err)
	assert.Error(t, all[0].Err)
}

// The password of a URL is in no error.
func TestNoPassword(t *testing.T) {
	for _, url := range []string{
		"redis://user:secret@127.0.0.1:1/0", "redis://secret@127.0.0.1:1", "redis://:secret@%zz/", "secret", "http://secret@x/",
		"redis://u:secret@127.0.0.1:1/nodb",
	} {
		_, err := Sidekiq(t.Context(), Options{URL: url})
		assert.Error(t, err)
		if strings.Contains(fmt.Sprint(err), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}
