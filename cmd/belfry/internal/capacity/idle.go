package capacity

import (
	"math"
	"time"

	"github.com/belfryhq/belfry/shard"
)

// Cluster is the part of a cluster's description that decides the traffic of its nodes without calls.
type Cluster struct {
	Nodes    int
	Leaders  float64 // shards that the node leads
	Replicas float64 // replicas that the node holds, the led ones included
	Copies   int     // replicas of each shard
	Peers    int     // nodes that share a shard with it
	Timing   shard.Timing
}

// Idle counts the exchanges that one node takes part in each second, as the asking or the answering side. The figure
// for the control group is that of its leader: every other node has one such exchange for each that the leader has
// with it.
type Idle struct {
	Beats    float64 `json:"beats"`    // heartbeats of shards
	Appends  float64 `json:"appends"`  // empty appends, by which followers of idle shards learn of the last commit
	Control  float64 `json:"control"`  // heartbeats and empty appends of the control group
	Clocks   float64 `json:"clocks"`   // questions for the time
	Compares float64 `json:"compares"` // questions for replicas' hashes
	Gossip   float64 `json:"gossip"`   // probes and exchanges of the mesh
	CPU      float64 `json:"cpu"`      // cores
	Bytes    float64 `json:"bytes"`    // a second, each way
}

// The Raft library sends at a timer of 1 to 2 times its setting, and so at 1.5 times on average. A shard's heartbeat
// then waits for the next multiple of half its setting, which makes 1.75 times.
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

// Idle returns the traffic and the processor time of a node without any calls.
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

// controlRate returns how often a second the control group's leader sends to one other node: see control.Config.
func controlRate(t shard.Timing) float64 {
	heartbeat := 2 * t.Heartbeat
	return perSecond(heartbeat/10, timerSpread) + perSecond(heartbeat/3, timerSpread)
}

// gossipRate returns the exchanges of gossip a second. They are a probe each second, asked and answered, and now and
// then an exchange of the whole state, which is rarer in a large mesh.
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
