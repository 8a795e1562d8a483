package sim

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/shard"
)

// decided is the queues' policies as the cluster has decided them. The control group, which does that in production, is
// not simulated: what it would send reaches each node after a while.
type decided struct {
	mu      sync.Mutex
	queues  []*fsmpb.QueuePolicy // sorted; never changed in place
	version uint64
}

// set decides a queue's policy.
func (d *decided) set(p *fsmpb.QueuePolicy) {
	d.mu.Lock()
	defer d.mu.Unlock()
	queues := slices.DeleteFunc(slices.Clone(d.queues), func(q *fsmpb.QueuePolicy) bool { return q.Queue == p.Queue })
	queues = append(queues, p)
	slices.SortFunc(queues, func(a, b *fsmpb.QueuePolicy) int { return strings.Compare(a.Queue, b.Queue) })
	d.version++
	d.queues = queues
}

func (d *decided) get() ([]*fsmpb.QueuePolicy, uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.queues, d.version
}

// policies is what one process knows of them. It is a shard.Policies.
type policies struct {
	mu      sync.Mutex
	policed shard.Policed
	changed chan struct{}
}

func newPolicies() *policies { return &policies{changed: make(chan struct{})} }

// hear takes what has been decided, unless something newer is known.
func (p *policies) hear(queues []*fsmpb.QueuePolicy, version uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.policed.Known && version <= p.policed.Version {
		return
	}
	p.policed = shard.Policed{Queues: queues, Version: version, Known: true}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Policy looks one up.
func (p *policies) Policy(_, queue string) *fsmpb.QueuePolicy {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, q := range p.policed.Queues {
		if q.Queue == queue {
			return q
		}
	}
	return nil
}

// Watch returns all.
func (p *policies) Watch() (shard.Policed, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.policed, p.changed
}

// newsTakes is how long what has been decided is on its way to a node.
const newsTakes = 50 * time.Millisecond

// setPolicy decides, and tells every node that runs.
func (w *World) setPolicy(p *fsmpb.QueuePolicy) {
	w.decided.set(p)
	for _, n := range w.nodes {
		if p := n.running(); p != nil {
			w.wg.Go(p.hearPolicies)
		}
	}
}

func (p *process) hearPolicies() {
	if p.host.Sleep(newsTakes) && p.host.Gate() {
		p.policies.hear(p.world.decided.get())
	}
}
