package capacity

import (
	"math"
	"time"

	"github.com/belfryhq/belfry/shard"
)

// Cluster is as much of one as decides what its nodes say to each other when nothing happens.
type Cluster struct {
	Nodes    int
	Leaders  float64 // shards that the node leads
	Replicas float64 // that it holds, those included
	Copies   int     // replicas of each shard
	Peers    int     // nodes that share a shard with it
	Timing   shard.Timing
}

// Idle is what one node takes part in each second, as the one who asks or the one who answers. The control group's
// part is its leader's: the other nodes have one such exchange where it has one with each of them.
type Idle struct {
	Beats    float64 `json:"beats"`    // heartbeats of shards
	Appends  float64 `json:"appends"`  // empty appends, by which followers of idle shards hear of the last commit
	Control  float64 `json:"control"`  // heartbeats and empty appends of the control group
	Clocks   float64 `json:"clocks"`   // questions for the time
	Compares float64 `json:"compares"` // questions for replicas' hashes
	Gossip   float64 `json:"gossip"`   // probes and exchanges of the mesh
	CPU      float64 `json:"cpu"`      // cores
	Bytes    float64 `json:"bytes"`    // a second, each way
}

// How the library spaces what it sends: a timer of 1 to 2 times its setting, and so 1.5 on average; a shard's heartbeat
// then waits for the next multiple of half its setting, which makes 1.75.
const (
	timerSpread = 1.5
	beatSpread  = 1.75
)

// Intervals of the mesh (package gossip) and of the questions (packages clocks, compare).
const (
	probeEvery    = time.Second
	pushPullEvery = 15 * time.Second
	askEvery      = time.Second
)

// Idle is what a node does when nothing is asked of it.
func (c *Costs) Idle(cl Cluster) Idle {
	follows := cl.Replicas - cl.Leaders
	links := cl.Leaders*float64(cl.Copies-1) + follows // from leaders to followers
	others := float64(cl.Nodes - 1)
	i := Idle{
		Beats:    links * perSecond(cl.Timing.Beat, beatSpread),
		Appends:  links * perSecond(cl.Timing.Commit, timerSpread),
		Control:  others * controlRate(cl.Timing),
		Clocks:   2 * others * perSecond(askEvery, 1),
		Compares: 2 * float64(min(cl.Peers, cl.Nodes-1)) * perSecond(askEvery, 1),
		Gossip:   gossipRate(cl.Nodes),
	}
	rafts := i.Beats + i.Appends + i.Control
	asks := i.Clocks + i.Compares + i.Gossip
	i.CPU = (c.of(idleCPU) + rafts*c.of(beatCPU) + asks*c.of(pingCPU)) / 1e6
	i.Bytes = (rafts*c.of(beatNetwork) + asks*c.of(pingNetwork)) / 2
	return i
}

// controlRate is how often the control group's leader turns to one other node: see control.Config.
func controlRate(t shard.Timing) float64 {
	heartbeat := 2 * t.Heartbeat
	return perSecond(heartbeat/10, timerSpread) + perSecond(heartbeat/3, timerSpread)
}

// gossipRate: a probe each second, asked and answered, and now and then all that is known, less often in a large mesh.
func gossipRate(nodes int) float64 {
	if nodes < 2 {
		return 0
	}
	scale := 1.0
	if nodes > 32 {
		scale = math.Ceil(math.Log2(float64(nodes))-math.Log2(32)) + 1
	}
	return 2 * (perSecond(probeEvery, 1) + perSecond(pushPullEvery, scale))
}

func perSecond(every time.Duration, spread float64) float64 {
	return 1 / (spread * every.Seconds())
}
