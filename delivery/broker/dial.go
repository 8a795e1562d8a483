package broker

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// endpoint holds the data to connect to one broker.
type endpoint struct {
	cfg    *Config
	target *targeturl.Target // its hosts, and the vhost or database
	access *access
	dial   net.Dialer

	trouble atomic.Pointer[error] // of the last dial; nil: none failed yet, or the last succeeded
}

func newEndpoint(cfg *Config, t *targeturl.Target, a *access) *endpoint {
	return &endpoint{cfg: cfg, target: t, access: a, dial: net.Dialer{Resolver: cfg.Resolver}}
}

// connect opens a TCP connection, with TLS if the broker's access has a TLS configuration.
func (e *endpoint) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.ConnectTimeout)
	defer cancel()
	conn, err := e.plain(ctx, network, addr)
	if err != nil || e.access.tls == nil {
		return conn, err
	}
	cfg := e.access.tls.Clone()
	if cfg.ServerName == "" {
		cfg.ServerName, _, _ = net.SplitHostPort(addr) // it was dialled
	}
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error tells more
		return e.noted(nil, err)
	}
	return secure, nil
}

// plain opens a TCP connection without TLS, which the client may add.
func (e *endpoint) plain(ctx context.Context, network, addr string) (net.Conn, error) {
	if e.cfg.Network != nil {
		return e.noted(e.cfg.Network.Dial(ctx, addr))
	}
	return e.noted(e.dial.DialContext(ctx, network, addr))
}

// noted records a dial's error: clients that dial by themselves reword the error or drop it.
func (e *endpoint) noted(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		e.trouble.Store(&err)
		return nil, err
	}
	e.trouble.Store(nil)
	return conn, nil
}

func (e *endpoint) lastTrouble() error {
	if err := e.trouble.Load(); err != nil {
		return *err
	}
	return nil
}

// opening words the failure to open a client: the dial's own error if there is one, or else the client's.
func (e *endpoint) opening(err error) error {
	if trouble := e.lastTrouble(); trouble != nil {
		return worded(trouble)
	}
	return worded(err)
}

// untilWritten is a connection whose writes fail after patience if the peer does not read.
type untilWritten struct {
	net.Conn
	patience time.Duration
}

func (c untilWritten) Write(b []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
