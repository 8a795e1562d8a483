package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/belfryhq/belfry/cluster"
	"github.com/belfryhq/belfry/cluster/disk"
	"github.com/belfryhq/belfry/cluster/logs"
	"github.com/belfryhq/belfry/delivery"
	"github.com/belfryhq/belfry/fsm/flaw"
	"github.com/belfryhq/belfry/httpapi"
	"github.com/belfryhq/belfry/httpapi/origin"
)

const (
	callGrace = 2 * time.Second // for calls under way, once no new ones are taken
	nodeGrace = 5 * time.Second // for leaderships to be given away
)

// runServe runs a node until the context ends, and stops it in the reverse order of its start.
func runServe(ctx context.Context, f *serveFlags, logTo io.Writer) (err error) {
	log, err := newLogger(logTo, f.logLevel, f.logFormat)
	if err == nil {
		err = flaw.Check()
	}
	if err != nil {
		return &usageError{err}
	}
	clock, err := wallClock()
	if err != nil {
		return err
	}
	defer ignoreHangups(log)()
	n := node{flags: f, log: log, clock: clock, open: cluster.Open, failed: make(chan error, 2)}
	n.space = func() (disk.Space, error) { return disk.Of(f.data) }
	defer func() { err = errors.Join(err, n.stop()) }()
	gcCtx, stopGC := context.WithCancel(ctx)
	defer stopGC()
	go boundGarbage(gcCtx) // before the state is read: with Go's own bound, that would take twice the memory
	awaitRoom := func() error { return n.awaitRoom(ctx) }
	startCluster := func() error { return n.startCluster(ctx) }
	for _, start := range []func() error{
		n.limitMemory, n.startMetrics, n.startProfiles, n.startDelivery, n.listen, awaitRoom, startCluster, n.startHTTP,
	} {
		if err := start(); err != nil || ctx.Err() != nil {
			return err
		}
	}
	log.Info("serving", "version", version(), "http", n.listener.Addr().String(), "peer", n.cluster.PeerAddr(),
		"node", n.cluster.ID(), "data", f.data)
	select {
	case <-ctx.Done():
		log.Info("stopping")
		return nil
	case err := <-n.failed:
		return err
	}
}

// node is what serve runs, in the order in which it starts.
type node struct {
	flags    *serveFlags
	log      *slog.Logger
	clock    func() time.Time
	space    func() (disk.Space, error) // of the data folder's disk
	memory   int64                      // that it may use, in bytes; 0: no limit
	open     func(cluster.Config) (*cluster.Node, error)
	registry *prometheus.Registry
	opened   *prometheus.Registry // of the cluster
	receive  *receivers
	cluster  *cluster.Node
	listener net.Listener
	origins  *origin.Policy // of the API

	waitedFor string // why it last could not open its data, as logged

	stops  []func() error // of what has started
	failed chan error     // what ends the node by itself
}

// stop ends what has started, the last first.
func (n *node) stop() error {
	var errs []error
	for i := len(n.stops) - 1; i >= 0; i-- {
		errs = append(errs, n.stops[i]())
	}
	return errors.Join(errs...)
}

func (n *node) onStop(stop func() error) { n.stops = append(n.stops, stop) }

func (n *node) startMetrics() error {
	n.registry = prometheus.NewRegistry()
	if err := n.registry.Register(collectors.NewGoCollector()); err != nil {
		return err
	}
	if err := n.registry.Register(readBuild().collector()); err != nil {
		return err
	}
	return n.registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

func (n *node) startProfiles() error {
	if n.flags.pprof == "" {
		return nil
	}
	server := &http.Server{Addr: n.flags.pprof, Handler: profiles(), ReadHeaderTimeout: 10 * time.Second}
	l, err := net.Listen("tcp", n.flags.pprof)
	if err != nil {
		return fmt.Errorf("--pprof: %w", err)
	}
	n.onStop(server.Close)
	go n.serve(server, l)
	return nil
}

func (n *node) startDelivery() error {
	allowed, err := n.flags.allowed()
	if err != nil {
		return &usageError{err}
	}
	brokers, err := n.flags.brokerConfig()
	if err != nil {
		return &usageError{err}
	}
	n.receive, err = newReceivers(delivery.Config{
		AllowCIDRs: allowed, Version: version(), Now: n.clock, Logger: n.log, Registerer: n.registry,
	}, brokers)
	if err != nil {
		return err
	}
	n.onStop(n.receive.close)
	return nil
}

// listen binds the HTTP port, before the node is opened: a port that is taken is no reason to have joined a cluster,
// and others are told the port that was bound.
func (n *node) listen() error {
	var err error
	if n.listener, err = net.Listen("tcp", n.flags.http); err != nil {
		return fmt.Errorf("--http: %w", err)
	}
	n.onStop(func() error { return ignoreClosed(n.listener.Close()) })
	n.warnOpen()
	n.origins, err = n.flags.origins(n.listener.Addr())
	return err
}

// startCluster opens the node.
func (n *node) startCluster(ctx context.Context) error {
	cfg, err := n.flags.clusterConfig()
	if err == nil {
		err = tune(&cfg)
	}
	if err != nil {
		return &usageError{err}
	}
	shareMemory(&cfg, n.memory)
	if cfg.HTTPAddr, err = advertised(n.flags.advertiseHTTP, n.listener.Addr()); err != nil {
		return err
	}
	cfg.Clock, cfg.Deliver, cfg.Logger, cfg.Fatal = n.clock, n.receive, n.log, n.fatal
	if err := n.openCluster(ctx, cfg); err != nil || n.cluster == nil {
		return err
	}
	n.onStop(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), nodeGrace)
		defer cancel()
		return n.cluster.Close(ctx)
	})
	return n.writePID()
}

// fatal ends the process on the spot: what it holds in memory may not be what is on its disk, so nothing may follow.
func (n *node) fatal(err error) {
	n.log.Error("this node cannot go on", "err", err)
	os.Exit(exitFailed)
}

func (n *node) writePID() error {
	path := n.flags.pidFile
	if path == "" {
		return nil
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o644); err != nil {
		return fmt.Errorf("--pid-file: %w", err)
	}
	n.onStop(func() error { return os.Remove(path) })
	return nil
}

func (n *node) startHTTP() error {
	api, err := httpapi.New(httpapi.Config{
		Backend: backend{n.cluster}, CheckURL: n.receive.CheckURL, Origins: n.origins, Now: n.cluster.Now,
		Gatherer: prometheus.Gatherers{n.registry, n.opened}, Registerer: n.registry, Logger: logs.Limited(n.log),
	})
	if err != nil {
		return err
	}
	server := api.HTTPServer()
	server.Handler = n.unlessBarred(server.Handler)
	n.onStop(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), callGrace)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			n.log.Info("calls are cut off", "err", err)
			return server.Close()
		}
		return nil
	})
	go n.serve(server, n.listener)
	return nil
}

// unlessBarred answers every call with the reason as long as the node does not take part in its cluster: its data may
// be old.
func (n *node) unlessBarred(api http.Handler) http.Handler {
	barred := httpapi.Waiting(n.cluster.Barred, n.origins, n.registry, n.log)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.cluster.Barred() != "" {
			barred.ServeHTTP(w, r)
			return
		}
		api.ServeHTTP(w, r)
	})
}

func (n *node) serve(server *http.Server, l net.Listener) {
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		n.failed <- err
	}
}

// ignoreClosed: who serves a listener closes it too.
func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// advertised is where callers find the node: as told, or where it listens, by the host's name if that is everywhere.
func advertised(told string, bound net.Addr) (string, error) {
	addr, ok := bound.(*net.TCPAddr)
	if told != "" || !ok || !addr.IP.IsUnspecified() {
		return orElse(told, bound.String()), nil
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("--advertise-http is not given, and the host's name is not known: %w", err)
	}
	return net.JoinHostPort(host, strconv.Itoa(addr.Port)), nil
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
