package sim

import (
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/shard"
)

// World is a simulated cluster and its surroundings. It lives in one synctest bubble.
type World struct {
	cfg       Config
	ctx       context.Context // of everything that belongs to no node
	cancel    context.CancelFunc
	rec       *history.Recorder
	net       *wire.Network
	nodes     []*Node
	decisions *register[*clusterpb.ControlState] // of the control group
	luck      *luck
	decided   *register[[]*fsmpb.QueuePolicy] // sorted by queue; a node hears of a change newsTakes later
	receiver  *receiver
	prints    *prints
	members   *members
	wg        sync.WaitGroup // goroutines that end by themselves or with ctx

	mu       sync.Mutex
	problems []string
	terms    map[uint32]uint64 // newest term seen, by shard
	broken   bool              // an episode is under way
	healed   time.Time         // when the last episode was over
	figures  Figures
	owners   map[history.Owner]bool // recorded
}

// NewWorld makes a cluster. No process runs yet.
func NewWorld(cfg Config) *World {
	w := &World{
		cfg: cfg, rec: history.NewRecorder(nil), net: wire.New(cfg.Seed, cfg.net), prints: newPrints(),
		decided: newRegister[[]*fsmpb.QueuePolicy](nil, 0), terms: map[uint32]uint64{}, owners: map[history.Owner]bool{},
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.receiver = newReceiver(w)
	for i := range cfg.Nodes {
		w.nodes = append(w.nodes, &Node{
			world: w, name: fmt.Sprintf("n%d", i+1), clock: newClock(), files: newFiles(w, i),
		})
	}
	w.luck = &luck{rng: w.rng("luck", 0)}
	w.decisions = newRegister(w.place(), 0)
	w.members = newMembers(w)
	return w
}

// place decides which nodes hold each shard, as the control group does in production.
func (w *World) place() *clusterpb.ControlState {
	state := &clusterpb.ControlState{ClusterId: "simulated", CommandVersion: control.Version}
	shards := uint32(w.cfg.Shards)
	for id := uint32(1); id <= shards; id++ {
		first, end := (id-1)*task.Slots/shards, id*task.Slots/shards
		state.Slots = append(state.Slots, &clusterpb.SlotRange{First: first, End: end, Shard: id})
		s := &clusterpb.Shard{Id: id}
		for i := range w.cfg.Replicas {
			s.Replicas = append(s.Replicas, w.nodes[(int(id)+i)%len(w.nodes)].name)
		}
		slices.Sort(s.Replicas)
		if w.cfg.Preferred {
			s.Preferred = s.Replicas[int(id)%len(s.Replicas)]
		}
		state.Shards = append(state.Shards, s)
	}
	for _, n := range w.nodes {
		state.Nodes = append(state.Nodes, &clusterpb.Node{Id: n.name, Name: n.name})
	}
	return state
}

// Close ends all processes and goroutines of the world.
func (w *World) Close() {
	w.cancel()
	for _, n := range w.nodes {
		n.crash()
	}
	w.wg.Wait()
}

// problem notes a broken promise that only the inside shows, with the second of the run.
func (w *World) problem(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, fmt.Sprintf("%.3f  ", w.since())+fmt.Sprintf(format, args...))
}

// note notes an error as a broken promise. A nil error is none.
func (w *World) note(err error) {
	if err != nil {
		w.problem("%v", err)
	}
}

// over returns a channel that is closed when the span of load and faults is over.
func (w *World) over() <-chan struct{} {
	ended := make(chan struct{})
	time.AfterFunc(w.cfg.Span, func() { close(ended) })
	return ended
}

// count changes the figures of the run.
func (w *World) count(change func(f *Figures)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.figures)
}

// since returns the age of the world in seconds.
func (w *World) since() float64 { return time.Since(epoch).Seconds() }

// epoch is the instant at which every bubble begins.
var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// rng returns the source of choices of one part of a run. It depends on the seed, the part and n alone.
func (w *World) rng(part string, n int) *rand.Rand {
	h := uint64(14695981039346656037)
	for _, b := range []byte(part) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return rand.New(rand.NewPCG(w.cfg.Seed, h+uint64(n)))
}

// sleep waits for d and reports whether the world goes on.
func (w *World) sleep(d time.Duration) bool { return wait.For(w.ctx, d) }

// noteTerm records the leader of a term, once for each new term of a shard.
func (w *World) noteTerm(shard uint32, term uint64, leader string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if leader == "" || term <= w.terms[shard] {
		return
	}
	w.terms[shard] = term
	w.rec.Term(history.Term{Shard: shard, Term: term, Leader: leader, Before: w.rec.Now()})
}

// start starts a process on every node that has none.
func (w *World) start() {
	var wg sync.WaitGroup
	for _, n := range w.nodes {
		wg.Go(n.start)
	}
	wg.Wait()
}

// processAt returns the process on a host, or nil if it has ended.
func (w *World) processAt(h *wire.Host) *process {
	for _, n := range w.nodes {
		if p := n.running(); p != nil && p.host == h {
			return p
		}
	}
	return nil
}

// replicasOn yields the replicas of the processes that run on some nodes, in the order of the nodes.
func replicasOn(nodes ...*Node) iter.Seq2[*Node, replica] {
	return func(yield func(*Node, replica) bool) {
		for _, n := range nodes {
			p := n.running()
			if p == nil {
				continue
			}
			for _, r := range p.all() {
				if !yield(n, r) {
					return
				}
			}
		}
	}
}

// leading returns the leading replica of a shard and its node, nil if there is none.
func (w *World) leading(id uint32) (*Node, *shard.Shard) {
	for n, r := range replicasOn(w.nodes...) {
		if r.id == id && r.shard.IsLeader() {
			return n, r.shard
		}
	}
	return nil, nil
}

// leader returns the node that leads a shard, or nil.
func (w *World) leader(id uint32) *Node {
	n, _ := w.leading(id)
	return n
}

// ledBy returns the shards that the given nodes lead, in rising order.
func (w *World) ledBy(nodes ...*Node) []uint32 {
	var led []uint32
	for _, r := range replicasOn(nodes...) {
		if r.shard.IsLeader() {
			led = append(led, r.id)
		}
	}
	slices.Sort(led)
	return slices.Compact(led)
}
