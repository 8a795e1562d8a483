package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/devclock"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/jwtkeys"
	"github.com/belfryhq/belfry/cluster/peer"
	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/cluster/queuemetrics"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/history"
	"github.com/belfryhq/belfry/internal/tracing"
	"github.com/belfryhq/belfry/raftgroup/copies"
	"github.com/belfryhq/belfry/raftgroup/logstore"
	"github.com/belfryhq/belfry/shard"
)

// Config holds the settings of a node and the addresses of other nodes.
type Config struct {
	DataDir string
	Name    string // a label, at most 63 bytes of letters, digits and hyphens; empty: the host's name

	Zone   string // nodes of one zone may fail together; see placement.CheckZone. Empty: the node is a zone of its own
	Weight int    // the node's part of replicas and leaderships, 1 to 100; 0: placement.DefaultWeight

	BindAddr      string // host:port for other nodes; port 0 picks one. Empty: 127.0.0.1:0
	AdvertiseAddr string // address that other nodes dial; empty: BindAddr as bound
	HTTPAddr      string // host:port for callers of this node; sent to other nodes, not opened here
	HTTPS         bool   // callers reach HTTPAddr by HTTPS
	// Network opens the sockets for other nodes; nil: the system's.
	Network peer.Network

	// Join has addresses at which other nodes may be. BootstrapExpect is the number of nodes, this one included, that
	// form a new cluster: 1, 3 or 5. 0 joins an existing cluster, or means 1 if Join is empty. BootstrapExpect is
	// ignored once the data folder belongs to a cluster.
	Join            []string
	BootstrapExpect int
	Shards          int // of a new cluster; 0: placement.Shards for its nodes and this node's processors
	Replication     int // of a new cluster; 0: 3
	// Calm is the time that a node must be up before it gets replicas; 0: 10 s. ReplaceAfter is the time after which
	// others take the replicas of a node that is away; 0: 10 min. The control group's leader decides by its own times.
	Calm, ReplaceAfter time.Duration
	StepPause          time.Duration // before each step of a move of replicas or slots, for tests; 0: none

	// MoveRate is the number of bytes a second that this node sends as copies of replicas to nodes without a vote, and
	// takes as tasks of slots that move to shards led here; 0: no limit. See CheckMoveRate.
	MoveRate int64

	// AutoSplit is the size from which on shards split by themselves; zero: none does. The control group's leader decides
	// by its own. See CheckAutoSplit.
	AutoSplit control.AutoSplit

	// JoinTokenFile holds the one-time token by which a node gets into a cluster whose nodes show certificates. It is
	// read when the token is needed; empty: the node has none.
	JoinTokenFile string

	// HoldVersion is the newest command version that this node lets the cluster write, so that its nodes can return to
	// an older build; 0: no limit. A version that is in force already stays so.
	HoldVersion uint32

	// Keys are the files by which nodes authenticate each other. The node reads them again every few seconds, and at
	// once after a receive from Reload, which may be nil. nil Keys: no TLS, and loopback only.
	Keys   *peerkeys.Files
	Reload <-chan struct{}

	// Secrets are the cluster keys under which the secrets of policies are sealed; nil: none. The caller keeps them up to
	// date.
	Secrets *seal.Keys

	// JWT signs the tokens of webhooks for the Deliverer, which the node gives its keys; nil: it signs none.
	JWT *jwtkeys.Signer
	// JWTAlgorithms are those for which the cluster keeps keys of tokens; nil: EdDSA alone. The control group's leader
	// decides by its own.
	JWTAlgorithms []string

	Deliver        shard.Deliverer
	LogStore       logstore.Kind
	Timing         shard.Timing // zero: shard.LAN
	Policy         shard.Policy // its bound on tombstones is ignored:
	TombstoneBytes int64        // bytes for the tombstones of all replicas here together; 0: no bound
	Snapshots      Snapshots
	Clock          func() time.Time // nil: time.Now, or that of DevClock
	DevClock       *devclock.Clock  // decides when tasks are due; nil: Clock does
	MaxClockOffset time.Duration    // 0: 250 ms
	GossipMuted    func() bool      // reports whether all gossip is lost, for tests; nil: no gossip is lost

	// MinFreeDisk is the room on the data folder's disk below which the node neither leads nor grows.
	MinFreeDisk headroom.Reserve
	// MemoryLimit is the number of bytes that the process may use; 0 means no limit. From three quarters of it on, the
	// node's shards take no more tasks.
	MemoryLimit int64
	// Host has the free room and the use of memory; nil: this process's.
	Host headroom.Host
	// MaxAttempts is the number of attempts that this node may have under way: see dispatch.Crowd. 0:
	// shard.DefaultCrowd.
	MaxAttempts int
	// MaxPending is the number of bytes of calls that may wait at each shard led here; 0: the shard's default.
	MaxPending int64

	// History keeps the events of the replicas here; nil: the node keeps none. The caller closes it after the node.
	History *history.Store

	API API // nil: callers reach no part of this node

	Build      string                // version of the binary, for people
	Logger     *slog.Logger          // nil: none
	Registerer prometheus.Registerer // nil: none
	Tracer     *tracing.Tracer       // nil: no spans are made
	// QueueMetrics bounds the number of queues with metrics of their own; 0: queuemetrics.DefaultBound.
	QueueMetrics int
	// Fatal is called when the node cannot go on, because of a failed disk or a command of a newer version. In
	// production it ends the process. Required.
	Fatal func(error)
}

// API is the part of the node that callers reach, for the doctor and for other nodes.
type API interface {
	// KeysEnd returns the end of the certificate that callers see. Zero: they see none of this node.
	KeysEnd() time.Time
	// IssuerFault returns the instant at which the keys of the issuer of tokens were read, zero if they never were, and
	// the reason why they are missing or not fresh, or nil. A node without an issuer has no fault.
	IssuerFault() (keysRead time.Time, fault error)
	// AuditFault returns the reason why the audit log of this node is not written, or nil.
	AuditFault() error
	// Audit returns records of the audit log to a node that reads it.
	Audit(ctx context.Context, r *clusterpb.AuditRequest) (*clusterpb.AuditReply, error)
}

// Snapshots are the conditions for a shard's snapshot; zero fields are shard.Config's defaults.
type Snapshots struct {
	Log  int64   // bytes of log that make a snapshot due, if
	Part float64 // it also has this many bytes for each byte of the state
	Tail uint64  // entries kept after a snapshot
}

// MaxShards is the largest number of shards of a cluster. Each costs a dozen goroutines and its share of idle
// heartbeats.
const MaxShards = 256

const (
	defaultReplication = 3
	maxNameBytes       = 63
	maxAddrBytes       = 120 // two addresses, and the rest, fit into a message of gossip
)

// DefaultShards returns the number of shards of a new cluster without a setting for it.
func DefaultShards(nodes int) int { return placement.Shards(nodes, float64(runtime.GOMAXPROCS(0))) }

func (c Config) withDefaults() (Config, error) {
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("the node has no name, and the host's is not known: %w", err)
		}
		c.Name = labelOf(host)
	}
	if c.Weight == 0 {
		c.Weight = placement.DefaultWeight
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
	if c.DevClock != nil {
		c.Clock = c.DevClock.Now
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.JWTAlgorithms == nil {
		c.JWTAlgorithms = []string{task.EdDSA}
	}
	if c.Host == nil {
		c.Host = headroom.System{Dir: c.DataDir}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, c.validate()
}

// labelOf returns the first part of a host's name, as far as its bytes may be in a label.
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
		return errors.New("no Deliverer")
	case c.Fatal == nil:
		return errors.New("no Fatal")
	case c.Name == "" || len(c.Name) > maxNameBytes || labelOf(c.Name) != c.Name:
		return fmt.Errorf("node name %q: 1 to %d letters, digits and hyphens", c.Name, maxNameBytes)
	case !slices.Contains([]int{0, 1, 3, 5}, c.BootstrapExpect):
		return fmt.Errorf("a cluster is formed by 1, 3 or 5 nodes, not %d; later ones join it", c.BootstrapExpect)
	case c.BootstrapExpect == 1 && len(c.Join) > 0:
		return errors.New("a node that forms a cluster alone joins no other node: leave out one of the two")
	case c.Shards < 1 || c.Shards > MaxShards:
		return fmt.Errorf("%d shards: 1 to %d", c.Shards, MaxShards)
	case c.QueueMetrics < 1 || c.QueueMetrics > queuemetrics.MaxBound:
		return fmt.Errorf("metrics of %d queues: 1 to %d", c.QueueMetrics, queuemetrics.MaxBound)
	}
	return errors.Join(
		placement.CheckReplication(c.Replication), c.validatePlace(), c.validateAddrs(), CheckMoveRate(c.MoveRate),
		CheckAutoSplit(c.AutoSplit.Bytes), CheckAutoShards(c.AutoSplit.Shards),
	)
}

// CheckMoveRate returns an error if rate is not a valid Config.MoveRate.
func CheckMoveRate(rate int64) error {
	if rate == 0 || rate >= copies.MinRate {
		return nil
	}
	return fmt.Errorf("%s a second: 0 for no limit, or %s at least",
		headroom.FormatBytes(uint64(max(rate, 0))), headroom.FormatBytes(copies.MinRate))
}

// leastAutoSplit is the smallest size at which shards split by themselves. A snapshot of it takes milliseconds, and a
// node can hold some dozens of shards only.
const leastAutoSplit = 1 << 20

// CheckAutoSplit returns an error if bytes are not valid as Config.AutoSplit.Bytes.
func CheckAutoSplit(bytes uint64) error {
	if bytes == 0 || bytes >= leastAutoSplit {
		return nil
	}
	return fmt.Errorf("%s: 0 for no automatic splits, or %s at least", headroom.FormatBytes(bytes),
		headroom.FormatBytes(leastAutoSplit))
}

// CheckAutoShards returns an error if shards are not valid as Config.AutoSplit.Shards.
func CheckAutoShards(shards int) error {
	if shards < 0 || shards > MaxShards {
		return fmt.Errorf("%d shards: 1 to %d", shards, MaxShards)
	}
	return nil
}

func (c Config) validatePlace() error {
	if err := placement.CheckZone(c.Zone); err != nil {
		return fmt.Errorf("zone: %w", err)
	}
	if err := placement.CheckWeight(c.Weight); err != nil {
		return fmt.Errorf("weight: %w", err)
	}
	return nil
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

// ParseTiming returns the timing of this name: lan (the default), fast or wan.
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

// TimingAlone returns the timing of a cluster that never has a second node.
func TimingAlone() shard.Timing { return shard.Alone() }
