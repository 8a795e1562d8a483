package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9/logging"

	"github.com/belfryhq/belfry/delivery"
	"github.com/belfryhq/belfry/delivery/broker"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/targeturl"
)

// receivers takes each task to its receiver by what its target's URL names: a webhook or a broker.
type receivers struct {
	webhook *delivery.Webhook
	broker  *broker.Publisher
	guard   *delivery.Guard
}

// newReceivers makes both ways to deliver.
func newReceivers(web delivery.Config, brokers broker.Config) (*receivers, error) {
	r := &receivers{guard: delivery.NewGuard(web.AllowCIDRs)}
	var err error
	if r.webhook, err = delivery.New(web); err != nil {
		return nil, err
	}
	logging.Disable() // this client writes to stderr, for the whole process; what it says is in the outcomes
	brokers.Version, brokers.Now, brokers.Logger, brokers.Registerer = web.Version, web.Now, web.Logger, web.Registerer
	if r.broker, err = broker.New(brokers); err != nil {
		r.webhook.Close()
		return nil, err
	}
	return r, nil
}

// toBroker goes by scheme and host alone: what is wrong with the rest of a broker's URL is the Publisher's to say.
func toBroker(rawURL string) bool {
	t, _, err := targeturl.ParseBroker(rawURL)
	return err == nil && t.Kind != targeturl.HTTP
}

// Deliver makes one attempt.
func (r *receivers) Deliver(ctx context.Context, a fsm.Attempt) fsm.Outcome {
	if toBroker(a.Task.GetSpec().GetTarget().GetUrl()) {
		return r.broker.Deliver(ctx, a)
	}
	return r.webhook.Deliver(ctx, a)
}

// DeliverBatch makes one attempt of each; their targets are equal.
func (r *receivers) DeliverBatch(ctx context.Context, batch []fsm.Attempt) []fsm.Outcome {
	if len(batch) > 0 && toBroker(batch[0].Task.GetSpec().GetTarget().GetUrl()) {
		return r.broker.DeliverBatch(ctx, batch)
	}
	return r.webhook.DeliverBatch(ctx, batch)
}

// CheckURL refuses a receiver that may not be delivered to.
func (r *receivers) CheckURL(rawURL string) *fsm.FieldError {
	if toBroker(rawURL) {
		return r.broker.CheckURL(rawURL)
	}
	return r.guard.CheckURL(rawURL)
}

func (r *receivers) close() error {
	r.webhook.Close()
	r.broker.Close()
	return nil
}

// brokerConfig is what the flags say about brokers.
func (f *serveFlags) brokerConfig() (cfg broker.Config, err error) {
	if cfg.AllowCIDRs, err = prefixes("--allow-broker-cidr", f.brokerCIDRs); err != nil || f.brokers == "" {
		return cfg, err
	}
	if cfg.Known, err = broker.LoadKnown(f.brokers); err != nil {
		return cfg, fmt.Errorf("--brokers: %w", err)
	}
	return cfg, nil
}
