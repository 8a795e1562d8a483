package broker

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

const (
	redisBatch      = 256     // entries in one pipeline
	redisBatchBytes = 1 << 20 // of payload in one pipeline
	redisInProgress = 1024    // entries without an answer
)

var (
	errNoID     = failed("the broker's answer has no id of an entry in it")
	errNoLength = failed("the broker's answer is no length of a list")
)

// redisLink adds entries to streams and lists over one connection. The entries that wait while one pipeline is written
// form the next one, and the broker answers in their order.
type redisLink struct {
	life
	conn    redis.Conn
	entries chan *redisEntry
	written chan *redisEntry // wait for their answers, in order
	timeout time.Duration    // of one answer
}

type redisEntry struct {
	command string
	args    []any
	size    int
	done    chan error
}

// judge returns an error unless the answer confirms the entry: by its id in the stream, or by the length of the list.
// Without one of them, the entry may be missing.
func (e *redisEntry) judge(answer any) error {
	switch answer := answer.(type) {
	case []byte:
		if e.command == "XADD" && bytes.Contains(answer, []byte("-")) {
			return nil
		}
	case int64:
		if e.command != "XADD" && answer > 0 {
			return nil
		}
	}
	if e.command == "XADD" {
		return errNoID
	}
	return errNoLength
}

func openRedis(ctx context.Context, e *endpoint) (link, error) {
	conn, err := redis.DialContext(ctx, "tcp", e.target.Hosts[0],
		redis.DialContextFunc(e.connect), redis.DialDatabase(e.target.DB),
		redis.DialUsername(e.access.User), redis.DialPassword(e.access.Password),
		redis.DialReadTimeout(e.cfg.ConnectTimeout), redis.DialWriteTimeout(e.cfg.ConnectTimeout))
	if err != nil {
		return nil, e.opening(redisFault(err))
	}
	l := &redisLink{
		life: newLife(), conn: conn, entries: make(chan *redisEntry),
		written: make(chan *redisEntry, redisInProgress), timeout: e.cfg.ConnectTimeout,
	}
	// Without a password and a database, nothing was said yet.
	if _, err := redis.DoContext(conn, ctx, "PING"); err != nil {
		l.close(err)
		return nil, e.opening(redisFault(err))
	}
	go l.write()
	go l.read()
	return l, nil
}

func (l *redisLink) publish(ctx context.Context, t *targeturl.Target, m *message) error {
	entry := &redisEntry{size: len(m.payload), done: make(chan error, 1)}
	entry.command, entry.args = redisCall(t, m)
	select {
	case l.entries <- entry:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ctx.Done():
		return context.Cause(l.ctx)
	}
	select {
	case err := <-entry.done:
		return redisFault(err)
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ctx.Done():
	}
	select {
	case err := <-entry.done: // answered before the link was lost
		return redisFault(err)
	default:
		return context.Cause(l.ctx)
	}
}

// redisCall returns the command that adds a message, and its arguments. A list gets the payload alone.
func redisCall(t *targeturl.Target, m *message) (command string, args []any) {
	switch {
	case t.List != "" && t.Left:
		return "LPUSH", []any{t.List, m.payload}
	case t.List != "":
		return "RPUSH", []any{t.List, m.payload}
	}
	return "XADD", streamArgs(t, m)
}

func streamArgs(t *targeturl.Target, m *message) []any {
	args := make([]any, 0, 2*len(m.headers)+7)
	args = append(args, t.Stream)
	if t.MaxLen > 0 {
		args = append(args, "MAXLEN", "~", t.MaxLen)
	}
	args = append(args, "*")
	for _, h := range m.headers {
		args = append(args, h.name, h.value)
	}
	return append(args, targeturl.PayloadField, m.payload)
}

// write writes one pipeline after another, until the link ends.
func (l *redisLink) write() {
	for {
		select {
		case first := <-l.entries:
			batch := l.gather(first)
			if err := l.send(batch); err != nil {
				l.close(err)
				return
			}
			for _, entry := range batch {
				select {
				case l.written <- entry:
				case <-l.ctx.Done():
					return
				}
			}
		case <-l.ctx.Done():
			return
		}
	}
}

// gather returns a batch of first and the waiting entries, within redisBatch and redisBatchBytes.
func (l *redisLink) gather(first *redisEntry) []*redisEntry {
	batch, size := []*redisEntry{first}, first.size
	for len(batch) < redisBatch && size < redisBatchBytes {
		select {
		case entry := <-l.entries:
			batch, size = append(batch, entry), size+entry.size
		default:
			return batch
		}
	}
	return batch
}

func (l *redisLink) send(batch []*redisEntry) error {
	for _, entry := range batch {
		if err := l.conn.Send(entry.command, entry.args...); err != nil {
			return err
		}
	}
	return l.conn.Flush()
}

// read hands each answer to its entry, until the link ends.
func (l *redisLink) read() {
	for {
		select {
		case entry := <-l.written:
			answer, err := redis.ReceiveWithTimeout(l.conn, l.timeout)
			if err != nil && !isRedisError(err) {
				l.close(err)
				return
			}
			if err == nil {
				err = entry.judge(answer)
			}
			entry.done <- err
		case <-l.ctx.Done():
			return
		}
	}
}

// redisFault returns the broker's own error as a refusal, and errors of the connection unchanged.
func redisFault(err error) error {
	if isRedisError(err) {
		return refusal(err)
	}
	return err
}

// isRedisError reports whether the broker answered with an error.
func isRedisError(err error) bool {
	var answered redis.Error
	return errors.As(err, &answered)
}

func (l *redisLink) close(cause error) {
	l.end(cause)
	_ = l.conn.Close() // the only error is that the connection was closed already
}
