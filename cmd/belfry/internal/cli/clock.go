package cli

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/belfryhq/belfry/client"
)

// clock carries the calls to the nodes, and reads the clock that a node of "belfry dev" has in its answers. That clock
// is ahead of the machine's after "belfry advance". The answers of other nodes have none, and the machine's counts.
type clock struct {
	http.Transport
	ahead atomic.Int64 // nanoseconds
}

// RoundTrip makes a call.
func (c *clock) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if at, err := time.Parse(time.RFC3339Nano, answer.Header.Get("Belfry-Clock")); err == nil {
		c.ahead.Store(int64(time.Until(at)))
	}
	return answer, nil
}

// httpClient returns the carrier of the connection's calls.
func (c *Connection) httpClient() (*http.Client, error) {
	if c.clock == nil {
		carrier := &clock{Transport: http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
			ForceAttemptHTTP2: true,
		}}
		if cmp.Or(c.ca, c.cert, c.certKey) != "" {
			security, err := client.LoadTLS(c.ca, c.cert, c.certKey)
			if err != nil {
				return nil, err
			}
			carrier.TLSClientConfig = security
		}
		c.clock = carrier
	}
	return &http.Client{Transport: c.clock}, nil
}

// Now returns the time by the clock of the node that answered last.
func (c *Connection) Now() time.Time {
	if c.clock == nil {
		return time.Now()
	}
	return time.Now().Add(time.Duration(c.clock.ahead.Load()))
}

// askClock reads the clock of a node on this machine, for times that count from now. No node of "belfry dev" is
// elsewhere. A node that does not answer has the machine's clock.
func (c *Connection) askClock(ctx context.Context) time.Time {
	carrier, err := c.httpClient()
	if err != nil || len(c.addrs) == 0 || !isLoopback(c.addrs[0]) {
		return c.Now()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	base := c.addrs[0]
	if !strings.Contains(base, "://") {
		base = "http://" + base
	}
	ask, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimRight(base, "/")+"/healthz", nil)
	if err == nil {
		if answer, err := carrier.Do(ask); err == nil {
			_ = answer.Body.Close() // it is empty
		}
	}
	return c.Now()
}

// isLoopback reports whether an address of a node is one of this machine that others cannot reach.
func isLoopback(addr string) bool {
	if !strings.Contains(addr, "://") {
		addr = "http://" + addr
	}
	u, err := url.Parse(addr)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
