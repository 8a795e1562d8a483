package doctor

import "github.com/belfryhq/belfry/cluster/headroom"

// disks finds nodes whose disk is nearly full, or has less than twice its reserve free.
func (e *examination) disks() {
	for _, n := range e.Nodes {
		switch {
		case n.DiskTotal == 0:
		case n.DiskLow:
			e.diskLow(n)
		case n.DiskFree < 2*n.DiskReserve:
			e.add(Warning, DiskFilling, sentence("the disk of %s has %s of %s free. Below its reserve of %s the node gives its "+
				"leaderships away, and without a majority of nodes with room a shard refuses schedules.",
				n.Name, headroom.FormatBytes(n.DiskFree), headroom.FormatBytes(n.DiskTotal), headroom.FormatBytes(n.DiskReserve)),
				"belfry queue list")
		}
	}
}

func (e *examination) diskLow(n Node) {
	severity, effect := Warning, "The node leads no shard that another can lead. Schedules are taken as before."
	if refusing := e.withoutRoom(); len(refusing) > 0 {
		severity = Critical
		effect = sentence("%s %s no majority of nodes with room, so schedules there are refused with 507; deliveries and "+
			"cancels go on.", groupsNamed(refusing), verb(len(refusing), "has", "have"))
	}
	e.add(severity, DiskFull, sentence("the disk of %s is nearly full: %s of %s are free, and the reserve is %s. %s",
		n.Name, headroom.FormatBytes(n.DiskFree), headroom.FormatBytes(n.DiskTotal), headroom.FormatBytes(n.DiskReserve),
		effect), "belfry queue list")
}

// withoutRoom returns the shards that have no majority of answering nodes with room on their disks.
func (e *examination) withoutRoom() []uint32 {
	var shards []uint32
	for _, g := range e.Groups {
		b, room := g.ballot(), 0
		for _, id := range b.present {
			if n := e.find(id); n != nil && !n.DiskLow {
				room++
			}
		}
		if g.Shard != 0 && room < b.majority() {
			shards = append(shards, g.Shard)
		}
	}
	return shards
}

// A node takes no more tasks from three quarters of its memory limit on; from memoryWarn hundredths on, doctor warns.
const memoryWarn = 60

// memories finds nodes whose memory for tasks is used up, or nearly.
func (e *examination) memories() {
	for _, n := range e.Nodes {
		switch {
		case n.MemoryFull != "":
			e.add(Critical, MemoryFull, sentence("the memory for tasks of %s is used up (limit: %s). %s new schedules with 429 "+
				"until some tasks are done; deliveries and cancels go on.",
				n.Name, n.MemoryFull, e.refusers(n.ID)), "belfry queue list", "belfry plan")
		case n.MemoryLimit > 0 && n.MemoryUsed > n.MemoryLimit/100*memoryWarn:
			e.add(Warning, MemoryFilling, sentence("tasks and the rest take %s of the memory limit of %s, %s. From three "+
				"quarters "+
				"on, its shards refuse new schedules.", headroom.FormatBytes(uint64(n.MemoryUsed)), n.Name,
				headroom.FormatBytes(uint64(n.MemoryLimit))), "belfry queue list", "belfry plan")
		}
	}
}

// refusers names the shards with a replica on a node as the subject of a refusal.
func (e *examination) refusers(id string) string {
	var shards []uint32
	for _, g := range e.Groups {
		for _, r := range g.Replicas {
			if r.Node == id && g.Shard != 0 {
				shards = append(shards, g.Shard)
			}
		}
	}
	return sentence("%s %s", groupsNamed(shards), verb(len(shards), "refuses", "refuse"))
}

// attempts finds nodes with too many attempts under way to begin one at a receiver without a recent success.
func (e *examination) attempts() {
	for _, n := range e.Nodes {
		if n.Strangers > 0 && n.Attempts >= n.Strangers {
			e.add(Warning, AttemptsFull, sentence("%d attempts are under way on %s, most at receivers that do not answer. "+
				"From %d on, tasks for receivers that have not answered well lately wait; tasks for the others begin as "+
				"before. Shorter timeouts free the places sooner.", n.Attempts, n.Name, n.Strangers), "belfry queue list")
		}
	}
}
