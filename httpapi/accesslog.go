package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/audit"
	"github.com/belfryhq/belfry/internal/tracing"
)

// accessLog writes the record of each call that has ended, with the message "call" and these attributes:
//
//	method, path       of the request; the path without its query
//	route              of the API, such as /v1/tasks/:id; absent if there is none for the path
//	status, bytes      of the answer and its body
//	took               until the answer was written; of a stream, all of it
//	from               the address of the caller
//	caller, caller_id  kind and id of the caller; absent if the call needs none, or its credentials were refused
//	namespace          of the call; absent if it is about none
//	id                 the caller's X-Request-Id, or else the traceparent of the call's span or of the caller; absent
//	                   without any of them
//
// Texts of callers are cleaned as in the audit log, since a caller may put a secret into a path.
type accessLog struct {
	log   *slog.Logger
	level slog.Level
}

// newAccessLog returns nil if nothing would be written.
func newAccessLog(cfg Config) *accessLog {
	switch {
	case cfg.AccessLog != nil:
		return &accessLog{cfg.AccessLog, slog.LevelInfo}
	case cfg.Logger.Enabled(context.Background(), slog.LevelDebug):
		return &accessLog{cfg.Logger, slog.LevelDebug}
	}
	return nil
}

// callKey is the key under which authorize leaves a call for the access log and the span.
const callKey = "belfry.call"

// record is a middleware that writes a record of each call.
func (l *accessLog) record(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		begin := time.Now()
		err := next(c) // answered by observe
		l.log.LogAttrs(c.Request().Context(), l.level, "call", lineOf(c, time.Since(begin))...)
		return err
	}
}

func lineOf(c echo.Context, took time.Duration) []slog.Attr {
	r := c.Request()
	attrs := append(make([]slog.Attr, 0, 11), slog.String("method", r.Method),
		slog.String("path", audit.Clean(r.URL.Path)), slog.Int("status", c.Response().Status),
		slog.Int64("bytes", c.Response().Size), slog.Duration("took", took), slog.String("from", r.RemoteAddr))
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(key, value))
		}
	}
	add("route", shortRoute(c.Path()))
	if cl, ok := c.Get(callKey).(*call); ok {
		if cl.caller.Kind != access.KindLocal {
			add("caller", cl.caller.Kind)
			add("caller_id", audit.Clean(cl.caller.ID))
		}
		add("namespace", cl.namespace)
	}
	add("id", requestID(r))
	return attrs
}

// requestID returns the caller's id for a call, which log lines about the call contain. Answers do not repeat the id,
// and a call without an id gets none.
func requestID(r *http.Request) string {
	if id := r.Header.Get(echo.HeaderXRequestID); id != "" {
		return audit.Clean(id)
	}
	return traceOf(r)
}

// trace is a middleware that makes a span of each call. Probes and pages of metrics come all the time, and have none.
func (s *Server) trace(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, route := c.Request(), shortRoute(c.Path())
		if !strings.HasPrefix(route, "/v1/") {
			return next(c)
		}
		ctx, span := s.cfg.Tracer.Call(r.Context(), methodLabel(r.Method), route, traceparent(r.Header))
		defer span.End()
		c.SetRequest(r.WithContext(ctx))
		err := next(c) // answered by observe
		namespace := ""
		if cl, ok := c.Get(callKey).(*call); ok {
			namespace = cl.namespace
		}
		span.Answer(c.Response().Status, namespace)
		return err
	}
}

// traceOf returns the traceparent of a call's span. Without tracing it is that of the caller, or "".
func traceOf(r *http.Request) string {
	return cmp.Or(tracing.Traceparent(r.Context()), traceparent(r.Header))
}
