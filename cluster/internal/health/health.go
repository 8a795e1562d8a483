package health

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
)

// Replica is a replica on this node. *shard.Shard implements it.
type Replica interface {
	ID() uint32
	Voters() []string
	HasCaughtUp() bool
	Standing() shard.Standing
	SetStanding(standing shard.Standing)
	SetRoom(lack error)

	Checkpoints(from uint64) []shard.Checkpoint
	CheckpointAt(index uint64) (shard.Checkpoint, bool)
	Newest() shard.Checkpoint
	Restores() uint64
}

var _ Replica = (*shard.Shard)(nil)

// Node is the state of this node.
type Node interface {
	// Replicas returns the replicas on this node.
	Replicas() []Replica
	// DiskLow reports whether this node's disk is nearly full.
	DiskLow() bool
	// MemoryFull names the limit that this node's memory has reached; empty: none.
	MemoryFull() string
	// Resting reports whether this node shall lead nothing that another node can lead.
	Resting() bool
}

// Peers sends a request to another node.
type Peers interface {
	Compare(ctx context.Context, node string, request *clusterpb.CompareRequest) (*clusterpb.CompareReply, error)
}

// Config holds the state of this node, and the way to the others.
type Config struct {
	Self       string // node id
	Node       Node
	Peers      Peers
	Every      time.Duration // between rounds, and how long another node may take to answer; 0: a second
	Logger     *slog.Logger
	Registerer prometheus.Registerer // nil: no metrics
}

// Nodes is this node's knowledge of the health of all nodes and of the replicas on them. Its methods are safe for
// concurrent use.
type Nodes struct {
	cfg        Config
	metrics    *metrics
	clockApart atomic.Bool
	answers    answers
	judging    sync.Mutex // held while the replicas here are judged, so that the newest judgement comes last

	mu      sync.Mutex
	reports map[string]*clusterpb.NodeHealth // newest report of each other node
	shards  map[uint32]*ledger               // of the replicas here
}

// New returns Nodes that knows of no other node. It asks the others while Run runs.
func New(cfg Config) *Nodes {
	if cfg.Every == 0 {
		cfg.Every = time.Second
	}
	return &Nodes{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), reports: make(map[string]*clusterpb.NodeHealth),
		shards: make(map[uint32]*ledger),
	}
}

// Report returns the health of this node, for the others.
func (n *Nodes) Report() *clusterpb.NodeHealth {
	report := &clusterpb.NodeHealth{DiskLow: n.cfg.Node.DiskLow(), MemoryFull: n.cfg.Node.MemoryFull()}
	for _, r := range n.cfg.Node.Replicas() {
		if !isWilling(r) {
			report.Unwilling = append(report.Unwilling, r.ID())
		}
	}
	return report
}

// isWilling reports whether a replica here should be given a leadership. A replica that has not caught up since its
// start would first have to apply its log, and answer no call meanwhile.
func isWilling(r Replica) bool { return r.HasCaughtUp() && r.Standing() == shard.Willing }

// heard returns the newest report of another node, or nil if there is none.
func (n *Nodes) heard(node string) *clusterpb.NodeHealth {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.reports[node]
}

// Answered records that a node has answered just now.
func (n *Nodes) Answered(node string) { n.answers.note(node) }

// Alive reports whether a node is this one or has answered within the last four seconds.
func (n *Nodes) Alive(node string) bool { return node == n.cfg.Self || n.answers.recent(node) }

// Silence returns the time since another node has last answered this one. It is not known of a node that has not
// answered since this node's start, or for a month.
func (n *Nodes) Silence(node string) (_ time.Duration, known bool) { return n.answers.silence(node) }

// MayLead reports whether a node's replica of a shard is fit to lead, as far as this node knows. It is a hint for the
// transfer of a leadership.
func (n *Nodes) MayLead(shard uint32, node string) bool {
	return n.Alive(node) && !n.Outvoted(shard, node) && !slices.Contains(n.heard(node).GetUnwilling(), shard)
}

// SetClockApart records whether this node's clock is apart from the others', and judges the replicas here.
func (n *Nodes) SetClockApart(apart bool) {
	n.clockApart.Store(apart)
	n.Judge()
}

// ClockApart reports whether this node's clock is apart from the others'.
func (n *Nodes) ClockApart() bool { return n.clockApart.Load() }

// Judge sets whether each replica here may lead, and why its shard may not grow. It is called once a second, and when
// something has changed.
func (n *Nodes) Judge() {
	n.judging.Lock()
	defer n.judging.Unlock()
	aside := n.clockApart.Load() || n.cfg.Node.DiskLow() || n.cfg.Node.Resting()
	for _, r := range n.cfg.Node.Replicas() {
		switch {
		case n.Outvoted(r.ID(), n.cfg.Self):
			r.SetStanding(shard.Barred)
		case aside:
			r.SetStanding(shard.Reluctant)
		default:
			r.SetStanding(shard.Willing)
		}
		r.SetRoom(n.lack(r.Voters()))
	}
}

// lack returns the reason why a shard on these nodes may not grow, or nil.
func (n *Nodes) lack(voters []string) error {
	if !n.hasRoom(voters) {
		return task.ErrNoRoom
	}
	for _, node := range voters {
		if limit := n.memoryFull(node); limit != "" {
			return &task.MemoryError{Node: node, Limit: limit}
		}
	}
	return nil
}

// hasRoom reports whether no disk of a shard's nodes is low, or else a majority of the nodes is alive and has room.
// Without such a majority, each entry would bring the shard nearer to a majority of full disks, which cannot write.
func (n *Nodes) hasRoom(voters []string) bool {
	low, with := false, 0
	for _, node := range voters {
		if n.diskLow(node) {
			low = true
		} else if n.Alive(node) {
			with++
		}
	}
	return !low || 2*with > len(voters)
}

func (n *Nodes) diskLow(node string) bool {
	if node == n.cfg.Self {
		return n.cfg.Node.DiskLow()
	}
	return n.heard(node).GetDiskLow()
}

// memoryFull names the limit that a node's memory has reached, or returns "". A node that is down takes no more memory;
// once it is back, it reports its memory.
func (n *Nodes) memoryFull(node string) string {
	switch {
	case node == n.cfg.Self:
		return n.cfg.Node.MemoryFull()
	case n.Alive(node):
		return n.heard(node).GetMemoryFull()
	}
	return ""
}

// aliveFor is how long a node counts as alive after it has answered. Each node asks all others for the time once a
// second.
const aliveFor = 4 * time.Second

// rememberFor is how long the last answer of a silent node is remembered.
const rememberFor = 31 * 24 * time.Hour

// answers holds the times at which other nodes last answered this one.
type answers struct {
	mu   sync.Mutex
	last map[string]time.Time // by node id
}

// note records that a node has answered just now, and forgets nodes whose last answer is older than
// rememberFor.
func (a *answers) note(node string) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = make(map[string]time.Time)
	}
	maps.DeleteFunc(a.last, func(_ string, at time.Time) bool { return now.Sub(at) > rememberFor })
	a.last[node] = now
}

// silence returns the time since a node has last answered.
func (a *answers) silence(node string) (_ time.Duration, known bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at, known := a.last[node]
	return time.Since(at), known
}

// recent reports whether a node has answered within aliveFor.
func (a *answers) recent(node string) bool {
	silence, known := a.silence(node)
	return known && silence <= aliveFor
}
