package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/peerkeys"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/delivery/broker"
	"github.com/belfryhq/belfry/fsm/flaw"
	"github.com/belfryhq/belfry/node"
)

// serveFlags are the settings of a node, as given.
type serveFlags struct {
	node                     node.Config
	keys                     peerkeys.Files
	webhookCIDRs             []string
	brokerCIDRs              []string
	brokers                  string
	minFreeDisk, memoryLimit string
	backupRate, moveRate     string
	historyBytes             string
	autoSplit                string
	logLevel, logFormat      string
	tracing                  node.TracingConfig
	traceRatio               string
}

func newServe() *cobra.Command {
	f := serveFlags{node: node.DefaultConfig()}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one node",
		Long: `Run one node: alone, or with others.

A single node needs only a data folder. The first nodes of a cluster, three or
five, each get the peer addresses of the others by --join, and their number by
--bootstrap-expect. A later node needs only --join. A data folder that belongs
to a cluster keeps the addresses of the others, so a restart needs no --join.
Each node needs one --join again if all addresses change at once.

Ctrl-C and SIGTERM stop the node in order, a second signal stops it at once.
Without credentials --http must be on loopback. For other machines, give
--root-key-file, --http-client-ca or --oidc-issuer, and --http-cert, or
--behind-proxy if a proxy speaks TLS with the callers.

A node reads the files of certificates, keys and grants again every few seconds,
and at once after a SIGHUP. These are --peer-cert, --peer-key, --peer-ca,
--gossip-key-file, --http-cert, --http-key, --http-client-ca,
--http-client-roles, --root-key-file, --oidc-roles, --cluster-key-file and those
in --receiver-certs. All other settings are read at the start only. "belfry
certs" makes the certificates and their keys, and "belfry key new-root" the root
key.`,
		Example: `  belfry serve --data /var/lib/belfry
  belfry serve --data n1 --http 127.0.0.1:8400 --peer 127.0.0.1:8500 \
    --join 127.0.0.1:8501,127.0.0.1:8502 --bootstrap-expect 3
  belfry serve --http :8400 --root-key-file root.key \
    --http-cert node.pem --http-key node.key
  BELFRY_SERVE_DATA=/var/lib/belfry BELFRY_SERVE_LOG_FORMAT=json belfry serve`,
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), &f, cmd.ErrOrStderr()) },
	}
	f.addFlags(cmd.Flags())
	cli.CompleteWords(cmd, "log-store", "wal", "boltdb")
	cli.CompleteWords(cmd, "timing", "fast", "lan", "wan")
	cli.CompleteWords(cmd, "redis-scores", "seconds", "milliseconds")
	cli.CompleteWords(cmd, "log-level", "debug", "info", "warn", "error")
	cli.CompleteWords(cmd, "log-format", "text", "json")
	return cmd
}

func (f *serveFlags) addFlags(flags *pflag.FlagSet) {
	c := &f.node
	flags.StringVar(&c.DataDir, "data", c.DataDir, "`folder` of the node's log, tasks and identity")
	flags.StringVar(&c.Name, "name", c.Name, "`label` for people (default: the host's name)")
	flags.StringVar(&c.Zone, "zone", "", "`label` of the data centre, room or rack with which the node may fail: the "+
		"replicas of a shard are spread over zones; 1 to 63 letters, digits, '-', '_' and '.' (default: a zone of its own)")
	flags.IntVar(&c.Weight, "weight", c.Weight, "the node's part of replicas and leaderships, 1 to 100: a node of weight "+
		"20 gets twice as many as one of weight 10")
	flags.StringVar(&c.HTTPAddr, "http", c.HTTPAddr, "`address` at which callers are served")
	flags.StringVar(&c.AdvertiseHTTP, "advertise-http", c.AdvertiseHTTP,
		"`address` that callers are given (default: --http), or a URL such as https://belfry.example")
	flags.StringSliceVar(&c.AllowHosts, "allow-host", nil, "further host `name` under which callers reach the API, such "+
		"as a load balancer's; localhost, IP addresses and the names in --http and --advertise-http are always "+
		"allowed; repeatable")
	flags.StringSliceVar(&c.AllowOrigins, "allow-origin", nil,
		"`origin` whose web pages may call the API, such as https://app.example; repeatable")
	f.addAccessFlags(flags)
	flags.StringVar(&c.AMQP.Addr, "amqp", "", "`address` at which clients of AMQP 0-9-1 reach the broker in "+
		"--amqp-broker; their messages with the header x-delay become tasks (default: none)")
	flags.StringVar(&c.AMQP.Broker, "amqp-broker", "", "`url` of the broker for --amqp, such as amqp://10.0.0.7:5672; "+
		"--brokers or --allow-broker-cidr must name it")
	flags.StringVar(&c.AMQP.KeyFile, "amqp-key-file", "", "`file` with the API key under which the messages of --amqp "+
		"become tasks, in the namespace of the key, with the role schedule")
	flags.StringVar(&c.PeerAddr, "peer", c.PeerAddr, "`address` at which other nodes are answered, over TCP and UDP")
	flags.StringVar(&c.AdvertisePeer, "advertise-peer", c.AdvertisePeer,
		"`address` that other nodes dial (default: --peer)")
	flags.StringVar(&f.keys.Cert, "peer-cert", "", "PEM `file` with this node's certificate, for <name>"+
		peerkeys.NameSuffix+"; the four files go together, and without them --peer must be on loopback")
	flags.StringVar(&f.keys.Key, "peer-key", "", "PEM `file` with its private key")
	flags.StringVar(&f.keys.CA, "peer-ca", "", "PEM `file` with the authorities that sign the nodes' certificates")
	flags.StringVar(&f.keys.Gossip, "gossip-key-file", "",
		"`file` with keys of 32 random bytes in base64, one a line, the same on all nodes; the first one encrypts")
	flags.StringSliceVar(&c.Join, "join", nil, "peer `addresses` of other nodes")
	flags.StringVar(&c.JoinTokenFile, "join-token-file", "", "`file` with the token by which a new node joins a running "+
		"cluster that uses certificates; \"belfry node token create\" makes one")
	flags.IntVar(&c.BootstrapExpect, "bootstrap-expect", 0, "number of nodes that form a new cluster: 1, 3 or 5")
	flags.IntVar(&c.Shards, "shards", 0, "shards of a new cluster; \"belfry shards balance\" makes more later "+
		"(default: 4 for each node that forms it, or one for every two of this node's processors if that is less)")
	flags.IntVar(&c.Replication, "replication", 0, "replicas of each shard of a new cluster: 1, 3 or 5; later \"belfry "+
		"cluster replication\" changes it (default 3, or fewer while there are fewer nodes)")
	flags.Var(cli.NewSpan(&c.ReplaceAfter, node.DefaultReplaceAfter), "replace-after", "`duration`; the others make the "+
		"replicas of a node anew that is away for so long; the leader of the control group decides by its own setting")
	flags.StringVar(&c.LogStore, "log-store", c.LogStore, "`kind` of store for the log: wal or boltdb")
	flags.StringVar(&c.Timing, "timing", c.Timing, "`pace` at which a silent leader is replaced: fast, lan or wan")
	flags.StringSliceVar(&f.webhookCIDRs, "allow-webhook-cidr", nil,
		"`network` of receivers to deliver to although it is not public; repeatable")
	flags.StringVar(&f.brokers, "brokers", "",
		"YAML `file` with the message brokers that tasks may be published to, and the credentials there")
	flags.StringSliceVar(&f.brokerCIDRs, "allow-broker-cidr", nil,
		"`network` of brokers to publish to without credentials; repeatable")
	flags.StringVar(&c.ReceiverCerts, "receiver-certs", "", "`folder` of the certificates that this node shows to "+
		"receivers, as NAME.crt with the key NAME.key, or in a subfolder for the tasks of the namespace of its name")
	flags.StringVar(&c.JWTIssuer, "jwt-issuer", "", "`name` of this cluster in the claim iss of the tokens that "+
		"receivers get, such as https://belfry.example; the same on all nodes (default: the cluster's id)")
	flags.Var(cli.NewSpan(&c.MaxClockOffset, c.MaxClockOffset), "max-clock-offset",
		"`duration`; a node whose clock is further from the others' leads nothing")
	flags.Uint32Var(&c.HoldVersion, "hold-version", 0, "newest command `version` that the cluster may write while this "+
		"node holds it, so that a build that reads no newer one can return; 0: no limit")
	flags.StringVar(&f.minFreeDisk, "min-free-disk", "", "`space`; with less for its data, the node leads only shards "+
		"that no other node can lead, and takes no new tasks: 256MiB, 5%, or 0 for no such bound (default: 1GiB, or "+
		"5% if that is less)")
	flags.StringVar(&f.moveRate, "move-rate", headroom.FormatBytes(node.DefaultMoveRate), "`bytes` a second that this "+
		"node copies for moves, or 0 for no limit: replicas that it sends to nodes that are to hold them, and tasks of "+
		"slots that move to shards led by it; 64KiB at least")
	flags.StringVar(&f.autoSplit, "auto-split", "0", "`bytes` of tasks from which on a shard splits by itself, or 0 for "+
		"never; 1MiB at least; the leader of the control group decides by its own setting")
	flags.IntVar(&c.AutoSplitShards, "auto-split-shards", c.AutoSplitShards, "`number` of shards, at most 256, from "+
		"which on none splits by itself")
	flags.StringVar(&f.memoryLimit, "memory-limit", "", "`memory` that the node may use: 2GiB, 50% of the machine's, or "+
		"0 for no limit; from three quarters of it on, no more tasks are taken (default: GOMEMLIMIT, or 75% of the "+
		"machine's)")
	flags.StringVar(&f.historyBytes, "history-bytes", headroom.FormatBytes(node.DefaultHistoryBytes), "`bytes` of events "+
		"that this node keeps on its disk for each namespace, and eight times as many for all, or 0 for none; 1MiB at least")
	flags.IntVar(&c.HistoryDays, "history-days", c.HistoryDays, "`days` for which it keeps events; 0: it keeps none")
	flags.Uint32Var(&c.LaneWindow, "lane-window", 0,
		"initial attempts in flight per shard and receiver; the number adapts (default 16)")
	flags.StringVar(&c.Audit, "audit", "", "`file` of the audit log: JSON lines, at most 16 files of 8 MiB, and 8 "+
		"beside it for refusals; - writes to standard output, too (default: audit/audit.jsonl in the data folder)")
	flags.StringVar(&c.ClusterKeyFile, "cluster-key-file", "", "`file` with keys of 32 random bytes in base64, one a "+
		"line, the same on all nodes, under which the secrets of queues are encrypted in logs, snapshots and backups; the "+
		"first one encrypts")
	flags.StringVar(&f.logLevel, "log-level", "info", "lowest `level` in the log: debug, info, warn or error")
	flags.StringVar(&f.logFormat, "log-format", "text", "`format` of the log: text or json")
	flags.BoolVar(&c.AccessLog, "access-log", false,
		"log each call of the API, at level info; --log-level debug logs them, too")
	flags.StringVar(&f.tracing.Endpoint, "otlp-endpoint", "",
		"`url` of a collector of OpenTelemetry that gets spans of calls, commits and attempts over HTTP; the variables "+
			"OTEL_EXPORTER_OTLP_* name one, too (default: none, and no spans)")
	flags.StringVar(&f.traceRatio, "trace-ratio", "",
		"`part` of the traces that begin at the node which are kept, 0 to 1; others go by the caller's traceparent")
	flags.StringVar(&f.tracing.Deliveries, "trace-deliveries", "link",
		"`relation` of an attempt's span to the call that scheduled its task: link or child")
	flags.StringVar(&c.PIDFile, "pid-file", "", "`file` that holds the process id while the node runs")
	flags.IntVar(&c.QueueMetrics, "metrics-queues", c.QueueMetrics,
		"`number` of queues with metrics of their own: those with a policy, then the largest and busiest; the others are "+
			"added up")
	flags.StringVar(&c.Backups.To, "backup-to", "",
		"`target` of backups on a schedule: a folder, or s3://bucket/prefix with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY "+
			"and AWS_ENDPOINT_URL in the environment; give it to every node, one of them makes each backup")
	flags.Var(cli.NewSpan(&c.Backups.Every, 0), "backup-every", "`duration` between the beginnings of two backups")
	flags.IntVar(&c.Backups.Keep, "backup-keep", 0, "`number` of backups of this cluster that stay; 0 keeps all")
	flags.StringVar(&f.backupRate, "backup-rate", "", "`bytes` of a backup a second at most, such as 50MiB (default: no "+
		"limit)")
	flags.StringVar(&c.RedisAddr, "redis", "", "`address` at which programs that keep delayed work in a sorted set of "+
		"Redis are served: a key is a queue, a member a payload, a score a due time (default: none)")
	flags.StringVar((*string)(&c.RedisScores), "redis-scores", string(c.RedisScores), "`unit` of the scores, as Unix "+
		"time: seconds, which may have a fraction, or milliseconds")
	flags.StringVar(&c.ProfileAddr, "pprof", "", "`address` at which Go's profiles are served, to callers with the role "+
		"operate if calls need credentials")
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
		return cli.WrongUsage(err)
	}
	cfg.NotifySocket = os.Getenv("NOTIFY_SOCKET")
	var stop func()
	cfg.Reload, stop = reloadOnHangup(cfg.Logger)
	defer stop()
	return flagNamed(node.Run(ctx, cfg))
}

// config returns the settings with the flags that hold text read.
func (f *serveFlags) config(logTo io.Writer) (cfg node.Config, err error) {
	cfg = f.node
	if cfg.Logger, err = newLogger(logTo, f.logLevel, f.logFormat); err != nil {
		return cfg, err
	}
	cfg.Tracing = &f.tracing
	if f.traceRatio != "" {
		ratio, err := strconv.ParseFloat(f.traceRatio, 64)
		if err != nil {
			return cfg, fmt.Errorf("--trace-ratio: %q is no number", f.traceRatio)
		}
		cfg.Tracing.Ratio = &ratio
	}
	if f.keys != (peerkeys.Files{}) {
		cfg.PeerKeys = &f.keys
	}
	cfg.Backups.Rate, err = rateOf("--backup-rate", f.backupRate)
	err = cmp.Or( // the first one
		cli.Read(&cfg.MinFreeDisk, "min-free-disk", f.minFreeDisk, headroom.ParseReserve),
		cli.Read(&cfg.MemoryLimit, "memory-limit", f.memoryLimit, headroom.ParseLimit),
		err,
		cli.Read(&cfg.MoveRate, "move-rate", f.moveRate, headroom.ParseBytes),
		cli.Read(&cfg.HistoryBytes, "history-bytes", f.historyBytes, headroom.ParseBytes),
		cli.Read(&cfg.AutoSplit, "auto-split", f.autoSplit, headroom.ParseBytes),
		cli.Read(&cfg.WebhookNets, "allow-webhook-cidr", f.webhookCIDRs, prefixes),
		cli.Read(&cfg.BrokerNets, "allow-broker-cidr", f.brokerCIDRs, prefixes),
	)
	if err == nil && f.brokers != "" {
		err = cli.Read(&cfg.Brokers, "brokers", f.brokers, broker.LoadKnown)
	}
	return cfg, err
}

func prefixes(texts []string) (list []netip.Prefix, err error) {
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// flagNamed names the setting of an error as the command line does.
func flagNamed(err error) error {
	var setting *node.SettingError
	if errors.As(err, &setting) {
		return fmt.Errorf("--%w", err)
	}
	return err
}

func newLogger(out io.Writer, level, format string) (*slog.Logger, error) {
	options := slog.HandlerOptions{ReplaceAttr: textOfDuration}
	var parsed slog.Level
	if err := parsed.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q: debug, info, warn or error", level)
	}
	options.Level = parsed
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(out, &options)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(out, &options)), nil
	}
	return nil, fmt.Errorf("--log-format %q: text or json", format)
}

// textOfDuration makes both formats show a duration alike, such as 1.2ms. JSON alone would show nanoseconds.
func textOfDuration(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}

// untilHangup returns a context that also ends when the terminal is closed (SIGHUP), so that a command that runs nodes
// stops them in order. Further hangups, which shells send beside the terminal, change nothing. Under nohup the terminal
// does not matter.
func untilHangup(parent context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(parent)
	}
	return signal.NotifyContext(parent, syscall.SIGHUP)
}

// reloadOnHangup returns a channel that holds a value after each SIGHUP, until stop is called. A node outlives the
// terminal that started it.
func reloadOnHangup(log *slog.Logger) (reload <-chan struct{}, stop func()) {
	if signal.Ignored(syscall.SIGHUP) {
		return nil, func() {}
	}
	hangups, again := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		for range hangups {
			log.Info("SIGHUP: the files of certificates and keys are read again; other settings stay")
			select {
			case again <- struct{}{}:
			default: // the node is about to read them
			}
		}
	}()
	return again, func() {
		signal.Stop(hangups)
		close(hangups)
	}
}

// addAccessFlags adds the flags of TLS and of the callers' credentials.
func (f *serveFlags) addAccessFlags(flags *pflag.FlagSet) {
	c := &f.node
	flags.StringVar(&c.Access.RootKeyFile, "root-key-file", "", "`file` with one API key, whose caller is an admin of "+
		"all namespaces; \"belfry key new-root\" makes it. Calls then need credentials")
	flags.StringVar(&c.TLS.Cert, "http-cert", "", "PEM `file` with the certificate for callers, then intermediate "+
		"certificates if any; it makes --http, --redis and --pprof speak TLS")
	flags.StringVar(&c.TLS.Key, "http-key", "", "PEM `file` with its private key")
	flags.StringVar(&c.TLS.ClientCA, "http-client-ca", "", "PEM `file` with the authorities that sign callers' "+
		"certificates. Calls then need credentials; callers may also show an API key")
	flags.StringVar(&c.TLS.ClientRoles, "http-client-roles", "", "YAML `file` with the grants of callers' certificates, "+
		"by their names")
	flags.BoolVar(&c.TLS.PlainLoopback, "http-plain-loopback", false, "let callers on this machine speak plain HTTP at "+
		"the same port")
	flags.BoolVar(&c.BehindProxy, "behind-proxy", false, "callers come only through a proxy that speaks TLS with them: a "+
		"call has the address that the proxy names in X-Forwarded-For or Forwarded")
	flags.StringVar(&c.Access.OIDCIssuer, "oidc-issuer", "", "`URL` of the OpenID Connect issuer whose tokens callers "+
		"may show. Calls then need credentials")
	flags.StringVar(&c.Access.OIDCCA, "oidc-ca", "", "PEM `file` with the authorities of the issuer's certificate "+
		"(default: those of the system)")
	flags.StringVar(&c.Access.OIDCAudience, "oidc-audience", "", "`name` of this cluster in the claim aud of the tokens")
	flags.StringVar(&c.Access.OIDCRoles, "oidc-roles", "", "YAML `file` with the grants of the tokens, by their claims")
}
