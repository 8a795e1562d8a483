package wire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"
)

// Config holds the settings of a Mux. All fields are required except Registerer.
type Config struct {
	Self      string // node id
	FirstByte byte   // written before a stream's header
	Nodes     Nodes
	Timeout   time.Duration // limit of one request, and of a dial
	Records   Records       // nil: positions are ignored

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Nodes dials other nodes.
type Nodes interface {
	DialNode(ctx context.Context, node string) (net.Conn, error)
}

// Records receives each position of a group that another node is known to hold durably: the node's term, and an entry
// of its log in that term by its index and its own term, or zeros if no entry is known. Every answer and every request
// calls it, and it must not block.
type Records interface {
	Saw(node string, group uint32, term, index, entryTerm uint64)
}

// Mux holds a node's streams to and from all other nodes.
type Mux struct {
	cfg       Config
	metrics   *metrics
	ctx       context.Context // its end cancels dials
	cancel    context.CancelFunc
	waiting   atomic.Int64 // bytes of entries in all inboxes
	exchanges sync.Pool    // of *waiting
	wg        sync.WaitGroup

	mu      sync.RWMutex
	closed  bool
	groups  map[uint32]*Group
	links   map[route]*link
	clients map[*client]struct{}
	servers map[*server]struct{}
}

// New returns a Mux without streams.
func New(cfg Config) *Mux {
	m := &Mux{
		cfg: cfg, metrics: newMetrics(cfg.Registerer),
		groups: make(map[uint32]*Group), links: make(map[route]*link),
		clients: make(map[*client]struct{}), servers: make(map[*server]struct{}),
	}
	m.exchanges.New = newWaiting
	m.ctx, m.cancel = context.WithCancel(context.Background())
	return m
}

// Open opens a group's part in the streams. It fails if the number is open already.
func (m *Mux) Open(number uint32, cluster string) (*Group, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, net.ErrClosed
	}
	if m.groups[number] != nil {
		return nil, fmt.Errorf("group %d is open already", number)
	}
	g := newGroup(m, number, cluster)
	m.groups[number] = g
	m.wg.Go(g.answer)
	return g, nil
}

// group returns a group of a cluster, or nil if it is not on this node.
func (m *Mux) group(number uint32, cluster string) *Group {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if g := m.groups[number]; g != nil && g.cluster == cluster {
		return g
	}
	return nil
}

func (m *Mux) link(to route) *link {
	m.mu.RLock()
	l := m.links[to]
	m.mu.RUnlock()
	if l != nil {
		return l
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if l = m.links[to]; l == nil {
		l = &link{mux: m, to: to}
		m.links[to] = l
	}
	return l
}

// start starts a new stream's goroutines. It returns false if the Mux is closed.
func (m *Mux) start(cl *client) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	m.clients[cl] = struct{}{}
	m.wg.Go(cl.run)
	m.wg.Go(func() {
		cl.read()
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.clients, cl)
	})
	return true
}

// Serve answers the requests on a stream whose header was read, until the stream ends.
func (m *Mux) Serve(conn net.Conn, h Header) {
	s := newServer(m, conn, h)
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		s.fail(net.ErrClosed)
		return
	}
	m.servers[s] = struct{}{}
	m.wg.Go(s.run)
	m.mu.Unlock()
	err := s.serve()
	s.fail(err)
	m.mu.Lock()
	delete(m.servers, s)
	m.mu.Unlock()
	m.cfg.Logger.Debug("a stream of requests from a node has ended", "node", h.From, "err", err)
}

// leave removes a group and ends its exchanges.
func (m *Mux) leave(g *Group) {
	m.mu.Lock()
	if m.groups[g.number] == g {
		delete(m.groups, g.number)
	}
	clients := slices.Collect(maps.Keys(m.clients))
	m.mu.Unlock()
	for _, cl := range clients {
		cl.forgetGroup(g, raft.ErrTransportShutdown)
	}
}

// Close closes all streams and all groups. Serve returns soon after.
func (m *Mux) Close() error {
	m.mu.Lock()
	m.closed = true
	groups := slices.Collect(maps.Values(m.groups))
	clients := slices.Collect(maps.Keys(m.clients))
	servers := slices.Collect(maps.Keys(m.servers))
	m.mu.Unlock()
	m.cancel()
	var err error
	for _, g := range groups {
		err = errors.Join(err, g.Close())
	}
	for _, cl := range clients {
		cl.fail(net.ErrClosed)
	}
	for _, s := range servers {
		s.fail(net.ErrClosed)
	}
	m.wg.Wait()
	return err
}
