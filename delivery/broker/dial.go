package broker

import (
	"context"
	"crypto/tls"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/delivery"
	"github.com/belfryhq/belfry/fsm/targeturl"
)

// anywhere is for the brokers that an operator named: they may be at any address, and may send us on to any.
var anywhere = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}

// endpoint is all that is needed to connect to one broker.
type endpoint struct {
	cfg    *Config
	target *targeturl.Target // its hosts, and the vhost or database
	access *access           // never nil
	dial   *delivery.Dialer
	tls    *tls.Config // nil without TLS

	trouble atomic.Pointer[error] // of the last dial; nil: it succeeded
}

func newEndpoint(cfg *Config, t *targeturl.Target) *endpoint {
	e := &endpoint{cfg: cfg, target: t, access: cfg.Credentials.of(t)}
	guard := cfg.Guard
	if e.access != nil {
		guard = delivery.NewGuard(anywhere)
	} else {
		e.access = &access{}
	}
	e.dial = delivery.NewDialer(guard, cfg.Resolver)
	if t.TLS {
		if e.tls = e.access.tls; e.tls == nil {
			e.tls = newTLS()
		}
	}
	return e
}

// connect opens a TCP connection, with TLS if the target has it.
func (e *endpoint) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.ConnectTimeout)
	defer cancel()
	if e.tls == nil {
		return e.noted(e.dial.DialContext(ctx, network, addr))
	}
	return e.noted(e.dial.DialTLSContext(ctx, network, addr, e.tls))
}

// plain opens a TCP connection, also if TLS is to follow.
func (e *endpoint) plain(ctx context.Context, network, addr string) (net.Conn, error) {
	return e.noted(e.dial.DialContext(ctx, network, addr))
}

// noted keeps a dial's error: clients that dial by themselves tell of it in words of their own, or not at all.
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

// opening words the failure to open a client: a dial's own error, or what the client says.
func (e *endpoint) opening(err error) error {
	if trouble := e.lastTrouble(); trouble != nil {
		return worded(trouble)
	}
	return worded(err)
}

// untilWritten ends a write that the other side does not read.
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
