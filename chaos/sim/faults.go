package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/sim/internal/disk"
	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
	"github.com/belfryhq/belfry/internal/wait"
)

// kind is a kind of fault. strike breaks something without waiting, and returns a description of the fault and the
// function that mends it.
type kind struct {
	name   string
	strike func(c *conductor, rng *rand.Rand, hold time.Duration) (f history.Fault, mend func())
}

var kinds = []kind{
	{history.KillLeader, (*conductor).crashLeader},
	{"crash of a node", (*conductor).crashAny},
	{"crash loop of a node", (*conductor).crashLoop},
	{history.KillAll, (*conductor).crashAll},
	{"restart in order", (*conductor).restart},
	{"leader cut off", (*conductor).isolateLeader},
	{"split", (*conductor).split},
	{"one way cut", (*conductor).oneWay},
	{"two nodes apart", (*conductor).bridge},
	{"flaky network", (*conductor).flaky},
	{"slow network", (*conductor).slowNetwork},
	{"slow disk", (*conductor).slowDisk},
	{"hung disk", (*conductor).hungDisk},
	{"failing disk", (*conductor).failingDisk},
	{"clock set", (*conductor).setClock},
	{"clocks that drift", (*conductor).drift},
	{"leadership moved", (*conductor).move},
	{"node that hangs", (*conductor).freeze},
	{"receiver down", (*conductor).receiverDown},
	{"receiver deaf", (*conductor).receiverDeaf},
	{"receiver slow", (*conductor).receiverSlow},
	{"queue paused", (*conductor).pause},
}

// faultAt returns a fault that strikes the given nodes, with the shards that they lead now.
func (c *conductor) faultAt(detail string, nodes ...*Node) history.Fault {
	f := history.Fault{Detail: detail, Shards: c.world.ledBy(nodes...)}
	for _, n := range nodes {
		f.Nodes = append(f.Nodes, n.name)
	}
	return f
}

func (c *conductor) any(rng *rand.Rand) *Node { return c.world.nodes[rng.IntN(len(c.world.nodes))] }

// aLeader returns the leader of a random shard, or a random node if that shard has no leader.
func (c *conductor) aLeader(rng *rand.Rand) *Node {
	if n := c.world.leader(1 + rng.Uint32N(uint32(c.world.cfg.Shards))); n != nil {
		return n
	}
	return c.any(rng)
}

// some returns a random, non-empty set of nodes.
func (c *conductor) some(rng *rand.Rand) []*Node {
	nodes := slices.Clone(c.world.nodes)
	rng.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	return nodes[:1+rng.IntN(len(nodes))]
}

func (c *conductor) crashLeader(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	return c.crash(c.aLeader(rng))
}

func (c *conductor) crashAny(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	return c.crash(c.any(rng))
}

func (c *conductor) crashAll(*rand.Rand, time.Duration) (history.Fault, func()) {
	return c.crash(c.world.nodes...)
}

func (c *conductor) crash(nodes ...*Node) (history.Fault, func()) {
	f := c.faultAt("", nodes...)
	for _, n := range nodes {
		n.crash()
	}
	return f, func() {
		for _, n := range nodes {
			n.start()
		}
	}
}

// inBackground runs do for as long as a fault lasts, hold at most. mend ends do and waits for its return.
func (c *conductor) inBackground(hold time.Duration, do func(ctx context.Context)) (mend func()) {
	ctx, cancel := context.WithTimeout(c.world.ctx, hold)
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// crashLoop crashes a node and starts it again several times. Each process runs for a short while only.
func (c *conductor) crashLoop(rng *rand.Rand, hold time.Duration) (history.Fault, func()) {
	n, times := c.any(rng), 2+rng.IntN(5)
	f := c.faultAt(fmt.Sprintf("%d times", times), n)
	n.crash()
	return f, c.inBackground(hold, func(ctx context.Context) {
		for range times {
			wait.For(ctx, time.Duration(rng.Int64N(int64(hold)))/time.Duration(times))
			n.start()
			wait.For(ctx, time.Duration(rng.Int64N(int64(hold)))/time.Duration(times))
			n.crash()
		}
		n.start()
	})
}

func (c *conductor) restart(rng *rand.Rand, hold time.Duration) (history.Fault, func()) {
	n := c.any(rng)
	return c.faultAt("", n), c.inBackground(hold, func(ctx context.Context) {
		n.stop(ctx)
		n.start()
	})
}

// move transfers leaderships to random nodes a few times, as an operator would.
func (c *conductor) move(rng *rand.Rand, hold time.Duration) (history.Fault, func()) {
	return c.faultAt("", c.world.nodes...), c.inBackground(hold, func(ctx context.Context) {
		for range 1 + rng.IntN(4) {
			from, to := c.aLeader(rng), c.any(rng)
			if p := from.running(); p != nil {
				for _, r := range p.all() {
					_ = r.shard.Transfer(ctx, to.name) // a transfer that fails changes nothing
				}
			}
			if !wait.For(ctx, time.Duration(rng.Int64N(int64(hold)))/4) {
				return
			}
		}
	})
}

func (c *conductor) freeze(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	n := c.aLeader(rng)
	return c.faultAt("", n), n.hang()
}

// network changes ways of the network. Ways turn calm again only when the last network fault under way is mended.
func (c *conductor) network(detail string, change func(set func(from, to *Node, q wire.Quality)), nodes ...*Node) (
	history.Fault, func()) {
	f := c.faultAt(detail, nodes...)
	f.Spared = true
	c.mu.Lock()
	c.networks++
	c.mu.Unlock()
	change(func(from, to *Node, q wire.Quality) { c.world.net.Set(from.name, to.name, q) })
	return f, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.networks--; c.networks == 0 {
			c.world.net.Heal()
		}
	}
}

var cut = wire.Quality{Cut: true}

func (c *conductor) isolateLeader(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	n := c.aLeader(rng)
	return c.network(n.name, func(set func(from, to *Node, q wire.Quality)) {
		for _, other := range c.world.nodes {
			set(n, other, cut)
			set(other, n, cut)
		}
	}, n)
}

func (c *conductor) split(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	side := c.some(rng)
	return c.network(fmt.Sprint(names(side)), func(set func(from, to *Node, q wire.Quality)) {
		for _, a := range side {
			for _, b := range c.world.nodes {
				if !slices.Contains(side, b) {
					set(a, b, cut)
					set(b, a, cut)
				}
			}
		}
	}, c.world.nodes...)
}

func names(nodes []*Node) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.name)
	}
	return all
}

// oneWay cuts all ways to a node, or all ways from it.
func (c *conductor) oneWay(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	n, in := c.aLeader(rng), rng.IntN(2) == 0
	if rng.IntN(2) == 0 {
		n = c.any(rng)
	}
	return c.network(fmt.Sprintf("%s, in %v", n.name, in), func(set func(from, to *Node, q wire.Quality)) {
		for _, other := range c.world.nodes {
			if in {
				set(other, n, cut)
			} else {
				set(n, other, cut)
			}
		}
	}, c.world.nodes...)
}

// bridge cuts two nodes apart. The other nodes still reach both.
func (c *conductor) bridge(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	a, b := c.any(rng), c.any(rng)
	return c.network(a.name+"-"+b.name, func(set func(from, to *Node, q wire.Quality)) {
		set(a, b, cut)
		set(b, a, cut)
	}, c.world.nodes...)
}

func (c *conductor) flaky(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	q := c.world.net.Calm()
	q.Loss, q.Duplicate, q.Late = rng.Float64()*0.3, rng.Float64()*0.3, rng.Float64()*0.1
	q.Jitter += time.Duration(rng.IntN(200)) * time.Millisecond
	q.Lateness = between(rng, span(10*time.Millisecond, 4*c.world.cfg.pace.heartbeat))
	detail := fmt.Sprintf("loss %.2f, twice %.2f, late %.2f by %v", q.Loss, q.Duplicate, q.Late, q.Lateness)
	return c.everyWay(rng, detail, q)
}

func (c *conductor) slowNetwork(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	q := c.world.net.Calm()
	q.Delay += between(rng, span(5*time.Millisecond, time.Second))
	q.Jitter += time.Duration(rng.Int64N(int64(q.Delay)))
	return c.everyWay(rng, fmt.Sprintf("%v and up to %v", q.Delay, q.Jitter), q)
}

// everyWay gives the quality q to all ways, or to about half of them.
func (c *conductor) everyWay(rng *rand.Rand, detail string, q wire.Quality) (history.Fault, func()) {
	all := rng.IntN(2) == 0
	return c.network(detail, func(set func(from, to *Node, q wire.Quality)) {
		for _, a := range c.world.nodes {
			for _, b := range c.world.nodes {
				if all || rng.IntN(2) == 0 {
					set(a, b, q)
				}
			}
		}
	}, c.world.nodes...)
}

// disks puts all disks of the given nodes into a trouble. Mending gives them the calm trouble of the config.
func (c *conductor) disks(detail string, t disk.Trouble, nodes ...*Node) (history.Fault, func()) {
	f := c.faultAt(detail, nodes...)
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

func (c *conductor) setClock(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	n, by := c.any(rng), between(rng, span(10*time.Millisecond, 3*time.Hour))
	if rng.IntN(2) == 0 {
		n = c.aLeader(rng)
	}
	if rng.IntN(2) == 0 {
		by = -by
	}
	f := c.faultAt(fmt.Sprintf("by %v", by), n)
	f.Skew, f.Alone = by, len(c.world.nodes) == 1 || n.votesAlone()
	n.clock.set(by, 0)
	return f, func() { n.clock.set(0, 0) }
}

// votesAlone reports whether a replica on the node is the only voter of its shard, so that no other node checks its
// clock. That happens where shards move.
func (n *Node) votesAlone() bool {
	p := n.running()
	return p != nil && slices.ContainsFunc(p.all(), func(r replica) bool { return len(r.shard.Voters()) == 1 })
}

// driftsBy is the largest drift of a clock from true time before the clocks are set right. The cluster bears it
// without a change of leader.
const driftsBy = 100 * time.Millisecond

// drift lets the clocks run apart slowly, as they do without a time daemon.
func (c *conductor) drift(rng *rand.Rand, hold time.Duration) (history.Fault, func()) {
	f := c.faultAt("", c.world.nodes...)
	f.Skew = driftsBy
	most := min(500, 1e6*driftsBy.Seconds()/hold.Seconds())
	for _, n := range c.world.nodes {
		n.clock.set(0, most*(2*rng.Float64()-1))
	}
	return f, func() {
		for _, n := range c.world.nodes {
			n.clock.set(0, 0)
		}
	}
}

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
	r.behave(down, deaf, slow)
	return history.Fault{Detail: fmt.Sprintf("deaf %.2f, slow %v", deaf, slow)}, func() { r.behave(false, 0, 0) }
}

func (c *conductor) pause(rng *rand.Rand, _ time.Duration) (history.Fault, func()) {
	all := basePolicies()
	i := rng.IntN(len(all))
	paused, before := basePolicies()[i], all[i]
	paused.Paused = true
	c.world.setPolicy(paused)
	return history.Fault{Detail: paused.Queue}, func() { c.world.setPolicy(before) }
}
