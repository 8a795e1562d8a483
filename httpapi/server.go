package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/internal/contract"
)

// Server answers the HTTP API of one node. It is an http.Handler; HTTPServer wraps it with timeouts.
type Server struct {
	cfg      Config
	echo     *echo.Echo
	metrics  *metrics
	buffers  buffers
	memory   budget
	inFlight atomic.Int64
	batches  *places
	polls    *places
	streams  *places

	closing context.Context // ends when the HTTP server begins to shut down
	close   context.CancelFunc
}

// New makes a server. It fails if the config lacks something, or its metrics are registered already.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	s := &Server{
		cfg: cfg, memory: budget{limit: int64(cfg.MemoryBytes)},
		batches: newPlaces("batches", cfg.MaxBatches), polls: newPlaces("consumers", cfg.MaxPolls),
		streams: newPlaces("streams", cfg.MaxStreams),
	}
	s.closing, s.close = context.WithCancel(context.Background())
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("httpapi: metrics: %w", err)
	}
	s.metrics = m
	s.echo = echo.New()
	s.echo.HTTPErrorHandler = s.fail
	s.echo.Use(s.observe, s.recover, s.refuseForeign)
	for _, r := range s.routes() {
		s.echo.Add(r.method, r.path, r.handler)
	}
	return s, nil
}

// ServeHTTP answers one request. A HEAD is a GET whose body the HTTP server leaves out.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		get := *r
		get.Method = http.MethodGet
		r = &get
	}
	s.echo.ServeHTTP(w, r)
}

// HTTPServer makes a server for HTTP/1.1 and HTTP/2, both without TLS, with every timeout set. What bounds a body and
// a stream is set call by call, since these differ. Its Shutdown lets consumers that wait go at once, with an empty
// answer; from then on nobody waits here any more.
func (s *Server) HTTPServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:           s,
		Protocols:         protocols,
		ReadHeaderTimeout: s.cfg.BodyTimeout,
		IdleTimeout:       s.cfg.IdleTimeout,
		WriteTimeout:      s.cfg.BodyTimeout + s.cfg.RequestTimeout + 30*time.Second, // 30 s: to take a long list
		MaxHeaderBytes:    64 << 10,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 1000},
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(s.close)
	return server
}

type route struct {
	method, path string
	handler      echo.HandlerFunc
}

func (s *Server) routes() []route {
	return []route{
		{"PUT", "/v1/tasks/:id", s.single(s.put)},
		{"GET", "/v1/tasks/:id", s.single(s.get)},
		{"PATCH", "/v1/tasks/:id", s.single(s.patch)},
		{"DELETE", "/v1/tasks/:id", s.single(s.cancel)},
		{"POST", "/v1/tasks/:id/touch", s.single(s.touch)},
		{"POST", "/v1/tasks/:id/fire", s.single(s.fire)},
		{"POST", "/v1/tasks", s.single(s.post)},
		{"GET", "/v1/tasks", s.single(s.list)},
		{"POST", "/v1/batch", s.batch},
		{"PUT", "/v1/queues/:queue", s.single(s.putQueue)},
		{"GET", "/v1/queues/:queue", s.single(s.getQueue)},
		{"PATCH", "/v1/queues/:queue", s.single(s.patchQueue)},
		{"DELETE", "/v1/queues/:queue", s.single(s.deleteQueue)},
		{"POST", "/v1/queues/:queue/pause", s.single(s.pauseQueue)},
		{"POST", "/v1/queues/:queue/resume", s.single(s.resumeQueue)},
		{"GET", "/v1/queues", s.single(s.listQueues)},
		{"POST", "/v1/queues/:queue/dead/replay", s.single(s.replayDead)},
		{"DELETE", "/v1/queues/:queue/dead", s.single(s.dropDead)},
		{"POST", "/v1/queues/:queue/lease", s.lease},
		{"POST", "/v1/queues/:queue/stream", s.stream},
		{"POST", "/v1/queues/:queue/settle", s.single(s.settle)},
		{"GET", "/v1/cluster", s.single(s.cluster)},
		{"GET", "/healthz", s.healthz},
		{"GET", "/readyz", s.readyz},
		{"GET", "/metrics", s.metricsPage()},
		{"GET", "/openapi.yaml", s.openAPI},
	}
}

// single bounds how many calls are at work at once.
func (s *Server) single(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		defer s.inFlight.Add(-1)
		if s.inFlight.Add(1) > int64(s.cfg.MaxInFlight) {
			return tooMany("calls", s.cfg.MaxInFlight)
		}
		return next(c)
	}
}

func tooMany(what string, limit int) error {
	return &problem{kind: overloaded, detail: "too many " + what + " are under way on this node",
		limit: fmt.Sprint(limit), retryAfter: 1}
}

// recover makes an answer and a log line of a panic. http.ErrAbortHandler passes: it is how a handler cuts a
// connection.
func (s *Server) recover(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			what := recover()
			if what == nil {
				return
			}
			if what == http.ErrAbortHandler { //nolint:errorlint // net/http, which it is for, compares so too
				panic(what)
			}
			s.cfg.Logger.Error("panic in a call", "method", c.Request().Method, "path", c.Path(),
				"panic", what, "stack", string(debug.Stack()))
			err = &problem{kind: internalError, detail: "the node's log says more", committed: "unknown", retryAfter: 1}
		}()
		return next(c)
	}
}

// fail answers a call that ended in an error.
func (s *Server) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return // answered, or cut
	}
	var routing *echo.HTTPError
	if errors.As(err, &routing) {
		s.refuse(c, routeProblem(c, routing))
		return
	}
	p := problemOf(err)
	if p.kind == internalError {
		s.cfg.Logger.Error("call failed", "method", c.Request().Method, "path", c.Path(), "err", err)
	}
	s.refuse(c, p)
}

// routeProblem tells what the router found wrong.
func routeProblem(c echo.Context, err *echo.HTTPError) *problem {
	path := c.Request().URL.Path
	switch err.Code {
	case http.StatusMethodNotAllowed:
		allow := c.Response().Header().Get("Allow")
		if strings.Contains(allow, "GET") {
			allow += ", HEAD"
		}
		return &problem{kind: methodNotAllowed, detail: "it takes " + allow, allow: allow}
	case http.StatusNotFound:
		for prefix, field := range map[string]string{"/v1/tasks/": "id", "/v1/queues/": "queue"} {
			if strings.HasPrefix(path, prefix) {
				return &problem{kind: unknownRoute, field: field, limit: nameRule,
					detail: fmt.Sprintf("nothing is at %q; there is no slash in the name of a task or a queue", contract.Clip(path))}
			}
		}
		return &problem{kind: unknownRoute, detail: fmt.Sprintf("nothing is at %q", contract.Clip(path))}
	}
	return &problem{kind: internalError, detail: "the node's log says more", committed: "unknown"}
}

const nameRule = "[A-Za-z0-9][A-Za-z0-9._:~-]{0,199}"
