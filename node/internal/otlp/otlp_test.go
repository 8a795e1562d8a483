package otlp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/internal/assert"
)

// receiver is a collector that takes spans. It stands in for the collector of OpenTelemetry, which
// needs 280 modules: TestRealCollector of package node runs that one.
type receiver struct {
	t     *testing.T
	spans chan *tracepb.ResourceSpans
}

func newReceiver(t *testing.T) *receiver {
	return &receiver{t: t, spans: make(chan *tracepb.ResourceSpans, 100)}
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var export collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &export)
	}
	if err != nil || req.URL.Path != "/v1/traces" {
		http.Error(w, "not here", http.StatusNotFound)
		return
	}
	for _, s := range export.ResourceSpans {
		r.spans <- s
	}
	data, err := proto.Marshal(&collector.ExportTraceServiceResponse{})
	assert.Equal(r.t, err, nil)
	w.Header().Set("Content-Type", "application/x-protobuf")
	_, _ = w.Write(data) // the exporter may be gone
}

func (r *receiver) serveHTTP() (url string) {
	server := httptest.NewServer(r)
	r.t.Cleanup(server.Close)
	return server.URL
}

func noVariables(string) (string, bool) { return "", false }

func variables(pairs ...string) Lookup {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// Spans arrive, with the node as their resource.
func TestSpansArrive(t *testing.T) {
	r := newReceiver(t)
	p, err := Start(t.Context(), Config{Endpoint: r.serveHTTP(), Node: "n1", Version: "0.1.0"}, noVariables)
	assert.NoError(t, err)
	_, span := p.Tracer("test").Start(t.Context(), "deliver")
	span.End()
	assert.NoError(t, p.Shutdown(t.Context()))
	got := <-r.spans
	var about []string
	for _, a := range got.Resource.Attributes {
		about = append(about, a.Key+"="+a.Value.GetStringValue())
	}
	for _, want := range []string{"service.name=belfry", "service.version=0.1.0", "service.instance.id=n1"} {
		if !slices.Contains(about, want) {
			t.Errorf("the resource lacks %s: %v", want, about)
		}
	}
	s := got.ScopeSpans[0].Spans[0]
	assert.Equal(t, s.Name, "deliver", "%v", s)
}

// Without an endpoint, or with variables that forbid it, nothing begins.
func TestOff(t *testing.T) {
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for name, lookup := range map[string]Lookup{
		"no endpoint": noVariables,
		"disabled":    variables(endpoint, "http://localhost:1", "OTEL_SDK_DISABLED", "TRUE"),
		"no exporter": variables(endpoint, "http://localhost:1", "OTEL_TRACES_EXPORTER", "none"),
	} {
		if p, err := Start(t.Context(), Config{}, lookup); p != nil || err != nil {
			t.Errorf("%s: %v, %v", name, p, err)
		}
	}
	p, err := Start(t.Context(), Config{}, variables("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://localhost:1"))
	if p == nil || err != nil {
		t.Fatalf("with a variable: %v, %v", p, err)
	}
	assert.Equal(t, p.Shutdown(t.Context()), nil)
}

func TestWrongSettings(t *testing.T) {
	half := 1.5
	on := Config{Endpoint: "http://localhost:1"}
	for name, c := range map[string]struct {
		cfg    Config
		lookup Lookup
	}{
		"ratio":           {Config{Endpoint: on.Endpoint, Ratio: &half}, noVariables},
		"endpoint":        {Config{Endpoint: "localhost:4317"}, noVariables},
		"protocol":        {on, variables("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")},
		"sampler":         {on, variables("OTEL_TRACES_SAMPLER", "sometimes")},
		"sampler's ratio": {on, variables("OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "2")},
	} {
		if p, err := Start(t.Context(), c.cfg, c.lookup); p != nil || err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// An attempt is sampled if the call that scheduled its task was. The ratio decides on all other roots.
func TestSampling(t *testing.T) {
	none := 0.0
	sampler, err := samplerOf(Config{Ratio: &none}, noVariables)
	assert.NoError(t, err)
	p := sdktrace.NewTracerProvider(sdktrace.WithSampler(linked{sampler}))
	linkTo := func(flags trace.TraceFlags) trace.SpanStartOption {
		return trace.WithLinks(trace.Link{SpanContext: trace.NewSpanContext(trace.SpanContextConfig{
			TraceID: trace.TraceID{1}, SpanID: trace.SpanID{1}, TraceFlags: flags, Remote: true,
		})})
	}
	for name, c := range map[string]struct {
		options []trace.SpanStartOption
		want    bool
	}{
		"root":            {nil, false},
		"of a sampled":    {[]trace.SpanStartOption{trace.WithNewRoot(), linkTo(trace.FlagsSampled)}, true},
		"of an unsampled": {[]trace.SpanStartOption{trace.WithNewRoot(), linkTo(0)}, false},
	} {
		_, span := p.Tracer("test").Start(t.Context(), "deliver", c.options...)
		assert.Equal(t, span.SpanContext().IsSampled(), c.want, "%s", name)
	}
}

func TestPathOfTraces(t *testing.T) {
	for endpoint, want := range map[string]string{
		"http://c:4318": "http://c:4318/v1/traces", "http://c:4318/": "http://c:4318/v1/traces",
		"https://c/own/path": "https://c/own/path",
	} {
		assert.Equal(t, tracesURL(endpoint), want, "%s", endpoint)
	}
}
