package sim

import (
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
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
