package tracing

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/belfryhq/belfry/internal/assert"
)

const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func recording(child bool) (*Tracer, *tracetest.SpanRecorder) {
	spans := tracetest.NewSpanRecorder()
	return New(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)), child), spans
}

func traceOf(traceparent string) string { return traceparent[3:35] }

// A call continues the trace of its caller. Its commit is below it, and an attempt is a trace of its own with a link.
func TestSpansOfATask(t *testing.T) {
	tr, spans := recording(false)
	ctx, call := tr.Call(t.Context(), "PUT", "/v1/tasks/:id", caller)
	_, commit := tr.Commit(Remote(t.Context(), Traceparent(ctx)), 3, 1) // on another node
	commit.End()
	call.Answer(201, "default")
	call.End()
	attempt := tr.Deliver(t.Context(), Attempt{Queue: "mails", Traceparent: call.Traceparent(), Number: 2})
	attempt.Attempted(false, strings.Repeat("ü\xff", 1000))
	attempt.End()

	ended := spans.Ended()
	assert.MustEqual(t, len(ended), 3, "spans")
	committed, called, delivered := ended[0], ended[1], ended[2]
	if called.Name() != "PUT /v1/tasks/:id" || called.SpanContext().TraceID().String() != traceOf(caller) ||
		called.Parent().SpanID().String() != "00f067aa0ba902b7" || called.SpanKind() != trace.SpanKindServer {
		t.Errorf("the call: %+v", called)
	}
	if committed.Parent().SpanID() != called.SpanContext().SpanID() || committed.Name() != "commit" {
		t.Errorf("the commit: %+v", committed)
	}
	if delivered.Parent().IsValid() || delivered.SpanContext().TraceID() == called.SpanContext().TraceID() {
		t.Errorf("the attempt has no trace of its own: %+v", delivered)
	}
	if links := delivered.Links(); len(links) != 1 || links[0].SpanContext.SpanID() != called.SpanContext().SpanID() {
		t.Errorf("the attempt links to %+v", links)
	}
	if status := delivered.Status(); status.Code != codes.Error || len(status.Description) > maxText+len("…") ||
		!utf8.ValidString(status.Description) || !strings.HasPrefix(status.Description, "üü") {
		t.Errorf("status %+v", status)
	}
}

func TestAttemptsAsChildren(t *testing.T) {
	tr, spans := recording(true)
	attempt := tr.Deliver(t.Context(), Attempt{Traceparent: caller})
	if traceOf(attempt.Traceparent()) != traceOf(caller) {
		t.Errorf("the receiver gets %s", attempt.Traceparent())
	}
	attempt.End()
	if ended := spans.Ended()[0]; ended.Parent().SpanID().String() != "00f067aa0ba902b7" || len(ended.Links()) > 0 {
		t.Errorf("%+v", ended)
	}
}

// A commit that belongs to no call has no span, and malformed headers begin new traces.
func TestSpansWithoutACaller(t *testing.T) {
	tr, spans := recording(false)
	if _, span := tr.Commit(t.Context(), 1, 1); span != (Span{}) || span.Traceparent() != "" {
		t.Error("a commit without a call has a span")
	}
	for _, header := range []string{"", "x", strings.ToUpper(caller), caller + "-x", "ff" + caller[2:],
		"00-" + strings.Repeat("0", 32) + caller[35:], caller[:36] + strings.Repeat("0", 16) + "-01"} {
		_, span := tr.Call(t.Context(), "GET", "", header)
		if traceOf(span.Traceparent()) == traceOf(caller) {
			t.Errorf("%q is continued", header)
		}
		span.End()
	}
	later := "01" + caller[2:] + "-more"
	_, span := tr.Call(t.Context(), "GET", "", later)
	assert.Equal(t, traceOf(span.Traceparent()), traceOf(caller), "%s is not continued", later)
	if ended := spans.Ended(); len(ended) != 7 || ended[0].Parent().IsValid() || ended[0].Name() != "GET" {
		t.Errorf("%v", ended)
	}
}

// Without a Tracer nothing begins and nothing is allocated.
func TestOff(t *testing.T) {
	ctx := t.Context()
	n := testing.AllocsPerRun(100, func() { off(ctx) })
	assert.Equal(t, n, 0, "allocations")
}

var errTorn = errors.New("torn")

// off begins and ends all spans of a task.
func off(ctx context.Context) {
	var none *Tracer
	called, call := none.Call(ctx, "PUT", "/v1/tasks/:id", caller)
	committed, commit := none.Commit(called, 1, 1)
	commit.Fail(errTorn)
	commit.End()
	call.Answer(201, "default")
	call.End()
	attempt := none.Deliver(committed, Attempt{Queue: "mails", Traceparent: caller})
	attempt.Attempted(true, "")
	attempt.End()
	if call.Traceparent() != "" || attempt.Traceparent() != "" || called != ctx || committed != ctx {
		panic("there is a span")
	}
}

func BenchmarkOff(b *testing.B) {
	b.ReportAllocs()
	ctx := context.Background()
	for b.Loop() {
		off(ctx)
	}
}

func BenchmarkOn(b *testing.B) {
	tr := New(sdktrace.NewTracerProvider(), false)
	b.ReportAllocs()
	for b.Loop() {
		ctx, call := tr.Call(context.Background(), "PUT", "/v1/tasks/:id", caller)
		_, commit := tr.Commit(ctx, 1, 1)
		commit.End()
		call.Answer(201, "default")
		call.End()
		attempt := tr.Deliver(context.Background(), Attempt{Queue: "mails", Traceparent: call.Traceparent()})
		attempt.Attempted(true, "")
		attempt.End()
	}
}
