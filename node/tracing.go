package node

import (
	"context"
	"os"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/belfryhq/belfry/cluster/logs"
	"github.com/belfryhq/belfry/internal/tracing"
	"github.com/belfryhq/belfry/node/internal/otlp"
)

// TracingConfig says where the spans of a node go, before the variables OTEL_* of the environment. Without an endpoint
// in either, no spans are made.
type TracingConfig struct {
	Endpoint   string   // URL of a collector that speaks OTLP over HTTP
	Ratio      *float64 // part of the traces that begin here which are kept, 0 to 1; nil: of the environment, or all
	Deliveries string   // "link" or "child": how the span of an attempt refers to the call that scheduled its task
}

func (c *TracingConfig) validate() error {
	if c == nil {
		return nil
	}
	if err := c.exporter("").Validate(); err != nil {
		return &SettingError{"otlp-endpoint", err}
	}
	if err := oneOf(c.Deliveries, "link", "child"); err != nil {
		return &SettingError{"trace-deliveries", err}
	}
	return nil
}

func (c *TracingConfig) exporter(node string) otlp.Config {
	return otlp.Config{Endpoint: c.Endpoint, Ratio: c.Ratio, Node: node, Version: ReadBuild().Version}
}

// spansEnd is the time in which the last spans may be sent when the node stops.
const spansEnd = 2 * time.Second

// startTracing makes the tracer, if a collector is named.
func (n *Node) startTracing(ctx context.Context) error {
	if n.cfg.Tracing == nil {
		return nil
	}
	name := n.cfg.Name
	if name == "" {
		name, _ = os.Hostname() // a label for people: it may be empty
	}
	provider, err := otlp.Start(ctx, n.cfg.Tracing.exporter(name), os.LookupEnv)
	if err != nil {
		return &SettingError{"otlp-endpoint", err}
	}
	if provider == nil {
		return nil
	}
	log := logs.Limited(n.log)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("spans are lost", "err", err) }))
	n.tracer = tracing.New(provider, n.cfg.Tracing.Deliveries == "child")
	n.onStop(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), spansEnd)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			n.log.Warn("the last spans are lost", "err", err)
		}
		return nil
	})
	n.log.Info("spans are sent to a collector", "deliveries", n.cfg.Tracing.Deliveries)
	return nil
}
