package main

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/disk"
	"github.com/belfryhq/belfry/cluster/queuemetrics"
)

// serveFlags are a node's settings as they are given.
type serveFlags struct {
	data, name                   string
	http, advertiseHTTP          string
	allowHosts, allowOrigins     []string
	peer, advertisePeer          string
	keys                         peerKeyFlags
	join                         []string
	bootstrapExpect, shards      int
	logStore, timing             string
	allowCIDRs, brokerCIDRs      []string
	brokers                      string
	maxClockOffset               time.Duration
	minFreeDisk, memoryLimit     string
	laneWindow                   uint32
	logLevel, logFormat, pidFile string
	pprof                        string
	queueMetrics                 int
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one node",
		Long: `Run one node: alone, or with others.

Alone it needs nothing but a data folder. The first nodes of a cluster, three or five, are each given the peer
addresses of the others by --join and their number by --bootstrap-expect; whoever comes later only needs --join. Once
the data folder belongs to a cluster, it is enough: the addresses of the others are kept in it. Only when all nodes
move at once does each need one --join again.

Ctrl-C and SIGTERM stop it in order, a second one at once. SIGHUP is logged and changes nothing.`,
		Example: `  belfry serve --data /var/lib/belfry
  belfry serve --data n1 --http 127.0.0.1:8400 --peer 127.0.0.1:8500 --join 127.0.0.1:8501,127.0.0.1:8502 \
    --bootstrap-expect 3`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), &f, cmd.ErrOrStderr()) },
	}
	f.addFlags(cmd)
	return cmd
}

func (f *serveFlags) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.data, "data", "./belfry-node", "the node's folder: its log, its tasks, its identity")
	flags.StringVar(&f.name, "name", "", "a label for people (default: the host's name)")
	flags.StringVar(&f.http, "http", "127.0.0.1:8400", "where callers are served")
	flags.StringVar(&f.advertiseHTTP, "advertise-http", "", "where callers should be told to find it (default: --http)")
	flags.StringArrayVar(&f.allowHosts, "allow-host", nil,
		"callers may reach the API by this host name too, as through a load balancer; localhost, IP\n"+
			"addresses and the names in --http and --advertise-http always may; repeatable")
	flags.StringArrayVar(&f.allowOrigins, "allow-origin", nil,
		"web pages of this origin may call the API, such as https://app.example; repeatable")
	flags.StringVar(&f.peer, "peer", "127.0.0.1:8500", "where other nodes are answered, over TCP and UDP")
	flags.StringVar(&f.advertisePeer, "advertise-peer", "", "where other nodes dial it (default: --peer)")
	f.keys.addFlags(flags)
	flags.StringSliceVar(&f.join, "join", nil, "peer addresses of other nodes")
	flags.IntVar(&f.bootstrapExpect, "bootstrap-expect", 0, "how many nodes form a new cluster: 1, 3 or 5")
	flags.IntVar(&f.shards, "shards", 0,
		"of a new cluster; none can be added later (default: 4 for each node that forms it, or one for\n"+
			"every two of this node's processors if that is less)")
	flags.StringVar(&f.logStore, "log-store", "wal", "what holds the log: wal or boltdb")
	flags.StringVar(&f.timing, "timing", "lan", "how soon a silent leader is replaced: fast, lan or wan")
	flags.StringArrayVar(&f.allowCIDRs, "allow-webhook-cidr", nil,
		"deliver to these addresses too, though they are not public; repeatable")
	flags.StringVar(&f.brokers, "brokers", "",
		"YAML file: the message brokers that tasks may be published to, and who we are there")
	flags.StringArrayVar(&f.brokerCIDRs, "allow-broker-cidr", nil,
		"publish to any broker at these addresses, without credentials; repeatable")
	flags.Var(newSpan(&f.maxClockOffset, 250*time.Millisecond), "max-clock-offset",
		"a node whose clock is further from the others' leads nothing")
	flags.StringVar(&f.minFreeDisk, "min-free-disk", "",
		"with less room for its data the node leads only what nobody else can, and nothing new is\n"+
			"scheduled there: 256MiB, 5%, or 0 for no such bound (default: 1GiB, or 5% if that is less)")
	flags.StringVar(&f.memoryLimit, "memory-limit", "",
		"memory that the node may use: 2GiB, 50% of what there is, or 0 for no limit. From three quarters\n"+
			"of it on, no more tasks are taken (default: GOMEMLIMIT, or 75% of what there is)")
	flags.Uint32Var(&f.laneWindow, "lane-window", 0,
		"attempts in flight per shard and receiver, at first: it adapts (default 16)")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&f.pidFile, "pid-file", "", "write the process id there")
	flags.IntVar(&f.queueMetrics, "queue-metrics", queuemetrics.DefaultBound,
		"queues with metrics of their own: those with a policy, then the largest; the rest is added up")
	flags.StringVar(&f.pprof, "pprof", "", "serve Go's profiles at this address; keep it private")
}

// clusterConfig is what the flags say about the node among others.
func (f *serveFlags) clusterConfig() (cluster.Config, error) {
	cfg := cluster.Config{
		DataDir: f.data, Name: f.name, BindAddr: f.peer, AdvertiseAddr: f.advertisePeer,
		Join: f.join, BootstrapExpect: f.bootstrapExpect, Shards: f.shards, MaxClockOffset: f.maxClockOffset,
		QueueMetrics: f.queueMetrics,
	}
	if cfg.QueueMetrics < 1 || cfg.QueueMetrics > queuemetrics.MaxBound {
		return cfg, fmt.Errorf("--queue-metrics %d: 1 to %d", cfg.QueueMetrics, queuemetrics.MaxBound)
	}
	if cfg.Shards == 0 {
		cfg.Shards = cluster.DefaultShards(cfg.BootstrapExpect)
	}
	cfg.Policy.Window = f.laneWindow
	switch f.logStore {
	case "wal":
		cfg.LogStore = "wal"
	case "boltdb":
		cfg.LogStore = "boltdb"
	default:
		return cfg, fmt.Errorf("--log-store %q: wal or boltdb", f.logStore)
	}
	var err error
	if cfg.MinFreeDisk, err = disk.Parse(f.minFreeDisk); err != nil {
		return cfg, fmt.Errorf("--min-free-disk: %w", err)
	}
	if cfg.Timing, err = cluster.ParseTiming(f.timing); err != nil {
		return cfg, fmt.Errorf("--timing: %w", err)
	}
	if cfg.Keys, err = f.keys.load(); err != nil {
		return cfg, err
	}
	return cfg, nil
}

func (f *serveFlags) allowed() ([]netip.Prefix, error) {
	return prefixes("--allow-webhook-cidr", f.allowCIDRs)
}

func prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var prefixes []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		prefixes = append(prefixes, p)
	}
	return prefixes, nil
}
