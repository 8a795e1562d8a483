package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config sets the addresses and the limits of a Client. Only Addrs is required.
type Config struct {
	// Addrs are the base URLs of one or more nodes of one cluster, such as http://127.0.0.1:8400, without a user.
	Addrs []string
	// HTTPClient carries the calls; nil: a client with its own connection pool and the usual settings.
	HTTPClient *http.Client
	// Timeout bounds a call with all its repeats, or each chunk of a batch. Default 30 s. A context may end a call sooner.
	Timeout time.Duration
	// AttemptTimeout bounds the node's silence during one request, so that a node that hangs costs no more. Default 5 s.
	AttemptTimeout time.Duration
	// MaxAttempts bounds the requests of one call; 0: as many as fit into Timeout.
	MaxAttempts int

	// FixedAddrs limits calls to Addrs. It suits a load balancer's address, or calls to one certain node.
	FixedAddrs bool
	// SingleCalls makes every call a request of its own, with the caller's context, instead of a line in a shared request.
	// It suits programs that call rarely, or an HTTPClient that follows each call by its context. The client then learns
	// nothing about leaders.
	SingleCalls bool
}

const (
	defaultTimeout        = 30 * time.Second
	defaultAttemptTimeout = 5 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.AttemptTimeout == 0 {
		c.AttemptTimeout = defaultAttemptTimeout
	}
	if c.HTTPClient == nil {
		c.HTTPClient = newHTTPClient()
	}
	return c
}

func (c Config) validate() error {
	switch {
	case len(c.Addrs) == 0:
		return errors.New("client: Config.Addrs is empty")
	case c.Timeout < 0 || c.AttemptTimeout < 0:
		return errors.New("client: a timeout is negative")
	case c.MaxAttempts < 0:
		return errors.New("client: Config.MaxAttempts is negative")
	}
	return nil
}

// parseAddrs returns the base URLs of addresses, which may lack http:// or end with a slash.
func parseAddrs(addrs []string) ([]string, error) {
	bases := make([]string, 0, len(addrs))
	for _, addr := range addrs {
		if !strings.Contains(addr, "://") {
			addr = "http://" + addr
		}
		u, err := url.Parse(addr)
		if err != nil {
			var refused *url.Error // it would show the whole address, perhaps with a password
			if errors.As(err, &refused) {
				err = refused.Err
			}
			return nil, fmt.Errorf("client: an address is none: %w", err)
		}
		if u.User != nil {
			return nil, fmt.Errorf("client: address %q has a user or password: calls do not carry them", u.Redacted())
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("client: address %q is not http://host:port", addr)
		}
		bases = append(bases, strings.TrimRight(u.Scheme+"://"+u.Host+u.Path, "/"))
	}
	return bases, nil
}

// newHTTPClient returns a client that keeps as many idle connections to a node as a busy program uses. The standard two
// per host would close and reopen a connection for nearly every concurrent call.
func newHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
	}}
}
