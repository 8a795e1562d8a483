package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/disk"
	"github.com/belfryhq/belfry/cluster/memory"
	"github.com/belfryhq/belfry/cluster/peer"
	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/cluster/queuemetrics"
	"github.com/belfryhq/belfry/raftgroup/logstore"
	"github.com/belfryhq/belfry/shard"
)

// Config says what a node is and where it finds others.
type Config struct {
	DataDir string
	Name    string // a label, at most 63 bytes of letters, digits and hyphens; empty: the host's

	BindAddr      string // host:port for other nodes; port 0 picks one. Empty: 127.0.0.1:0
	AdvertiseAddr string // where others dial it; empty: as bound
	HTTPAddr      string // host:port where callers reach this node; told to others, not opened here

	// Join is where other nodes may be found. BootstrapExpect is how many nodes, this one included, form a new cluster:
	// 1, 3 or 5; 0 joins a cluster that is there, or means 1 if Join is empty. Once the data folder belongs to a
	// cluster, BootstrapExpect is not looked at any more.
	Join            []string
	BootstrapExpect int
	Shards          int // of a new cluster; 0: placement.Shards for its nodes and our processors
	Replication     int // of a new cluster; 0: 3

	Keys *peer.Keys // nil: loopback only

	Deliver        shard.Deliverer
	LogStore       logstore.Kind
	Timing         shard.Timing // zero: shard.LAN
	Policy         shard.Policy // its bound on tombstones is not looked at:
	TombstoneBytes int64        // all tombstones of this node's replicas together; 0: no bound
	Snapshots      Snapshots
	Clock          func() time.Time // nil: time.Now
	MaxClockOffset time.Duration    // 0: 250 ms
	GossipMuted    func() bool      // reports whether all gossip is lost, as tests want it; nil: none is

	// MinFreeDisk is how much room must be left on the data folder's disk for the node to lead and to grow. DiskSpace
	// tells how much there is; nil: the file system does.
	MinFreeDisk disk.Reserve
	DiskSpace   func() (disk.Space, error)

	// MemoryLimit is how many bytes the process may use: from three quarters of it on, the node's shards take no more
	// tasks. 0: no limit. Heap and Machine return the use of memory; nil: the runtime and the system do.
	MemoryLimit int64
	Heap        func() memory.Heap
	Machine     func() (memory.Machine, error)
	// MaxPending is how many bytes of calls may wait at each shard led here; 0: the shard's default.
	MaxPending int64

	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: none
	// QueueMetrics bounds how many queues have metrics of their own; 0: queuemetrics.DefaultBound.
	QueueMetrics int
	// Fatal is called when the node cannot go on: a disk that failed, a command of a newer version. In production it ends
	// the process. Required.
	Fatal func(error)
}

// Snapshots says when shards take them; zero fields are shard.Config's defaults.
type Snapshots struct {
	Log  int64   // bytes of log that make one due,
	Part float64 // if they are so large a part of the state
	Tail uint64  // entries kept after one
}

// MaxShards is how many a cluster may have: each costs a dozen goroutines and its share of idle heartbeats.
const MaxShards = 256

const (
	defaultReplication = 3
	maxNameBytes       = 63
	maxAddrBytes       = 120 // two of them, and the rest, fit into what gossip carries
)

// DefaultShards returns the number of shards that a new cluster gets unless it is configured.
func DefaultShards(nodes int) int { return placement.Shards(nodes, float64(runtime.GOMAXPROCS(0))) }

func (c Config) withDefaults() (Config, error) {
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("the node has no name, and the host's is not known: %w", err)
		}
		c.Name = labelOf(host)
	}
	if c.BindAddr == "" {
		c.BindAddr = "127.0.0.1:0"
	}
	if c.BootstrapExpect == 0 && len(c.Join) == 0 {
		c.BootstrapExpect = 1
	}
	if c.Shards == 0 {
		c.Shards = DefaultShards(c.BootstrapExpect)
	}
	if c.Replication == 0 {
		c.Replication = defaultReplication
	}
	if c.QueueMetrics == 0 {
		c.QueueMetrics = queuemetrics.DefaultBound
	}
	if c.Timing == (shard.Timing{}) {
		c.Timing = shard.LAN()
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if dir := c.DataDir; c.DiskSpace == nil {
		c.DiskSpace = func() (disk.Space, error) { return disk.Of(dir) }
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.validate()
}

// labelOf is the first part of a host's name, as far as it is a label.
func labelOf(host string) string {
	for i := range len(host) {
		if !isLabelByte(host[i]) {
			return host[:i]
		}
	}
	return host[:min(len(host), maxNameBytes)]
}

func isLabelByte(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-'
}

func (c Config) validate() error {
	switch {
	case c.DataDir == "":
		return errors.New("no data folder")
	case c.Deliver == nil:
		return errors.New("nobody to deliver")
	case c.Fatal == nil:
		return errors.New("nobody to tell of what is fatal")
	case c.Name == "" || len(c.Name) > maxNameBytes || labelOf(c.Name) != c.Name:
		return fmt.Errorf("node name %q: 1 to %d letters, digits and hyphens", c.Name, maxNameBytes)
	case !slices.Contains([]int{0, 1, 3, 5}, c.BootstrapExpect):
		return fmt.Errorf("a cluster is formed by 1, 3 or 5 nodes, not %d; later ones join it", c.BootstrapExpect)
	case c.BootstrapExpect == 1 && len(c.Join) > 0:
		return errors.New("a node that forms a cluster alone has nobody to join: leave out the one or the other")
	case c.Shards < 1 || c.Shards > MaxShards:
		return fmt.Errorf("%d shards: 1 to %d", c.Shards, MaxShards)
	case c.QueueMetrics < 1 || c.QueueMetrics > queuemetrics.MaxBound:
		return fmt.Errorf("metrics of %d queues: 1 to %d", c.QueueMetrics, queuemetrics.MaxBound)
	case c.Replication < 1 || c.Replication > 5 || c.Replication%2 == 0:
		return fmt.Errorf("%d replicas: 1, 3 or 5", c.Replication)
	}
	return c.validateAddrs()
}

func (c Config) validateAddrs() error {
	for _, a := range []string{c.HTTPAddr, c.AdvertiseAddr} {
		if len(a) > maxAddrBytes {
			return fmt.Errorf("address %q is longer than %d bytes", a, maxAddrBytes)
		}
	}
	for _, a := range c.Join {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" {
			return fmt.Errorf("address to join, %q, is not host:port", a)
		}
	}
	return nil
}

// ParseTiming gives the timing of this name: lan (the default), fast or wan.
func ParseTiming(name string) (shard.Timing, error) {
	switch name {
	case "", "lan":
		return shard.LAN(), nil
	case "fast":
		return shard.Fast(), nil
	case "wan":
		return shard.WAN(), nil
	}
	return shard.Timing{}, fmt.Errorf("%q is no timing: fast, lan or wan", name)
}
