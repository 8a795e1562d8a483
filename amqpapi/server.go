package amqpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/inside"
)

const (
	heldBytes    = 64 << 20 // bodies of kept messages, of all connections
	heldPart     = 4 << 20  // of one connection
	heldMessages = 256      // kept messages of one connection that wait for a commit
	heldTime     = 10 * time.Second
	closeTime    = 2 * time.Second // for the messages that are kept, at the end of the node

	// maxBody is the limit of a task's payload.
	maxBody = 256 << 10
)

// Config holds the settings of a Server.
type Config struct {
	// API is the HTTP API of the node. The tasks are made by calls of it.
	API http.Handler
	// KeyFile is a file with the key of these calls, which is read again once it has changed. Empty: they need none.
	KeyFile string
	// Broker is the address of the broker, as the targets of tasks begin: amqp://host:port or amqps://host:port.
	Broker string
	// Dial connects to the broker.
	Dial func(context.Context) (net.Conn, error)
	// Registerer registers the metrics. Nil: they are not registered.
	Registerer prometheus.Registerer
	Logger     *slog.Logger // nil: discards
}

// Server serves the connections of AMQP's clients, each with a connection to the broker.
type Server struct {
	cfg     Config
	memory  *semaphore.Weighted
	metrics *metrics

	ctx      context.Context // ends when the server closes
	close    context.CancelFunc
	commits  context.Context // ends closeTime later
	cut      context.CancelFunc
	sessions sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// New makes a server. It returns an error if the key cannot be read, or the metrics are already registered.
func New(cfg Config) (*Server, error) {
	m, err := newMetrics(cfg.Registerer)
	if err != nil {
		return nil, fmt.Errorf("amqpapi: metrics: %w", err)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, memory: semaphore.NewWeighted(heldBytes), metrics: m}
	calls, err := s.calls("")
	if err != nil {
		return nil, err
	}
	calls.Close()
	s.ctx, s.close = context.WithCancel(context.Background())
	s.commits, s.cut = context.WithCancel(context.Background())
	return s, nil
}

// calls returns a client whose calls come from an address.
func (s *Server) calls(from string) (*client.Client, error) {
	return client.New(client.Config{
		Addrs: []string{"http://localhost"}, FixedAddrs: true, SingleCalls: true, KeyFile: s.cfg.KeyFile,
		HTTPClient: &http.Client{Transport: &inside.Transport{Handler: s.cfg.API, From: from}},
	})
}

// Serve serves the connections of a listener until the listener or the server is closed.
func (s *Server) Serve(l net.Listener) error {
	stop := context.AfterFunc(s.ctx, func() { _ = l.Close() }) // Accept reports it
	defer stop()
	for {
		conn, err := l.Accept()
		switch {
		case s.ctx.Err() != nil:
			return errors.Join(closeAll(conn), ignoreClosed(err))
		case err != nil:
			return err
		case !s.enter():
			return conn.Close()
		}
		go func() {
			defer s.sessions.Done()
			s.serve(conn)
		}()
	}
}

// enter counts a session unless the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.sessions.Add(1)
	}
	return !s.closed
}

// Close ends all connections once the messages that were kept are committed or refused, or closeTime is over.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.close()
	defer time.AfterFunc(closeTime, s.cut).Stop()
	s.sessions.Wait()
}

func (s *Server) serve(conn net.Conn) {
	s.metrics.connections.Inc()
	defer s.metrics.connections.Dec()
	defer conn.Close() //nolint:errcheck // closed already, as a rule
	switch x, err := s.open(conn); {
	case err == nil:
		x.run()
	case errors.Is(err, io.EOF), s.ctx.Err() != nil: // a check of the port, or the end of the node
	default:
		s.cfg.Logger.Warn("a connection of an AMQP client was not opened", "from", conn.RemoteAddr(), "err", err)
	}
}

// open connects a client to the broker.
func (s *Server) open(conn net.Conn) (x *session, err error) {
	stop := context.AfterFunc(s.ctx, func() { _ = conn.Close() }) // the reads report it
	defer stop()
	until := time.Now().Add(openTime)
	if err := conn.SetDeadline(until); err != nil {
		return nil, err
	}
	x = newSession(s, conn)
	if err := x.greet(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(s.ctx, until)
	defer cancel()
	to, err := s.cfg.Dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("the broker: %w", err)
	}
	x.broker = newSide(to)
	if err := errors.Join(to.SetDeadline(until), x.shakeHands()); err != nil {
		return nil, errors.Join(err, to.Close())
	}
	if x.calls, err = s.calls(conn.RemoteAddr().String()); err != nil {
		return nil, errors.Join(err, to.Close())
	}
	return x, nil
}

// targetURL returns the URL of the target for messages to an exchange, and of those to a queue by the default exchange.
func (s *Server) targetURL(vhost, exchange, key string) string {
	query := url.Values{"queue": {key}}
	if exchange != "" {
		query = url.Values{"exchange": {exchange}}
		if key != "" {
			query.Set("routing_key", key)
		}
	}
	return s.cfg.Broker + "/" + strings.ReplaceAll(url.PathEscape(vhost), "+", "%2B") + "?" + query.Encode()
}

// newID returns the id of a task whose message names none.
func newID() string { return "amqp-" + rand.Text() }

func closeAll(conn net.Conn) error {
	if conn == nil {
		return nil
	}
	return conn.Close()
}

// ignoreClosed drops the error of a listener that the server has closed.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
