package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/deploy/local"
	"github.com/belfryhq/belfry/deploy/procstat"
)

// stand is a cluster of three nodes. With one shard, the nodes have roles: the leader, a follower that takes calls
// (entry), and a follower that takes none.
type stand struct {
	cluster                 *local.Cluster
	dir                     string
	leader, entry, follower local.Node
	http                    *http.Client
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
	s := &stand{dir: dir, http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}}
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
	for i, of := range []*float64{&u.leader, &u.entry, &u.follower} {
		*of = float64(usage[i].Processor.Microseconds())
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

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the program marshals only its own values
	}
	return data
}
