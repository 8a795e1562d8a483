package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
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
	backups  *places
	doctors  *places

	closing context.Context // ends when the HTTP server begins to shut down
	close   context.CancelFunc
}

// New makes a server. It returns an error for an invalid Config, or if the metrics are already registered.
func New(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	cfg.setDefaults()
	s := &Server{
		cfg: cfg, memory: budget{limit: int64(cfg.MemoryBytes)},
		batches: newPlaces("batches", cfg.MaxBatches), polls: newPlaces("consumers", cfg.MaxPolls),
		streams: newPlaces("streams", cfg.MaxStreams), backups: newPlaces("backups", cfg.MaxBackups),
		doctors: newPlaces("calls of /v1/doctor", maxDoctors),
	}
	s.closing, s.close = context.WithCancel(context.Background())
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("httpapi: metrics: %w", err)
	}
	s.metrics = m
	s.echo = echo.New()
	s.echo.Binder = binder{s}
	s.echo.HTTPErrorHandler = s.fail
	if cfg.Logger.Enabled(context.Background(), slog.LevelDebug) {
		s.echo.Use(s.logCall)
	}
	s.echo.Use(s.observe, s.recover, s.refuseForeign) // a check of credentials would come next
	s.route()
	return s, nil
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
	s.echo.ServeHTTP(w, r)
}

// HTTPServer makes a server for HTTP/1.1 and HTTP/2, both without TLS, with every timeout set. The bounds of bodies and
// streams are set for each call, since they differ. Shutdown ends the wait of consumers at once with an empty answer,
// and later leases do not wait.
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

// route registers the calls. A call's middleware is listed in the order in which it acts: admission first, then cheap
// checks. The body comes last, in the handler.
//
// Groups have no middleware of their own: echo would register a route for every other path below the group, and answer
// a wrong method there with 404 instead of 405.
func (s *Server) route() {
	v1 := s.echo.Group("/v1")
	s.routeTasks(v1.Group("/tasks"))
	s.routeQueues(v1.Group("/queues"))
	v1.POST("/batch", with(s.batch, params(), lines, s.batches.admit))
	v1.GET("/backup", with(s.backup, s.backups.admit, params("rate")))
	v1.GET("/cluster", with(s.cluster, s.single, params()))
	v1.PUT("/cluster", with(s.putCluster, s.single, params(), soundKey))
	s.routeOperations(v1)
	v1.GET("/doctor", with(s.doctor, s.doctors.admit, params()))
	v1.POST("/nodes/tokens", with(s.newJoinToken, s.single, params("valid_for")))
	v1.GET("/nodes/tokens", with(s.listJoinTokens, s.single, params()))
	v1.DELETE("/nodes/tokens/:id", with(s.removeJoinToken, s.single, params()))

	s.echo.GET("/healthz", s.healthz)
	s.echo.GET("/readyz", s.readyz)
	s.echo.GET("/metrics", s.metricsPage())
	s.echo.GET("/openapi.yaml", s.openAPI)
}

func (s *Server) routeTasks(tasks *echo.Group) {
	id := named("id")
	tasks.POST("", with(s.post, s.single, unconditional, params()))
	tasks.GET("", with(s.list, s.single,
		params("state", "queue", "prefix", "label", "due_before", "limit", "cursor", "include")))
	tasks.PUT("/:id", with(s.put, s.single, params(), id))
	tasks.GET("/:id", with(s.get, s.single, params("consistency"), consistency, id))
	tasks.PATCH("/:id", with(s.patch, s.single, params(), id))
	tasks.DELETE("/:id", with(s.cancel, s.single, params(), id))
	tasks.POST("/:id/touch", with(s.touch, s.single, params(), id))
	tasks.POST("/:id/fire", with(s.fire, s.single, params(), id))
}

func (s *Server) routeQueues(queues *echo.Group) {
	queue, dead := named("queue"), params("prefix", "label", "due_before", "limit", "id")
	queues.GET("", with(s.listQueues, s.single, params("prefix", "limit", "cursor")))
	queues.PUT("/:queue", with(s.putQueue, s.single, params(), soundKey, queue))
	queues.GET("/:queue", with(s.getQueue, s.single, params(), queue))
	queues.PATCH("/:queue", with(s.patchQueue, s.single, params(), soundKey, queue))
	queues.DELETE("/:queue", with(s.deleteQueue, s.single, params(), soundKey, queue))
	queues.POST("/:queue/pause", with(s.pauseQueue, s.single, params(), soundKey, queue))
	queues.POST("/:queue/resume", with(s.resumeQueue, s.single, params(), soundKey, queue))
	queues.POST("/:queue/dead/replay", with(s.replayDead, s.single, dead, soundKey, queue))
	queues.DELETE("/:queue/dead", with(s.dropDead, s.single, dead, soundKey, queue))
	queues.POST("/:queue/settle", with(s.settle, s.single, params(), soundKey, queue))
	queues.POST("/:queue/lease", with(s.lease, s.polls.admit, params(), soundKey, queue))
	queues.POST("/:queue/stream", with(s.stream, s.streams.admit, params("credit", "lease"), soundKey, queue))
}

func (s *Server) routeOperations(v1 *echo.Group) {
	id := named("id")
	v1.GET("/nodes", with(s.listNodes, s.single, params()))
	for _, kind := range []string{drainNode, resumeNode, "remove", "replace"} {
		v1.POST("/nodes/:id/"+kind, with(s.operateNode(kind), s.single, params(), soundKey, id))
	}
	v1.POST("/shards/:shard/split", with(s.splitShard, s.single, params(), soundKey))
	v1.POST("/shards/move", with(s.moveSlots, s.single, params(), soundKey))
	v1.POST("/shards/balance", with(s.balanceShards, s.single, params(), soundKey))
	v1.GET("/operations", with(s.listOperations, s.single, params()))
	v1.GET("/operations/:id", with(s.getOperation, s.single, params(), id))
	v1.DELETE("/operations/:id", with(s.stopOperation, s.single, params(), soundKey, id))
}

// with puts middleware around a handler, the first one outermost. It does so once, while echo would do so for every
// call.
func with(h echo.HandlerFunc, middleware ...echo.MiddlewareFunc) echo.HandlerFunc {
	for _, m := range slices.Backward(middleware) {
		h = m(h)
	}
	return h
}
