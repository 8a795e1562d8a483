package delivery

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

var (
	errTimedOut = errors.New("the attempt's time is over")
	errEnded    = errors.New("the attempt has ended")
)

// verdict is an outcome and its class.
type verdict struct {
	task.Outcome
	class  result
	status int // of the reply; 0: none
}

// told returns the outcome of an attempt, with the status if the attempt asks for it.
func (v verdict) told(a task.Attempt) task.Outcome {
	if a.WantsStatus {
		v.Status = v.status
	}
	return v.Outcome
}

func delivered(status int) verdict {
	return verdict{task.Outcome{Delivered: true}, resultDelivered, status}
}

func failed(text string) verdict { return verdict{task.Outcome{Error: text}, resultFailed, 0} }

// hopeless returns the verdict of an attempt after which no retry can help.
func hopeless(text string) verdict {
	return verdict{task.Outcome{Permanent: true, Error: text}, resultPermanent, 0}
}

// unsent returns the verdict of an attempt whose request cannot be made.
func unsent(err error) verdict {
	v := hopeless(err.Error())
	var unproven *unprovenError
	if errors.As(err, &unproven) {
		v = failed(printable([]byte(err.Error()), maxExcerpt))
		v.Refused = true // it is no fault of the receiver
	}
	return v
}

func aborted(why string) verdict {
	return verdict{task.Outcome{Error: "aborted: " + why}, resultAborted, 0}
}

// attempt runs one attempt within its own timeout.
func (w *Webhook) attempt(parent context.Context, a task.Attempt, begun time.Time) verdict {
	build := func(ctx context.Context) (*http.Request, error) { return w.request(ctx, a, begun) }
	return w.exchange(parent, a.Task, a.Timeout, build, func(x *exchange, resp *http.Response) verdict {
		return x.answered(resp, w.cfg.Now(), a.KeepAnswer)
	})
}

// exchange makes one HTTP request for a task, or for the first one of a batch; judge turns the reply into a verdict.
func (w *Webhook) exchange(parent context.Context, first *fsmpb.Task, timeout time.Duration,
	build func(context.Context) (*http.Request, error), judge func(*exchange, *http.Response) verdict) verdict {
	if w.closed.Load() {
		return aborted("this node is shutting down")
	}
	x := w.begin(parent, timeout)
	defer x.end()
	req, err := build(x.ctx)
	var transport *http.Transport
	if err == nil {
		transport, err = w.transports.of(first)
	}
	if err != nil {
		return unsent(err)
	}
	if w.cfg.Clock != nil {
		req.Header["belfry-clock"] = []string{instant(w.cfg.Clock.Now().UnixMilli())}
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		x.drop()
		return x.failed(err)
	}
	x.replied()
	defer func() { _ = resp.Body.Close() }() // an error here does not change the outcome
	v := judge(x, resp)
	v.Answer = w.withoutToken(v.Answer, first, req.Header)
	return v
}

// exchange is one request in progress. It records its phase, so that an error can name it.
type exchange struct {
	parent         context.Context // the caller's context
	ctx            context.Context // ends with the exchange, at the latest at deadline
	cancel         context.CancelCauseFunc
	reached        atomic.Int32 // a phase; the transport's goroutines write it
	trace          httptrace.ClientTrace
	timeout        time.Duration // of the whole attempt
	connectTimeout time.Duration // never longer than timeout
	deadline       time.Time     // of the whole attempt
	timer          *time.Timer   // ends ctx
	wire           *wire         // connection of the request; nil before there is one
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

// hurry limits the time for the rest of a reply to replyPatience, since the outcome no longer depends on the body.
func (x *exchange) hurry() { x.timer.Reset(min(replyPatience, time.Until(x.deadline))) }

// phase is the progress of an exchange.
type phase int32

const (
	connecting phase = iota
	sending
	waiting   // the whole request is sent
	answering // the first byte of the reply has arrived
)

func (x *exchange) enter(p phase) { x.reached.Store(int32(p)) }

func (x *exchange) phase() phase { return phase(x.reached.Load()) }

// traced returns ctx with x's trace and deadline, which the transport and the dialer read.
func (x *exchange) traced(ctx context.Context) context.Context {
	x.trace = httptrace.ClientTrace{
		GetConn:              func(string) { x.enter(connecting) }, // called again if an idle connection proved dead
		GotConn:              x.gotConn,
		WroteRequest:         x.wrote,
		GotFirstResponseByte: func() { x.enter(answering) },
	}
	return httptrace.WithClientTrace(withAttempt(ctx, x.deadline), &x.trace)
}

// gotConn notes the connection, on which the request begins now. The transport calls it before RoundTrip returns.
func (x *exchange) gotConn(info httptrace.GotConnInfo) {
	x.enter(sending)
	if x.wire = wireOf(info.Conn); x.wire != nil {
		x.wire.busy.Store(true)
	}
}

// replied notes that the header of the reply has come.
func (x *exchange) replied() {
	if x.wire != nil {
		x.wire.busy.Store(false)
	}
}

// drop closes the connection at once. The transport closes it, too, but somewhat later.
func (x *exchange) drop() {
	if x.wire != nil {
		_ = x.wire.Close() // the transport may have been first
	}
}

// wrote notes that the whole request is sent. It may run after the reply's first byte, since a receiver may reply
// early.
func (x *exchange) wrote(info httptrace.WroteRequestInfo) {
	if info.Err == nil {
		x.reached.CompareAndSwap(int32(sending), int32(waiting))
	}
}

// failed returns the verdict of an exchange that ended without a reply.
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

// cutOff returns the verdict of an exchange that this node ended, by the caller's cancellation or a timeout. It returns
// false for any other end.
func (x *exchange) cutOff() (verdict, bool) {
	switch {
	case errors.Is(x.parent.Err(), context.Canceled):
		return aborted("this node gave the attempt up"), true
	case x.outOfTime():
		return failed(timedOut(x.timeout, x.phase())), true
	}
	return verdict{}, false
}

// outOfTime reports whether the attempt's time is over by any of three clocks: the exchange's own timer, the deadline
// of its dials, or the caller's context, which may have the same timeout and an earlier start.
func (x *exchange) outOfTime() bool {
	return errors.Is(context.Cause(x.ctx), errTimedOut) || !time.Now().Before(x.deadline) || x.parent.Err() != nil
}

// answered returns the verdict of a reply by its status, with the beginning of the reply's body if it is kept.
func (x *exchange) answered(resp *http.Response, now time.Time, kept bool) verdict {
	x.hurry()
	keep := 0
	if kept {
		keep = task.MaxKeptAnswer
	}
	var v verdict
	var body []byte
	if isSuccess(resp.StatusCode) {
		body = drain(resp, keep)
		v = delivered(resp.StatusCode)
	} else {
		body = drain(resp, max(keep, 2*maxExcerpt))
		v = refusal(resp.StatusCode, retryAfter(resp.Header, now), replyText(resp, body))
	}
	v.Answer = string(body[:min(keep, len(body))])
	return v
}

func isSuccess(status int) bool { return 200 <= status && status <= 299 }

// isReceivers reports whether a status that is not 2xx says that the receiver fails. Others fail this task alone.
func isReceivers(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status < 300 || status >= 500
}

// refusal returns the verdict of a status that is not 2xx.
func refusal(status int, after time.Duration, text string) verdict {
	v := failed(text)
	if status == http.StatusGone {
		v = hopeless(text)
	}
	v.RetryAfter, v.Refused, v.status = after, !isReceivers(status), status
	return v
}
