package redisapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/internal/wait"
)

// Config holds the settings of a Server.
type Config struct {
	API         http.Handler // the HTTP API of the node
	Scores      Unit
	MemoryBytes int                   // of the commands of all connections; 0: 64 MiB
	Registerer  prometheus.Registerer // nil: no metrics
	Logger      *slog.Logger          // nil: no log
}

// The times that a connection has.
const (
	idleTime    = 30 * time.Minute // until its next command begins
	commandTime = 10 * time.Second // for a command to arrive, and for a TLS handshake
	takeTime    = 30 * time.Second // to take a part of the answers
)

const defaultMemory = 64 << 20

// Server serves the clients of Redis of one node.
type Server struct {
	cfg         Config
	commands    map[string]command
	memory      *admission.Pool
	connections prometheus.Gauge
	carriedOut  *prometheus.CounterVec // by command

	ctx    context.Context // of the calls
	cancel context.CancelFunc

	mu       sync.Mutex
	closing  bool
	listener net.Listener // nil: Serve was not called
	lastID   int
	open     map[*conn]struct{}
	all      sync.WaitGroup // connections; none is added once closing is set
}

// New makes a server. It returns an error if the metrics are already registered.
func New(cfg Config) (*Server, error) {
	if cfg.MemoryBytes == 0 {
		cfg.MemoryBytes = defaultMemory
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if err := CheckUnit(string(cfg.Scores)); err != nil {
		return nil, fmt.Errorf("redisapi: the unit of scores %w", err)
	}
	s := &Server{
		cfg: cfg, commands: commands(), memory: admission.NewPool(cfg.MemoryBytes), open: map[*conn]struct{}{},
		connections: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "belfry_redis_connections", Help: "Open connections of Redis clients.",
		}),
		carriedOut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "belfry_redis_commands_total", Help: "Commands of Redis clients, by name; \"other\" for unknown ones.",
		}, []string{"command"}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if cfg.Registerer == nil {
		return s, nil
	}
	return s, errors.Join(cfg.Registerer.Register(s.connections), cfg.Registerer.Register(s.carriedOut))
}

// Serve serves the connections of a listener until Shutdown, which closes it.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	s.listener = l
	closing := s.closing
	s.mu.Unlock()
	if closing {
		return l.Close()
	}
	for {
		accepted, err := l.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			s.cfg.Logger.Warn("a connection of a Redis client was not accepted", "err", err)
			if !wait.For(s.ctx, time.Second) {
				return nil
			}
			continue
		}
		if c := s.admit(accepted); c != nil {
			go c.serve()
		} else {
			_ = accepted.Close() // the node stops, and nothing was read
		}
	}
}

// admit notes a connection, or returns nil while the server stops.
func (s *Server) admit(accepted net.Conn) *conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil
	}
	s.lastID++
	c := &conn{server: s, net: accepted, id: s.lastID, from: accepted.RemoteAddr().String()}
	host, _, _ := net.SplitHostPort(c.from) // empty: addresses without a port share their part
	c.memory = admission.Part{Pool: s.memory, Name: host}
	s.open[c] = struct{}{}
	s.all.Add(1)
	s.connections.Inc()
	return c
}

func (s *Server) leave(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	s.connections.Dec()
	s.all.Done()
}

// Shutdown closes the listener and the connections. Commands under way have until the end of the context, and no other
// begins.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	var err error
	if s.listener != nil {
		err = s.listener.Close()
	}
	for c := range s.open {
		_ = c.net.SetReadDeadline(time.Unix(1, 0)) // a broken connection ends by itself
	}
	s.mu.Unlock()
	cut := context.AfterFunc(ctx, func() {
		s.cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		for c := range s.open {
			_ = c.net.Close() // its error would be that it is closed
		}
	})
	s.all.Wait()
	cut()
	s.cancel()
	return err
}

// await sets the instant until which a connection must send more. It returns false if the server stops.
func (s *Server) await(c *conn, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closing && c.net.SetReadDeadline(until) == nil
}

// conn is a connection. It belongs to its goroutine.
type conn struct {
	writer
	server *Server
	net    net.Conn
	from   string               // its address
	memory admission.Part       // of its host
	taken  int                  // bytes of memory for its answers
	state  *tls.ConnectionState // nil: no TLS
	client *client.Client
	id     int
	name   string // as its client has set it
	queues bool   // between MULTI and EXEC
	ends   bool   // no further command is read
}

func (c *conn) serve() {
	defer c.server.leave(c)
	defer func() { _ = c.net.Close() }() // its client has got all answers, or is gone
	defer func() {
		if cause := recover(); cause != nil {
			c.server.cfg.Logger.Error("panic in a command of a Redis client", "from", c.from, "panic", cause,
				"stack", string(debug.Stack()))
		}
	}()
	if err := c.work(); err != nil {
		c.server.cfg.Logger.Debug("a connection of a Redis client has ended", "from", c.from, "err", err)
	}
}

// work carries out commands until the connection ends. Its error is not worth an answer.
func (c *conn) work() (err error) {
	if secure, ok := c.net.(*tls.Conn); ok {
		ctx, cancel := context.WithTimeout(c.server.ctx, commandTime)
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			return err
		}
		state := secure.ConnectionState()
		c.state = &state
	}
	if c.client, err = c.newClient(""); err != nil {
		return err
	}
	in := newReader(c.net, c.memory.Take)
	defer func() { c.memory.Give(in.reserved + c.taken) }()
	var begun time.Time // of the command that is not whole; zero: none
	for !c.ends {
		cmds, err := in.whole()
		c.execute(cmds)
		if err != nil {
			c.failed(err) // a protocol error, or no memory
			return errors.Join(err, c.flush())
		}
		c.memory.Give(in.release())
		if err := c.flush(); err != nil || c.ends {
			return err
		}
		if err := c.fill(in, &begun, len(cmds) > 0); err != nil {
			return err
		}
	}
	return nil
}

// fill reads more bytes within the time for the command that has begun, or for the next one to begin.
func (c *conn) fill(in *reader, begun *time.Time, fresh bool) error {
	until := time.Now().Add(idleTime) // the socket's clock
	switch {
	case !in.begun():
		*begun = time.Time{}
	case begun.IsZero() || fresh:
		*begun = time.Now()
		fallthrough
	default:
		until = begun.Add(commandTime)
	}
	if !c.server.await(c, until) {
		return errStopping
	}
	return in.fill()
}

var errStopping = errors.New("the node stops")

// flush sends the answers.
func (c *conn) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	if err := c.net.SetWriteDeadline(time.Now().Add(takeTime)); err != nil {
		return err
	}
	_, err := c.net.Write(c.out)
	if c.out = c.out[:0]; cap(c.out) > largeBuffer {
		c.out = nil
	}
	c.memory.Give(c.taken)
	c.taken = 0
	return err
}

// execute carries out commands and answers them in order. Consecutive ones that change tasks are one batch.
func (c *conn) execute(cmds [][][]byte) {
	var batch []pending
	end := func() {
		c.change(batch)
		batch = batch[:0]
	}
	for _, args := range cmds {
		cmd, err := c.server.find(args)
		c.server.count(args, cmd)
		switch {
		case isHTTP(args[0]):
			end()
			c.ends = true
			return
		case err == nil && cmd.edits != nil && !c.queues:
			batch = append(batch, cmd.edits(c.server.cfg.Scores, args[1:]))
			continue
		}
		if end(); err == nil {
			err = c.run(cmd, args)
		}
		if err != nil {
			c.failed(err)
		}
		if c.ends {
			return
		}
		if len(c.out) > largeBuffer && c.flush() != nil {
			c.ends = true
			return
		}
	}
	end()
}

// isHTTP reports whether a line begins, or follows the beginning of, a request of HTTP. A web page could have a browser
// on this machine send one, with commands in its body.
func isHTTP(word []byte) bool {
	return strings.EqualFold(string(word), "POST") || strings.EqualFold(string(word), "Host:")
}

func (c *conn) run(cmd command, args [][]byte) error {
	if name := upper(args[0]); c.queues && name != "EXEC" && name != "DISCARD" && name != "MULTI" && name != "QUIT" {
		c.simple("QUEUED")
		return nil
	}
	return cmd.run(c, args[1:])
}

// change carries out commands that change tasks, and answers them.
func (c *conn) change(batch []pending) {
	var edits []*edit
	for _, p := range batch {
		if p.err == nil {
			edits = append(edits, p.edits...)
		}
	}
	carryOut(c.server.ctx, c.client, edits)
	for _, p := range batch {
		if err := errors.Join(p.err, firstError(p.edits)); err != nil {
			c.failed(err)
			continue
		}
		c.integer(p.count())
	}
}

func (s *Server) count(args [][]byte, cmd command) {
	name := "other"
	if cmd.arity != 0 {
		name = strings.ToLower(string(args[0]))
	}
	s.carriedOut.WithLabelValues(name).Inc()
}
