package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfryhq/belfry/httpapi/origin"
)

// refuseForeign refuses calls that a web page of another origin makes a browser send. Without credentials the node
// trusts every call that reaches it, and a browser sends a page's calls there. The middleware also answers CORS
// preflights.
func (s *Server) refuseForeign(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, h := c.Request(), c.Response().Header()
		s.cfg.Origins.Share(h, r)
		if p := foreignProblem(s.cfg.Origins, r); p != nil {
			return p
		}
		if s.cfg.Origins.Preflight(h, r) {
			return c.NoContent(http.StatusNoContent)
		}
		return next(c)
	}
}

// foreignProblem returns the policy's refusal of a request, or nil. The result has no error type, since a nil *problem
// in an error would not be nil.
func foreignProblem(policy *origin.Policy, r *http.Request) *problem {
	refusal := policy.Check(r)
	if refusal == nil {
		return nil
	}
	return &problem{kind: foreignOrigin, field: refusal.Header, detail: refusal.Detail}
}

// Waiting returns a handler for a node that waits before it opens its data. It answers every call, /healthz included,
// with 503 and the reason. Only /metrics works, with the metrics that exist so far. The policy's refusals apply here
// too; a nil policy is the zero Policy.
func Waiting(reason func() string, policy *origin.Policy, metrics prometheus.Gatherer, log *slog.Logger) http.Handler {
	if policy == nil {
		policy = new(origin.Policy)
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, &problem{kind: notReady, detail: reason(), committed: "no", retryAfter: 1}, log)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := foreignProblem(policy, r); p != nil {
			refuse(w, r, p, log)
			return
		}
		mux.ServeHTTP(w, r)
	})
}
