package client

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says where the cluster is and how long to try. Only Addrs must be given.
type Config struct {
	// Addrs are the base URLs of one or more nodes of one cluster, such as http://127.0.0.1:8400; none with a user.
	Addrs []string
	// HTTPClient carries the calls; nil: one with a connection pool of its own and HTTP's usual settings.
	HTTPClient *http.Client
	// Timeout bounds a call with all its repeats; for a batch, each chunk of it. Default 30 s. A context may end
	// a call sooner.
	Timeout time.Duration
	// AttemptTimeout is how long one request of a call may go without a sign of the node, so that a node that hangs
	// costs no more than this. Default 5 s.
	AttemptTimeout time.Duration
	// MaxAttempts bounds the requests of one call; 0: as many as fit into Timeout.
	MaxAttempts int

	// FixedAddrs has calls go to Addrs and nowhere else: where those are a load balancer's, or to speak to one very node.
	FixedAddrs bool
	// SingleCalls makes every call a request of its own, with the caller's context, in place of a line in a request with
	// others: for programs that call now and then, and where HTTPClient follows each call by its context. Nothing is
	// learned about leaders then.
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

// parseAddrs accepts what people write: with or without http://, with or without a slash at the end.
func parseAddrs(addrs []string) ([]string, error) {
	bases := make([]string, 0, len(addrs))
	for _, addr := range addrs {
		if !strings.Contains(addr, "://") {
			addr = "http://" + addr
		}
		u, err := url.Parse(addr)
		if err != nil {
			var refused *url.Error // which would tell the whole address, with what may be a password in it
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

// newHTTPClient keeps as many idle connections to a node as a busy program uses: the standard two per host would
// close and reopen a connection for nearly every concurrent call.
func newHTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second,
		ForceAttemptHTTP2:   true,
	}}
}
