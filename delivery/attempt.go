package delivery

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm"
)

var (
	errTimedOut = errors.New("the attempt's time is over")
	errEnded    = errors.New("the attempt has ended")
)

// attempt runs one attempt within its own timeout.
func (w *Webhook) attempt(parent context.Context, a fsm.Attempt, begun time.Time) (fsm.Outcome, result) {
	if w.closed.Load() {
		return fsm.Outcome{Error: "aborted: this node is shutting down"}, resultAborted
	}
	timeout := a.Timeout
	if timeout <= 0 {
		timeout = fsm.DefaultTimeout
	}
	x := &exchange{connectTimeout: min(timeout, w.cfg.ConnectTimeout), timeout: timeout}
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(errEnded)
	x.timer = time.AfterFunc(timeout, func() { cancel(errTimedOut) })
	defer x.timer.Stop()
	x.deadline = time.Now().Add(timeout)

	req, err := w.request(x.context(ctx), a.Task, begun)
	if err != nil {
		return fsm.Outcome{Permanent: true, Error: err.Error()}, resultPermanent
	}
	resp, err := w.transport.RoundTrip(req) //nolint:bodyclose // answered closes it
	if err != nil {
		return x.failed(parent, ctx, err)
	}
	return x.answered(resp, w.cfg.Now())
}

// exchange is one request on its way, so that an error can say how far it came.
type exchange struct {
	reached        atomic.Int32 // a phase; written by the transport's goroutines
	trace          httptrace.ClientTrace
	timeout        time.Duration // the whole attempt's
	connectTimeout time.Duration // never longer than timeout
	deadline       time.Time     // of the whole attempt
	timer          *time.Timer   // ends the attempt's context
}

// phase is how far an exchange has come.
type phase int32

const (
	connecting phase = iota
	sending
	waiting   // the request is out whole
	answering // the first byte of the answer is here
)

func (x *exchange) enter(p phase) { x.reached.Store(int32(p)) }

func (x *exchange) phase() phase { return phase(x.reached.Load()) }

// context returns ctx with all that the transport needs to know of x.
func (x *exchange) context(ctx context.Context) context.Context {
	x.trace = httptrace.ClientTrace{
		GetConn:              func(string) { x.enter(connecting) }, // again, if an idle connection proved dead
		GotConn:              func(httptrace.GotConnInfo) { x.enter(sending) },
		WroteRequest:         x.wrote,
		GotFirstResponseByte: func() { x.enter(answering) },
	}
	return httptrace.WithClientTrace(withAttempt(ctx, x.deadline), &x.trace)
}

// wrote may come after the first byte of an answer, from a receiver that did not wait for all of the request.
func (x *exchange) wrote(info httptrace.WroteRequestInfo) {
	if info.Err == nil {
		x.reached.CompareAndSwap(int32(sending), int32(waiting))
	}
}

// failed judges an exchange that ended without a reply.
func (x *exchange) failed(parent, ctx context.Context, err error) (fsm.Outcome, result) {
	var refused *refusedError
	switch {
	case errors.Is(parent.Err(), context.Canceled):
		return fsm.Outcome{Error: "aborted: this node gave the attempt up"}, resultAborted
	case x.outOfTime(parent, ctx):
		return fsm.Outcome{Error: timedOut(x.timeout, x.phase())}, resultFailed
	case errors.As(err, &refused):
		return fsm.Outcome{Permanent: true, Error: refused.Error()}, resultPermanent
	}
	return fsm.Outcome{Error: x.describe(err)}, resultFailed
}

// outOfTime tells whether the attempt's time is over, by whichever of the clocks that count it is first: its own timer,
// the deadline that a dial ends at, or that of a caller who allows it the same time and began to count a little sooner.
func (x *exchange) outOfTime(parent, ctx context.Context) bool {
	return errors.Is(context.Cause(ctx), errTimedOut) || !time.Now().Before(x.deadline) || parent.Err() != nil
}

// answered judges an exchange that has a reply, and closes it.
func (x *exchange) answered(resp *http.Response, now time.Time) (fsm.Outcome, result) {
	x.timer.Reset(min(replyPatience, time.Until(x.deadline)))
	defer func() { _ = resp.Body.Close() }() // what it can report has no bearing on the outcome
	if 200 <= resp.StatusCode && resp.StatusCode <= 299 {
		drain(resp, 0)
		return fsm.Outcome{Delivered: true}, resultDelivered
	}
	out := fsm.Outcome{
		Permanent:  resp.StatusCode == http.StatusGone,
		RetryAfter: retryAfter(resp.Header, now),
		Error:      replyText(resp),
	}
	if out.Permanent {
		return out, resultPermanent
	}
	return out, resultFailed
}
