package httpapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/audit"
	"github.com/belfryhq/belfry/httpapi/origin"
)

// refuseForeign refuses calls that a web page of another origin makes a browser send. While no credentials are in force
// the node trusts every call that reaches it, and a browser sends a page's calls there. The middleware also answers
// CORS preflights.
func (s *Server) refuseForeign(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r, h := c.Request(), c.Response().Header()
		s.cfg.Origins.Share(h, r)
		if p := foreignProblem(s.cfg.Origins, r); p != nil {
			return s.noteRefusal(c, nil, p)
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

// WaitingConfig holds the sources of the answers of a node that waits.
type WaitingConfig struct {
	Reason  func() string
	Doctor  func(ctx context.Context) []Finding
	Origins *origin.Policy     // nil: the zero Policy
	Access  Access             // nil: every call is made by a local caller
	Refused func(audit.Record) // records a call that was refused because of its caller; nil: none is recorded
	Metrics prometheus.Gatherer
	Logger  *slog.Logger
}

// Waiting returns a handler for a node that waits before it serves. It answers every call, /healthz included, with 503
// and the reason. Only GET /v1/doctor works, and /metrics with the metrics that exist so far, for the callers who may
// make these calls of a serving node. The policy's refusals apply here too.
func Waiting(cfg WaitingConfig) http.Handler {
	if cfg.Origins == nil {
		cfg.Origins = new(origin.Policy)
	}
	mux := http.NewServeMux()
	readers := GuardConfig{
		Role: access.Read, Access: cfg.Access, Refused: cfg.Refused, Logger: cfg.Logger, Waits: cfg.Reason,
	}
	mux.Handle("/metrics", readers.around(promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{})))
	mux.Handle("GET /v1/doctor", readers.around(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := writeFindings(w, cfg.Doctor(r.Context())); err != nil {
			refuse(w, r, &problem{kind: internalError, detail: err.Error()}, cfg.Logger)
		}
	})))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, &problem{kind: notReady, detail: cfg.Reason(), committed: "no", retryAfter: 1}, cfg.Logger)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := foreignProblem(cfg.Origins, r); p != nil {
			readers.refuse(w, r, "", nil, p)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// GuardConfig describes a handler beside the API, and the callers who may use it.
type GuardConfig struct {
	Handler http.Handler
	Role    access.Role        // that the callers have in all namespaces
	Access  Access             // nil: every call is made by a local caller
	Origins *origin.Policy     // nil: the zero Policy
	Refused func(audit.Record) // records a call that was refused because of its caller; nil: none is recorded
	Logger  *slog.Logger
	// Waits is the reason for which credentials cannot be judged. Nil: the answer gives that of Access.
	Waits func() string
}

// Guarded returns a handler that refuses calls as the API does: those of foreign web pages, and those of callers
// without the role.
func Guarded(cfg GuardConfig) http.Handler {
	if cfg.Origins == nil {
		cfg.Origins = new(origin.Policy)
	}
	guarded := cfg.around(cfg.Handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := foreignProblem(cfg.Origins, r); p != nil {
			cfg.refuse(w, r, "", nil, p)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// around lets only callers through to a handler who have the role.
func (cfg GuardConfig) around(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := callerOf(cfg.Access, r)
		if err == nil {
			err = (&call{caller: caller, need: inCluster(cfg.Role)}).checkCluster()
		}
		if err != nil {
			p := problemOf(err)
			if p.kind == notReady && cfg.Waits != nil {
				p.detail = cfg.Waits()
			}
			cfg.refuse(w, r, r.URL.Path, caller, p)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// refuse answers a call with a problem, and records it if the caller is its reason.
func (cfg *GuardConfig) refuse(
	w http.ResponseWriter, r *http.Request, route string, caller *access.Caller, p *problem,
) {
	if cfg.Refused != nil && isRefusal(p) {
		cfg.Refused(recordOf(r, route, caller, p.status, p.slug))
	}
	refuse(w, r, p, cfg.Logger)
}
