package broker

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

const (
	redisWriters    = 4       // connections, each with one pipeline at a time
	redisBatch      = 256     // entries in one pipeline
	redisBatchBytes = 1 << 20 // of payload in one pipeline
)

var errNoID = failed("the broker's answer has no id of an entry in it")

// redisLink adds entries to streams. The entries that wait during a pipeline form the next one.
type redisLink struct {
	life
	client  *redis.Client
	entries chan *redisEntry
	timeout time.Duration // of one pipeline
}

type redisEntry struct {
	args *redis.XAddArgs
	size int
	done chan error
}

func openRedis(ctx context.Context, e *endpoint) (link, error) {
	l := &redisLink{
		life: newLife(), client: redis.NewClient(redisOptions(e)), entries: make(chan *redisEntry),
		timeout: e.cfg.ConnectTimeout,
	}
	if err := l.client.Ping(ctx).Err(); err != nil {
		l.close(err)
		return nil, e.opening(redisFault(err))
	}
	for range redisWriters {
		go l.write()
	}
	return l, nil
}

func redisOptions(e *endpoint) *redis.Options {
	return &redis.Options{
		Addr: e.target.Hosts[0], DB: e.target.DB, Username: e.access.User, Password: e.access.Password,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return e.connect(ctx, network, addr)
		},
		DialTimeout: e.cfg.ConnectTimeout, DialerRetries: 1,
		ReadTimeout: e.cfg.ConnectTimeout, WriteTimeout: e.cfg.ConnectTimeout, ContextTimeoutEnabled: true,
		MaxRetries: -1, // a repeated command would add a second entry
		PoolSize:   redisWriters, Protocol: 2, DisableIdentity: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

func (l *redisLink) publish(ctx context.Context, t *targeturl.Target, m *message) error {
	entry := &redisEntry{args: redisArgs(t, m), size: len(m.payload), done: make(chan error, 1)}
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
	}
}

func redisArgs(t *targeturl.Target, m *message) *redis.XAddArgs {
	values := make([]any, 0, 2*len(m.headers)+2)
	for _, h := range m.headers {
		values = append(values, h.name, h.value)
	}
	values = append(values, targeturl.PayloadField, m.payload)
	return &redis.XAddArgs{Stream: t.Stream, MaxLen: t.MaxLen, Approx: t.MaxLen > 0, Values: values}
}

// write sends one pipeline after another, until the link ends.
func (l *redisLink) write() {
	for {
		select {
		case first := <-l.entries:
			l.send(l.gather(first))
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

func (l *redisLink) send(batch []*redisEntry) {
	ctx, cancel := context.WithTimeout(l.ctx, l.timeout)
	defer cancel()
	pipe := l.client.Pipeline()
	answers := make([]*redis.StringCmd, len(batch))
	for i, entry := range batch {
		answers[i] = pipe.XAdd(ctx, entry.args)
	}
	_, all := pipe.Exec(ctx)
	for i, entry := range batch {
		err := answers[i].Err()
		if err == nil && !strings.Contains(answers[i].Val(), "-") { // without an id, the entry may be missing
			err = cmp.Or(all, errNoID)
		}
		entry.done <- err
	}
}

// redisFault returns the broker's own error as a refusal, and errors of the connection unchanged.
func redisFault(err error) error {
	var said redis.Error
	if errors.As(err, &said) {
		return refusal(said)
	}
	return err
}

func (l *redisLink) close(cause error) {
	l.end(cause)
	_ = l.client.Close() // the only error is that the client was closed already
}
