package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/chaos/sim/internal/disk"
)

// conductor makes the faults of a course strike, and mends everything after each episode.
type conductor struct {
	world *World
	load  *driver

	mu       sync.Mutex
	networks int   // network faults under way
	struck   []int // numbers of this episode's faults in the record
}

// conduct plays the episodes of a course, each at its time, and returns when the last is over or the world ends.
func (c *conductor) conduct(of *course) {
	for _, e := range of.episodes {
		if !c.world.sleep(time.Until(of.begin.Add(e.at))) {
			return
		}
		c.play(e)
		c.heal()
		c.recover()
	}
}

func (c *conductor) play(e episode) {
	c.world.breaks(true)
	var wg sync.WaitGroup
	for _, s := range e.strikes {
		wg.Go(func() {
			if c.world.sleep(s.after) {
				c.strike(s)
			}
		})
	}
	wg.Wait()
}

// strike makes one fault strike, holds it for its time and mends it.
func (c *conductor) strike(s strike) {
	rng := rand.New(rand.NewPCG(s.seed, 1))
	fault, mend := s.kind.strike(c, rng, s.hold)
	fault.Kind = s.kind.name
	n := c.world.rec.Strike(fault)
	c.mu.Lock()
	c.struck = append(c.struck, n)
	c.mu.Unlock()
	c.world.sleep(s.hold)
	c.world.rec.Mending(n)
	mend()
}

// heal mends everything: network, receiver, queue policies, clocks, disks, frozen and dead processes.
func (c *conductor) heal() {
	w := c.world
	w.net.Heal()
	w.receiver.be(false, 0, 0)
	for _, p := range basePolicies() {
		w.setPolicy(p)
	}
	for _, n := range w.nodes {
		n.clock.set(0, 0)
		for _, d := range n.files.all() {
			d.Set(w.cfg.disk)
		}
		if p := n.running(); p != nil {
			p.host.Thaw()
		}
	}
	w.start()
	w.breaks(false)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.struck {
		w.rec.Mended(n)
	}
	c.struck, c.networks = nil, 0
}

// recover makes every shard that has slots take a write, and then compares the replicas. The check judges whether each
// shard took the write, and how soon.
func (c *conductor) recover() {
	w := c.world
	var wg sync.WaitGroup
	for _, s := range c.load.probed() {
		wg.Go(func() { c.probe(s.id, w.rng(s.id, int(s.shard))) })
	}
	wg.Wait()
	w.compare()
}

const probeDelay = 10 * 365 * 24 * time.Hour

// probe touches the task of one shard until a touch succeeds, for twice the recovery time at most.
func (c *conductor) probe(id string, rng *rand.Rand) {
	w := c.world
	end := time.Now().Add(2 * w.cfg.pace.recovery())
	for time.Now().Before(end) {
		touch := c.load.player.Touch(id, probeDelay, &load.Task{Delay: probeDelay})
		outcome, _ := c.load.call(w.ctx, c.load.anyNode(rng), w.cfg.pace.callTimeout()+time.Second, touch)
		if outcome == history.OK || !w.sleep(w.cfg.pace.heartbeat/10) {
			return
		}
	}
}

// breaks notes that an episode has begun (broken is true) or is over.
func (w *World) breaks(broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken, w.healed = broken, time.Now()
}

// excused reports whether a process may end itself with err: its disk has failed, or an episode or the recovery after
// it may keep the process from committing.
func (w *World) excused(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return disk.Ended(err) || w.broken || time.Since(w.healed) < w.cfg.pace.recovery()
}

// ended reports a problem if the process of n ended itself without an excuse, and starts the next process one
// heartbeat later.
func (w *World) ended(n *Node, err error) {
	if !w.excused(err) {
		w.problem("%s ended its process: %v", n.name, err)
	}
	w.wg.Go(func() {
		if w.sleep(w.cfg.pace.heartbeat) {
			n.start()
		}
	})
}
