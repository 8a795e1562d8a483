package belfry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/procstat"
	"github.com/belfryhq/belfry/internal/wait"
)

// nodes is the number of processes in the cluster.
const nodes = 3

// readyLimit is the longest time for a started node to be ready, with millions of tasks in its log.
const readyLimit = 10 * time.Minute

// Config configures the measured Belfry and the way of calling it.
type Config struct {
	Name   string // as the tables show it
	Binary string // path of the belfry program
	Single bool   // call by single HTTP calls, else through the Go client
	Flight bool   // the nodes record their last moments: see subject.Recorder
	Keys   bool   // calls need keys, and tenants have namespaces: see subject.Tenants

	Args []string // extra arguments of each node's `belfry serve`; nil: the defaults
}

// Subject returns Belfry as a subject of the bench. It needs nothing, because the bench builds the program itself.
func Subject(cfg Config) subject.Subject {
	return subject.Subject{
		Name:    cfg.Name,
		Promise: subject.Promise{Nodes: nodes, Replicated: true, Fsync: subject.FsyncEachWrite},
		Start:   cfg.start,
	}
}

// start starts the cluster and returns when every shard has a leader.
func (cfg Config) start(ctx context.Context, dir string) (subject.Service, error) {
	flight, err := newFlight(cfg.Flight, dir)
	if err != nil {
		return nil, err
	}
	cluster, err := local.Start(ctx, local.Config{
		Nodes: nodes, DataDir: dir, Binary: cfg.Binary, Places: flight.places(), ExtraArgs: cfg.Args, Auth: cfg.Keys,
		StartTimeout: readyLimit,
	})
	if err != nil {
		return nil, err
	}
	s := &service{cfg: cfg, cluster: cluster, urls: cluster.URLs(), flight: flight}
	s.client, err = client.New(client.Config{Addrs: s.urls, KeyFile: cluster.KeyFile()})
	if err == nil {
		err = s.awaitLeaders(ctx)
	}
	if err == nil {
		err = flight.begin(ctx)
	}
	if err != nil {
		cluster.Stop()
		return nil, err
	}
	if cfg.Keys {
		return &securedService{service: s, keys: map[string]string{}}, nil
	}
	return s, nil
}

// service is a running cluster.
type service struct {
	cfg     Config
	cluster *local.Cluster
	urls    []string
	client  *client.Client
	flight  *flight
	target  atomic.Pointer[client.Target] // of the tasks scheduled from now on; nil: consumers take them
	made    atomic.Int64                  // number of single callers made
}

const leadersPoll = 20 * time.Millisecond

func (s *service) awaitLeaders(ctx context.Context) error {
	leaderless := func(shard client.Shard) bool { return shard.Leader == "" }
	for {
		view, err := s.client.Cluster(ctx)
		if err == nil && len(view.Shards) > 0 && !slices.ContainsFunc(view.Shards, leaderless) {
			return nil
		}
		if !wait.For(ctx, leadersPoll) {
			return fmt.Errorf("not every shard has a leader: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// Caller returns a caller of the configured kind.
func (s *service) Caller(ctx context.Context) (subject.Caller, error) {
	if s.cfg.Single {
		return newSingle(s), nil
	}
	return s.QueueCaller(ctx, defaultQueue)
}

const defaultQueue = "default"

// QueueCaller returns a caller that uses the client and one queue.
func (s *service) QueueCaller(_ context.Context, queue string) (subject.Caller, error) {
	return &caller{service: s, queue: queue}, nil
}

// PIDs returns the process ids of the running nodes.
func (s *service) PIDs() []int {
	var pids []int
	for _, node := range s.cluster.Nodes() {
		if node.PID != 0 {
			pids = append(pids, node.PID)
		}
	}
	return pids
}

// Stop stops the nodes gracefully.
func (s *service) Stop() error {
	s.cluster.Stop()
	return nil
}

// PushTo sets the target URL of the tasks that are scheduled from now on.
func (s *service) PushTo(url string) error {
	s.target.Store(&client.Target{URL: url})
	return nil
}

// KillAll kills all nodes at once.
func (s *service) KillAll() error {
	var group errgroup.Group
	for _, node := range s.cluster.Nodes() {
		group.Go(func() error { return s.cluster.Kill(node.Name) })
	}
	return group.Wait()
}

// Restart starts the nodes that do not run.
func (s *service) Restart(context.Context) error {
	for _, node := range s.cluster.Nodes() {
		if node.PID != 0 {
			continue
		}
		if err := s.cluster.Launch(node.Name); err != nil {
			return err
		}
	}
	return nil
}

// AwaitReady waits until each running node is ready.
func (s *service) AwaitReady(ctx context.Context) error {
	for _, node := range s.cluster.Nodes() {
		if node.PID == 0 {
			continue
		}
		if err := s.cluster.AwaitReady(ctx, node.Name); err != nil {
			return err
		}
	}
	return nil
}

// Schedules counts the schedules on the running node with the fewest. Each node has a replica of every shard.
func (s *service) Schedules(ctx context.Context) (fewest int, err error) {
	var counts []int
	for _, node := range s.cluster.Nodes() {
		if node.PID == 0 {
			continue
		}
		n, err := node.Metric(ctx, "belfry_shard_tasks", procstat.Label{Name: "state", Value: "repeating"})
		if err != nil {
			return 0, err
		}
		counts = append(counts, int(n))
	}
	if len(counts) == 0 {
		return 0, errNoNode
	}
	return slices.Min(counts), nil
}

var errNoNode = errors.New("no node runs")

var errNoReplicas = errors.New("no replica tells how many snapshots it has written")

// Snapshots counts the snapshots of all replicas on the running nodes, and those of the replica with the fewest.
func (s *service) Snapshots(ctx context.Context) (all, fewest int, err error) {
	var replicas []float64
	for _, node := range s.cluster.Nodes() {
		if node.PID == 0 {
			continue
		}
		written, err := node.Samples(ctx, "belfry_shard_snapshot_duration_seconds_count")
		if err != nil {
			return 0, 0, err
		}
		replicas = append(replicas, written...)
	}
	if len(replicas) == 0 {
		return 0, 0, errNoReplicas
	}
	for _, n := range replicas {
		all += int(n)
	}
	return all, int(slices.Min(replicas)), nil
}

// KillLeader kills the node that leads the most shards.
func (s *service) KillLeader() error { return s.withLeader(s.cluster.Kill) }

// StopLeader stops the node that leads the most shards.
func (s *service) StopLeader() error { return s.withLeader(s.cluster.Terminate) }

// leaderLimit is the longest time for finding the leaders.
const leaderLimit = 5 * time.Second

func (s *service) withLeader(do func(name string) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaderLimit)
	defer cancel()
	view, err := s.client.Cluster(ctx)
	if err != nil {
		return err
	}
	leads := map[string]int{}
	most := ""
	for _, shard := range view.Shards {
		if leads[shard.Leader]++; leads[shard.Leader] > leads[most] {
			most = shard.Leader
		}
	}
	node := view.Node(most)
	if node == nil {
		return fmt.Errorf("a shard has no leader: %+v", view.Shards)
	}
	return do(node.Name)
}

// flight controls the flight recorders of the nodes. A node serves its recorder beside its profiles.
type flight struct {
	dir   string
	addrs []string // of the nodes' profiles; empty: the nodes record nothing
}

func newFlight(on bool, dir string) (*flight, error) {
	f := &flight{dir: dir}
	if !on {
		return f, nil
	}
	var err error
	f.addrs, err = local.FreeAddrs(nodes)
	return f, err
}

// places makes each node serve its profiles.
func (f *flight) places() []local.Place {
	var places []local.Place
	for _, addr := range f.addrs {
		places = append(places, local.Place{Args: []string{"--pprof", addr}})
	}
	return places
}

// begin starts the recorders of the nodes. A restarted node does not record.
func (f *flight) begin(ctx context.Context) error {
	for _, addr := range f.addrs {
		if err := f.ask(ctx, http.MethodPost, addr, io.Discard); err != nil {
			return fmt.Errorf("starting a recorder: %w", err)
		}
	}
	return nil
}

// Keep writes the nodes' latest recordings to the cluster's folder, one file a node.
func (s *service) Keep(ctx context.Context, name string) (where string, err error) {
	f := s.flight
	if len(f.addrs) == 0 {
		return "", nil
	}
	for i, addr := range f.addrs {
		path := filepath.Join(f.dir, fmt.Sprintf("%s-node-%d.trace", name, i+1))
		err = errors.Join(err, f.keep(ctx, addr, path))
	}
	return filepath.Join(f.dir, name+"-node-*.trace"), err
}

func (f *flight) keep(ctx context.Context, addr, path string) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return f.ask(ctx, http.MethodGet, addr, file)
}

func (f *flight) ask(ctx context.Context, method, addr string, out io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+"/debug/flight", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, req.URL, resp.Status)
	}
	_, err = io.Copy(out, resp.Body)
	return err
}
