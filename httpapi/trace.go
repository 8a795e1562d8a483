package httpapi

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/internal/tracing"
)

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
