package delivery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// sessionsKept is for how many TLS receivers a handshake can be shortened.
const sessionsKept = 1024

// dialer opens connections to allowed addresses.
type dialer struct {
	guard   *Guard
	timeout time.Duration
	net     net.Dialer
	tls     *tls.Config
}

func newDialer(cfg Config) *dialer {
	d := &dialer{
		guard:   NewGuard(cfg.AllowCIDRs),
		timeout: cfg.ConnectTimeout,
		tls: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			RootCAs:            cfg.RootCAs,
			NextProtos:         []string{"http/1.1"},
			ClientSessionCache: tls.NewLRUClientSessionCache(sessionsKept),
		},
	}
	d.net = net.Dialer{Resolver: cfg.Resolver, ControlContext: d.control}
	return d
}

// attemptKey is where the transport's contexts carry the attempt that a dial is for.
type attemptKey struct{}

type attemptScope struct {
	ctx      context.Context
	deadline time.Time
}

func withAttempt(ctx context.Context, deadline time.Time) context.Context {
	return context.WithValue(ctx, attemptKey{}, attemptScope{ctx, deadline})
}

// bound ends a dial with its attempt. The transport itself lets a dial go on when the request that asked for it is
// over, with a context that has the request's values but not its end; towards a dead receiver that would pile up
// sockets that no lane counts. Only when the attempt found another connection and got its reply is the new one left to
// come.
// The deadline is also what net.Dialer shares out among a name's addresses.
func (d *dialer) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	end := time.Now().Add(d.timeout)
	attempt, ok := ctx.Value(attemptKey{}).(attemptScope)
	if !ok {
		return context.WithDeadline(ctx, end)
	}
	if attempt.deadline.Before(end) {
		end = attempt.deadline
	}
	ctx, cancel := context.WithDeadline(ctx, end)
	stop := context.AfterFunc(attempt.ctx, func() {
		if !errors.Is(context.Cause(attempt.ctx), errEnded) {
			cancel()
		}
	})
	return ctx, func() { stop(); cancel() }
}

// dial opens a TCP connection.
func (d *dialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, release := d.bound(ctx)
	defer release()
	return d.connect(ctx, network, addr)
}

// dialTLS opens a TLS connection. It is here and not left to the transport so that bound holds for the handshake too.
func (d *dialer) dialTLS(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, release := d.bound(ctx)
	defer release()
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	raw, err := d.connect(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	cfg := d.tls.Clone()
	cfg.ServerName = host
	conn := tls.Client(raw, cfg)
	if err := conn.HandshakeContext(ctx); err != nil {
		return nil, &handshakeError{errors.Join(err, raw.Close())}
	}
	return conn, nil
}

// connect looks addr up and tries its addresses as net.Dialer does, IPv6 and IPv4 side by side; control sees each.
func (d *dialer) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	seen := &candidates{}
	conn, err := d.net.DialContext(context.WithValue(ctx, candidatesKey{}, seen), network, addr)
	if err != nil {
		return nil, seen.explain(addr, err)
	}
	return conn, nil
}

// control is called with each socket that is about to connect, and with the very address it will connect to.
func (d *dialer) control(ctx context.Context, _, address string, _ syscall.RawConn) error {
	seen, ok := ctx.Value(candidatesKey{}).(*candidates)
	if !ok {
		return errors.New("dialled past the guard") // only connect dials
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("cannot tell where %q leads: %w", address, err)
	}
	kind := d.guard.refusal(to.Addr())
	seen.note(to.Addr(), kind)
	if kind != "" {
		return errRefused
	}
	return nil
}

// errRefused keeps a socket from connecting. Callers see a refusedError.
var errRefused = errors.New("address refused")

// candidatesKey is where a dial's context carries its candidates.
type candidatesKey struct{}

// candidates is what the guard said of the addresses that one dial tried.
type candidates struct {
	mu      sync.Mutex // net.Dialer tries two families at once
	allowed bool       // at least one was
	addr    netip.Addr // the first that was refused
	kind    string
}

func (c *candidates) note(addr netip.Addr, kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case kind == "":
		c.allowed = true
	case c.kind == "":
		c.addr, c.kind = addr, kind
	}
}

// explain turns a dial's error into a refusedError, if all that was tried was refused. A name that has an allowed
// address too is merely down: net.Dialer may report either of its errors then.
func (c *candidates) explain(hostport string, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kind == "" || !errors.Is(err, errRefused) {
		return err
	}
	if c.allowed {
		return errors.New("no allowed address answers")
	}
	return &refusedError{hostport: hostport, addr: c.addr, kind: c.kind}
}

// refusedError says that a receiver has none but refused addresses.
type refusedError struct {
	hostport string
	addr     netip.Addr
	kind     string // what the guard calls such addresses
}

func (e *refusedError) Error() string {
	host, _, err := net.SplitHostPort(e.hostport)
	if err != nil {
		host = e.hostport
	}
	return "refused: " + leadsTo(printable([]byte(host), maxExcerpt), e.addr, e.kind)
}
