package tracing

import (
	"context"
	"encoding/hex"

	"go.opentelemetry.io/otel/trace"
)

// form is the form of a traceparent of version 00 (W3C Trace Context), with h for a hexadecimal digit in lower case.
const form = "00-hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh-hhhhhhhhhhhhhhhh-hh"

// Traceparent returns the context of the span in ctx as a header of W3C Trace Context, or "" if there is none.
func Traceparent(ctx context.Context) string {
	return header(trace.SpanContextFromContext(ctx))
}

func header(sc trace.SpanContext) string {
	if !sc.IsValid() {
		return ""
	}
	id, span, flags := sc.TraceID(), sc.SpanID(), [1]byte{byte(sc.TraceFlags() & trace.FlagsSampled)}
	text := make([]byte, 0, len(form))
	text = append(text, form[:3]...)
	text = append(hex.AppendEncode(text, id[:]), '-')
	text = append(hex.AppendEncode(text, span[:]), '-')
	return string(hex.AppendEncode(text, flags[:]))
}

// Remote returns ctx with the span of another node, from its traceparent. A malformed one is ignored.
func Remote(ctx context.Context, traceparent string) context.Context {
	if sc, ok := parse(traceparent); ok {
		return trace.ContextWithRemoteSpanContext(ctx, sc)
	}
	return ctx
}

// parse reads a traceparent. It takes later versions too, as the standard demands, and returns false for anything that
// is malformed.
func parse(text string) (_ trace.SpanContext, ok bool) {
	if len(text) < len(form) || len(text) > len(form) && text[len(form)] != '-' || text[2] != '-' || text[35] != '-' ||
		text[52] != '-' || text[:2] == "ff" || text[:2] == "00" && len(text) > len(form) {
		return trace.SpanContext{}, false
	}
	var version, flags [1]byte
	var cfg trace.SpanContextConfig
	for _, part := range []struct {
		to   []byte
		text string
	}{{version[:], text[:2]}, {cfg.TraceID[:], text[3:35]}, {cfg.SpanID[:], text[36:52]}, {flags[:], text[53:55]}} {
		for i := range len(part.text) {
			if c := part.text[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return trace.SpanContext{}, false
			}
		}
		if _, err := hex.Decode(part.to, []byte(part.text)); err != nil {
			return trace.SpanContext{}, false
		}
	}
	cfg.TraceFlags, cfg.Remote = trace.TraceFlags(flags[0])&trace.FlagsSampled, true
	sc := trace.NewSpanContext(cfg)
	return sc, sc.IsValid()
}
