package otlp

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// protocol is the one that the exporter speaks.
const protocol = "http/protobuf"

// Config holds the settings of a node. The zero Config leaves all to the environment.
type Config struct {
	Endpoint string   // URL of a collector
	Ratio    *float64 // of the traces that begin at the node, 0 to 1

	Node, Version string // of the node, for the resource
}

// Lookup returns the value of a variable of the environment, as os.LookupEnv does.
type Lookup func(name string) (value string, ok bool)

// Validate returns an error for a setting out of range.
func (c Config) Validate() error {
	switch {
	case c.Ratio != nil && (*c.Ratio < 0 || *c.Ratio > 1):
		return fmt.Errorf("ratio %v is not within 0 to 1", *c.Ratio)
	case c.Endpoint != "" && !strings.HasPrefix(c.Endpoint, "http://") && !strings.HasPrefix(c.Endpoint, "https://"):
		return fmt.Errorf("endpoint %q is no URL with http or https", c.Endpoint)
	}
	return nil
}

// Start returns a provider whose spans go to a collector, and nil if neither the settings nor the environment name one.
// It does not wait for the collector. The caller shuts the provider down.
func Start(ctx context.Context, cfg Config, lookup Lookup) (*sdktrace.TracerProvider, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if !isOn(cfg, lookup) {
		return nil, nil
	}
	sampler, err := samplerOf(cfg, lookup)
	if err != nil {
		return nil, err
	}
	exporter, err := exporterOf(ctx, cfg, lookup)
	if err != nil {
		return nil, err
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "belfry"),
		attribute.String("service.version", cfg.Version), attribute.String("service.instance.id", cfg.Node)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about),
		sdktrace.WithSampler(linked{sampler})), nil
}

func isOn(cfg Config, lookup Lookup) bool {
	disabled, _ := lookup("OTEL_SDK_DISABLED")
	exporter, _ := lookup("OTEL_TRACES_EXPORTER")
	if strings.EqualFold(disabled, "true") || exporter == "none" {
		return false
	}
	return cfg.Endpoint != "" || variable(lookup, "ENDPOINT") != ""
}

// variable returns a variable of the exporter: the one of traces before the one of all signals.
func variable(lookup Lookup, name string) string {
	own, _ := lookup("OTEL_EXPORTER_OTLP_TRACES_" + name)
	all, _ := lookup("OTEL_EXPORTER_OTLP_" + name)
	return cmp.Or(own, all)
}

func exporterOf(ctx context.Context, cfg Config, lookup Lookup) (*otlptrace.Exporter, error) {
	if wanted := variable(lookup, "PROTOCOL"); wanted != "" && wanted != protocol {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q: "+
			"this program speaks %s, which collectors take at port 4318",
			wanted, protocol)
	}
	var options []otlptracehttp.Option
	if cfg.Endpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(tracesURL(cfg.Endpoint)))
	}
	return otlptracehttp.New(ctx, options...)
}

// tracesURL adds the path of traces to the URL of a collector, unless it has a path.
func tracesURL(endpoint string) string {
	scheme, rest, _ := strings.Cut(endpoint, "://")
	if strings.Contains(strings.TrimSuffix(rest, "/"), "/") {
		return endpoint
	}
	return scheme + "://" + strings.TrimSuffix(rest, "/") + "/v1/traces"
}

// samplerOf returns the sampler of the settings, or of the environment.
func samplerOf(cfg Config, lookup Lookup) (sdktrace.Sampler, error) {
	if cfg.Ratio != nil {
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(*cfg.Ratio)), nil
	}
	name, _ := lookup("OTEL_TRACES_SAMPLER")
	ratio := 1.0
	if text, ok := lookup("OTEL_TRACES_SAMPLER_ARG"); ok && strings.HasSuffix(name, "traceidratio") {
		var err error
		if ratio, err = strconv.ParseFloat(text, 64); err != nil || ratio < 0 || ratio > 1 {
			return nil, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG %q is not within 0 to 1", text)
		}
	}
	switch name {
	case "", "parentbased_always_on":
		return sdktrace.ParentBased(sdktrace.AlwaysSample()), nil
	case "always_on":
		return sdktrace.AlwaysSample(), nil
	case "always_off":
		return sdktrace.NeverSample(), nil
	case "traceidratio":
		return sdktrace.TraceIDRatioBased(ratio), nil
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample()), nil
	case "parentbased_traceidratio":
		return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(ratio)), nil
	}
	return nil, fmt.Errorf("OTEL_TRACES_SAMPLER %q is unknown", name)
}

// linked samples a root span with links if one of its links is sampled. All others are the matter of the Sampler.
type linked struct{ sdktrace.Sampler }

// ShouldSample decides on a span that begins.
func (l linked) ShouldSample(p sdktrace.SamplingParameters) sdktrace.SamplingResult {
	if len(p.Links) == 0 {
		return l.Sampler.ShouldSample(p)
	}
	for _, link := range p.Links {
		if link.SpanContext.IsSampled() {
			return sdktrace.AlwaysSample().ShouldSample(p)
		}
	}
	return sdktrace.NeverSample().ShouldSample(p)
}

// Description names the sampler.
func (l linked) Description() string { return "Linked{" + l.Sampler.Description() + "}" }
