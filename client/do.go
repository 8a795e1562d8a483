package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// call is a request of its own, in a form that can be sent any number of times.
type call struct {
	method      string
	path        string // with its query
	body        []byte
	contentType string
	header      http.Header
	about       string        // the task's id, whose leader is asked first; empty: any node
	wait        time.Duration // further silence that the service may need, beyond that of other calls
	open        bool          // the call goes without a key: the address may not be a node's
}

// reply is the answer to a request that was not refused.
type reply struct {
	status int
	header http.Header
	body   io.Reader
}

// do sends the call until it has a final answer, and reads the answer with read.
func (c *conn) do(ctx context.Context, call call, read func(reply) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout+call.wait)
	defer cancel()
	failed := &callError{method: call.method, about: call.path}
	at := c.directory.leaderOf(call.about)
	for {
		err := c.send(ctx, at.base, call, read)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			failed.end(err, ctx.Err())
			return failed
		}
		failed.add(err)
		if !c.repeats(failed) {
			return failed
		}
		var refusal *Error
		if !errors.As(err, &refusal) {
			c.directory.failed(at)
		}
		at = c.nodes.after(at)
		if failed.ended = c.wait(ctx, c.pause(failed.attempts, err)); failed.ended != nil {
			return failed
		}
	}
}

// path returns the path of one of the namespace's resources.
func (c *conn) path(kind, name string) string {
	return c.root + "/" + kind + "/" + url.PathEscape(name)
}

// fetch makes a call, and decodes its answer into a new T.
func fetch[T any](ctx context.Context, c *conn, call call) (*T, error) {
	answer := new(T)
	if err := c.do(ctx, call, readJSON(answer)); err != nil {
		return nil, err
	}
	return answer, nil
}

// fieldReader is a *T that reads the fields of an answer by itself.
type fieldReader[T any] interface {
	*T
	read(r *contract.Reader) error
}

// read is fetch for a T with a reader of its own.
func read[T any, P fieldReader[T]](ctx context.Context, c *conn, call call) (*T, error) {
	answer := new(T)
	if err := c.do(ctx, call, readAnswer(P(answer).read)); err != nil {
		return nil, err
	}
	return answer, nil
}

// repeats reports whether a call that failed is worth another attempt.
func (c *conn) repeats(failed *callError) bool {
	switch {
	case !retryable(failed.last) || failed.attempts == c.cfg.MaxAttempts:
		return false
	case noHandshake(failed.last):
		return failed.attempts < len(c.nodes.given)
	}
	return true
}

// send makes one request of a call, and reads its answer.
func (c *conn) send(ctx context.Context, base string, call call, read func(reply) error) error {
	return c.attempt(ctx, base, call.wait, read, func(ctx context.Context) (*http.Request, error) {
		req, err := c.newRequest(ctx, call.method, base+call.path, bytes.NewReader(call.body))
		if err != nil {
			return nil, err
		}
		if call.open {
			req.Header.Del("Authorization")
		}
		for name, values := range call.header {
			req.Header[name] = values
		}
		if call.body != nil {
			req.Header.Set("Content-Type", call.contentType)
		}
		return req, nil
	})
}

// errSilent is the error of a node that was silent for too long.
var errSilent = errors.New("no answer in time")

// attempt makes one request and reads its answer. It gives up after Config.AttemptTimeout of silence, and wait longer
// before the answer begins.
func (c *conn) attempt(
	ctx context.Context, base string, wait time.Duration, read func(reply) error,
	request func(context.Context) (*http.Request, error),
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(c.cfg.AttemptTimeout+wait, func() { cancel(errSilent) })
	defer silence.Stop()
	var sight sight
	req, err := request(httptrace.WithClientTrace(ctx, sight.trace()))
	if err != nil {
		return err
	}
	err = c.exchange(req, &sight, func(a reply) error {
		a.body = &timedReader{a.body, silence, c.cfg.AttemptTimeout}
		return read(a)
	})
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return fmt.Errorf("%s: %w", base, errSilent)
	}
	return err
}

// timedReader resets the timer after every read.
type timedReader struct {
	io.Reader
	silence *time.Timer
	limit   time.Duration
}

func (h *timedReader) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	h.silence.Reset(h.limit)
	return n, err
}

// sight counts the steps of a request that net/http has taken.
type sight struct{ sought, connected, sent atomic.Int32 }

func (s *sight) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn:      func(string) { s.sought.Add(1) },
		GotConn:      func(httptrace.GotConnInfo) { s.connected.Add(1) },
		WroteHeaders: func() { s.sent.Add(1) },
	}
}

// judge returns the failure of a request as a sentError if it went out, and as an unsentError if it ended without a
// connection. A transport that tells nothing of its steps leaves it open.
func (s *sight) judge(err error) error {
	switch {
	case s.sent.Load() > 0:
		return &sentError{err}
	case s.sought.Load() > 0 && s.connected.Load() == 0:
		return &unsentError{err}
	}
	return err
}

// exchange makes the request.
func (c *conn) exchange(req *http.Request, sight *sight, read func(reply) error) error {
	resp, err := c.cfg.HTTPClient.Do(req)
	if err != nil {
		return sight.judge(err)
	}
	defer func() {
		// A short rest is read, so that the connection can be used again. An error only loses the connection.
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
		_ = resp.Body.Close()
	}()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return refused(readError(resp), sight.sent.Load())
	}
	return read(reply{resp.StatusCode, resp.Header, resp.Body})
}

// refused returns the refusal of a request, as a sentError if the request was sent more than once.
func refused(e *Error, sent int32) error {
	if sent > 1 {
		return &sentError{e}
	}
	return e
}

const (
	minBackoff = 20 * time.Millisecond
	maxBackoff = time.Second
)

// pause returns how long to wait before the next attempt. There is no pause after a network failure while another
// configured node has not been asked yet.
func (c *conn) pause(attempt int, err error) time.Duration {
	var refusal *Error
	if errors.As(err, &refusal) && refusal.Status == http.StatusTooManyRequests && refusal.RetryAfter > 0 {
		return refusal.RetryAfter
	}
	if refusal == nil && attempt < len(c.nodes.given) {
		return 0
	}
	limit := min(minBackoff<<min(attempt-1, 10), maxBackoff)
	return limit/2 + mathrand.N(limit/2)
}

// readJSON decodes an answer of /v1/cluster or /readyz into out. It ignores unknown fields.
func readJSON(out any) func(reply) error {
	return func(a reply) error {
		data, err := io.ReadAll(a.body)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, out); err != nil {
			return &garbledError{errors.New("it has not the shape that it should have")}
		}
		return nil
	}
}
