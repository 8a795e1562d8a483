package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/belfryhq/belfry/delivery"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// Publisher delivers tasks to brokers. Its methods may be called concurrently.
type Publisher struct {
	cfg     Config
	pool    *pool
	metrics *metrics
}

// New makes a Publisher. It returns an error for an invalid Config, or if the metrics are already registered.
func New(cfg Config) (*Publisher, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, err
	}
	return &Publisher{cfg: cfg, pool: newPool(cfg, m.open), metrics: m}, nil
}

// CheckURL returns an error, when a task is scheduled, for a broker that is not permitted. task.CheckSpec checks the
// rest of the URL.
func (p *Publisher) CheckURL(rawURL string) *task.FieldError {
	t, err := targeturl.Parse(rawURL)
	switch {
	case err != nil:
		return &task.FieldError{Field: "target.url", Detail: err.Error()}
	case p.cfg.accessTo(t) == nil:
		return &task.FieldError{Field: "target.url", Detail: unknownText(t)}
	}
	return nil
}

// Dial opens a connection to a permitted broker, with TLS if its URL has a scheme with TLS, and without credentials.
func (p *Publisher) Dial(ctx context.Context, rawURL string) (net.Conn, error) {
	t, _, err := targeturl.ParseBroker(rawURL)
	if err != nil {
		return nil, err
	}
	known := p.cfg.accessTo(t)
	if known == nil {
		return nil, errors.New(unknownText(t))
	}
	return newEndpoint(&p.cfg, t, known).connect(ctx, "tcp", t.Hosts[0])
}

func unknownText(t *targeturl.Target) string {
	return fmt.Sprintf("leads to a broker that this node does not know: only an operator can name %s, with --brokers",
		t.Destination())
}

// Deliver publishes one task and returns its outcome: delivered when the broker has confirmed the message. It returns
// within a.Timeout (task.DefaultTimeout if a.Timeout is not positive), and at once when ctx ends. If ctx was cancelled
// or the Publisher closed, the outcome's error begins with "aborted", and the broker may or may not have the message.
//
// The task must not change, even after Deliver returns.
func (p *Publisher) Deliver(ctx context.Context, a task.Attempt) task.Outcome {
	begun := p.cfg.Now()
	t, err := targeturl.Parse(a.Task.GetSpec().GetTarget().GetUrl())
	if err != nil {
		return task.Outcome{Permanent: true, Error: "target.url " + err.Error()}
	}
	out, r := p.attempt(ctx, t, a, begun)
	took := p.cfg.Now().Sub(begun)
	p.metrics.ended(t.Kind, r, took)
	if r != resultDelivered && p.cfg.Logger.Enabled(ctx, slog.LevelDebug) {
		p.cfg.Logger.LogAttrs(ctx, slog.LevelDebug, "attempt not delivered",
			slog.String("task", a.Task.GetId()), slog.String("webhook_id", a.Task.GetWebhookId()),
			slog.Uint64("attempt", uint64(a.Task.GetAttempts())), slog.String("destination", t.Destination()),
			slog.String("result", string(r)), slog.Duration("took", took), slog.String("err", out.Error))
	}
	return out
}

// DeliverBatch publishes tasks in parallel and returns the outcomes in the order of the attempts.
func (p *Publisher) DeliverBatch(ctx context.Context, attempts []task.Attempt) []task.Outcome {
	outcomes := make([]task.Outcome, len(attempts))
	var all sync.WaitGroup
	for i, a := range attempts {
		all.Go(func() { outcomes[i] = p.Deliver(ctx, a) })
	}
	all.Wait()
	return outcomes
}

// Close drops all connections. Running attempts are aborted, and no further one begins.
func (p *Publisher) Close() { p.pool.close() }

func (p *Publisher) attempt(parent context.Context, t *targeturl.Target, a task.Attempt, begun time.Time,
) (task.Outcome, result) {
	timeout := a.Timeout
	if timeout <= 0 {
		timeout = task.DefaultTimeout
	}
	if t.Kind == targeturl.HTTP {
		return task.Outcome{Permanent: true, Error: "target.url is no broker's"}, resultPermanent
	}
	ctx, cancel := context.WithTimeoutCause(parent, timeout, errTimedOut)
	defer cancel()
	m := newMessage(a, t.Kind, begun)
	if p.cfg.Clock != nil {
		m.add("belfry-clock", p.cfg.Clock.Now().UTC().Format(instantForm))
	}
	err := p.pool.publish(ctx, t, m)
	switch {
	case err == nil:
		return task.Outcome{Delivered: true}, resultDelivered
	case errors.Is(parent.Err(), context.Canceled):
		return task.Outcome{Error: "aborted: this node gave the attempt up"}, resultAborted
	case errors.Is(err, errClosed):
		return task.Outcome{Error: "aborted: this node is shutting down"}, resultAborted
	}
	var late *lateError
	if errors.As(err, &late) {
		return task.Outcome{Error: late.text(timeout)}, resultFailed
	}
	f := worded(err)
	if f.permanent {
		return task.Outcome{Permanent: true, Error: f.text}, resultPermanent
	}
	return task.Outcome{Error: f.text}, resultFailed
}

// lateError is the error of an attempt whose time is over. It names the step that the attempt waited for.
type lateError struct {
	doing string
	last  error // the last dial's error; nil: none
}

func (e *lateError) Error() string { return "timed out (" + e.doing + ")" }

func (e *lateError) text(after time.Duration) string {
	if e.last == nil {
		return fmt.Sprintf("timed out after %s (%s)", after, e.doing)
	}
	return fmt.Sprintf("timed out after %s (%s; last: %s)", after, e.doing, delivery.Describe(e.last))
}
