package sim

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/chaos/sim/internal/disk"
)

// course lists the faults of a run and their times. All of it is drawn before the load, so that the load can aim at
// the faults.
type course struct {
	begin    time.Time
	episodes []episode
	shifts   []shift         // operations on slots, in rising order
	moments  []time.Duration // after begin: of each strike and each mending, in rising order
}

// episode is one to three faults that overlap. All of them are mended when it ends.
type episode struct {
	at, until time.Duration // after begin
	strikes   []strike
}

// strike is one fault of an episode.
type strike struct {
	kind  kind
	after time.Duration // after the episode's beginning
	hold  time.Duration
	seed  uint64 // of the fault's own choices
}

// drawCourse draws the course of a run.
func drawCourse(cfg Config, rng *rand.Rand) *course {
	c := &course{}
	var own []kind
	for _, k := range kinds {
		if slices.Contains(cfg.Faults, k.name) {
			own = append(own, k)
		}
	}
	p := cfg.pace
	if len(own) == 0 {
		return c
	}
	for at := between(rng, p.calm); at < cfg.Span; at += p.recovery() + between(rng, p.calm) {
		e := drawEpisode(rng, p, own)
		e.at = at
		at += e.until
		e.until = at
		c.add(e)
	}
	slices.Sort(c.moments)
	return c
}

// drawEpisode draws an episode that begins at 0, from the kinds in own.
func drawEpisode(rng *rand.Rand, p pace, own []kind) episode {
	var e episode
	for range 1 + max(0, rng.IntN(6)-3) {
		s := strike{kind: own[rng.IntN(len(own))], hold: between(rng, p.hold), seed: rng.Uint64()}
		if len(e.strikes) > 0 {
			s.after = time.Duration(rng.Int64N(int64(e.until)))
		}
		e.strikes = append(e.strikes, s)
		e.until = max(e.until, s.after+s.hold)
	}
	return e
}

func (c *course) add(e episode) {
	c.episodes = append(c.episodes, e)
	for _, s := range e.strikes {
		c.moments = append(c.moments, e.at+s.after, e.at+s.after+s.hold)
	}
}

// conductor makes the faults of a course strike, and mends everything after each episode.
type conductor struct {
	world *World
	load  *driver

	mu       sync.Mutex
	networks int   // network faults under way
	struck   []int // numbers of this episode's faults in the record
}

// conduct plays the episodes of a course, each at its time, and returns when the last is over or the world ends.
func (c *conductor) conduct(course *course) {
	for _, e := range course.episodes {
		if !c.world.sleep(time.Until(course.begin.Add(e.at))) {
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
	w.receiver.behave(false, 0, 0)
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
