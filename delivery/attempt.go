package delivery

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm/task"
)

var (
	errTimedOut = errors.New("the attempt's time is over")
	errEnded    = errors.New("the attempt has ended")
)

// verdict is an outcome and its class.
type verdict struct {
	task.Outcome
	class result
}

func delivered() verdict { return verdict{task.Outcome{Delivered: true}, resultDelivered} }

func failed(text string) verdict { return verdict{task.Outcome{Error: text}, resultFailed} }

// hopeless is the verdict when no further attempt can help.
func hopeless(text string) verdict {
	return verdict{task.Outcome{Permanent: true, Error: text}, resultPermanent}
}

func aborted(why string) verdict {
	return verdict{task.Outcome{Error: "aborted: " + why}, resultAborted}
}

// attempt runs one attempt within its own timeout.
func (w *Webhook) attempt(parent context.Context, a task.Attempt, begun time.Time) verdict {
	build := func(ctx context.Context) (*http.Request, error) { return w.request(ctx, a, begun) }
	return w.exchange(parent, a.Timeout, build, func(x *exchange, resp *http.Response) verdict {
		return x.answered(resp, w.cfg.Now())
	})
}

// exchange makes one request, and has judge say what its reply means.
func (w *Webhook) exchange(parent context.Context, timeout time.Duration,
	build func(context.Context) (*http.Request, error), judge func(*exchange, *http.Response) verdict) verdict {
	if w.closed.Load() {
		return aborted("this node is shutting down")
	}
	x := w.begin(parent, timeout)
	defer x.end()
	req, err := build(x.ctx)
	if err != nil {
		return hopeless(err.Error())
	}
	resp, err := w.transport.RoundTrip(req)
	if err != nil {
		return x.failed(err)
	}
	defer func() { _ = resp.Body.Close() }() // what it can report has no bearing on the outcome
	return judge(x, resp)
}

// exchange is one request on its way, so that an error can say how far it came.
type exchange struct {
	parent         context.Context // the caller's
	ctx            context.Context // ends with the exchange, at the latest when its time is over
	cancel         context.CancelCauseFunc
	reached        atomic.Int32 // a phase; written by the transport's goroutines
	trace          httptrace.ClientTrace
	timeout        time.Duration // the whole attempt's
	connectTimeout time.Duration // never longer than timeout
	deadline       time.Time     // of the whole attempt
	timer          *time.Timer   // ends ctx
}

func (w *Webhook) begin(parent context.Context, timeout time.Duration) *exchange {
	if timeout <= 0 {
		timeout = task.DefaultTimeout
	}
	x := &exchange{parent: parent, timeout: timeout, connectTimeout: min(timeout, w.cfg.ConnectTimeout)}
	ctx, cancel := context.WithCancelCause(parent)
	x.cancel = cancel
	x.timer = time.AfterFunc(timeout, func() { cancel(errTimedOut) })
	x.deadline = time.Now().Add(timeout)
	x.ctx = x.traced(ctx)
	return x
}

func (x *exchange) end() {
	x.timer.Stop()
	x.cancel(errEnded)
}

// hurry leaves the rest of a reply only so much of the attempt's time, for nothing depends on it any more.
func (x *exchange) hurry() { x.timer.Reset(min(replyPatience, time.Until(x.deadline))) }

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

// traced returns ctx with all that the transport needs to know of x.
func (x *exchange) traced(ctx context.Context) context.Context {
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
func (x *exchange) failed(err error) verdict {
	if v, ended := x.cutOff(); ended {
		return v
	}
	var refused *refusedError
	if errors.As(err, &refused) {
		return hopeless(refused.Error())
	}
	return failed(x.describe(err))
}

// cutOff judges an exchange whose end came from this side, if it did.
func (x *exchange) cutOff() (verdict, bool) {
	switch {
	case errors.Is(x.parent.Err(), context.Canceled):
		return aborted("this node gave the attempt up"), true
	case x.outOfTime():
		return failed(timedOut(x.timeout, x.phase())), true
	}
	return verdict{}, false
}

// outOfTime tells whether the attempt's time is over, by whichever of the clocks that count it is first: its own timer,
// the deadline that a dial ends at, or that of a caller who allows it the same time and began to count a little sooner.
func (x *exchange) outOfTime() bool {
	return errors.Is(context.Cause(x.ctx), errTimedOut) || !time.Now().Before(x.deadline) || x.parent.Err() != nil
}

// answered judges a reply by its status.
func (x *exchange) answered(resp *http.Response, now time.Time) verdict {
	x.hurry()
	if isSuccess(resp.StatusCode) {
		drain(resp, 0)
		return delivered()
	}
	return refusal(resp.StatusCode, retryAfter(resp.Header, now), replyText(resp))
}

func isSuccess(status int) bool { return 200 <= status && status <= 299 }

// refusal is the verdict on a status that is no success.
func refusal(status int, after time.Duration, text string) verdict {
	v := failed(text)
	if status == http.StatusGone {
		v = hopeless(text)
	}
	v.RetryAfter = after
	return v
}
