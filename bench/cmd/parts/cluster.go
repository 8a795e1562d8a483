package main

import (
	"bytes"
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

const callers = 64

// load schedules tasks with ids of 24 bytes.
type load struct {
	stand   *stand
	payload string
	next    atomic.Int64
	target  string // URL; empty: consumers pull the tasks
	queue   string
	due     time.Time // zero: in a day
}

func (l *load) task() (id string, body map[string]any) {
	body = map[string]any{"payload": l.payload, "delay": "24h"}
	if !l.due.IsZero() {
		delete(body, "delay")
		body["fire_at"] = l.due.Format(time.RFC3339Nano)
	}
	if l.target != "" {
		body["target"] = map[string]any{"url": l.target}
	}
	if l.queue != "" {
		body["queue"] = l.queue
	}
	return fmt.Sprintf("order-%018d", l.next.Add(1)), body
}

// puts sends one PUT a task, from a number of concurrent callers.
func (l *load) puts(ctx context.Context, to local.Node, tasks, callers int) (int, int, error) {
	_, err := loop.Closed(ctx, make([]struct{}, callers), tasks, loop.Forever, func(context.Context, struct{}, int) error {
		id, body := l.task()
		return l.call("PUT", to, "/v1/tasks/"+id, "application/json", id, encode(body))
	})
	return tasks, tasks, err
}

// batches schedules the tasks in requests of a hundred lines.
func (l *load) batches(ctx context.Context, to local.Node, tasks int) (int, int, error) {
	const lines, callers = 100, 8
	calls := tasks / lines
	_, err := loop.Closed(ctx, make([]struct{}, callers), calls, loop.Forever, func(context.Context, struct{}, int) error {
		var body bytes.Buffer
		for range lines {
			id, task := l.task()
			task["op"], task["id"], task["key"] = "schedule", id, id
			body.Write(encode(task))
			body.WriteByte('\n')
		}
		return l.call("POST", to, "/v1/batch", "application/x-ndjson", "", body.Bytes())
	})
	return calls * lines, calls, err
}

// call repeats a call that failed with a 5xx status: a busy machine may lose its leader.
func (l *load) call(method string, to local.Node, path, kind, key string, body []byte) error {
	const patience, pause = 30 * time.Second, 100 * time.Millisecond
	for began := time.Now(); ; <-time.After(pause) {
		err := l.callOnce(method, to, path, kind, key, body)
		if !errors.Is(err, errAgain) || time.Since(began) > patience {
			return err
		}
	}
}

var errAgain = errors.New("not known to be done")

func (l *load) callOnce(method string, to local.Node, path, kind, key string, body []byte) error {
	request, err := http.NewRequest(method, "http://"+to.HTTPAddr+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", kind)
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	answer, err := l.stand.http.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }() // the body was only read
	text, err := io.ReadAll(answer.Body)
	switch {
	case err == nil && answer.StatusCode/100 == 5:
		return fmt.Errorf("%w: %s %s: %s: %s", errAgain, method, path, answer.Status, text)
	case err == nil && answer.StatusCode/100 != 2:
		return fmt.Errorf("%s %s: %s: %s", method, path, answer.Status, text)
	}
	return err
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
func (l *load) consume(to local.Node, tasks int) (int, int, error) {
	const consumers = 4
	var done atomic.Int64
	var group errgroup.Group
	for range consumers {
		group.Go(func() error {
			for done.Load() < int64(tasks) {
				n, err := l.leaseOnce(to)
				if err != nil {
					return err
				}
				done.Add(int64(n))
			}
			return nil
		})
	}
	return tasks, tasks / 100, group.Wait()
}

func (l *load) leaseOnce(to local.Node) (int, error) {
	url := "http://" + to.HTTPAddr + "/v1/queues/" + l.queue
	answer, err := l.stand.http.Post(url+"/lease", "application/json",
		strings.NewReader(`{"max": 100, "wait": "1s", "lease": "60s"}`))
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }() // the body was only read
	var leased struct{ Tasks []struct{ Receipt string } }
	if err := json.NewDecoder(answer.Body).Decode(&leased); err != nil || len(leased.Tasks) == 0 {
		return 0, err
	}
	receipts := make([]string, 0, len(leased.Tasks))
	for _, t := range leased.Tasks {
		receipts = append(receipts, t.Receipt)
	}
	return len(receipts), l.call("POST", to, "/v1/queues/"+l.queue+"/settle", "application/json", "",
		encode(map[string]any{"ack": receipts}))
}
