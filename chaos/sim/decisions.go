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

// register holds a value that is replaced as a whole now and then.
type register[T any] struct {
	mu      sync.Mutex
	value   T             // never changed in place
	version uint64        // number of changes
	changed chan struct{} // closed at the next change
}

func newRegister[T any](value T, version uint64) *register[T] {
	return &register[T]{value: value, version: version, changed: make(chan struct{})}
}

func (r *register[T]) read() (value T, version uint64, changed <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, r.version, r.changed
}

// Watch returns the value, and a channel that is closed at the next change.
func (r *register[T]) Watch() (T, <-chan struct{}) {
	value, _, changed := r.read()
	return value, changed
}

func (r *register[T]) now() T {
	value, _, _ := r.read()
	return value
}

// change replaces the value by what next makes of it, unless next returns an error.
func (r *register[T]) change(next func(T) (T, error)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, err := next(r.value)
	if err == nil {
		r.set(value, r.version+1)
	}
	return err
}

// learn takes a value, unless the register has that version or a newer one.
func (r *register[T]) learn(value T, version uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if version > r.version {
		r.set(value, version)
	}
}

// set replaces the value. The caller holds the lock.
func (r *register[T]) set(value T, version uint64) {
	r.value, r.version = value, version
	close(r.changed)
	r.changed = make(chan struct{})
}

// decide makes an entry take effect if the state and the condition allow it, both at the same instant, and records new
// owners of slots. The control group, which decides in production, is not simulated: one state changes by one entry
// after the other. Each entry is judged by the code of production.
func (w *World) decide(entry *clusterpb.ControlEntry, may func() error) error {
	err := w.decisions.change(func(state *clusterpb.ControlState) (*clusterpb.ControlState, error) {
		if err := may(); err != nil {
			return nil, err
		}
		return control.Apply(state, entry)
	})
	if err == nil {
		w.seeOwners()
	}
	return err
}

// always is the condition of entries that any leader of the control group proposes.
func always() error { return nil }

// now returns the present decisions.
func (w *World) now() *clusterpb.ControlState { return w.decisions.now() }

// holders returns the nodes that hold a replica of a shard by the present decisions.
func (w *World) holders(id uint32) []*Node {
	placed := control.Shard(w.now(), id).GetReplicas()
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *Node) bool { return !slices.Contains(placed, n.name) })
}

// hearDecisions keeps the view of a process up to date for as long as the process lives. A decision comes newsTakes
// late at least, sometimes some seconds, and later while the process is frozen or reaches no other.
func (p *process) hearDecisions() {
	rng := p.world.rng("news of "+p.node.name, 0)
	for p.host.Life().Err() == nil {
		state, version, changed := p.world.decisions.read()
		if version > p.view.version {
			late := between(rng, newsLate)
			if rng.IntN(8) > 0 {
				late = min(late, 4*newsTakes)
			}
			if !p.host.Sleep(newsTakes+late) || !p.host.Gate() {
				return
			}
			if p.reaches(p.other(rng)) {
				p.view.learn(state, version)
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

// policies are the queue policies that one process knows, sorted by queue; nil: it knows none yet. It is a
// shard.Policies.
type policies struct {
	*register[[]*fsmpb.QueuePolicy]
}

// Policy returns the policy of a queue, or nil.
func (p policies) Policy(_, queue string) *fsmpb.QueuePolicy {
	for _, q := range p.now() {
		if q.Queue == queue {
			return q
		}
	}
	return nil
}

// Calendar returns none: the simulated clusters have no calendars.
func (p policies) Calendar(string, string) (*calendar.Calendar, uint64) { return nil, 0 }

// CalendarVersion returns the version of no calendar.
func (p policies) CalendarVersion(string, string) uint64 { return 0 }

// Watch returns all known policies, and a channel that is closed when they change.
func (p policies) Watch() (shard.Policed, <-chan struct{}) {
	queues, version, changed := p.read()
	return shard.Policed{Queues: queues, Version: version, Known: version > 0}, changed
}

// decidePolicy decides the policy of one queue.
func (w *World) decidePolicy(p *fsmpb.QueuePolicy) {
	w.note(w.decided.change(func(queues []*fsmpb.QueuePolicy) ([]*fsmpb.QueuePolicy, error) {
		same := func(q *fsmpb.QueuePolicy) bool { return q.Queue == p.Queue }
		queues = append(slices.DeleteFunc(slices.Clone(queues), same), p)
		slices.SortFunc(queues, func(a, b *fsmpb.QueuePolicy) int { return strings.Compare(a.Queue, b.Queue) })
		return queues, nil
	}))
}

// newsTakes is how long a decision takes to reach a node.
const newsTakes = 50 * time.Millisecond

// setPolicy decides a policy and sends it to every node that runs.
func (w *World) setPolicy(p *fsmpb.QueuePolicy) {
	w.decidePolicy(p)
	for _, n := range w.nodes {
		if p := n.running(); p != nil {
			w.wg.Go(p.hearPolicies)
		}
	}
}

func (p *process) hearPolicies() {
	if p.host.Sleep(newsTakes) && p.host.Gate() {
		queues, version, _ := p.world.decided.read()
		p.policies.learn(queues, version)
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
