package node

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/peer"
	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/cluster/queuemetrics"
	"github.com/belfryhq/belfry/delivery/broker"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/origin"
	"github.com/belfryhq/belfry/redisapi"
)

// Config holds the settings of one node. Begin with DefaultConfig and change single fields.
type Config struct {
	DataDir string // folder of the node's log, tasks and identity
	Name    string // label for people; empty: the host's name
	Zone    string // failure domain, such as a data centre's name; empty: the node is a zone of its own
	Weight  int    // the node's part of replicas and leaderships, 1 to 100

	HTTPAddr      string        // address at which callers are served; port 0 picks a free one
	AdvertiseHTTP string        // address for callers, or its URL with http or https; empty: HTTPAddr as bound
	AllowHosts    []string      // further host names under which callers reach the API
	AllowOrigins  []string      // origins whose web pages may call the API
	ProfileAddr   string        // address that serves Go's profiles; empty: none are served
	RedisAddr     string        // address at which Redis clients are served; empty: none are
	RedisScores   redisapi.Unit // of Redis clients
	TLS           TLSConfig
	Access        AccessConfig
	// BehindProxy tells that callers come through a proxy only, which speaks TLS with them. A call has the address that
	// the proxy names in X-Forwarded-For or Forwarded.
	BehindProxy bool

	AMQP AMQPConfig

	PeerAddr        string          // address for other nodes, over TCP and UDP; port 0 picks a free one
	AdvertisePeer   string          // address for other nodes to dial; empty: PeerAddr as bound
	PeerKeys        *peerkeys.Files // nil: no TLS, and loopback only
	Reload          <-chan struct{} // each receive makes the node read the files of keys at once; nil: none comes
	Join            []string        // peer addresses of other nodes
	JoinTokenFile   string          // file with the one-time token of a new node; empty: none
	BootstrapExpect int             // number of nodes that form a new cluster: 1, 3 or 5; 0: join an existing one
	Shards          int             // of a new cluster; 0: cluster.DefaultShards
	Replication     int             // replicas of each shard of a new cluster: 1, 3 or 5; 0: 3
	ReplaceAfter    time.Duration   // others make the replicas of a node anew that is away for so long; 0: 10 min
	MaxClockOffset  time.Duration
	MoveRate        int64  // bytes a second that the node copies for moves of replicas and slots; 0: no limit
	AutoSplit       int64  // bytes of tasks from which on a shard splits by itself; 0: never
	AutoSplitShards int    // number of shards from which on none splits by itself
	HoldVersion     uint32 // newest command version that the node lets the cluster write; 0: no limit

	LogStore    string           // "wal" or "boltdb"
	Timing      string           // "fast", "lan" or "wan": the time until a silent leader is replaced
	LaneWindow  uint32           // initial attempts in flight per shard and receiver; 0: the shard's default
	MinFreeDisk headroom.Reserve // space that stays free on the disk of DataDir
	MemoryLimit headroom.Limit   // memory that the process may use
	WebhookNets []netip.Prefix   // further networks to which webhooks may be delivered
	BrokerNets  []netip.Prefix   // networks in which tasks may be published to any broker, without credentials
	// ReceiverCerts is the folder of the certificates that the node shows to receivers; empty: it has none.
	ReceiverCerts string
	JWTIssuer     string        // the claim iss of the tokens that receivers get; empty: the cluster's id
	Brokers       *broker.Known // known message brokers and their credentials; nil: none

	Backups BackupConfig // made on a schedule

	// Dev gives the node a clock that a test can set ahead: see DevConfig.
	Dev bool

	HistoryBytes int64  // bytes of history that the node keeps for each namespace; 0: none
	HistoryDays  int    // days for which it keeps them; 0: it keeps none
	QueueMetrics int    // number of queues with metrics of their own
	PIDFile      string // file that holds the process id while the node runs; empty: none
	NotifySocket string // socket of the service manager, as in the variable NOTIFY_SOCKET of systemd; empty: none

	// Audit is the file of the audit log. Empty: audit/audit.jsonl in the data folder; "-": that file, and standard output
	// as well.
	Audit          string
	ClusterKeyFile string // file with the keys under which the secrets of queues are sealed; empty: none

	// Network opens the ports of the node, and connects to other nodes, to receivers and to the issuer of tokens; nil: the
	// system's.
	Network peer.Network

	Tracing   *TracingConfig // nil: no spans are made
	Logger    *slog.Logger   // nil: no log
	AccessLog bool           // the log gets a record of each call of the API, at level info; otherwise at level debug
	// Fatal is called when the node must stop at once because its memory and its disk may differ. It must not return.
	// Nil: log the error and end the process with status 1.
	Fatal func(error)
}

// DefaultMoveRate is the default of Config.MoveRate.
const DefaultMoveRate = 32 << 20

// DefaultReplaceAfter is the default of Config.ReplaceAfter.
const DefaultReplaceAfter = 10 * time.Minute

// leastReplaceAfter is the shortest Config.ReplaceAfter. A restart of a node may take as long, and copies all its
// replicas in vain.
const leastReplaceAfter = 10 * time.Second

func checkReplaceAfter(d time.Duration) error {
	if d != 0 && d < leastReplaceAfter {
		return fmt.Errorf("%v: %v at least", d, leastReplaceAfter)
	}
	return nil
}

func checkReplication(replicas int) error {
	if replicas == 0 {
		return nil
	}
	return placement.CheckReplication(replicas)
}

// DefaultConfig returns the settings of a node that runs alone, reachable from its own machine only. Calls need no
// credentials.
func DefaultConfig() Config {
	return Config{
		DataDir: "./belfry-node", Weight: placement.DefaultWeight, HTTPAddr: "127.0.0.1:8400", PeerAddr: "127.0.0.1:8500",
		MaxClockOffset: 250 * time.Millisecond, MoveRate: DefaultMoveRate, LogStore: "wal", Timing: "lan",
		QueueMetrics: queuemetrics.DefaultBound, AutoSplitShards: control.DefaultAutoShards,
		HistoryBytes: DefaultHistoryBytes, HistoryDays: DefaultHistoryDays, RedisScores: redisapi.Seconds,
	}
}

// SettingError reports that a node cannot run with one of its settings.
type SettingError struct {
	Setting string // named as in configuration files, such as "min-free-disk"
	Err     error
}

func (e *SettingError) Error() string { return e.Setting + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *SettingError) Unwrap() error { return e.Err }

// Validate returns a *SettingError for the first setting that no node can run with.
func (c *Config) Validate() error {
	for _, check := range []struct {
		setting string
		err     error
	}{
		{"data", notEmpty(c.DataDir)},
		{"peer-cert", c.checkKeys()},
		{"zone", placement.CheckZone(c.Zone)},
		{"weight", placement.CheckWeight(c.Weight)},
		{"replication", checkReplication(c.Replication)},
		{"replace-after", checkReplaceAfter(c.ReplaceAfter)},
		{"move-rate", cluster.CheckMoveRate(c.MoveRate)},
		{"auto-split", cluster.CheckAutoSplit(uint64(max(c.AutoSplit, 0)))},
		{"auto-split-shards", within(c.AutoSplitShards, 1, cluster.MaxShards)},
		{"history-bytes", checkHistory(c.HistoryBytes)},
		{"history-days", within(c.HistoryDays, 0, maxHistoryDays)},
		{"metrics-queues", within(c.QueueMetrics, 1, queuemetrics.MaxBound)},
		{"log-store", oneOf(c.LogStore, "wal", "boltdb")},
		{"timing", oneOf(c.Timing, "fast", "lan", "wan")},
		{"allow-host", originsOf(c.AllowHosts, nil)},
		{"allow-origin", originsOf(nil, c.AllowOrigins)},
		{"http", originsOf([]string{origin.HostOf(c.HTTPAddr)}, nil)},
		{"advertise-http", checkAdvertised(c.AdvertiseHTTP)},
		{"http-cert", c.TLS.checkPair()},
		{"http-client-ca", c.TLS.checkClients()},
		{"jwt-issuer", checkIssuer(c.JWTIssuer)},
		{"http-plain-loopback", c.TLS.checkNeeded(c.TLS.PlainLoopback)},
		{"oidc-issuer", c.Access.checkIssuer()},
		{"behind-proxy", c.checkProxy()},
		{"http", c.checkExposed(c.HTTPAddr)},
		{"amqp-broker", c.AMQP.checkBroker()},
		{"amqp-key-file", c.checkAMQPKey()},
		{"amqp", c.checkExposed(c.AMQP.Addr)},
		{"dev", c.checkDev()},
		{"pprof", c.checkExposed(c.ProfileAddr)},
		{"redis", c.checkExposed(c.RedisAddr)},
		{"redis-scores", c.checkScores()},
	} {
		if check.err != nil {
			return &SettingError{check.setting, check.err}
		}
	}
	if err := c.Tracing.validate(); err != nil {
		return err
	}
	return c.Backups.validate()
}

// checkKeys returns an error if some of the files of PeerKeys are missing among the settings.
func (c *Config) checkKeys() error {
	f := c.PeerKeys
	if f == nil || f.Cert != "" && f.Key != "" && f.CA != "" && f.Gossip != "" {
		return nil
	}
	return errors.New("peer-key, peer-ca and gossip-key-file go together with it: give all four files, or none")
}

// The bounds of Config.HistoryBytes, apart from 0, and of Config.HistoryDays.
const (
	leastHistory   = 1 << 20
	maxHistoryDays = 3650
)

func checkHistory(bytes int64) error {
	if bytes != 0 && bytes < leastHistory {
		return fmt.Errorf("%d bytes: 1MiB at least, or 0 for none", bytes)
	}
	return nil
}

// checkIssuer checks a StringOrURI (RFC 7519): a text with a colon is a URI.
func checkIssuer(issuer string) error {
	if u, err := url.Parse(issuer); strings.Contains(issuer, ":") && (err != nil || u.Scheme == "") {
		return fmt.Errorf("%q has a colon, and is no URL", issuer)
	}
	if len(issuer) > task.MaxAudienceBytes || strings.IndexFunc(issuer, unicode.IsControl) >= 0 {
		return fmt.Errorf("has a control character, or more than %d bytes", task.MaxAudienceBytes)
	}
	return nil
}

func notEmpty(text string) error {
	if text == "" {
		return errors.New("is missing")
	}
	return nil
}

func within(n, least, most int) error {
	if n < least || n > most {
		return fmt.Errorf("%d is not within %d to %d", n, least, most)
	}
	return nil
}

func oneOf(text string, allowed ...string) error {
	for _, one := range allowed {
		if text == one {
			return nil
		}
	}
	last := len(allowed) - 1
	return fmt.Errorf("%q is not %s or %s", text, strings.Join(allowed[:last], ", "), allowed[last])
}

func originsOf(hosts, origins []string) error {
	_, err := origin.New(hosts, origins)
	return err
}

// clusterConfig returns the part of the settings that concerns the node among others.
func (c *Config) clusterConfig() (cluster.Config, error) {
	timing, err := cluster.ParseTiming(c.Timing)
	if err != nil {
		return cluster.Config{}, err
	}
	cfg := cluster.Config{
		DataDir: c.DataDir, Name: c.Name, Zone: c.Zone, Weight: c.Weight, BindAddr: c.PeerAddr, Network: c.Network,
		AdvertiseAddr: c.AdvertisePeer, Keys: c.PeerKeys, Join: c.Join, JoinTokenFile: c.JoinTokenFile,
		BootstrapExpect: c.BootstrapExpect, Shards: c.Shards, Replication: c.Replication, ReplaceAfter: c.ReplaceAfter,
		MaxClockOffset: c.MaxClockOffset,
		MoveRate:       c.MoveRate, HoldVersion: c.HoldVersion, Timing: timing, MinFreeDisk: c.MinFreeDisk,
		QueueMetrics: c.QueueMetrics,
		AutoSplit:    control.AutoSplit{Bytes: uint64(max(c.AutoSplit, 0)), Shards: c.AutoSplitShards},
	}
	if cfg.Shards == 0 {
		cfg.Shards = cluster.DefaultShards(cfg.BootstrapExpect)
	}
	cfg.Policy.Window = c.LaneWindow
	switch c.LogStore {
	case "wal":
		cfg.LogStore = "wal"
	case "boltdb":
		cfg.LogStore = "boltdb"
	}
	if c.Dev {
		cfg.Timing, cfg.Replication = cluster.TimingAlone(), 1
		// A finished task can still be read after an advance, however long that is.
		cfg.Policy.KeepDone = task.MaxDelay
	}
	return cfg, nil
}
