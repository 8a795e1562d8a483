package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/cluster/disk"
	"github.com/belfryhq/belfry/cluster/memory"
	"github.com/belfryhq/belfry/delivery/broker"
	"github.com/belfryhq/belfry/fsm/flaw"
	"github.com/belfryhq/belfry/node"
)

// serveFlags are the settings of a node, as given.
type serveFlags struct {
	node                     node.Config
	keys                     peerKeyFlags
	webhookCIDRs             []string
	brokerCIDRs              []string
	brokers                  string
	minFreeDisk, memoryLimit string
	logLevel, logFormat      string
}

func newServe() *cobra.Command {
	f := serveFlags{node: node.DefaultConfig()}
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
	f.addFlags(cmd.Flags())
	return cmd
}

func (f *serveFlags) addFlags(flags *pflag.FlagSet) {
	c := &f.node
	flags.StringVar(&c.DataDir, "data", c.DataDir, "the node's folder: its log, its tasks, its identity")
	flags.StringVar(&c.Name, "name", c.Name, "a label for people (default: the host's name)")
	flags.StringVar(&c.HTTPAddr, "http", c.HTTPAddr, "where callers are served")
	flags.StringVar(&c.AdvertiseHTTP, "advertise-http", c.AdvertiseHTTP,
		"where callers should be told to find it (default: --http)")
	flags.StringArrayVar(&c.AllowHosts, "allow-host", nil,
		"callers may reach the API by this host name too, as through a load balancer; localhost, IP\n"+
			"addresses and the names in --http and --advertise-http always may; repeatable")
	flags.StringArrayVar(&c.AllowOrigins, "allow-origin", nil,
		"web pages of this origin may call the API, such as https://app.example; repeatable")
	flags.StringVar(&c.PeerAddr, "peer", c.PeerAddr, "where other nodes are answered, over TCP and UDP")
	flags.StringVar(&c.AdvertisePeer, "advertise-peer", c.AdvertisePeer, "where other nodes dial it (default: --peer)")
	f.keys.addFlags(flags)
	flags.StringSliceVar(&c.Join, "join", nil, "peer addresses of other nodes")
	flags.IntVar(&c.BootstrapExpect, "bootstrap-expect", 0, "how many nodes form a new cluster: 1, 3 or 5")
	flags.IntVar(&c.Shards, "shards", 0,
		"of a new cluster; none can be added later (default: 4 for each node that forms it, or one for\n"+
			"every two of this node's processors if that is less)")
	flags.StringVar(&c.LogStore, "log-store", c.LogStore, "what holds the log: wal or boltdb")
	flags.StringVar(&c.Timing, "timing", c.Timing, "how soon a silent leader is replaced: fast, lan or wan")
	flags.StringArrayVar(&f.webhookCIDRs, "allow-webhook-cidr", nil,
		"deliver to these addresses too, though they are not public; repeatable")
	flags.StringVar(&f.brokers, "brokers", "",
		"YAML file: the message brokers that tasks may be published to, and who we are there")
	flags.StringArrayVar(&f.brokerCIDRs, "allow-broker-cidr", nil,
		"publish to any broker at these addresses, without credentials; repeatable")
	flags.Var(newSpan(&c.MaxClockOffset, c.MaxClockOffset), "max-clock-offset",
		"a node whose clock is further from the others' leads nothing")
	flags.StringVar(&f.minFreeDisk, "min-free-disk", "",
		"with less room for its data the node leads only what nobody else can, and nothing new is\n"+
			"scheduled there: 256MiB, 5%, or 0 for no such bound (default: 1GiB, or 5% if that is less)")
	flags.StringVar(&f.memoryLimit, "memory-limit", "",
		"memory that the node may use: 2GiB, 50% of what there is, or 0 for no limit. From three quarters\n"+
			"of it on, no more tasks are taken (default: GOMEMLIMIT, or 75% of what there is)")
	flags.Uint32Var(&c.LaneWindow, "lane-window", 0,
		"attempts in flight per shard and receiver, at first: it adapts (default 16)")
	flags.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "text", "text or json")
	flags.StringVar(&c.PIDFile, "pid-file", "", "write the process id there")
	flags.IntVar(&c.QueueMetrics, "queue-metrics", c.QueueMetrics,
		"queues with metrics of their own: those with a policy, then the largest; the rest is added up")
	flags.StringVar(&c.ProfileAddr, "pprof", "", "serve Go's profiles at this address; keep it private")
}

// runServe runs a node until the context ends.
func runServe(ctx context.Context, f *serveFlags, logTo io.Writer) error {
	cfg, err := f.config(logTo)
	if err == nil {
		err = flaw.Check()
	}
	if err == nil {
		err = flagNamed(cfg.Validate())
	}
	if err != nil {
		return &usageError{err}
	}
	defer ignoreHangups(cfg.Logger)()
	return flagNamed(node.Run(ctx, cfg))
}

// config returns the settings with the flags that hold text read.
func (f *serveFlags) config(logTo io.Writer) (cfg node.Config, err error) {
	cfg = f.node
	if cfg.Logger, err = newLogger(logTo, f.logLevel, f.logFormat); err != nil {
		return cfg, err
	}
	if cfg.PeerKeys, err = f.keys.load(); err != nil {
		return cfg, err
	}
	if cfg.MinFreeDisk, err = disk.Parse(f.minFreeDisk); err != nil {
		return cfg, fmt.Errorf("--min-free-disk: %w", err)
	}
	if cfg.MemoryLimit, err = memory.ParseLimit(f.memoryLimit); err != nil {
		return cfg, fmt.Errorf("--memory-limit: %w", err)
	}
	if cfg.WebhookNets, err = prefixes("--allow-webhook-cidr", f.webhookCIDRs); err != nil {
		return cfg, err
	}
	if cfg.BrokerNets, err = prefixes("--allow-broker-cidr", f.brokerCIDRs); err != nil || f.brokers == "" {
		return cfg, err
	}
	if cfg.Brokers, err = broker.LoadKnown(f.brokers); err != nil {
		return cfg, fmt.Errorf("--brokers: %w", err)
	}
	return cfg, nil
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

// flagNamed names the setting of an error as the command line does.
func flagNamed(err error) error {
	var setting *node.SettingError
	if errors.As(err, &setting) {
		return fmt.Errorf("--%w", err)
	}
	return err
}
