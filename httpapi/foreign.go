package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/belfryhq/belfry/access"
	"github.com/belfryhq/belfry/audit"
	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/rights"
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

// Waiter is a node that waits before it serves.
type Waiter interface {
	// Barred returns the reason for the wait.
	Barred() string
	// Doctor returns the troubles of the node, the gravest first.
	Doctor(ctx context.Context) []view.Finding
}

// WaitingConfig holds the sources of the answers of a node that waits.
type WaitingConfig struct {
	Node    Waiter
	Origins *origin.Policy // nil: the zero Policy
	Access  Access         // nil: every call is made by a local caller
	Records Records        // nil: no refusal is recorded
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
		Role: access.Read, Access: cfg.Access, Records: cfg.Records, Logger: cfg.Logger, waiter: cfg.Node,
	}
	metrics := promhttp.HandlerFor(cfg.Metrics, promhttp.HandlerOpts{})
	mux.Handle("/metrics", readers.around(func(w http.ResponseWriter, r *http.Request, _ *access.Caller) {
		metrics.ServeHTTP(w, r)
	}))
	mux.Handle("GET /v1/doctor", readers.around(func(w http.ResponseWriter, r *http.Request, _ *access.Caller) {
		if err := writeFindings(w, cfg.Node.Doctor(r.Context())); err != nil {
			refuse(w, r, &problem{kind: internalError, detail: err.Error()}, cfg.Logger)
		}
	}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, r, &problem{kind: notReady, detail: cfg.Node.Barred(), committed: "no", retryAfter: 1}, cfg.Logger)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := foreignProblem(cfg.Origins, r); p != nil {
			readers.refuse(w, r, "", nil, p)
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// Records keeps the records of calls beside the API.
type Records interface {
	// Refuse records a call that was refused because of its caller.
	Refuse(r audit.Record)
	// Recorder returns the keeper of the record of one call that was let in.
	Recorder() Recorder
}

// GuardConfig describes a handler beside the API, and the callers who may use it.
type GuardConfig struct {
	Handler http.Handler
	Role    access.Role    // that the callers have in all namespaces
	Access  Access         // nil: every call is made by a local caller
	Origins *origin.Policy // nil: the zero Policy
	// Records gets each call that Guarded lets in, and each that it refuses because of the caller. A call without room
	// for its record is refused. Nil: no call is recorded.
	Records Records
	Logger  *slog.Logger

	waiter Waiter // gives the reason for which credentials cannot be judged; nil: the answer gives that of Access
}

// Guarded returns a handler that refuses calls as the API does: those of foreign web pages, and those of callers
// without the role. A call whose caller loses the role ends within a second: its context ends, and its answer is the
// refusal, or is broken off if it has begun.
func Guarded(cfg GuardConfig) http.Handler {
	if cfg.Origins == nil {
		cfg.Origins = new(origin.Policy)
	}
	if cfg.Records == nil {
		cfg.Records = noAudit{}
	}
	guarded := cfg.around(cfg.serve)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := foreignProblem(cfg.Origins, r); p != nil {
			cfg.refuse(w, r, "", nil, p)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// around returns a handler that passes on the calls of callers with the role, and refuses the others.
func (cfg GuardConfig) around(next func(w http.ResponseWriter, r *http.Request, caller *access.Caller)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		caller, err := cfg.admit(r.Context(), credentialsOf(r))
		if err != nil {
			p := problemOf(err)
			if p.kind == notReady && cfg.waiter != nil {
				p.detail = cfg.waiter.Barred()
			}
			cfg.refuse(w, r, cfg.routeOf(r), caller, p)
			return
		}
		next(w, r, caller)
	})
}

// admit returns the caller with these credentials. If it lacks the role, there is an error beside it.
func (cfg *GuardConfig) admit(ctx context.Context, credentials access.Credentials) (*access.Caller, error) {
	if cfg.Access == nil {
		return local, nil
	}
	caller, err := judge(ctx, cfg.Access, credentials)
	if err == nil {
		err = (&call{caller: caller, need: inCluster(cfg.Role)}).checkCluster()
	}
	return caller, err
}

// serve answers a call whose caller has the role, records it, and ends it with the loss of the role.
func (cfg *GuardConfig) serve(w http.ResponseWriter, r *http.Request, caller *access.Caller) {
	g := &guardedAnswer{ResponseWriter: w, cfg: cfg, request: r, caller: caller, recorder: cfg.Records.Recorder()}
	if err := g.recorder.Reserve(r.Context()); err != nil {
		refuse(w, r, &problem{kind: notCommitted, detail: reason(err), committed: "no", retryAfter: 1}, cfg.Logger)
		return
	}
	defer g.record(http.StatusInternalServerError, internalError.slug) // if the handler panics
	if cfg.Access != nil {
		credentials := credentialsOf(r)
		g.right = rights.Watch(r.Context(), recheckEvery, func(ctx context.Context) error {
			_, err := cfg.admit(ctx, credentials)
			if err != nil && problemOf(err).kind == notReady {
				return nil // the last judgement stands
			}
			return err
		})
		defer g.right.Stop()
		defer atLoss(g.right, func() {
			deadline := time.Now().Add(2 * lastWords)
			ignoreUnsupported(cfg.Logger, http.NewResponseController(w).SetWriteDeadline(deadline))
		})()
		r = r.WithContext(g.right.Life())
	}
	cfg.Handler.ServeHTTP(g, r)
	g.end()
}

// guardedAnswer is the answer to a call beside the API. The call is recorded before the first byte. Nothing is written
// after the loss of the right.
type guardedAnswer struct {
	http.ResponseWriter
	cfg      *GuardConfig
	request  *http.Request
	caller   *access.Caller
	right    *rights.Right // nil: it is not watched
	recorder Recorder
	recorded bool
	begun    bool // a part of the answer was written
}

// WriteHeader records the call and begins the answer.
func (g *guardedAnswer) WriteHeader(status int) {
	if g.right.Refusal() != nil {
		return
	}
	g.record(status, "")
	g.begun = true
	g.ResponseWriter.WriteHeader(status)
}

func (g *guardedAnswer) Write(b []byte) (int, error) {
	if refusal := g.right.Refusal(); refusal != nil {
		return 0, refusal
	}
	if !g.begun {
		g.WriteHeader(http.StatusOK)
	}
	return g.ResponseWriter.Write(b)
}

// end records a call without an answer, and refuses a call whose caller has lost its right.
func (g *guardedAnswer) end() {
	refusal := g.right.Refusal()
	if refusal == nil {
		g.record(http.StatusOK, "")
		return
	}
	p := *problemOf(refusal)
	p.detail = "the call ends here: " + p.detail
	route := g.cfg.routeOf(g.request)
	if g.begun {
		g.cfg.note(g.request, route, g.caller, &p)
		panic(http.ErrAbortHandler) // the client sees that the answer is not whole
	}
	g.record(p.status, p.slug)
	g.Header().Del("Content-Disposition")
	g.Header().Set("Connection", "close") // it has a deadline now
	g.cfg.refuse(g.ResponseWriter, g.request, route, g.caller, &p)
}

// record records the call once, with the rest of its path as its name.
func (g *guardedAnswer) record(status int, slug string) {
	if g.recorded {
		return
	}
	g.recorded = true
	route := g.cfg.routeOf(g.request)
	r := recordOf(g.request, route, g.caller, status, slug)
	if r.Outcome = audit.OutcomeDone; status >= http.StatusBadRequest {
		r.Outcome = audit.OutcomeFailed
	}
	name, below := strings.CutPrefix(g.request.URL.Path, route)
	if below && strings.HasSuffix(route, "/") && task.CheckName("name", name) == nil {
		r.Object = map[string]string{"name": name}
	}
	g.recorder.Change(r)
}

// routeOf returns the route of a call as it was registered, or "" if it is not known: the path is a text of the
// caller's choice.
func (cfg *GuardConfig) routeOf(r *http.Request) string {
	pattern := r.Pattern
	if mux, ok := cfg.Handler.(interface {
		Handler(r *http.Request) (http.Handler, string)
	}); ok {
		_, pattern = mux.Handler(r)
	}
	return pattern[strings.IndexByte(pattern, ' ')+1:]
}

// refuse answers a call with a problem, and records it if the caller is its reason.
func (cfg *GuardConfig) refuse(
	w http.ResponseWriter, r *http.Request, route string, caller *access.Caller, p *problem,
) {
	cfg.note(r, route, caller, p)
	refuse(w, r, p, cfg.Logger)
}

// note records a refusal if the caller is its reason.
func (cfg *GuardConfig) note(r *http.Request, route string, caller *access.Caller, p *problem) {
	if cfg.Records != nil && isRefusal(p) {
		cfg.Records.Refuse(recordOf(r, route, caller, p.status, p.slug))
	}
}
