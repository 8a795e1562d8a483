package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/peer/internal/wire"
)

// Endpoint is an open peer port.
type Endpoint struct {
	cfg     Config
	tcp     *net.TCPListener
	udp     *net.UDPConn
	addr    string // advertised
	silent  *connSet
	grpc    *room
	gossip  *Gossip
	wire    *wire.Mux
	streams *connSet // of other nodes' AppendEntries
	metrics *metrics
	done    chan struct{}
	once    sync.Once
	wg      sync.WaitGroup

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
	if e.tcp, e.udp, err = bind(cfg.BindAddr); err != nil {
		return nil, err
	}
	if err := endSilence(e.tcp, cfg.Silence); err != nil {
		return nil, errors.Join(fmt.Errorf("peer port: %w", err), e.tcp.Close(), e.udp.Close())
	}
	e.addr = cfg.advertised(e.tcp.Addr().(*net.TCPAddr))
	e.grpc = newRoom(e.tcp.Addr(), cfg.MaxConns)
	e.gossip = newGossip(e)
	e.streams = newConnSet(cfg.MaxConns)
	e.wire = wire.New(wire.Config{
		Self: cfg.NodeID, FirstByte: wireByte, Dial: e.DialNode, Timeout: cfg.DialTimeout, Seen: cfg.Seen,
		Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	e.wg.Go(e.accept)
	e.wg.Go(e.gossip.receive)
	return e, nil
}

// bind opens both protocols. With port 0 the system picks the TCP port; bind tries again if its number is taken in UDP.
func bind(addr string) (*net.TCPListener, *net.UDPConn, error) {
	const attempts = 16
	want, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		return nil, nil, fmt.Errorf("peer address to bind: %w", err)
	}
	var plain net.ListenConfig
	plain.SetMultipathTCP(false) // nodes never dial it, and it does not support endSilence
	for attempt := 1; ; attempt++ {
		listener, err := plain.Listen(context.Background(), "tcp", want.String())
		if err != nil {
			return nil, nil, fmt.Errorf("peer port: %w", err)
		}
		tcp := listener.(*net.TCPListener)
		bound := tcp.Addr().(*net.TCPAddr)
		udp, err := net.ListenUDP("udp", &net.UDPAddr{IP: bound.IP, Port: bound.Port, Zone: bound.Zone})
		if err == nil {
			return tcp, udp, nil
		}
		err = errors.Join(err, tcp.Close())
		if want.Port != 0 || attempt == attempts {
			return nil, nil, fmt.Errorf("peer port, for packets: %w", err)
		}
	}
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
		err = errors.Join(e.tcp.Close(), e.udp.Close(), e.grpc.Close(), e.gossip.Shutdown())
		for _, g := range e.openGroups() {
			err = errors.Join(err, g.Close())
		}
		err = errors.Join(err, e.wire.Close())
		e.streams.closeAll()
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
