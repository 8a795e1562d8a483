package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/procstat"
	"github.com/belfryhq/belfry/internal/loop"
)

// stand is a cluster of three nodes. With one shard, the nodes have roles: the leader, a follower that takes calls
// (entry), and a follower that takes none.
type stand struct {
	cluster                 *local.Cluster
	dir                     string
	leader, entry, follower local.Node
}

func start(ctx context.Context, cfg config) (*stand, error) {
	s, err := startWith(ctx, cfg, 1)
	if err != nil {
		return nil, err
	}
	if err := s.findLeader(ctx); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// startWith starts a cluster with a number of shards, and does not look for the leader.
func startWith(ctx context.Context, cfg config, shards int) (*stand, error) {
	dir, err := os.MkdirTemp("", "belfry-parts-")
	if err != nil {
		return nil, err
	}
	s := &stand{dir: dir}
	binary, err := filepath.Abs(cfg.binary)
	if err != nil {
		return nil, err
	}
	// The slow timing keeps leaders in place on a busy machine. It changes the cost of idling and no other measured
	// cost.
	args := []string{"--shards", strconv.Itoa(shards), "--min-free-disk", "0", "--timing", "wan"}
	s.cluster, err = local.Start(ctx, local.Config{DataDir: dir, Binary: binary, ExtraArgs: args})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func (s *stand) stop() error {
	s.cluster.Stop()
	return os.RemoveAll(s.dir)
}

// findLeader waits until one node has led the shard for some seconds.
func (s *stand) findLeader(ctx context.Context) error {
	const settled = 6 * time.Second
	since, last := time.Now(), ""
	for time.Since(since) < settled {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		name := ""
		for _, n := range s.cluster.Nodes() {
			if v, err := n.Metric(ctx, "belfry_shard_leader"); err == nil && v == 1 {
				name = n.Name
			}
		}
		if name == "" || name != last {
			since, last = time.Now(), name
		}
		<-time.After(200 * time.Millisecond)
	}
	var others []local.Node
	for _, n := range s.cluster.Nodes() {
		if n.Name == last {
			s.leader = n
		} else {
			others = append(others, n)
		}
	}
	s.entry, s.follower = others[0], others[1]
	return nil
}

// used is the processor time and the log entries since the nodes started.
type used struct {
	at                      time.Time
	leader, entry, follower float64 // µs
	entries                 float64
}

func (s *stand) used() (used, error) {
	u := used{at: time.Now()}
	var err error
	if u.entries, err = s.leader.Metric(context.Background(), "belfry_shard_entries_total"); err != nil {
		return used{}, err
	}
	usage, err := procstat.OfTrees(s.leader.PID, s.entry.PID, s.follower.PID)
	if err != nil {
		return used{}, err
	}
	for i, cost := range []*float64{&u.leader, &u.entry, &u.follower} {
		*cost = float64(usage[i].Processor.Microseconds())
	}
	return u, nil
}

// spent is the cost of a step, without the cost of idling.
type spent struct {
	leader, entry, follower, entries float64
	tasks, requests                  float64
}

// step runs a step and returns its cost.
func (s *stand) step(name string, idle perSecond, do func() (tasks, requests int, err error)) (spent, error) {
	before, err := s.used()
	if err != nil {
		return spent{}, err
	}
	tasks, requests, err := do()
	if err != nil {
		return spent{}, fmt.Errorf("%s: %w", name, err)
	}
	after, err := s.used()
	if err != nil {
		return spent{}, err
	}
	seconds := after.at.Sub(before.at).Seconds()
	sp := spent{
		leader: after.leader - before.leader - idle.leader*seconds, entry: after.entry - before.entry - idle.entry*seconds,
		follower: after.follower - before.follower - idle.follower*seconds, entries: after.entries - before.entries,
		tasks: float64(tasks), requests: float64(requests),
	}
	fmt.Printf("%-28s %7d tasks in %5.1f s, %6.0f entries   µs a task: leader %6.1f  entry %6.1f  follower %6.1f\n",
		name, tasks, seconds, sp.entries, sp.leader/sp.tasks, sp.entry/sp.tasks, sp.follower/sp.tasks)
	return sp, nil
}

const callers = 64

// load schedules tasks with ids of 24 bytes, by single calls to one node.
type load struct {
	payload json.RawMessage
	next    atomic.Int64
	target  *client.Target // nil: consumers pull the tasks
	queue   string
	due     time.Time // zero: in a day
}

func newLoad(payload int) *load {
	return &load{payload: json.RawMessage(`"` + strings.Repeat("x", payload) + `"`)}
}

// clientOf returns a client that sends each call to one node. It repeats calls that fail: a busy machine may lose its
// leader.
func clientOf(n local.Node) (*client.Client, error) {
	return client.New(client.Config{
		Addrs: []string{"http://" + n.HTTPAddr}, FixedAddrs: true, SingleCalls: true,
		HTTPClient: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}},
	})
}

func (l *load) task() client.Task {
	t := client.Task{
		ID: fmt.Sprintf("order-%018d", l.next.Add(1)), Payload: l.payload, FireAt: l.due, Target: l.target, Queue: l.queue,
	}
	if l.due.IsZero() {
		t.Delay = 24 * time.Hour
	}
	return t
}

// puts sends one PUT a task, from a number of concurrent callers.
func (l *load) puts(ctx context.Context, to local.Node, tasks, callers int) (int, int, error) {
	c, err := clientOf(to)
	if err != nil {
		return 0, 0, err
	}
	put := func(ctx context.Context, _ struct{}, _ int) error {
		_, err := c.Schedule(ctx, l.task())
		return err
	}
	_, err = loop.Closed(ctx, make([]struct{}, callers), tasks, loop.Forever, put)
	return tasks, tasks, err
}

// batches schedules the tasks in requests of a hundred lines.
func (l *load) batches(ctx context.Context, to local.Node, tasks int) (int, int, error) {
	const lines, callers = 100, 8
	calls := tasks / lines
	c, err := clientOf(to)
	if err != nil {
		return 0, 0, err
	}
	batch := func(yield func(client.Task) bool) {
		for range lines {
			if !yield(l.task()) {
				return
			}
		}
	}
	send := func(ctx context.Context, _ struct{}, _ int) error {
		for result := range c.ScheduleMany(ctx, batch) {
			if result.Err != nil {
				return result.Err
			}
		}
		return nil
	}
	_, err = loop.Closed(ctx, make([]struct{}, callers), calls, loop.Forever, send)
	return calls * lines, calls, err
}

// receive answers webhooks. It closes done after the given number of tasks.
func receive(ctx context.Context, tasks int) (url string, done <-chan struct{}, stop func() error, err error) {
	var got atomic.Int64
	all := make(chan struct{})
	url, stop, err = subject.Serve(ctx, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil && got.Add(1) == int64(tasks) {
			close(all)
		}
	}))
	return url, all, stop, err
}

// consume leases and acknowledges up to a hundred tasks a call through a node, until the given number is done.
func (l *load) consume(ctx context.Context, to local.Node, tasks int) (int, int, error) {
	const consumers, most = 4, 100
	c, err := clientOf(to)
	if err != nil {
		return 0, 0, err
	}
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range consumers {
		group.Go(func() error {
			for done.Load() < int64(tasks) {
				leased, err := c.Lease(ctx, l.queue, client.Demand{Max: most, Wait: time.Second, Lease: time.Minute})
				if err != nil {
					return err
				}
				if err := l.acknowledge(ctx, c, leased); err != nil {
					return err
				}
				done.Add(int64(len(leased)))
			}
			return nil
		})
	}
	return tasks, tasks / most, group.Wait()
}

func (l *load) acknowledge(ctx context.Context, c *client.Client, leased []client.Leased) error {
	var receipts []string
	for _, t := range leased {
		receipts = append(receipts, t.Receipt)
	}
	var failed []error
	for _, settled := range c.Settle(ctx, l.queue, client.Settlement{Ack: receipts}) {
		failed = append(failed, settled.Err)
	}
	return errors.Join(failed...)
}
