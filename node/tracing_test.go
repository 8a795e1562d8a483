package node

import (
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
)

const callersTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// spanBook is a collector that keeps spans by their names.
type spanBook struct {
	mu    sync.Mutex
	spans map[string][]*tracepb.Span
}

func (b *spanBook) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var export collector.ExportTraceServiceRequest
	body, err := io.ReadAll(r.Body)
	if err != nil || proto.Unmarshal(body, &export) != nil {
		return // the test misses the spans
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, resource := range export.ResourceSpans {
		for _, scope := range resource.ScopeSpans {
			for _, s := range scope.Spans {
				b.spans[s.Name] = append(b.spans[s.Name], s)
			}
		}
	}
}

// one returns the only span of a name.
func (b *spanBook) one(t *testing.T, name string) *tracepb.Span {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.spans[name]) != 1 {
		t.Fatalf("%d spans %s: %v", len(b.spans[name]), name, b.spans)
	}
	return b.spans[name][0]
}

// traced schedules a task at a node, and returns the spans and the traceparent that the receiver got.
func traced(t *testing.T, deliveries string) (book *spanBook, received string) {
	t.Helper()
	book = &spanBook{spans: map[string][]*tracepb.Span{}}
	collecting := httptest.NewServer(book)
	defer collecting.Close()
	received = deliver(t, TracingConfig{Endpoint: collecting.URL, Deliveries: deliveries})
	return book, received
}

// deliver schedules a task at a node with tracing, stops the node after the delivery, and returns the traceparent that
// the receiver got.
func deliver(t *testing.T, tracing TracingConfig) (received string) {
	t.Helper()
	arrived := make(chan string, 1)
	cfg := DevConfig(filepath.Join(t.TempDir(), "data")) // it is ready soon
	cfg.Network, cfg.Tracing = memnet.New(), &tracing
	receiver := serve(t, cfg, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("Traceparent")
	}))
	n, err := Start(t.Context(), cfg)
	assert.NoError(t, err)
	dial(t, n)
	body := `{"delay":"1ms","target":{"url":"` + receiver + `"}}`
	req, err := http.NewRequestWithContext(t.Context(), "PUT", "http://"+n.HTTPAddr()+"/v1/tasks/t", strings.NewReader(body))
	assert.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Traceparent", callersTrace)
	resp, err := plain(t, cfg).Do(req)
	assert.NoError(t, err)
	resp.Body.Close()
	assert.MustEqual(t, resp.StatusCode, http.StatusCreated, "%v", resp.Status)
	received = <-arrived
	if err := n.Close(); err != nil { // sends the spans that wait
		t.Fatal(err)
	}
	return received
}

// The call continues the trace of its caller, its commit is below it, and the attempt is a trace of its own that links to
// the call. The receiver gets the attempt's trace.
func TestSpansOfADelivery(t *testing.T) {
	book, received := traced(t, "link")
	call, commit, attempt := book.one(t, "PUT /v1/tasks/:id"), book.one(t, "commit"), book.one(t, "deliver")
	if hex.EncodeToString(call.TraceId) != callersTrace[3:35] || hex.EncodeToString(call.ParentSpanId) != callersTrace[36:52] {
		t.Errorf("the call: %v", call)
	}
	assert.Equal(t, string(commit.ParentSpanId), string(call.SpanId), "the commit: %v", commit)
	if len(attempt.Links) != 1 || string(attempt.Links[0].SpanId) != string(call.SpanId) || len(attempt.ParentSpanId) > 0 ||
		string(attempt.TraceId) == string(call.TraceId) {
		t.Errorf("the attempt: %v", attempt)
	}
	want := "00-" + hex.EncodeToString(attempt.TraceId) + "-" + hex.EncodeToString(attempt.SpanId) + "-01"
	assert.Equal(t, received, want, "the receiver got")
}

// With the setting child the attempt is below the call.
func TestDeliveriesAsChildren(t *testing.T) {
	book, received := traced(t, "child")
	call, attempt := book.one(t, "PUT /v1/tasks/:id"), book.one(t, "deliver")
	if string(attempt.ParentSpanId) != string(call.SpanId) || len(attempt.Links) > 0 || received[3:35] != callersTrace[3:35] {
		t.Errorf("the attempt: %v; the receiver got %s", attempt, received)
	}
}

// A collector of OpenTelemetry takes the spans. Its path is in BELFRY_COLLECTOR: `make observe` builds it.
func TestRealCollector(t *testing.T) {
	binary := os.Getenv("BELFRY_COLLECTOR")
	if binary == "" {
		t.Skip("make observe runs this test: it needs a collector")
	}
	addr := freeAddr(t, Config{})
	config := filepath.Join(t.TempDir(), "collector.yaml")
	text := fmt.Sprintf(`
receivers: {otlp: {protocols: {http: {endpoint: %q}}}}
exporters: {debug: {verbosity: detailed}}
service:
  pipelines: {traces: {receivers: [otlp], exporters: [debug]}}
  telemetry: {metrics: {level: none}}
`, addr)
	assert.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	var printed assert.Log
	collector := exec.CommandContext(t.Context(), binary, "--config", config)
	collector.Stdout, collector.Stderr = &printed, &printed
	assert.NoError(t, collector.Start())
	defer func() {
		_ = collector.Process.Kill() // it may have ended
		_ = collector.Wait()         // killed
		if t.Failed() {
			t.Log(printed.String())
		}
	}()
	until(t, func() bool { return strings.Contains(printed.String(), "Everything is ready") })
	received := deliver(t, TracingConfig{Endpoint: "http://" + addr, Deliveries: "link"})
	for _, want := range []string{"PUT /v1/tasks/:id", callersTrace[3:35], received[3:35], received[36:52], "SpanLink #0"} {
		until(t, func() bool { return strings.Contains(printed.String(), want) })
	}
}
