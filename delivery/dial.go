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

// sessionsKept is the number of TLS receivers whose sessions are kept to shorten the next handshake.
const sessionsKept = 1024

// dialer opens connections to addresses that the guard allows.
type dialer struct {
	guard   *Guard
	timeout time.Duration
	net     net.Dialer
	network Network // nil: net
	tls     *tls.Config
}

func newDialer(cfg Config) *dialer {
	d := &dialer{
		guard:   NewGuard(cfg.AllowCIDRs),
		timeout: cfg.ConnectTimeout,
		network: cfg.Network,
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

// attemptKey is the context key of the attempt that a dial serves.
type attemptKey struct{}

type attemptScope struct {
	ctx      context.Context
	deadline time.Time
}

func withAttempt(ctx context.Context, deadline time.Time) context.Context {
	return context.WithValue(ctx, attemptKey{}, attemptScope{ctx, deadline})
}

// bound returns a context for a dial that ends with the dial's attempt. The transport itself lets a dial continue after
// the end of its request, with a context that has the request's values but not its end. Such dials towards a dead
// receiver would pile up sockets that no lane counts. A dial continues in one case: its attempt used another
// connection and ended in time.
//
// The context's deadline is the earlier of the dialer's timeout and the attempt's deadline. net.Dialer divides the time
// among a name's addresses.
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

// dialTLS opens a TLS connection. The transport does not do it, so that bound limits the handshake too.
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

// connect looks addr up and tries its addresses as net.Dialer does, IPv6 and IPv4 in parallel. control checks each
// address.
func (d *dialer) connect(ctx context.Context, network, addr string) (net.Conn, error) {
	seen := &candidates{}
	ctx = context.WithValue(ctx, candidatesKey{}, seen)
	dial := d.net.DialContext
	if d.network != nil {
		dial = d.dialNetwork
	}
	conn, err := dial(ctx, network, addr)
	if err != nil {
		return nil, seen.explain(addr, err)
	}
	return newWire(conn)
}

// dialNetwork connects through the configured network, by the first address of addr that the guard allows and that
// answers.
func (d *dialer) dialNetwork(ctx context.Context, network, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	found, err := d.net.Resolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for _, one := range found {
		to := net.JoinHostPort(one.Unmap().String(), port)
		if err = d.control(ctx, network, to, nil); err != nil {
			continue
		}
		var conn net.Conn
		if conn, err = d.network.Dial(ctx, to); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// control checks the address of each socket immediately before the socket connects.
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

// errRefused keeps a socket from connecting. Callers get a refusedError instead.
var errRefused = errors.New("address refused")

// candidatesKey is the context key of a dial's candidates.
type candidatesKey struct{}

// candidates records the guard's decisions on the addresses that one dial tried.
type candidates struct {
	mu      sync.Mutex // net.Dialer tries two families at once
	allowed bool       // at least one address was allowed
	addr    netip.Addr // the first refused address
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

// explain turns a dial's error into a refusedError if the guard refused every tried address. A name that also has an
// allowed address is merely down: net.Dialer may report the error of either address.
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

// refusedError is the error for a receiver whose addresses are all refused.
type refusedError struct {
	hostport string
	addr     netip.Addr
	kind     string // the guard's name for the kind of addr
}

// Error words the refusal for callers. It does not tell the address of a name: the name may be one of the operator's
// own network.
func (e *refusedError) Error() string {
	host, _, err := net.SplitHostPort(e.hostport)
	if err != nil {
		host = e.hostport
	}
	if host == e.addr.String() {
		return "refused: " + leadsTo(host, e.addr, e.kind)
	}
	return "refused: " + printable([]byte(host), maxExcerpt) + " leads to no public address: " + onlyOperators
}
