package sim

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/shard"
)

// decided holds the queue policies that the cluster has decided. The control group decides them in production and is
// not simulated. Each node hears of a decision newsTakes later.
type decided struct {
	mu      sync.Mutex
	queues  []*fsmpb.QueuePolicy // sorted by queue; never changed in place
	version uint64
}

// set decides the policy of one queue.
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

// policies are the queue policies that one process knows. It is a shard.Policies.
type policies struct {
	mu      sync.Mutex
	policed shard.Policed
	changed chan struct{}
}

func newPolicies() *policies { return &policies{changed: make(chan struct{})} }

// hear takes the given policies, unless the process knows the same version or a newer one.
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

// Policy returns the policy of a queue, or nil.
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

// Calendar returns none: the simulated clusters have no calendars.
func (p *policies) Calendar(string, string) (*calendar.Calendar, uint64) { return nil, 0 }

// CalendarVersion returns the version of no calendar.
func (p *policies) CalendarVersion(string, string) uint64 { return 0 }

// Watch returns all known policies, and a channel that is closed when they change.
func (p *policies) Watch() (shard.Policed, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.policed, p.changed
}

// newsTakes is how long a decision takes to reach a node.
const newsTakes = 50 * time.Millisecond

// setPolicy decides a policy and sends it to every node that runs.
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

// pushedQueues are the queues whose policies name a target. Their tasks name none.
var pushedQueues = []string{"hooks", "narrow", "rated", "batched"}

// basePolicies returns new copies of the queue policies of an undisturbed cluster.
func basePolicies() []*fsmpb.QueuePolicy {
	pushed := func(p *fsmpb.QueuePolicy) *fsmpb.QueuePolicy {
		p.Target = &fsmpb.Target{Url: target, TimeoutMs: 5000}
		p.Retry = &fsmpb.Retry{MinBackoffMs: 200, MaxBackoffMs: 60_000}
		return p
	}
	return []*fsmpb.QueuePolicy{
		pushed(&fsmpb.QueuePolicy{Queue: pushedQueues[0]}),
		pushed(&fsmpb.QueuePolicy{Queue: pushedQueues[1], MaxInFlight: 2}),
		pushed(&fsmpb.QueuePolicy{Queue: pushedQueues[2], MaxPerSecond: 3}),
		pushed(&fsmpb.QueuePolicy{Queue: pushedQueues[3], BatchMax: 8}),
		{Queue: pulledQueue, Retry: &fsmpb.Retry{MaxAttempts: 50, MinBackoffMs: 100, MaxBackoffMs: 60_000}},
	}
}
