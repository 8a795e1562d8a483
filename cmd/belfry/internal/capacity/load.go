package capacity

import (
	"math"
	"time"

	"github.com/belfryhq/belfry/shard"
)

// These are properties of the code.
const (
	inlineID       = 24       // bytes of an id that fit into its record
	snapshotLeast  = 32 << 20 // bytes of log that make a snapshot due, if the state is smaller
	snapshotsKept  = 2
	segmentBytes   = 8 << 20 // least bytes of one file of a log
	pendingBytes   = 16 << 20
	entryCommands  = 1024 // most commands in one entry
	entryBytes     = 128 << 10
	logCached      = 2 * entryBytes // bytes of its newest entries that a replica keeps in memory
	recordBytes    = 128            // bytes of a task that are copied if it changes while a snapshot is written
	opened         = 4              // replicas that a starting node reads at a time
	advances       = 100            // most advances of a shard a second, while tasks come due
	tombstonesPart = 0.1            // share of the memory limit for the tombstones of all replicas together
	limitPart      = 0.75           // share of a machine's memory that is a node's limit by default
	fullPart       = 0.75           // share of the limit from which a node takes no more tasks
)

// perShard is the load and the state of one shard.
type perShard struct {
	tasks, tombstones        float64
	unbounded                float64 // tombstones that keep_done would need without a bound
	schedules, fires, cancel float64 // a second
	entries                  float64 // a second
	commandBytes             float64 // a second, in the log, without the overhead of entries
	log                      float64 // bytes a second
	state, snapshot          float64 // bytes
}

func (c *Costs) perShard(w Workload, m Machine, shape shape) perShard {
	shards := float64(shape.shards())
	s := perShard{tasks: w.Tasks / shards, schedules: w.Rate / shards, fires: w.Fires / shards,
		cancel: w.cancels() / shards}
	s.unbounded = (s.fires + s.cancel) * w.KeepDone.Seconds()
	tombstone := c.value(tombstoneMemory) + c.longID(w) + c.labels(w)
	s.tombstones = min(s.unbounded, m.Memory*limitPart*tombstonesPart/float64(shape.replicas())/tombstone)
	s.state = s.tasks*c.taskBytes(w) + s.tombstones*tombstone
	entombed := w
	entombed.Payload = 0
	s.snapshot = s.tasks*(c.value(taskSnapshot)+c.content(w)) + s.tombstones*(c.value(taskSnapshot)+c.content(entombed))
	s.entries = c.entries(s.commands() + min(s.fires, advances))
	s.commandBytes = s.schedules*(c.value(scheduleLog)+c.content(w)) +
		(s.fires+s.cancel)*(c.value(fireLog)+float64(w.ID))
	s.log = s.commandBytes + s.entries*c.value(entryLog)
	return s
}

func (s perShard) commands() float64 { return s.schedules + s.fires + s.cancel }

// entries returns the entries a second of a shard. Commands that arrive during a commit form the next entry, so there
// is never more than one entry in the time of a commit.
func (c *Costs) entries(wanted float64) float64 { return wanted / (1 + wanted*c.value(commitSeconds)) }

// taskBytes returns the bytes that a pending task takes in the memory of each replica.
func (c *Costs) taskBytes(w Workload) float64 {
	return c.value(taskMemory) + c.value(keyMemory) + c.value(blobRounding)*float64(w.Payload) + c.longID(w) + c.labels(w)
}

// labels returns the bytes that the labels of a task take in memory.
func (c *Costs) labels(w Workload) float64 { return c.value(labelMemory) * float64(w.Labels) }

// content returns the bytes of a task's content in the log, in a snapshot and on its way: id, payload and labels.
func (c *Costs) content(w Workload) float64 {
	return float64(w.ID+w.Payload) + c.value(labelBytes)*float64(w.Labels)
}

func (c *Costs) longID(w Workload) float64 {
	if w.ID <= inlineID {
		return 0
	}
	return c.value(longIDMemory) + c.value(blobRounding)*float64(w.ID)
}

// Part is one use of a resource.
type Part struct {
	What  string  `json:"what"`
	Value float64 `json:"value"`
}

func sum(parts []Part) float64 {
	total := 0.0
	for _, p := range parts {
		total += p.Value
	}
	return total
}

// node is the busiest node, on an ordinary day or after a loss.
type node struct {
	costs    *Costs
	work     Workload
	shard    perShard
	nodes    float64 // nodes that are up
	leads    float64 // shards
	replicas float64
	copies   float64 // of each shard
	idle     Idle
}

func (c *Costs) nodeOf(w Workload, m Machine, s shape, lost int, leads float64) node {
	n := node{
		costs: c, work: w, shard: c.perShard(w, m, s), nodes: float64(s.nodes - lost), leads: leads,
		replicas: float64(s.replicas()), copies: float64(s.copies()),
	}
	n.idle = c.Idle(Cluster{
		Nodes: s.nodes, Leaders: leads, Replicas: n.replicas, Copies: s.copies(), Peers: 2 * (s.copies() - 1),
		Timing: shard.LAN(),
	})
	return n
}

func (n node) follows() float64 { return n.replicas - n.leads }

func (n node) memory() []Part {
	c, s := n.costs, n.shard
	grown := c.value(garbage)
	tasks := s.tasks * c.taskBytes(n.work)
	writing := s.snapshot / c.value(snapshotRate) // seconds
	return []Part{
		{"tasks", n.replicas * tasks * grown},
		{"tombstones", n.replicas * (s.state - tasks) * grown},
		{"snapshot being written", s.tasks*recordBytes + writing*(s.fires+s.cancel)*float64(n.work.Payload)},
		{"calls that wait", n.leads * pendingBytes},
		{"groups and their log caches", n.replicas * (c.value(groupMemory) + logCached)},
		{"the process", c.value(nodeMemory)},
	}
}

// cpu returns the uses of the processor, in cores.
func (n node) cpu() []Part {
	c, s, w := n.costs, n.shard, n.work
	calls := (w.Rate + w.cancels()) / n.nodes
	pulled := 1 - w.Webhooks
	parts := []Part{
		{"calls taken and passed on", calls * (c.value(requestCPU)/w.Batch + c.value(lineCPU))},
		{"schedules as leader", n.leads * (s.schedules + s.cancel) * c.value(scheduleLeadCPU)},
		{"schedules as follower", n.follows() * (s.schedules + s.cancel) * c.value(scheduleFollowCPU)},
		{"entries as leader", n.leads * s.entries * c.value(entryLeadCPU)},
		{"entries as follower", n.follows() * s.entries * c.value(entryFollowCPU)},
		{"webhooks", n.leads * s.fires * w.Webhooks * c.value(webhookCPU)},
		{"tasks pulled", n.leads*s.fires*pulled*c.value(pullLeadCPU) + w.Fires*pulled/n.nodes*c.value(pullServeCPU)},
		{"fires as follower", n.follows() * s.fires * c.value(fireFollowCPU)},
		{"snapshots", n.snapshots() / 1e6 * c.value(snapshotCPU)},
	}
	for i := range parts {
		parts[i].Value /= 1e6
	}
	return append(parts, Part{"heartbeats and clocks", n.idle.CPU})
}

// network returns the uses of the network, in bytes a second, each way: the bytes that some nodes send, others
// receive.
func (n node) network() []Part {
	c, s, w := n.costs, n.shard, n.work
	task := c.content(w)
	calls := (w.Rate + w.cancels()) / n.nodes
	pulled := 1 - w.Webhooks
	return []Part{
		{"calls", calls * (task + c.value(lineNetwork) + c.value(requestNetwork)/w.Batch)},
		{"calls passed on", calls * (n.nodes - 1) / n.nodes * (task + c.value(lineNetwork))},
		{"replication", n.leads * (n.copies - 1) * (s.commandBytes + s.entries*c.value(entryNetwork))},
		{"webhooks", n.leads * s.fires * w.Webhooks * (task + c.value(webhookNetwork))},
		{"tasks pulled", (n.leads*s.fires + w.Fires/n.nodes) * pulled * (task + c.value(pullNetwork))},
		{"heartbeats and clocks", n.idle.Bytes},
	}
}

// snapshots returns the bytes of snapshots that are written a second. They are about as many as those of the log,
// since a snapshot is due when the log has grown by the size of the state. Their pace bounds them.
func (n node) snapshots() float64 {
	share := (n.costs.value(taskSnapshot) + n.costs.content(n.work)) / n.costs.taskBytes(n.work)
	return min(n.replicas*n.shard.log*share, n.costs.value(snapshotRate))
}

// diskWrite returns the uses of the disk, in bytes written a second.
func (n node) diskWrite() []Part {
	return []Part{{"log", n.replicas * n.shard.log}, {"journal", n.replicas * n.shard.log}, {"snapshots", n.snapshots()}}
}

// logLength returns the bytes that a shard's log reaches before it is cut. A node writes one snapshot at a time, so a
// shard waits until all others on the node have had theirs.
func (n node) logLength() float64 {
	round := n.replicas * n.shard.snapshot / n.costs.value(snapshotRate)
	return max(snapshotLeast, n.shard.state) + n.shard.log*round
}

func (n node) diskSpace() []Part {
	return []Part{
		{"logs", n.replicas * (n.logLength() + segmentBytes)},
		{"snapshots", (n.replicas*snapshotsKept + 1) * n.shard.snapshot},
	}
}

// syncs returns the least fsyncs a second that the log needs, with entries half as large as they may get.
func (n node) syncs() []Part {
	if n.shard.commands() == 0 {
		return []Part{{"entries", 0}}
	}
	size := n.shard.commandBytes / n.shard.commands()
	fullest := max(1, min(entryCommands, entryBytes/size)/2)
	return []Part{{"entries", n.replicas * n.shard.commands() / fullest}}
}

// syncsWanted returns the most fsyncs a second on a quick disk. Shards whose entries arrive together share an fsync.
func (n node) syncsWanted() float64 { return n.replicas * n.shard.entries }

// restart returns the seconds until a node that starts again has its tasks back. The node reads a few replicas at a
// time, and then all of them catch up side by side.
func (n node) restart(m Machine) float64 {
	c, s := n.costs, n.shard
	seconds := n.replicas * (s.tasks + s.tombstones) * c.value(restoreCPU) / max(1, min(m.Cores, n.replicas, opened)) / 1e6
	if s.log > 0 {
		replay := s.schedules*c.value(scheduleFollowCPU) + (s.fires+s.cancel)*c.value(fireFollowCPU)
		seconds += n.replicas * n.logLength() / s.log * replay / max(1, min(m.Cores, n.replicas)) / 1e6
	}
	return seconds
}

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

// timerSpread is the average time between two empty appends in commit timeouts: the Raft library waits 1 to 2.
const timerSpread = 1.5

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
		Beats:    links * perSecond(cl.Timing.Beat, 1),
		Appends:  links * perSecond(cl.Timing.Commit, timerSpread),
		Control:  others * controlRate(cl.Timing),
		Clocks:   2 * others * perSecond(askEvery, 1),
		Compares: 2 * float64(min(cl.Peers, cl.Nodes-1)) * perSecond(askEvery, 1),
		Gossip:   gossipRate(cl.Nodes),
	}
	rafts := i.Beats + i.Appends + i.Control
	asks := i.Clocks + i.Compares + i.Gossip
	i.CPU = (c.value(idleCPU) + rafts*c.value(beatCPU) + asks*c.value(pingCPU)) / 1e6
	i.Bytes = (rafts*c.value(beatNetwork) + asks*c.value(pingNetwork)) / 2
	return i
}

// controlRate returns how often a second the control group's leader sends to one other node: see control.Config.
func controlRate(t shard.Timing) float64 {
	heartbeat := 2 * t.Heartbeat
	return perSecond(t.Beat, 1) + perSecond(heartbeat/3, timerSpread)
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
