package node

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/belfryhq/belfry/audit"
	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/devclock"
	"github.com/belfryhq/belfry/cluster/headroom"
	"github.com/belfryhq/belfry/cluster/jwtkeys"
	"github.com/belfryhq/belfry/cluster/logs"
	"github.com/belfryhq/belfry/cluster/reload"
	"github.com/belfryhq/belfry/cluster/seal"
	"github.com/belfryhq/belfry/delivery"
	"github.com/belfryhq/belfry/delivery/broker"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/history"
	"github.com/belfryhq/belfry/httpapi/origin"
	"github.com/belfryhq/belfry/internal/tracing"
	"github.com/belfryhq/belfry/node/internal/callers"
	"github.com/belfryhq/belfry/node/internal/gc"
	"github.com/belfryhq/belfry/node/internal/notify"
	"github.com/belfryhq/belfry/node/internal/port"
	"github.com/belfryhq/belfry/node/internal/receivers"
	"github.com/belfryhq/belfry/node/internal/tuning"
)

const leaveGrace = 5 * time.Second // for leaderships to be handed over

// Node is one running node.
type Node struct {
	cfg    Config
	log    *slog.Logger
	clock  func() time.Time
	dev    *devclock.Clock // nil: the node is not in dev mode
	host   headroom.Host
	memory int64  // bytes that the process may use; 0: no limit
	budget budget // of connections

	tracer          *tracing.Tracer      // nil: no spans are made
	registry        *prometheus.Registry // of this process
	clusterRegistry *prometheus.Registry // of cluster
	again           reload.Fan           // of Config.Reload
	callers         *callers.Callers
	certificates    *port.Certificates // of the API; nil: no TLS
	listener        net.Listener
	amqp            net.Listener   // nil: clients of AMQP are not served
	redis           net.Listener   // nil: Redis clients are not served
	api             http.Handler   // of calls that no proxy passes on
	place           place          // at which callers reach the node
	origins         *origin.Policy // of the API
	receivers       *receivers.Receivers
	tokens          *jwtkeys.Signer // of webhooks
	cluster         *cluster.Node
	secrets         *seal.Keys                // nil: the node has no cluster keys
	audit           atomic.Pointer[audit.Log] // nil: not open yet
	history         *history.Store            // nil: the node keeps none

	stops  []func() error // in the order of the start
	failed chan error     // receives the error of a part that ends the node
}

// Run starts a node, waits until the context ends or the node fails, and closes the node.
func Run(ctx context.Context, cfg Config) (err error) {
	n, err := newNode(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	if err := n.start(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	return n.Wait(ctx)
}

// Start starts a node and returns once the node serves callers. While the disk is too full to open the data, it waits
// until the context ends. The context does not end a node that has started; Close does.
func Start(ctx context.Context, cfg Config) (*Node, error) {
	n, err := newNode(cfg)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(n.start(ctx), ctx.Err()); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

func newNode(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	clock, err := tuning.Clock()
	if err != nil {
		return nil, err
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Node{
		cfg: cfg, log: cfg.Logger, clock: clock, host: headroom.System{Dir: cfg.DataDir}, budget: budgetOf(descriptors(), 0),
		failed: make(chan error, 2),
	}, nil
}

// start starts the parts in their order, until one fails or the context ends.
func (n *Node) start(ctx context.Context) error {
	for _, start := range []func(context.Context) error{
		n.startDevClock, n.boundGarbage, n.limitMemory, n.startMetrics, n.startTracing, n.followReload, n.openCallers,
		n.listen, n.listenAMQP, n.listenRedis, n.openCertificates, n.startProfiles, n.startDelivery, n.openSecrets,
		n.openCluster, n.startAudit, n.writePID, n.startHTTP, n.startAMQP, n.startRedis, n.startBackups, n.notifyManager,
	} {
		if err := start(ctx); err != nil || ctx.Err() != nil {
			return err
		}
	}
	n.log.Info("serving", "version", ReadBuild().Version, "http", n.HTTPAddr(), "peer", n.PeerAddr(),
		"node", n.ID(), "data", n.cfg.DataDir)
	return nil
}

// HTTPAddr returns the address at which callers are served.
func (n *Node) HTTPAddr() string { return n.listener.Addr().String() }

// PeerAddr returns the address at which other nodes are answered.
func (n *Node) PeerAddr() string { return n.cluster.PeerAddr() }

// ID returns the node's id, which stays the same as long as its data folder does.
func (n *Node) ID() string { return n.cluster.ID() }

// Wait returns nil when the context ends, and the cause if the node stops serving earlier.
func (n *Node) Wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		n.log.Info("stopping")
		return nil
	case err := <-n.failed:
		return err
	}
}

// Close stops the parts in the reverse order of their start. Calls under way have two seconds to end, and leaderships
// five to be handed over. The caller calls Close once.
func (n *Node) Close() error {
	var errs []error
	for i := len(n.stops) - 1; i >= 0; i-- {
		errs = append(errs, n.stops[i]())
	}
	return errors.Join(errs...)
}

// background runs a function until the node is closed.
func (n *Node) background(run func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	n.onStop(func() error {
		cancel()
		running.Wait()
		return nil
	})
}

// followReload passes each reload on to the parts that read files.
func (n *Node) followReload(context.Context) error {
	n.background(func(ctx context.Context) { n.again.Run(ctx, n.cfg.Reload) })
	return nil
}

func (n *Node) onStop(stop func() error) { n.stops = append(n.stops, stop) }

// boundGarbage comes first, because reading the state under Go's own bound would take twice the memory.
func (n *Node) boundGarbage(context.Context) error {
	if n.cfg.Dev || n.cfg.Network != nil {
		return nil // the process is a test's
	}
	stop := gc.Start()
	n.onStop(func() error { stop(); return nil })
	return nil
}

func (n *Node) startMetrics(context.Context) error {
	n.registry = prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(), ReadBuild().collector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := n.registry.Register(c); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) startDelivery(context.Context) error {
	version := ReadBuild().Version
	web := delivery.Config{
		AllowCIDRs: n.cfg.WebhookNets, Network: n.cfg.Network, MaxIdle: n.budget.idle,
		Version: version, Now: n.machineClock(), Logger: n.log, Registerer: n.registry,
	}
	brokers := broker.Config{
		AllowCIDRs: n.cfg.BrokerNets, Known: n.cfg.Brokers, Network: n.cfg.Network,
		Version: version, Now: n.machineClock(), Logger: n.log, Registerer: n.registry,
	}
	if n.dev != nil {
		web.Clock, brokers.Clock = n.dev, n.dev
	}
	n.tokens = jwtkeys.NewSigner(n.cfg.JWTIssuer)
	web.Tokens = n.tokens
	if n.cfg.ReceiverCerts != "" {
		certificates, err := receivers.OpenCertificates(n.cfg.ReceiverCerts, logs.Limited(n.log))
		if err != nil {
			return &SettingError{"receiver-certs", err}
		}
		again := n.again.Reader()
		n.background(func(ctx context.Context) { certificates.Run(ctx, again) })
		web.Certificates = certificates
	}
	var err error
	n.receivers, err = receivers.New(web, brokers)
	if err != nil {
		return err
	}
	n.onStop(n.receivers.Close)
	return nil
}

// openCluster opens the node's data as soon as the disk has room for it.
func (n *Node) openCluster(ctx context.Context) error {
	cfg, err := n.clusterConfig()
	if err != nil {
		return err
	}
	gate := n.newGate()
	if err := gate.Await(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	err = gate.Open(ctx, func() error {
		n.clusterRegistry = prometheus.NewRegistry() // without the metrics of an attempt that failed
		cfg.Registerer = n.clusterRegistry
		if err := n.openHistory(); err != nil {
			return err
		}
		cfg.History = n.history
		var err error
		n.cluster, err = cluster.Open(cfg)
		return err
	})
	if err != nil || n.cluster == nil {
		return err
	}
	n.callers.Use(n.cluster.Tenants())
	n.onStop(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), leaveGrace)
		defer cancel()
		return n.cluster.Close(ctx)
	})
	return nil
}

func (n *Node) clusterConfig() (cluster.Config, error) {
	cfg, err := n.cfg.clusterConfig()
	if err != nil {
		return cfg, err
	}
	if err := tuning.Apply(&cfg); err != nil {
		return cfg, err
	}
	cfg.HTTPAddr, cfg.HTTPS, cfg.Reload = n.place.addr, n.place.https, n.again.Reader()
	cfg.Clock, cfg.DevClock, cfg.Host, cfg.Deliver = n.clock, n.dev, n.host, n.receivers
	shareMemory(&cfg, n.memory)
	cfg.MaxAttempts = n.budget.attempts
	cfg.Logger, cfg.Fatal, cfg.Tracer = n.log, n.fatal, n.tracer
	cfg.JWT, cfg.JWTAlgorithms = n.tokens, []string{task.EdDSA, task.RS256}
	cfg.Secrets, cfg.API, cfg.Build = n.secrets, api{n}, ReadBuild().Version
	return cfg, nil
}

// fatal ends the process on the spot: its memory may differ from its disk, so no further step may follow.
func (n *Node) fatal(err error) {
	n.log.Error("this node cannot go on", "err", err)
	if n.cfg.Fatal != nil {
		n.cfg.Fatal(err)
	}
	os.Exit(1)
}

// notifyManager tells the service manager when the node is ready, and when it stops. A node without its manager serves.
func (n *Node) notifyManager(context.Context) error {
	if n.cfg.NotifySocket == "" {
		return nil
	}
	manager, err := notify.Dial(n.cfg.NotifySocket)
	if err != nil {
		n.log.Warn("the service manager does not learn when this node is ready", "err", err)
		return nil
	}
	n.background(func(ctx context.Context) { manager.Follow(ctx, n.cluster.Ready) })
	n.onStop(manager.Stop)
	return nil
}

func (n *Node) writePID(context.Context) error {
	path := n.cfg.PIDFile
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return &SettingError{"pid-file", err}
	}
	n.onStop(func() error { return os.Remove(path) })
	return nil
}
