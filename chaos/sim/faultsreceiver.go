package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

func (c *conductor) receiverDown(*rand.Rand, time.Duration) (history.Fault, func()) {
	return c.receiverIs(true, 0, 0)
}

func (c *conductor) receiverDeaf(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	return c.receiverIs(false, rng.Float64(), 0)
}

func (c *conductor) receiverSlow(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	return c.receiverIs(false, 0, between(rng, span(100*time.Millisecond, 20*time.Second)))
}

func (c *conductor) receiverIs(down bool, deaf float64, slow time.Duration) (history.Fault, func()) {
	r := c.world.receiver
	r.be(down, deaf, slow)
	return history.Fault{Detail: fmt.Sprintf("deaf %.2f, slow %v", deaf, slow)}, func() { r.be(false, 0, 0) }
}

func (c *conductor) pause(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	all := basePolicies()
	i := rng.IntN(len(all))
	paused, before := basePolicies()[i], all[i]
	paused.Paused = true
	c.world.setPolicy(paused)
	return history.Fault{Detail: paused.Queue}, func() { c.world.setPolicy(before) }
}
