package httpapi

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/internal/contract"
)

// Server answers the HTTP API of one node. It is an http.Handler; HTTPServer wraps it with timeouts.
type Server struct {
	*core
	cfg      Config
	echo     *echo.Echo
	log      *accessLog // nil: none
	commits  *commits
	inFlight *admission.Pool
	batches  *places
	polls    *places
	streams  *places
	backups  *places
	doctors  *places
	watchers *places // of events
	unknown  *places // answers over HTTP/2 to callers without credentials, and problems
}

// New makes a server. It returns an error for an invalid Config, or if the metrics are already registered.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	core, err := newCore(&cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{
		core: core, cfg: cfg, commits: newCommits(cfg.Backend.Weight), inFlight: admission.NewPool(cfg.MaxInFlight),
		batches: newPlaces("batches", cfg.MaxBatches), polls: newPlaces("consumers", cfg.MaxPolls),
		streams: newPlaces("streams", cfg.MaxStreams), backups: newPlaces("backups", cfg.MaxBackups),
		watchers: newPlaces("streams of events", cfg.MaxEvents),
		doctors:  newPlaces("calls of /v1/doctor", maxDoctors),
		unknown:  newPlaces("answers to callers without credentials", maxUnknown),
	}
	s.echo = echo.New()
	s.echo.Binder = binder{s}
	s.echo.HTTPErrorHandler = s.fail
	s.useOnAll()
	s.addUI()
	return s, s.register(s.endpoints())
}

// useOnAll puts the middleware of all paths around the handler that the router finds. The check of the caller is a part
// of each route.
func (s *Server) useOnAll() {
	middleware := []echo.MiddlewareFunc{s.observe, s.recover, s.refuseForeign}
	if s.cfg.Tracer != nil {
		middleware = slices.Insert(middleware, 0, s.trace)
	}
	if s.log = newAccessLog(s.cfg); s.log != nil {
		middleware = slices.Insert(middleware, 0, s.log.record)
	}
	around := with(func(c echo.Context) error { return c.Handler()(c) }, middleware...)
	s.echo.Use(func(echo.HandlerFunc) echo.HandlerFunc { return around })
}

// ServeHTTP answers one request. A HEAD is handled as a GET, and the HTTP server omits the body. Middleware cannot do
// this: echo routes by the incoming request, and the HTTP server goes by its method. Routes for HEAD would stand in
// every Allow header.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodHead {
		get := *r
		get.Method = http.MethodGet
		r = &get
	}
	if s.cfg.DevClock != nil {
		now, _ := s.cfg.Now()
		w.Header()["Belfry-Clock"] = []string{instantText(now.UnixMilli())}
	}
	s.echo.ServeHTTP(w, r)
}

// headerTime is the time for the head of a request to arrive. A caller without credentials holds a connection for it.
const headerTime = 5 * time.Second

// HTTPServer makes a server for HTTP/1.1 and HTTP/2, both with and without TLS, with every timeout set. It speaks TLS
// if its listener does. The bounds of bodies and streams are set for each call, since they differ. Shutdown ends the
// wait of consumers at once with an empty answer, and later leases do not wait.
func (s *Server) HTTPServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler:           s,
		Protocols:         protocols,
		ReadHeaderTimeout: min(s.cfg.BodyTimeout, headerTime),
		IdleTimeout:       s.cfg.IdleTimeout,
		WriteTimeout:      s.cfg.BodyTimeout + s.cfg.RequestTimeout + 30*time.Second, // 30 s: to take a long list
		MaxHeaderBytes:    64 << 10,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 100},
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	server.RegisterOnShutdown(s.close)
	return server
}

// fail answers a call that ended in an error.
func (s *Server) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return // answered, or cut
	}
	leave := s.brief(c)
	defer leave()
	var routing *echo.HTTPError
	if errors.As(err, &routing) {
		s.refuse(c, routeProblem(c, routing))
		return
	}
	p := problemOf(err)
	s.metrics.refused(p)
	if p.kind == internalError {
		s.cfg.Logger.Error("call failed", "method", c.Request().Method, "path", c.Path(),
			"id", requestID(c.Request()), "err", err)
	}
	s.refuse(c, p)
}

// routeProblem returns the problem for an error of the router.
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
		for prefix, field := range map[string]string{"/v1/tasks/": "id", "/v1/schedules/": "id", "/v1/queues/": "queue"} {
			if strings.HasPrefix(path, prefix) {
				const detail = "nothing is at %q; there is no slash in the name of a task, a schedule or a queue"
				return &problem{kind: unknownRoute, field: field, limit: nameRule, detail: fmt.Sprintf(detail, contract.Clip(path))}
			}
		}
		return &problem{kind: unknownRoute, detail: fmt.Sprintf("nothing is at %q", contract.Clip(path))}
	}
	return &problem{kind: internalError, detail: "the node's log says more", committed: "unknown"}
}

// uiPath begins the addresses of the dashboard.
const uiPath = "/ui/"

// addUI registers the dashboard. Its files are open, since they are the same for every caller; the page's calls carry
// the viewer's credentials. A browser that opens the node's address is led there.
func (s *Server) addUI() {
	if s.cfg.UI == nil {
		return
	}
	toUI := func(c echo.Context) error { return c.Redirect(http.StatusFound, uiPath) }
	s.echo.GET(uiPath+"*", s.briefly(echo.WrapHandler(s.cfg.UI)))
	s.echo.GET(strings.TrimSuffix(uiPath, "/"), toUI)
	s.echo.GET("/", func(c echo.Context) error {
		if !strings.Contains(c.Request().Header.Get("Accept"), "text/html") {
			return echo.ErrNotFound
		}
		return toUI(c)
	})
}
