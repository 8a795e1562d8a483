package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/belfryhq/belfry/imports"
)

// Asynq opens the tasks of asynq that are scheduled or wait for a retry, in these queues, or in all of them.
func Asynq(ctx context.Context, o Options, queues ...string) (*Source, error) {
	s, err := open(ctx, o, asynq{})
	if err != nil {
		return nil, err
	}
	if len(queues) == 0 {
		if queues, err = redis.Strings(redis.DoContext(s.conn, ctx, "SMEMBERS", "asynq:queues")); err != nil {
			return nil, errors.Join(err, s.Close())
		}
		slices.Sort(queues)
	}
	for _, queue := range queues {
		for _, name := range []string{"scheduled", "retry"} {
			s.sets = append(s.sets, set{"asynq:{" + queue + "}:" + name, queue})
		}
	}
	return s, nil
}

// asynq is the format of Asynq.
type asynq struct{}

var errHeaders = errors.New("the task has headers, which a task in a queue cannot carry")

func (asynq) records(s *Source, entries []entry) ([]converted, error) {
	key := func(e entry) string { return "asynq:{" + e.set.queue + "}:t:" + e.member }
	hashes, err := s.hashes(entries, key, "msg")
	if err != nil {
		return nil, err
	}
	all := make([]converted, len(entries))
	for i, e := range entries {
		r := &all[i]
		r.Key = "asynq:" + e.set.queue + ":" + e.member
		r.remnant.hash = key(e)
		if hashes[i]["msg"] == "" {
			r.Err = imports.ErrGone
			continue
		}
		r.Err = r.setAsynq(e, []byte(hashes[i]["msg"]))
	}
	return all, nil
}

// setAsynq sets the task and the lock by a message of asynq.
func (r *converted) setAsynq(e entry, text []byte) error {
	m, err := readMessage(text)
	if err != nil {
		return fmt.Errorf("the message of the task: %w", err)
	}
	r.Text, r.remnant.lock = string(m.payload), m.uniqueKey
	if r.Task, err = dueTask(e, imports.Seconds); err != nil {
		return err
	}
	if m.headers {
		return errHeaders
	}
	t := &r.Task
	t.Queue, t.Labels = e.set.queue, map[string]string{typeLabel: m.kind}
	t.Retry = retryOf(int(m.retry)+1, int(m.retried)) // retry counts the attempts after the first
	if m.deadline != 0 {
		t.ExpiresAfter = max(time.Unix(m.deadline, 0).Sub(t.FireAt), time.Millisecond)
	}
	imports.SetPayload(t, m.payload)
	return nil
}

// message is the part of asynq's TaskMessage that an import needs.
type message struct {
	kind           string
	payload        []byte
	retry, retried int64
	deadline       int64 // Unix seconds; 0: none
	uniqueKey      string
	headers        bool // there are some
}

// The numbers of the fields of a TaskMessage.
const (
	fieldKind     = 1
	fieldPayload  = 2
	fieldRetry    = 5
	fieldRetried  = 6
	fieldDeadline = 9
	fieldUnique   = 10
	fieldHeaders  = 15
)

// readMessage reads a TaskMessage, and passes over the fields that an import does not need.
func readMessage(text []byte) (m message, err error) {
	for len(text) > 0 {
		number, kind, n := protowire.ConsumeTag(text)
		if n < 0 {
			return m, protowire.ParseError(n)
		}
		text = text[n:]
		if n = protowire.ConsumeFieldValue(number, kind, text); n < 0 {
			return m, protowire.ParseError(n)
		}
		value := text[:n]
		text = text[n:]
		switch kind {
		case protowire.BytesType:
			content, _ := protowire.ConsumeBytes(value)
			m.setBytes(number, content)
		case protowire.VarintType:
			content, _ := protowire.ConsumeVarint(value)
			m.setNumber(number, int64(content))
		}
	}
	return m, nil
}

func (m *message) setBytes(number protowire.Number, content []byte) {
	switch number {
	case fieldKind:
		m.kind = string(content)
	case fieldPayload:
		m.payload = content
	case fieldUnique:
		m.uniqueKey = string(content)
	case fieldHeaders:
		m.headers = true
	}
}

func (m *message) setNumber(number protowire.Number, content int64) {
	switch number {
	case fieldRetry:
		m.retry = content
	case fieldRetried:
		m.retried = content
	case fieldDeadline:
		m.deadline = content
	}
}
