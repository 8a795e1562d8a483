package peer

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/logs"
)

// Target is where a node may be reached.
type Target struct {
	Addr string // host:port
	Name string // what its certificate must name; empty: any node of the cluster
}

// Config says how to open the port.
type Config struct {
	NodeID        string
	NodeName      string // what this node's certificate names
	BindAddr      string // host:port; port 0 picks one
	AdvertiseAddr string // host:port that others dial; empty: where it is bound. Port 0 there: the bound one

	// Lookup returns where a node may be, best first; none: not known. It is called at each dial.
	Lookup func(nodeID string) []Target
	// Reached is told where a dial has found a node: the one it looked for, or another one. It must not block. nil: it is
	// not told.
	Reached func(nodeID, addr string)
	// Member tells whether a node of the cluster has this name; only members reach the Raft groups. nil: do not ask.
	// Without keys nobody is asked for a name.
	Member func(name string) bool

	// TakesPart reports whether this node takes part in its groups. One that does not yet is dialled only where no other
	// process says that it is the node. nil: it does.
	TakesPart func() bool
	// Seen is told of each position of a group that another node is known to hold durably: its term, and an entry of its
	// log in that term by index and the entry's own term, zeros if none is known. It is called for every answer and
	// request, and must not block. nil: nothing.
	Seen func(node string, group uint32, term, index, entryTerm uint64)

	Keys *Keys // nil: everything in the clear, and on loopback only

	HeaderTimeout time.Duration // how long a connection may take to say what it is, TLS included; 0: 5 s
	DialTimeout   time.Duration // also Raft's timeout for one exchange; 0: 5 s
	Silence       time.Duration // how long what was sent may go unacknowledged before a connection is dead; 0: 2 s
	MaxSilent     int           // connections that have not yet said what they are; 0: 1024
	MaxConns      int           // of one kind: gRPC, gossip, each Raft group; 0: 512

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

func (c Config) withDefaults() Config {
	if c.HeaderTimeout == 0 {
		c.HeaderTimeout = 5 * time.Second
	}
	if c.DialTimeout == 0 {
		c.DialTimeout = 5 * time.Second
	}
	if c.Silence == 0 {
		c.Silence = 2 * time.Second
	}
	if c.MaxSilent == 0 {
		c.MaxSilent = 1024
	}
	if c.MaxConns == 0 {
		c.MaxConns = 512
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.TakesPart == nil {
		c.TakesPart = func() bool { return true }
	}
	c.Logger = logs.Limited(c.Logger)
	if c.Seen == nil {
		c.Seen = func(string, uint32, uint64, uint64, uint64) {}
	}
	if c.Lookup == nil {
		c.Lookup = func(string) []Target { return nil }
	}
	if c.Reached == nil {
		c.Reached = func(string, string) {}
	}
	return c
}

func (c Config) validate() error {
	if len(c.NodeID) != idBytes {
		return fmt.Errorf("peer: node id %q has not %d bytes", c.NodeID, idBytes)
	}
	host, _, err := net.SplitHostPort(c.BindAddr)
	if err != nil {
		return fmt.Errorf("peer address to bind: %w", err)
	}
	if c.Keys == nil && !isLoopback(host) {
		return fmt.Errorf("peer address %s is not on loopback, and there are no keys: between machines nodes speak only "+
			"with TLS both ways and a gossip key, because whoever reaches this port unasked could write to every shard",
			c.BindAddr)
	}
	if c.AdvertiseAddr == "" {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return fmt.Errorf("peer address %s is every address of this machine: say which one others should dial (advertise)",
				c.BindAddr)
		}
		return nil
	}
	if host, _, err := net.SplitHostPort(c.AdvertiseAddr); err != nil || host == "" {
		return errors.Join(fmt.Errorf("peer address to advertise, %q, is not host:port", c.AdvertiseAddr), err)
	}
	return nil
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

// advertised is what others dial, given the port that was bound.
func (c Config) advertised(bound *net.TCPAddr) string {
	if c.AdvertiseAddr == "" {
		return bound.String()
	}
	host, port, err := net.SplitHostPort(c.AdvertiseAddr)
	if err != nil || port != "0" {
		return c.AdvertiseAddr
	}
	return net.JoinHostPort(host, strconv.Itoa(bound.Port))
}
