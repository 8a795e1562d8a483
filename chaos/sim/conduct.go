package sim

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/sim/disk"
)

// conductor breaks things along a course, and sees to it that all is mended after each episode.
type conductor struct {
	world *World
	load  *driver

	mu       sync.Mutex
	networks int   // faults of the network under way
	struck   []int // recorded faults of this episode
}

// conduct plays the course to its end.
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

// strike has one fault strike, holds it, and has it mended.
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

// heal makes everything as it should be.
func (c *conductor) heal() {
	w := c.world
	w.net.Heal()
	w.receiver.be(false, 0, 0)
	for _, p := range basePolicies() {
		w.setPolicy(p)
	}
	for _, n := range w.nodes {
		n.clock.set(0, 0)
		for _, d := range n.disks {
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

// recover has every shard take a write: that it does, and how soon, is for the check.
func (c *conductor) recover() {
	w := c.world
	var wg sync.WaitGroup
	for shard, id := range c.load.probes {
		wg.Go(func() { c.probe(id, w.rng(id, int(shard))) })
	}
	wg.Wait()
	w.compare()
}

const probeDelay = 10 * 365 * 24 * time.Hour

// probe writes until a write succeeds.
func (c *conductor) probe(id string, rng *rand.Rand) {
	w := c.world
	end := time.Now().Add(2 * w.cfg.pace.recovery())
	for time.Now().Before(end) {
		touch := c.load.player.Touch(id, probeDelay, nil)
		outcome, _ := c.load.call(w.ctx, c.load.anyNode(rng), w.cfg.pace.callTimeout()+time.Second, touch)
		if outcome == history.OK || !w.sleep(w.cfg.pace.heartbeat/10) {
			return
		}
	}
}

// breaks notes that an episode begins or is over.
func (w *World) breaks(broken bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken, w.healed = broken, time.Now()
}

// excused tells whether a process may end itself: its disk has failed, or what is broken keeps it from committing
// anything.
func (w *World) excused(err error) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return disk.Ended(err) || w.broken || time.Since(w.healed) < w.cfg.pace.recovery()
}

// ended notes that a process has ended itself, and has the next one started after a while.
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
