package cluster

import (
	"github.com/belfryhq/belfry/cluster/disk"
	"github.com/belfryhq/belfry/cluster/memory"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
)

// setStandings tells each replica here whether it may lead, and whether there is room for more. It is called once a
// second, and when something has changed.
func (n *Node) setStandings() {
	n.standings.Lock()
	defer n.standings.Unlock()
	trouble := n.clockApart.Load() || n.disk.Low()
	for _, s := range n.replicas.All() {
		switch {
		case n.comparer.Outvoted(s.ID()):
			s.SetStanding(shard.Barred)
		case trouble:
			s.SetStanding(shard.Reluctant)
		default:
			s.SetStanding(shard.Willing)
		}
		s.SetRoom(n.lack(s.Voters()))
	}
}

// lack is what keeps a shard of these nodes from taking more, nil if nothing does.
func (n *Node) lack(voters []string) error {
	if !n.hasRoom(voters) {
		return task.ErrNoRoom
	}
	for _, node := range voters {
		if limit := n.memoryFull(node); limit != "" {
			return &task.MemoryError{Node: node, Limit: limit}
		}
	}
	return nil
}

// memoryFull names the limit that a node's memory has reached, empty for none. One that is not there holds nothing that
// could grow; once it is back, it says how it is.
func (n *Node) memoryFull(node string) string {
	switch {
	case node == n.ID():
		return n.memory.Full()
	case n.isAlive(node):
		return n.comparer.MemoryFull(node)
	}
	return ""
}

// hasRoom tells whether no disk of a shard's nodes is low, or at least so many nodes are up whose disks are not that
// they are a majority. With fewer, each entry would bring the shard nearer to a majority that has stopped because it
// cannot write.
func (n *Node) hasRoom(voters []string) bool {
	low, with := false, 0
	for _, node := range voters {
		if n.isDiskLow(node) {
			low = true
		} else if n.isAlive(node) {
			with++
		}
	}
	return !low || 2*with > len(voters)
}

func (n *Node) isDiskLow(node string) bool {
	if node == n.ID() {
		return n.disk.Low()
	}
	return n.comparer.DiskLow(node)
}

// mayLead is a hint for giving a shard's leadership to a node.
func (n *Node) mayLead(id uint32, node string) bool {
	return n.isAlive(node) && n.comparer.MayLead(id, node)
}

func (n *Node) watchDisk() *disk.Watch {
	return disk.New(disk.Config{
		Space: n.cfg.DiskSpace, Reserve: n.cfg.MinFreeDisk, Changed: n.setStandings,
		Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
}

func (n *Node) watchMemory() *memory.Watch {
	return memory.New(memory.Config{
		Limit: n.cfg.MemoryLimit, Heap: n.cfg.Heap, Machine: n.cfg.Machine, Tasks: n.tasksInMemory,
		Changed: n.setStandings, Logger: n.cfg.Logger, Registerer: n.cfg.Registerer,
	})
}

// tasksInMemory is what the replicas here hold.
func (n *Node) tasksInMemory() memory.Tasks {
	var sum memory.Tasks
	for _, s := range n.replicas.All() {
		held, free, coming := s.Memory()
		sum.Held, sum.Free, sum.Coming = sum.Held+held, sum.Free+free, sum.Coming+coming
	}
	return sum
}
