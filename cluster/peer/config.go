package peer

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"time"

	"github.com/hashicorp/raft"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/logs"
	"github.com/belfryhq/belfry/cluster/peer/internal/wire"
	"github.com/belfryhq/belfry/cluster/peerkeys"
)

// Target is an address at which a node may be reached.
type Target struct {
	Addr string // host:port
	Name string // node name that its certificate must have; empty: any node of the cluster
}

// Config holds the settings of an Endpoint.
type Config struct {
	NodeID        string
	BindAddr      string // host:port; port 0 picks one
	AdvertiseAddr string // host:port that others dial, with port 0 for the bound one; empty: the bound address

	Network Network // nil: the system's

	Directory Directory // nil: no other node is known
	Records   Records   // nil: positions are ignored
	Admission Admission // nil: this node takes part

	// Keys are this node's certificate and the authorities that it trusts. A new connection uses the present ones. nil:
	// connections are not encrypted, and the port opens on loopback only.
	Keys *peerkeys.Keys

	HeaderTimeout time.Duration // time in which a connection must tell its purpose, TLS included; 0: 5 s
	DialTimeout   time.Duration // also the timeout of one Raft exchange; 0: 5 s
	LeastRate     int64         // bytes a second at which a snapshot must arrive at least; 0: raft's default
	Silence       time.Duration // time without acknowledgement of sent bytes after which a connection is dead; 0: 2 s
	MaxSilent     int           // connections that have not yet told their purpose; 0: 1024
	MaxConns      int           // connections of one kind (gRPC, gossip, each Raft group); 0: 512

	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Directory knows the nodes of the cluster.
type Directory interface {
	// Lookup returns the addresses at which a node may be, best first, or none if no address is known. Every dial calls
	// it.
	Lookup(nodeID string) []Target
	// Reached receives the id of a node and the address at which a dial found it, also if the dial looked for another
	// node. It must not block.
	Reached(nodeID, addr string)
	// IsMember reports whether a node of the cluster has this name. Only members reach the Raft groups. Connections
	// without keys have no name and are not checked.
	IsMember(name string) bool
	// IsRemoved reports whether a node was removed from the cluster. The node refuses streams of Raft requests from such
	// a node.
	IsRemoved(nodeID string) bool
}

// Records keeps the positions of other nodes.
type Records = wire.Records

// Admission reports whether this node takes part in its groups. Until it does, callers use this node's connection only
// if no other process proves to be the node.
type Admission interface{ TakesPart() bool }

// strangers is the directory of a node that knows no other.
type strangers struct{}

func (strangers) Lookup(string) []Target { return nil }
func (strangers) Reached(string, string) {}
func (strangers) IsMember(string) bool   { return true }
func (strangers) IsRemoved(string) bool  { return false }

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
	if c.Network == nil {
		c.Network = system{silence: c.Silence}
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
	c.Logger = logs.Limited(c.Logger)
	if c.Directory == nil {
		c.Directory = strangers{}
	}
	return c
}

// snapshotScale returns the number of bytes of a snapshot that have one timeout of an exchange to arrive. Any snapshot
// has one timeout at least.
func (c Config) snapshotScale() int {
	if c.LeastRate == 0 {
		return raft.DefaultTimeoutScale
	}
	return int(min(max(c.LeastRate*int64(c.DialTimeout)/int64(time.Second), 1), raft.DefaultTimeoutScale))
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
			"with TLS both ways and a gossip key, because any host that reaches this port could write to every shard",
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

// advertised returns the address that others dial, given the address that the port was bound to.
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
