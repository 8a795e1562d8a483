package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/sim/internal/disk"
)

// disks puts all disks of the given nodes into a trouble. Mending gives them the calm trouble of the config.
func (c *conductor) disks(detail string, t disk.Trouble, nodes ...*Node) (history.Fault, func()) {
	f := c.about(detail, nodes...)
	set := func(t disk.Trouble) {
		for _, n := range nodes {
			for _, d := range n.files.all() {
				d.Set(t)
			}
		}
	}
	set(t)
	return f, func() { set(c.world.cfg.disk) }
}

func (c *conductor) slowDisk(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	t := c.world.cfg.disk
	t.Delay += between(rng, span(5*time.Millisecond, 2*time.Second))
	t.Jitter += time.Duration(rng.Int64N(int64(t.Delay)))
	return c.disks(fmt.Sprintf("%v and up to %v", t.Delay, t.Jitter), t, c.some(rng)...)
}

func (c *conductor) hungDisk(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	return c.disks("", disk.Trouble{Hang: true}, c.aLeader(rng))
}

func (c *conductor) failingDisk(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	t := c.world.cfg.disk
	t.Fail = 0.02 + rng.Float64()*0.3
	return c.disks(fmt.Sprintf("%.2f of writes", t.Fail), t, c.some(rng)...)
}
