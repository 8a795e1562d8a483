package broker

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/fsm/task/targeturl"
)

// Config holds the settings of a Publisher. The zero value knows no broker, so it publishes nowhere.
type Config struct {
	Known *Known // the permitted brokers; default: none
	// AllowCIDRs are ranges of further permitted brokers, without credentials. A target must write such a host as an
	// address.
	AllowCIDRs []netip.Prefix
	Version    string // sent to brokers as "belfry/<version>"; default "dev"

	ConnectTimeout time.Duration // for look-up, TCP, TLS and the broker's handshake together; default 10 s
	IdleTimeout    time.Duration // how long an idle connection is kept; default 1 min
	Patience       time.Duration // how long a silent broker keeps its connection; default 5 s
	Resolver       *net.Resolver // default: Go's own
	Network        Network       // default: the system's

	Clock      Clock                 // read for each message for its header belfry-clock; default: no such header
	Now        func() time.Time      // default time.Now
	Logger     *slog.Logger          // default: none. Payloads, headers and credentials are never logged
	Registerer prometheus.Registerer // default: none
}

// Network connects to brokers.
type Network interface {
	// Dial connects to a host with a port.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// Clock is a clock that is not the machine's.
type Clock interface{ Now() time.Time }

// withDefaults returns a validated copy of c in which every field is set.
func (c Config) withDefaults() (Config, error) {
	if c.ConnectTimeout < 0 || c.IdleTimeout < 0 || c.Patience < 0 {
		return c, errors.New("broker: a limit is negative")
	}
	setDefault(&c.Version, "dev")
	setDefault(&c.ConnectTimeout, 10*time.Second)
	setDefault(&c.IdleTimeout, time.Minute)
	setDefault(&c.Patience, 5*time.Second)
	setDefault(&c.Known, &Known{})
	if c.Resolver == nil {
		c.Resolver = &net.Resolver{PreferGo: true} // libc's holds a thread for each look-up
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// accessTo returns the access to a target's broker, or nil if publishing there is not permitted.
func (c *Config) accessTo(t *targeturl.Target) *access {
	if known := c.Known.accessFor(t); known != nil || !c.allows(t) {
		return known
	}
	if t.TLS {
		return &access{tls: newTLS()}
	}
	return &access{}
}

// allows reports whether each of the target's hosts is an allowed address. A name is never allowed, since its addresses
// may change.
func (c *Config) allows(t *targeturl.Target) bool {
	for _, host := range t.Hosts {
		addr, err := netip.ParseAddrPort(host)
		inPrefix := func(p netip.Prefix) bool { return p.Contains(addr.Addr()) }
		if err != nil || !slices.ContainsFunc(c.AllowCIDRs, inPrefix) {
			return false
		}
	}
	return true
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
