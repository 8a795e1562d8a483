package tracing

import (
	"context"
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope names the instrumentation in each span.
const scope = "github.com/belfryhq/belfry"

// Tracer begins the spans of a node. A nil Tracer begins none. It is safe for concurrent use.
type Tracer struct {
	tracer trace.Tracer
	child  bool
}

// New returns a Tracer of a provider. With child, the attempts of a task belong to the trace of the call that scheduled
// it.
func New(provider trace.TracerProvider, child bool) *Tracer {
	return &Tracer{provider.Tracer(scope), child}
}

// Span is a span that may not be there. The zero Span is none, and its methods do nothing.
type Span struct{ span trace.Span }

// Traceparent returns the span's context as a header of W3C Trace Context, or "" if there is no span.
func (s Span) Traceparent() string {
	if s.span == nil {
		return ""
	}
	return header(s.span.SpanContext())
}

// End ends the span.
func (s Span) End() {
	if s.span != nil {
		s.span.End()
	}
}

// Fail marks the span as failed, with the error's text cut to maxText bytes. A nil error does nothing.
func (s Span) Fail(err error) {
	if s.span != nil && err != nil {
		s.failed(err.Error())
	}
}

// maxText bounds the bytes of a text in a span.
const maxText = 256

func (s Span) failed(text string) { s.span.SetStatus(codes.Error, clip(text)) }

// clip bounds a text, and takes out bytes that are no UTF-8: the exporter drops all spans of a batch for one such text.
func clip(text string) string {
	if len(text) > maxText {
		text = text[:maxText] + "…"
	}
	return strings.ToValidUTF8(text, "")
}

// Call begins the span of a call of the API by its method and the route for its path. traceparent is that of the
// caller; a malformed one is ignored.
func (t *Tracer) Call(ctx context.Context, method, route, traceparent string) (context.Context, Span) {
	if t == nil {
		return ctx, Span{}
	}
	ctx = Remote(ctx, traceparent)
	name := method
	if route != "" {
		name += " " + route
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", method), attribute.String("http.route", route)))
	return ctx, Span{span}
}

// Answer notes the status of the answer to a call, and the namespace of the call if it has one.
func (s Span) Answer(status int, namespace string) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.Int("http.response.status_code", status))
	if namespace != "" {
		s.span.SetAttributes(attribute.String("belfry.namespace", namespace))
	}
	if status >= http.StatusInternalServerError {
		s.failed(http.StatusText(status))
	}
}

// Commit begins the span of the commit of a call's commands by the leader of a shard. A context without the span of a
// call gets none.
func (t *Tracer) Commit(ctx context.Context, shard uint32, commands int) (context.Context, Span) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx, Span{}
	}
	ctx, span := t.tracer.Start(ctx, "commit", trace.WithAttributes(
		attribute.Int64("belfry.shard", int64(shard)), attribute.Int("belfry.commands", commands)))
	return ctx, Span{span}
}

// Attempt is an attempt to deliver a task.
type Attempt struct {
	Namespace, Queue, Task, WebhookID string

	Traceparent string // of the call that scheduled the task; empty: it had none
	Destination string // scheme, host and port of the receiver
	Number      uint32 // from 1
	Fence       uint64
	Shard       uint32
}

// Deliver begins the span of an attempt.
func (t *Tracer) Deliver(ctx context.Context, a Attempt) Span {
	if t == nil {
		return Span{}
	}
	options := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("messaging.system", "belfry"), attribute.String("messaging.operation.type", "send"),
		attribute.String("messaging.destination.name", a.Queue), attribute.String("messaging.message.id", a.WebhookID),
		attribute.String("belfry.namespace", a.Namespace), attribute.String("belfry.task", a.Task),
		attribute.String("belfry.destination", a.Destination), attribute.Int64("belfry.attempt", int64(a.Number)),
		attribute.Int64("belfry.fence", int64(a.Fence)), attribute.Int64("belfry.shard", int64(a.Shard)),
	)}
	switch call, ok := parse(a.Traceparent); {
	case ok && t.child:
		ctx = trace.ContextWithRemoteSpanContext(ctx, call)
	case ok:
		options = append(options, trace.WithNewRoot(), trace.WithLinks(trace.Link{SpanContext: call}))
	}
	_, span := t.tracer.Start(ctx, "deliver", options...)
	return Span{span}
}

// Attempted notes whether an attempt has delivered its task, and the text of the error otherwise.
func (s Span) Attempted(delivered bool, err string) {
	if s.span == nil {
		return
	}
	s.span.SetAttributes(attribute.Bool("belfry.delivered", delivered))
	if !delivered {
		s.failed(err)
	}
}
