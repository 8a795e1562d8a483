package consume

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/shard/dispatch/desk"
)

// arrivalsKept is how many leases of a shard a node remembers: more than a replica does of all nodes', so that what a
// leader asks for is not forgotten.
const arrivalsKept = 8192

// arrivals is what came to this node of one shard. A fence is of one lease only.
type arrivals struct {
	fences []uint64 // the last ones
	next   int      // the oldest of them, once there are as many as are kept

	// What a leader asked for last and had not come: it has given that back since. Later leases have higher fences.
	missed  map[uint64]bool
	highest uint64 // of missed
}

// take notes tasks that have come, and returns those that are to be taken.
func (a *arrivals) take(tasks []*fsmpb.Task) []*fsmpb.Task {
	tasks = slices.DeleteFunc(tasks, func(t *fsmpb.Task) bool { return t.Fence <= a.highest && a.missed[t.Fence] })
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

// arrivedWithin is how long a node may take to say what came to it.
const arrivedWithin = 300 * time.Millisecond

// Arrived asks all nodes, this one included, which of these leases of a shard came to them. A node that does not answer
// soon is left out.
func (p *Consumers) Arrived(ctx context.Context, shard uint32, fences []uint64) []desk.Arrivals {
	ctx, cancel := context.WithTimeout(ctx, arrivedWithin)
	defer cancel()
	nodes := p.cfg.State().Nodes
	answers := make([]desk.Arrivals, len(nodes))
	var asked sync.WaitGroup
	for i, n := range nodes {
		asked.Go(func() {
			var err error
			if n.Id == p.cfg.Self {
				answers[i] = p.ArrivedHere(shard, fences)
			} else if answers[i], err = p.cfg.Arrived(ctx, n.Id, shard, fences); err != nil {
				p.cfg.Logger.Debug("a node did not say what came to it", "node", n.Id, "shard", shard, "err", err)
			}
		})
	}
	asked.Wait()
	return slices.DeleteFunc(answers, func(a desk.Arrivals) bool { return a.Holder == 0 })
}

// ArrivedHere says which of these leases of a shard came to this node. The others will not be taken.
func (p *Consumers) ArrivedHere(shard uint32, fences []uint64) desk.Arrivals {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.arrivals(shard)
	here := make(map[uint64]bool, len(a.fences))
	for _, fence := range a.fences {
		here[fence] = true
	}
	answer := desk.Arrivals{Holder: p.holder}
	a.missed, a.highest = make(map[uint64]bool), 0
	for _, fence := range fences {
		if here[fence] {
			answer.Fences = append(answer.Fences, fence)
		} else {
			a.missed[fence], a.highest = true, max(a.highest, fence)
		}
	}
	return answer
}

func (p *Consumers) arrivals(shard uint32) *arrivals {
	a := p.arrived[shard]
	if a == nil {
		a = &arrivals{}
		p.arrived[shard] = a
	}
	return a
}
