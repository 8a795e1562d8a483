package broker

import (
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/delivery"
)

// Config is all that a Publisher is made of. The zero value works: it reaches public addresses only, and tells no
// broker who it is.
type Config struct {
	Guard       *delivery.Guard // of brokers that Credentials does not name; default: public addresses only
	Credentials *Credentials    // default: none
	Version     string          // what brokers are told, "belfry/<version>"; default "dev"

	ConnectTimeout time.Duration // for look-up, TCP, TLS and the broker's welcome together; default 10 s
	IdleTimeout    time.Duration // how long a connection without an attempt is kept; default 1 min
	Patience       time.Duration // how long a broker may answer nothing to anyone before its connection is given up; default 5 s
	MaxBrokers     int           // connected at once, those of Credentials not counted; default 256
	Resolver       *net.Resolver // default: Go's own

	Now        func() time.Time      // default time.Now
	Logger     *slog.Logger          // default: none. Payloads, headers and credentials are never logged
	Registerer prometheus.Registerer // default: none
}

// withDefaults returns a validated copy of c in which every field is set.
func (c Config) withDefaults() (Config, error) {
	if c.ConnectTimeout < 0 || c.IdleTimeout < 0 || c.Patience < 0 || c.MaxBrokers < 0 {
		return c, errors.New("broker: a limit is negative")
	}
	setDefault(&c.Version, "dev")
	setDefault(&c.ConnectTimeout, 10*time.Second)
	setDefault(&c.IdleTimeout, time.Minute)
	setDefault(&c.Patience, 5*time.Second)
	setDefault(&c.MaxBrokers, 256)
	setDefault(&c.Credentials, &Credentials{})
	if c.Guard == nil {
		c.Guard = delivery.NewGuard(nil)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
