package sim

import (
	"maps"
	"slices"
	"sync"

	"github.com/belfryhq/belfry/chaos/sim/internal/disk"
	"github.com/belfryhq/belfry/chaos/sim/internal/wire"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/replicas"
	"github.com/belfryhq/belfry/shard"
)

// files are the disks of a node, one for each shard, and the node's durable record of the replicas on them. They
// outlive processes.
type files struct {
	world *World
	node  int // index of the node

	mu     sync.Mutex
	disks  map[uint32]*disk.Disk // by shard
	joined map[uint32]uint64     // revisions at which the replicas on the disks joined; see clusterpb.Shard
}

func newFiles(w *World, node int) *files {
	return &files{world: w, node: node, disks: map[uint32]*disk.Disk{}, joined: map[uint32]uint64{}}
}

// disk returns the disk of a shard's replica. It makes an empty one at the first call.
func (f *files) disk(id uint32) *disk.Disk {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.disks[id] == nil {
		nodes := f.world.cfg.Nodes
		place := (f.node + nodes - int(id)%nodes) % nodes
		f.disks[id] = disk.New(f.world.cfg.Seed<<8|uint64(id)<<4|uint64(place), f.world.cfg.disk)
		f.disks[id].Watch(func(r disk.Reconfiguration) { f.world.members.judge(id, r) })
	}
	return f.disks[id]
}

// all returns the disks.
func (f *files) all() []*disk.Disk {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.disks))
}

// held returns the shards that have files.
func (f *files) held() []uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var held []uint32
	for id, d := range f.disks {
		if !d.Empty() {
			held = append(held, id)
		}
	}
	slices.Sort(held)
	return held
}

// joinedAt returns the revision at which the replica of a shard joined whose files are on the disk.
func (f *files) joinedAt(id uint32) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.joined[id]
}

func (f *files) recordJoined(id uint32, joined uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.joined[id] = joined
}

// newReplicas returns the set of a process's replicas. None is open yet.
func (p *process) newReplicas() *replicas.Set {
	return replicas.New(replicas.Config{
		Self: p.node.name, Watch: p.view.Watch, IsCurrent: isCurrent, Leader: p.leaders.Leader, Logger: p.logger(),
		Open: p.open, Opened: func(*shard.Shard, *clusterpb.Shard) error { return nil }, Changed: func() {},
		Held: p.node.files.held, Joined: p.node.files.joinedAt, Left: p.left,
		Moves: func() replicas.Moves { return faulty{p.world, p.router} },
	})
}

// claim returns the disk of a replica that is about to be opened. It is a problem if the disk has the files of an
// earlier replica, which was removed: that replica has voted, and its log may differ from the group's.
func (p *process) claim(placed *clusterpb.Shard) *disk.Disk {
	files, joined := p.node.files, placed.Joined[p.node.name]
	d := files.disk(placed.Id)
	if was := files.joinedAt(placed.Id); !d.Empty() && was < joined {
		p.world.problem("%s opens the files of a removed replica of shard %d: it joined at revision %d, and they at %d",
			p.node.name, placed.Id, joined, was)
	}
	files.recordJoined(placed.Id, joined)
	return d
}

// left deletes the files of a replica that has moved away.
func (p *process) left(id uint32) error {
	if !p.host.Sleep(p.world.cfg.disk.Delay) || !p.host.Gate() {
		return wire.ErrDown
	}
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	if p.node.process != p {
		return wire.ErrDown
	}
	p.world.members.leaves(id, p.node.name)
	p.node.files.disk(id).Wipe()
	return nil
}
