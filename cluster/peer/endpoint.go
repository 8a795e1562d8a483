package peer

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/peer/internal/wire"
)

// Endpoint is an open peer port.
type Endpoint struct {
	cfg      Config
	tcp      net.Listener
	udp      net.PacketConn
	addr     string // advertised
	silent   *connSet
	grpc     *room
	gossip   *Gossip
	wire     *wire.Mux
	requests *connSet // streams of other nodes' AppendEntries
	streams  *room    // streams of messages
	metrics  *metrics
	done     chan struct{}
	once     sync.Once
	wg       sync.WaitGroup

	mu     sync.Mutex
	groups map[uint32]*group
}

// Listen opens the TCP and the UDP port of one number.
func Listen(cfg Config) (*Endpoint, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	e := &Endpoint{
		cfg:     cfg,
		silent:  newConnSet(cfg.MaxSilent),
		metrics: newMetrics(cfg.Registerer),
		done:    make(chan struct{}),
		groups:  make(map[uint32]*group),
	}
	var err error
	if e.tcp, e.udp, err = cfg.Network.Listen(cfg.BindAddr); err != nil {
		return nil, err
	}
	e.addr = cfg.advertised(e.tcp.Addr().(*net.TCPAddr))
	e.grpc = newRoom(e.tcp.Addr(), cfg.MaxConns)
	e.gossip = newGossip(e)
	e.requests = newConnSet(cfg.MaxConns)
	e.streams = newRoom(e.tcp.Addr(), cfg.MaxConns)
	e.wire = wire.New(wire.Config{
		Self: cfg.NodeID, FirstByte: wireByte, Nodes: e, Timeout: cfg.DialTimeout, Records: cfg.Records,
		Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	e.wg.Go(e.accept)
	e.wg.Go(e.gossip.receive)
	return e, nil
}

// Addr returns the address that other nodes dial.
func (e *Endpoint) Addr() string { return e.addr }

// GRPC returns the listener for the gRPC connections of other nodes. Its Close leaves accepted connections to their
// server, which ends their streams in order. Close of the endpoint closes the rest of them.
func (e *Endpoint) GRPC() net.Listener { return entrance{e.grpc} }

// Gossip returns memberlist's transport over this port.
func (e *Endpoint) Gossip() *Gossip { return e.gossip }

// Close closes every connection and frees the port.
func (e *Endpoint) Close() error {
	var err error
	e.once.Do(func() {
		close(e.done)
		err = errors.Join(e.tcp.Close(), e.udp.Close(), e.grpc.Close(), e.streams.Close(), e.gossip.Shutdown())
		for _, g := range e.openGroups() {
			err = errors.Join(err, g.Close())
		}
		err = errors.Join(err, e.wire.Close())
		e.requests.closeAll()
		e.silent.closeAll()
		e.wg.Wait()
	})
	return err
}

func (e *Endpoint) openGroups() []*group {
	e.mu.Lock()
	defer e.mu.Unlock()
	groups := make([]*group, 0, len(e.groups))
	for _, g := range e.groups {
		groups = append(groups, g)
	}
	return groups
}

// accept accepts connections until the listener is closed. After any other error it waits before the next attempt,
// twice as long each time, up to a second.
func (e *Endpoint) accept() {
	const first, most = 5 * time.Millisecond, time.Second
	wait := first
	for {
		conn, err := e.tcp.Accept()
		if err == nil {
			wait = first
			e.wg.Go(func() { e.admit(conn) })
			continue
		}
		if errors.Is(err, net.ErrClosed) {
			return
		}
		e.cfg.Logger.Warn("cannot accept connections from other nodes", "err", err, "again_in", wait)
		select {
		case <-time.After(wait):
			wait = min(2*wait, most)
		case <-e.done:
			return
		}
	}
}
