package delivery

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config holds the settings of a Webhook. The zero value works and reaches public addresses only.
type Config struct {
	AllowCIDRs []netip.Prefix // ranges allowed beside the public ones; see Guard
	Version    string         // for the user-agent, "belfry/<version>"; default "dev"

	ConnectTimeout time.Duration  // for look-up, TCP and TLS together, within the attempt's timeout; default 10 s
	IdleTimeout    time.Duration  // how long an idle connection is kept; default 4 s
	MaxIdle        int            // idle connections in all, each about 20 KB; default 1024
	MaxIdlePerHost int            // idle connections of one scheme, host and port; default 256
	RootCAs        *x509.CertPool // trusted authorities; default: the system's
	Resolver       *net.Resolver  // default: Go's own
	Network        Network        // default: the system's

	Tokens       Tokens       // default: attempts with auth.jwt fail
	Certificates Certificates // default: attempts with auth.client_certificate fail

	Clock      Clock                 // read at each request for its header belfry-clock; default: no such header
	Now        func() time.Time      // default time.Now
	Logger     *slog.Logger          // default: none. Payloads, headers, secrets, paths and queries are never logged
	Registerer prometheus.Registerer // default: none
}

// Network connects to receivers.
type Network interface {
	// Dial connects to an IP address with a port. The guard has allowed the address.
	Dial(ctx context.Context, addr string) (net.Conn, error)
}

// Clock is a clock that is not the machine's.
type Clock interface{ Now() time.Time }

// withDefaults returns a validated copy of c in which every field is set.
func (c Config) withDefaults() (Config, error) {
	if err := c.validate(); err != nil {
		return c, err
	}
	setDefault(&c.Version, "dev")
	setDefault(&c.ConnectTimeout, 10*time.Second)
	setDefault(&c.IdleTimeout, 4*time.Second)
	setDefault(&c.MaxIdle, 1024)
	setDefault(&c.MaxIdlePerHost, 256)
	if c.Resolver == nil {
		c.Resolver = &net.Resolver{PreferGo: true}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func (c *Config) validate() error {
	if c.ConnectTimeout < 0 || c.IdleTimeout < 0 || c.MaxIdle < 0 || c.MaxIdlePerHost < 0 {
		return errors.New("delivery: a limit is negative")
	}
	for _, p := range c.AllowCIDRs {
		if !p.IsValid() {
			return fmt.Errorf("delivery: %v is not an address range", p)
		}
	}
	return nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
