package consume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// onTheWire is the time that a message takes, in the time of the synctest bubble.
const onTheWire = 200 * time.Microsecond

// world is a set of nodes with their Consumers, and shards of one real replica each. The test decides which node leads
// a shard, and can cut the network.
type world struct {
	t      testing.TB
	state  *clusterpb.ControlState
	nodes  map[string]*Consumers
	shards map[uint32]*shard.Shard
	disk   atomic.Int64 // time that the write of an entry takes, in nanoseconds
	said   atomic.Int64 // messages between nodes

	mu      sync.Mutex
	leader  map[uint32]string
	changed map[uint32]chan struct{}
	down    map[string]bool
	streams map[*wire]bool
	open    map[uint32][]opened
}

// opened is an open demand at a shard.
type opened struct {
	node string
	d    *desk.Demand
	c    desk.Consumer
}

type slowStore struct {
	*raft.InmemStore
	snapshots raft.SnapshotStore
	w         *world
}

func (s slowStore) StoreLogs(logs []*raft.Log) error {
	time.Sleep(time.Duration(s.w.disk.Load()))
	return s.InmemStore.StoreLogs(logs)
}
func (s slowStore) StoreLog(l *raft.Log) error    { return s.StoreLogs([]*raft.Log{l}) }
func (s slowStore) Log() raft.LogStore            { return s }
func (s slowStore) Stable() raft.StableStore      { return s.InmemStore }
func (s slowStore) Snapshots() raft.SnapshotStore { return s.snapshots }
func (s slowStore) Close() error                  { return nil }

type noDelivery struct{}

func (noDelivery) Deliver(context.Context, task.Attempt) task.Outcome { panic("nothing is pushed") }
func (noDelivery) DeliverBatch(context.Context, []task.Attempt) []task.Outcome {
	panic("nothing is pushed")
}

// newWorld makes a world inside a synctest bubble, which the world must not outlive.
func newWorld(t *testing.T, shards int, tune func(*Config)) *world {
	t.Helper()
	w := &world{
		t: t, state: &clusterpb.ControlState{}, nodes: map[string]*Consumers{}, shards: map[uint32]*shard.Shard{},
		leader: map[uint32]string{}, changed: map[uint32]chan struct{}{}, down: map[string]bool{},
		streams: map[*wire]bool{}, open: map[uint32][]opened{},
	}
	w.disk.Store(int64(800 * time.Microsecond))
	nodes := []string{"a", "b", "c"}
	for i := uint32(1); i <= uint32(shards); i++ {
		w.state.Shards = append(w.state.Shards, &clusterpb.Shard{Id: i, Replicas: nodes})
		w.leader[i], w.changed[i] = nodes[int(i)%len(nodes)], make(chan struct{})
		w.shards[i] = w.openShard(i)
	}
	for _, node := range nodes {
		cfg := Config{
			Self: node, Control: w, Replicas: place{w, node}, Nodes: place{w, node}, Leaders: w, Router: w,
		}
		if tune != nil {
			tune(&cfg)
		}
		w.nodes[node] = New(cfg)
	}
	t.Cleanup(w.close)
	return w
}

func (w *world) openShard(id uint32) *shard.Shard {
	_, transport := raft.NewInmemTransport("self")
	timing := shard.LAN()
	timing.Heartbeat, timing.Election, timing.Lease, timing.Commit = time.Minute, time.Minute, time.Minute, time.Minute
	timing.HeadStart, timing.Stuck = 2*time.Minute, time.Hour
	s, err := shard.Open(shard.Config{
		ID: id, NodeID: "self", Replicas: []shard.Replica{{NodeID: "self"}}, Transport: transport, Deliver: noDelivery{},
		Storage: slowStore{raft.NewInmemStore(), raft.NewInmemSnapshotStore(), w},
		Fatal:   func(err error) { w.t.Error(err) }, Timing: timing,
	})
	assert.NoError(w.t, err)
	for !s.IsLeader() {
		time.Sleep(time.Second)
	}
	return s
}

func (w *world) close() {
	var wg sync.WaitGroup
	for _, p := range w.nodes {
		wg.Go(p.Close)
	}
	wg.Wait()
	w.mu.Lock()
	for s := range w.streams {
		s.cut(errors.New("the world ends"))
	}
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range w.shards {
		wg.Go(func() {
			assert.Equal(w.t, s.Close(ctx), nil)
		})
	}
	wg.Wait()
}

// Doubt does nothing: the world's leaders are always true.
func (w *world) Doubt(uint32, string) {}

// Answered does nothing.
func (w *world) Answered(uint32, string) {}

// Watch returns the leader of a shard and a channel that is closed when it changes.
func (w *world) Watch(id uint32) (string, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leader[id], w.changed[id]
}

// lead makes another node the leader of a shard, and informs all watchers if told is set.
func (w *world) lead(id uint32, node string, told bool) {
	w.mu.Lock()
	w.leader[id] = node
	news := w.changed[id]
	if told {
		w.changed[id] = make(chan struct{})
	}
	ended := w.open[id]
	w.open[id] = nil
	w.mu.Unlock()
	if told {
		close(news)
	}
	for _, o := range ended {
		o.d.Withdraw()
		o.c.End(&task.NotLeaderError{Shard: id, Leader: node})
	}
}

func (w *world) State() *clusterpb.ControlState { return w.state }

// place is the world as one of its nodes sees it.
type place struct {
	*world
	node string
}

func (place) Alive(string) bool { return true }

func (place) Arrived(context.Context, string, uint32, []uint64) (desk.Arrivals, error) {
	return desk.Arrivals{}, errors.New("no leader asks")
}

func (p place) Pull(ctx context.Context, to string) (Stream, error) { return p.dial(ctx, p.node, to) }

func (p place) Lease(id uint32, req task.LeaseRequest, c desk.Consumer) (Demand, error) {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leader[id] != p.node {
		return nil, &task.NotLeaderError{Shard: id, Leader: w.leader[id]}
	}
	d, err := w.shards[id].Lease(req, c)
	if err == nil {
		w.open[id] = append(w.open[id], opened{p.node, d, c})
	}
	return d, err
}

// named returns a task id that names its shard, counted from 0.
func named(i uint32, what any) string { return fmt.Sprintf("s%d-%v", i+1, what) }

func shardOf(task string) uint32 {
	number, _, _ := strings.Cut(strings.TrimPrefix(task, "s"), "-")
	id, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		panic(err)
	}
	return uint32(id)
}

func (w *world) Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
	time.Sleep(onTheWire)
	byShard := map[uint32][]int{}
	for i, c := range cmds {
		byShard[shardOf(c.Id)] = append(byShard[shardOf(c.Id)], i)
	}
	replies := make([]task.Reply, len(cmds))
	var wg sync.WaitGroup
	for id, at := range byShard {
		wg.Go(func() {
			var part []*fsmpb.Command
			for _, i := range at {
				part = append(part, cmds[i])
			}
			for k, r := range w.shards[id].Do(ctx, part) {
				replies[at[k]] = r
			}
		})
	}
	wg.Wait()
	time.Sleep(onTheWire)
	return replies
}

func (w *world) must(cmds ...*fsmpb.Command) {
	w.t.Helper()
	for i, r := range w.Do(context.Background(), cmds) {
		if r.Err != nil || r.Result.Code > fsmpb.Code_CODE_CREATED {
			w.t.Fatalf("%v: %v", cmds[i], r)
		}
	}
}

func due(id string, at time.Time, payload int) *fsmpb.Command {
	return &fsmpb.Command{Id: id, Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		Spec: &fsmpb.Spec{Queue: "work", Payload: make([]byte, payload)}, FireAtMs: at.UnixMilli(),
		ReceivedAtMs: time.Now().UnixMilli(),
	}}}
}

func ack(t *fsmpb.Task) *fsmpb.Command {
	return &fsmpb.Command{Id: t.Id, Op: &fsmpb.Command_Settle{Settle: &fsmpb.Settle{
		Fence: t.Fence, Occurrence: t.Occurrence, Verdict: fsmpb.Verdict_VERDICT_DELIVERED, Consumer: true,
	}}}
}

func (w *world) lease(ctx context.Context, node string, most int) ([]*fsmpb.Task, error) {
	return w.nodes[node].Lease(ctx, task.LeaseRequest{
		Namespace: "default", Queue: "work", Max: most, Lease: time.Minute,
	})
}

// cut takes a node off the network, or puts it back.
func (w *world) cut(node string, down bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down[node] = down
	for s := range w.streams {
		if down && (s.from == node || s.to == node) {
			s.cut(errors.New("the network is cut"))
		}
	}
}

// wire is a stream between two nodes.
type wire struct {
	from, to string
	said     *atomic.Int64
	ctx      context.Context
	cut      context.CancelCauseFunc
	requests chan sent[*clusterpb.PullRequest]
	replies  chan sent[*clusterpb.PullReply]
}

type sent[T any] struct {
	msg T
	at  time.Time
}

func (w *world) dial(ctx context.Context, from, to string) (Stream, error) {
	s := &wire{from: from, to: to, said: &w.said}
	s.ctx, s.cut = context.WithCancelCause(ctx)
	s.requests = make(chan sent[*clusterpb.PullRequest], 1024)
	s.replies = make(chan sent[*clusterpb.PullReply], 1024)
	w.mu.Lock()
	down := w.down[to] || w.down[from]
	w.streams[s] = true
	w.mu.Unlock()
	if down {
		s.cut(nil)
		return nil, errors.New("no way to node " + to)
	}
	go func() {
		err := w.nodes[to].Serve(wireEnd{s}, nil)
		if err == nil {
			err = io.EOF
		}
		s.cut(err)
		w.mu.Lock()
		delete(w.streams, s)
		w.mu.Unlock()
	}()
	return s, nil
}

func send[T any](ctx context.Context, ch chan sent[T], msg T) error {
	select {
	case ch <- sent[T]{msg, time.Now().Add(onTheWire)}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func recv[T any](ctx context.Context, ch chan sent[T]) (T, error) {
	select {
	case m := <-ch:
		time.Sleep(time.Until(m.at))
		return m.msg, nil
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

func (s *wire) Send(m *clusterpb.PullRequest) error     { return send(s.ctx, s.requests, m) }
func (s *wire) Recv() (*clusterpb.PullReply, error)     { return recv(s.ctx, s.replies) }
func (s wireEnd) Context() context.Context              { return s.ctx }
func (s wireEnd) Send(m *clusterpb.PullReply) error     { return send(s.ctx, s.replies, m) }
func (s wireEnd) Recv() (*clusterpb.PullRequest, error) { return recv(s.ctx, s.requests) }

type wireEnd struct{ *wire }

// quantile returns the q-quantile of durations, which it sorts.
func quantile(d []time.Duration, q float64) time.Duration {
	slices.Sort(d)
	return d[int(q*float64(len(d)-1))]
}
