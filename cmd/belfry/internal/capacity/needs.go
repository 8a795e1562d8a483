package capacity

import (
	"cmp"
	"slices"
)

// needs returns the needs of the busiest node, the scarcest resource first.
func needs(m Machine, c Costs, usual, left node) []Need {
	one := func(what string, value float64) []Part { return []Part{{what, value}} }
	s := usual.shard
	blobs := s.tasks * (c.taskBytes(usual.work) - c.of(taskMemory))
	all := []Need{
		need(Memory, "bytes", m.Memory, usual.memory(), left.memory()),
		need(CPU, "cores", m.Cores, usual.cpu(), left.cpu()),
		need(Network, "bytes/s", m.Network, usual.network(), left.network()),
		need(DiskWrite, "bytes/s", m.DiskWrite, usual.diskWrite(), left.diskWrite()),
		need(DiskSpace, "bytes", m.Disk, usual.diskSpace(), left.diskSpace()),
		need(Syncs, "1/s", m.Syncs, usual.syncs(), left.syncs()),
		need(ShardCommands, "1/s", c.of(shardCommands), one("commands", s.commands()), one("commands", s.commands())),
		need(ShardMemory, "bytes", shardBlobs, one("blobs", blobs), one("blobs", blobs)),
		need(Groups, "", mostGroups, one("replicas", usual.replicas), one("replicas", left.replicas)),
	}
	slices.SortStableFunc(all, func(a, b Need) int { return cmp.Compare(b.Share(), a.Share()) })
	return all
}

// Need returns the plan's need of a resource.
func (p Plan) Need(resource string) Need {
	for _, n := range p.Needs {
		if n.Resource == resource {
			return n
		}
	}
	return Need{}
}

func (p Plan) facts(c Costs, usual, left node) Facts {
	s, w := usual.shard, p.Workload
	f := Facts{
		TaskBytes: c.taskBytes(w), KeepDone: w.KeepDone.Seconds(), Entries: s.entries, Syncs: usual.syncsWanted(),
		Restart: usual.restart(p.Machine), Idle: usual.idle, Inheritance: left.leads,
		Memory:    float64(p.Nodes) * p.Need(Memory).Usual,
		DiskSpace: float64(p.Nodes) * p.Need(DiskSpace).Usual,
		LogCapped: usual.logLength() > 2*max(snapshotLeast, s.state),
	}
	if w.Rate > 0 {
		f.Wait = w.Tasks / w.Rate
		f.PerSchedule = float64(p.Nodes) * (p.Need(CPU).Usual - usual.idle.CPU) * 1e6 / w.Rate
	}
	if s.asked > s.tombstones {
		f.KeepDone *= s.tombstones / s.asked
	}
	return f
}
