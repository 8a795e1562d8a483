// Package receivers delivers each task to the kind of receiver that its target's URL names: a webhook or a message
// broker.
package receivers

import (
	"context"
	"net"

	"github.com/belfryhq/belfry/delivery"
	"github.com/belfryhq/belfry/delivery/broker"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// Receivers delivers attempts. It is safe for concurrent use.
type Receivers struct {
	webhook *delivery.Webhook
	broker  *broker.Publisher
	guard   *delivery.Guard
}

// New returns the receivers of a node.
func New(web delivery.Config, brokers broker.Config) (*Receivers, error) {
	r := &Receivers{guard: delivery.NewGuard(web.AllowCIDRs)}
	var err error
	if r.webhook, err = delivery.New(web); err != nil {
		return nil, err
	}
	if r.broker, err = broker.New(brokers); err != nil {
		r.webhook.Close()
		return nil, err
	}
	return r, nil
}

// Deliver makes one attempt and returns its outcome.
func (r *Receivers) Deliver(ctx context.Context, a task.Attempt) task.Outcome {
	if targeturl.IsBroker(a.Task.GetSpec().GetTarget().GetUrl()) {
		return r.broker.Deliver(ctx, a)
	}
	return r.webhook.Deliver(ctx, a)
}

// DeliverBatch makes one attempt of each task and returns the outcomes in the same order. Their targets are equal.
func (r *Receivers) DeliverBatch(ctx context.Context, batch []task.Attempt) []task.Outcome {
	if len(batch) > 0 && targeturl.IsBroker(batch[0].Task.GetSpec().GetTarget().GetUrl()) {
		return r.broker.DeliverBatch(ctx, batch)
	}
	return r.webhook.DeliverBatch(ctx, batch)
}

// CheckURL returns an error if tasks may not be delivered to a URL.
func (r *Receivers) CheckURL(rawURL string) *task.FieldError {
	if targeturl.IsBroker(rawURL) {
		return r.broker.CheckURL(rawURL)
	}
	return r.guard.CheckURL(rawURL)
}

// Dial connects to a broker that tasks may be published to, without credentials.
func (r *Receivers) Dial(ctx context.Context, rawURL string) (net.Conn, error) {
	return r.broker.Dial(ctx, rawURL)
}

// Close ends all connections.
func (r *Receivers) Close() error {
	r.webhook.Close()
	r.broker.Close()
	return nil
}
