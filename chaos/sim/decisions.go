package sim

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/shard"
)

// decisions is the state that the control group decides on in production. The group is not simulated: one state changes
// by one entry after the other. Each entry is judged by the code of production.
type decisions struct {
	mu      sync.Mutex
	state   *clusterpb.ControlState // never changed, only replaced
	changed chan struct{}           // closed at the next change
	version uint64                  // number of changes
}

func newDecisions(state *clusterpb.ControlState) *decisions {
	return &decisions{state: state, changed: make(chan struct{})}
}

// Watch returns the present state, and a channel that is closed at the next change.
func (d *decisions) Watch() (*clusterpb.ControlState, <-chan struct{}) {
	state, _, changed := d.watch()
	return state, changed
}

func (d *decisions) watch() (*clusterpb.ControlState, uint64, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.state, d.version, d.changed
}

// decide makes an entry take effect if the state and the condition may allow it. The condition is checked at the same
// instant.
func (d *decisions) decide(entry *clusterpb.ControlEntry, may func() error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := may(); err != nil {
		return err
	}
	next, err := control.Apply(d.state, entry)
	if err != nil {
		return err
	}
	d.state = next
	d.version++
	close(d.changed)
	d.changed = make(chan struct{})
	return nil
}

// decide makes an entry take effect if the state and the condition allow it, and records new owners of slots.
func (w *World) decide(entry *clusterpb.ControlEntry, may func() error) error {
	if err := w.decisions.decide(entry, may); err != nil {
		return err
	}
	w.seeOwners()
	return nil
}

// always is the condition of entries that any leader of the control group proposes.
func always() error { return nil }

// now returns the present decisions.
func (w *World) now() *clusterpb.ControlState {
	state, _ := w.decisions.Watch()
	return state
}

// holders returns the nodes that hold a replica of a shard by the present decisions.
func (w *World) holders(id uint32) []*Node {
	placed := control.Shard(w.now(), id).GetReplicas()
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *Node) bool { return !slices.Contains(placed, n.name) })
}

// view is the knowledge of one process of the decisions. It may be a little old.
type view struct {
	mu      sync.Mutex
	state   *clusterpb.ControlState
	version uint64
	changed chan struct{}
}

// newView returns the view of a process that starts. It has the present decisions: in production a node asks others for
// them before it opens replicas (package witness).
func (w *World) newView() *view {
	state, version, _ := w.decisions.watch()
	return &view{state: state, version: version, changed: make(chan struct{})}
}

// Watch returns the known state, and a channel that is closed when there is a newer one.
func (v *view) Watch() (*clusterpb.ControlState, <-chan struct{}) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.state, v.changed
}

func (v *view) now() *clusterpb.ControlState {
	state, _ := v.Watch()
	return state
}

// hear takes a state, unless the view has a newer one.
func (v *view) hear(state *clusterpb.ControlState, version uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if version <= v.version {
		return
	}
	v.state, v.version = state, version
	close(v.changed)
	v.changed = make(chan struct{})
}

// hearDecisions keeps the view of a process up to date for as long as the process lives. A decision comes newsTakes
// late at least, sometimes some seconds, and later while the process is frozen or reaches no other.
func (p *process) hearDecisions() {
	rng := p.world.rng("news of "+p.node.name, 0)
	for p.host.Life().Err() == nil {
		state, version, changed := p.world.decisions.watch()
		if version > p.view.version {
			late := between(rng, newsLate)
			if rng.IntN(8) > 0 {
				late = min(late, 4*newsTakes)
			}
			if !p.host.Sleep(newsTakes+late) || !p.host.Gate() {
				return
			}
			if p.reaches(p.other(rng)) {
				p.view.hear(state, version)
			}
			continue
		}
		select {
		case <-changed:
		case <-p.host.Life().Done():
		}
	}
}

// newsLate is how much later than newsTakes a decision may come. Seven in eight come soon.
var newsLate = span(time.Millisecond, 10*time.Second)

// isCurrent returns true: a view never goes back to an earlier state.
func isCurrent(*clusterpb.ControlState) bool { return true }

// seeOwners records which shards own which slots.
func (w *World) seeOwners() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.now().Slots {
		if o := (history.Owner{Shard: r.Shard, First: r.First, End: r.End}); !w.owners[o] {
			w.owners[o] = true
			w.rec.Owner(o)
		}
	}
}

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
