package consume

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// arrivalsKept is the number of leases of a shard that a node remembers. A replica remembers fewer, of all nodes
// together, so a node remembers every lease that a leader asks about.
const arrivalsKept = 8192

// arrivals records the fences of the leases of one shard that reached this node. No two leases share a fence.
type arrivals struct {
	fences []uint64 // the newest fences
	next   int      // index of the oldest fence, once arrivalsKept fences are recorded

	// missed has the fences that a leader asked about and that had not arrived: it may have given these leases back
	// since. It asks again only about the leases of nodes that did not answer, so each question adds to the set. The
	// leader that granted a lease may hand it over long after, when its process was stopped meanwhile.
	missed  map[uint64]bool
	highest uint64 // highest fence in missed; leases that are granted after the question have higher fences
	barred  uint64 // no lease with a fence up to this one is taken: highest, when missed was full and cleared
}

// take records the fences of tasks that have arrived. It returns the tasks without those that a leader has given back.
func (a *arrivals) take(tasks []*fsmpb.Task) []*fsmpb.Task {
	tasks = slices.DeleteFunc(tasks, func(t *fsmpb.Task) bool {
		return t.Fence <= a.barred || t.Fence <= a.highest && a.missed[t.Fence]
	})
	for _, t := range tasks {
		if len(a.fences) < arrivalsKept {
			a.fences = append(a.fences, t.Fence)
			continue
		}
		a.fences[a.next] = t.Fence
		a.next = (a.next + 1) % arrivalsKept
	}
	return tasks
}

// ask returns which of these leases have arrived. The others are not taken any more.
func (a *arrivals) ask(fences []uint64) (arrived []uint64) {
	here := make(map[uint64]bool, len(a.fences))
	for _, fence := range a.fences {
		here[fence] = true
	}
	var missed []uint64
	for _, fence := range fences {
		if here[fence] {
			arrived = append(arrived, fence)
		} else {
			missed = append(missed, fence)
		}
	}
	if a.missed == nil || len(a.missed)+len(missed) > arrivalsKept {
		a.missed, a.barred = make(map[uint64]bool), a.highest
	}
	for _, fence := range missed {
		a.missed[fence], a.highest = true, max(a.highest, fence)
	}
	return arrived
}

// arrivedWithin is how long a node may take to answer which leases reached it.
const arrivedWithin = 300 * time.Millisecond

// Arrived asks all nodes, this one included, which of these leases of a shard reached them. It leaves out a node that
// fails or does not answer within arrivedWithin.
func (p *Consumers) Arrived(ctx context.Context, shard uint32, fences []uint64) []desk.Arrivals {
	ctx, cancel := context.WithTimeout(ctx, arrivedWithin)
	defer cancel()
	nodes := p.cfg.Control.State().Nodes
	answers := make([]desk.Arrivals, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() {
			var err error
			if n.Id == p.cfg.Self {
				answers[i] = p.ArrivedHere(shard, fences)
			} else if answers[i], err = p.cfg.Nodes.Arrived(ctx, n.Id, shard, fences); err != nil {
				p.cfg.Logger.Debug("a node did not say what came to it", "node", n.Id, "shard", shard, "err", err)
			}
		})
	}
	asked.Wait()
	return slices.DeleteFunc(answers, func(a desk.Arrivals) bool { return a.Holder == 0 })
}

// ArrivedHere returns which of these leases of a shard reached this node. The node will not take the others.
func (p *Consumers) ArrivedHere(shard uint32, fences []uint64) desk.Arrivals {
	p.mu.Lock()
	defer p.mu.Unlock()
	return desk.Arrivals{Holder: p.holder, Fences: p.arrivals(shard).ask(fences)}
}

func (p *Consumers) arrivals(shard uint32) *arrivals {
	a := p.arrived[shard]
	if a == nil {
		a = &arrivals{}
		p.arrived[shard] = a
	}
	return a
}
