package faults

import (
	"net/http"
	"slices"
	"syscall"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/lossyfs"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/chaos/workload"
	"github.com/belfryhq/belfry/deploy/receiver"
)

// The names of kinds, except those of package history. The exported ones are used by other packages.
const (
	KillAny        = "kill -9 of a node"
	KillMost       = "kill -9 of all nodes but one"
	KillOrphaned   = "kill -9 of a leader whose followers are dead"
	RollingRestart = "rolling restart"

	// The only kind after which attempts are repeated without a change of leader.
	noCallers = "node cut off from callers"

	PowerLoss    = "power loss of a node"
	PowerLossAll = "power loss of all nodes"
	FailedSync   = "failed fsync"

	LeaderClockAhead = "leader's clock set ahead"

	DamagedFile    = "file of a dead node is damaged"
	RollingUpgrade = "rolling upgrade"

	ShardSplits   = "shard splits"
	SlotsBalanced = "slots are balanced"
	MoreShards    = "shards are 12"
	SlotsMove     = "slots move to another shard"
	LostNode      = "node is lost for good"
	LostZone      = "zone is lost for a while"
	NodeJoins     = "node joins"
	NodeDrains    = "node is drained and resumed"
	NodeLeaves    = "node is removed"
	LostDisk      = "node is replaced after the loss of its disk"
	MoreReplicas  = "replication is 5"
	FewerReplicas = "replication is 3"
	AimedKill     = "kill -9 at a step of a move"
)

// Kinds returns all kinds of faults in a fixed order, whether or not a stand supports them.
func Kinds() []Kind { return slices.Clone(kinds) }

// kinds are all kinds: name, group, weight, death, needs, claims, choice of nodes, and strike.
//
//   - A signal kills, pauses or stops processes. A killed node vanishes without a message. A paused node wakes up with
//     its old beliefs. A node that is asked to stop gives its leaderships away.
//   - The faults of the network touch no process, so they claim no nodes. Neither do those of clocks and gossip.
//   - A power loss drops unsynced writes. A node whose disk refuses writes must end.
//   - Gossip is a hint, so its loss and its forgery may only cost time.
//   - A hostile receiver may only harm deliveries: calls go on, and no task is lost.
//   - An attack may neither end a node nor keep it from its other callers.
//   - Nodes of two builds form the cluster during a rolling upgrade. Each change is a fault of one node, so that other
//     faults may strike the other nodes between two changes.
//   - A change of the shape waits until the cluster has its new shape. All changes but the losses are planned: they
//     disturb nothing but the load. Shards are never merged, so a cluster gets at most manyShards.
var kinds = []Kind{
	{history.KillLeader, "process", 10, Lives, nil, "", leader, (*striking).kill},
	{KillAny, "process", 5, Lives, nil, "", one, (*striking).kill},
	{"kill -9 of two nodes", "process", 3, Lives, nil, "", two, (*striking).kill},
	{history.KillAll, "process", 3, Lives, nil, "", every, (*striking).kill},
	{KillMost, "process", 1, Lives, nil, "", shuffled, (*striking).killMost},
	{"crash loop of a node", "process", 3, Lives, nil, "", one, (*striking).crashLoop},
	{history.PauseLeader, "process", 6, Lives, nil, "", leader, func(s *striking, nodes []string) error {
		return s.pause(nodes, max(s.Hold, longPause))
	}},
	{"short pause of a leader", "process", 6, Lives, nil, "", leader, func(s *striking, nodes []string) error {
		return s.pause(nodes, 1+s.upTo(shortPause))
	}},
	{"pause of all nodes", "process", 2, Lives, nil, "", every, func(s *striking, nodes []string) error {
		return s.pause(nodes, s.Hold)
	}},
	{KillOrphaned, "process", 3, Lives, nil, "", leaderFirst, (*striking).killOrphaned},
	{"restart of a node", "process", 4, Lives, nil, "", one, (*striking).restart},
	{RollingRestart, "process", 2, Lives, nil, "", every, (*striking).restart},

	{"partition of a node", "network", 8, Lives, needsNetwork(2), nothing, nil, damaging(scene.partition)},
	{"minority apart from majority", "network", 4, Lives, needsNetwork(4), nothing, nil, damaging(scene.split)},
	{"partition that leaves no majority", "network", 2, Lives, needsNetwork(2), nothing, nil, damaging(scene.shatter)},
	{"node is not heard", "network", 4, Lives, needsNetwork(2), nothing, nil, damaging(scene.mute)},
	{"node hears nothing", "network", 4, Lives, needsNetwork(2), nothing, nil, damaging(scene.deaf)},
	{"two nodes apart", "network", 5, Lives, needsNetwork(3), nothing, nil, damaging(scene.bridge)},
	{noCallers, "network", 4, Lives, needsNetwork(1), nothing, nil, damaging(scene.uncalled)},
	{"node cut off from everybody", "network", 4, Lives, needsNetwork(2), nothing, nil, damaging(scene.isolate)},
	{"packets are lost", "network", 4, Lives, needsNetwork(2), nothing, nil, damaging(scene.lose)},
	{"packets are late", "network", 4, Lives, needsNetwork(2), nothing, nil, damaging(scene.delay)},
	{"packets come twice and out of order", "network", 4, Lives, needsNetwork(2), nothing, nil, damaging(scene.jumble)},
	{"link flaps", "network", 4, Lives, needsNetwork(3), nothing, nil, (*striking).flap},

	{PowerLoss, "disk", 8, MayEnd, needsDisks, "", one, (*striking).powerLoss},
	{PowerLossAll, "disk", 6, MayEnd, needsDisks, "", every, (*striking).powerLoss},
	{"power loss again and again", "disk", 3, MayEnd, needsDisks, "", several, func(s *striking, nodes []string) error {
		return s.downAgain(nodes, s.losePower)
	}},
	{FailedSync, "disk", 5, MustEnd, needsDisks, "", one, func(s *striking, nodes []string) error {
		return s.failing(nodes, "fsync fails with EIO", func(d *lossyfs.Disk) { d.FailSync(syscall.EIO) })
	}},
	{"failed write", "disk", 4, MustEnd, needsDisks, "", one, func(s *striking, nodes []string) error {
		return s.failing(nodes, "writes fail with EIO", func(d *lossyfs.Disk) { d.FailWrite(syscall.EIO) })
	}},
	{"slow fsync", "disk", 5, Lives, needsDisks, "", one, (*striking).slow},
	{"slow fsync on all nodes", "disk", 2, Lives, needsDisks, "", every, (*striking).slow},
	{"hung fsync", "disk", 2, MustEnd, needsDisks, "", one, (*striking).hung},
	{"full disk", "disk", 4, MayEnd, needsDisks, "", one, (*striking).full},

	{"clock slightly off", "clock", 5, Lives, needsClocks, theClocks, one, func(s *striking, nodes []string) error {
		return s.setClock(nodes, s.either(slightly+s.upTo(slightly)))
	}},
	{"clock far off", "clock", 4, Lives, needsClocks, theClocks, one, func(s *striking, nodes []string) error {
		return s.setClock(nodes, s.either(pick(s.Rand, far)))
	}},
	{LeaderClockAhead, "clock", 4, Lives, needsClocks, theClocks, leader, func(s *striking, nodes []string) error {
		return s.setClock(nodes, pick(s.Rand, far))
	}},
	{"leader's clock set back", "clock", 4, Lives, needsClocks, theClocks, leader,
		func(s *striking, nodes []string) error { return s.setClock(nodes, -pick(s.Rand, far)) }},
	{"clock drifts", "clock", 4, Lives, needsClocks, theClocks, one, (*striking).drift},
	{"clock set during a pause", "clock", 3, Lives, needsClocks, theClocks, leader, (*striking).setInPause},

	{history.SilentGossip, "gossip", 3, Lives, needsMutes, theGossip, one, (*striking).silence},
	{history.ForgedGossip, "gossip", 3, Lives, needsOpenGossip, theGossip, nil, (*striking).forge},

	{"out of memory", "memory", 3, MayEnd, needsMemory, "", one, (*striking).squeeze},

	{history.OnePath, "receiver", 2, Lives, nil, theReceiver, nil, (*striking).failOnePath},
	{"receiver is slow", "receiver", 1, Lives, nil, theReceiver, nil, mood(workload.Mood{Slow: slowAnswer})},
	{"receiver hangs, then resets", "receiver", 1, Lives, nil, theReceiver, nil, func(s *striking, _ []string) error {
		return s.misbehave(workload.Mood{Slow: s.Hold, Answer: receiver.Reset})
	}},
	{"receiver resets connections", "receiver", 1, Lives, nil, theReceiver, nil,
		mood(workload.Mood{Answer: receiver.Reset})},
	{"receiver answers 500", "receiver", 1, Lives, nil, theReceiver, nil,
		mood(workload.Mood{Answer: http.StatusInternalServerError})},
	{"receiver answers 429", "receiver", 1, Lives, nil, theReceiver, nil,
		mood(workload.Mood{Answer: http.StatusTooManyRequests, RetryAfter: time.Second})},
	{"receiver replies without end", "receiver", 1, Lives, nil, theReceiver, nil, mood(workload.Mood{Reply: hugeReply})},

	{history.HalfSent, "attack", 2, Lives, needsDescriptors, "", one, (*striking).flood},
	{DamagedFile, "attack", 2, Lives, nil, "", one, (*striking).spoil},

	{RollingUpgrade, "upgrade", 6, Lives, (*stand.Stand).HasOther, theBuilds, shuffled, (*striking).rollingUpgrade},

	{ShardSplits, "shape", 3, Lives, (*stand.Stand).Shapes, theShape, nil, (*striking).split},
	{SlotsBalanced, "shape", 3, Lives, (*stand.Stand).Shapes, theShape, nil, balance(0)},
	{MoreShards, "shape", 1, Lives, (*stand.Stand).Shapes, theShape, nil, balance(manyShards)},
	{SlotsMove, "shape", 3, Lives, (*stand.Stand).Shapes, theShape, nil, (*striking).shift},
	{LostNode, "shape", 3, Lives, (*stand.Stand).Replaces, theShape, one, (*striking).loseNode},
	{LostZone, "shape", 3, Lives, (*stand.Stand).HasZones, theShape, nil, (*striking).loseZone},
	{NodeJoins, "shape", 6, Lives, (*stand.Stand).Shapes, theShape, nil, (*striking).join},
	{NodeDrains, "shape", 4, Lives, (*stand.Stand).Shapes, theShape, one, (*striking).drain},
	{NodeLeaves, "shape", 4, Lives, (*stand.Stand).Shapes, theShape, one, (*striking).leave},
	{LostDisk, "shape", 3, Lives, (*stand.Stand).Shapes, theShape, one, (*striking).loseDisk},
	{MoreReplicas, "shape", 2, Lives, (*stand.Stand).Shapes, theShape, nil, replicate(usualReplicas + 2)},
	{FewerReplicas, "shape", 2, Lives, (*stand.Stand).Shapes, theShape, nil, replicate(usualReplicas)},
	{AimedKill, "shape", 6, Lives, (*stand.Stand).Shapes, nothing, nil, (*striking).killAtAnyStep},
}
