package sim

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/chaos/sim/internal/disk"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/shard"
)

// level reports whether every replica of a shard runs and has applied the log exactly up to the index applied.
func (w *World) level(s *clusterpb.Shard, applied uint64) bool {
	for _, n := range w.holders(s.Id) {
		p := n.running()
		if p == nil {
			return false
		}
		r, err := p.shard(s.Id)
		if err != nil || r.Status().Applied != applied {
			return false
		}
	}
	return true
}

const readers = 16

// readAll ends a run: it reads every id once through a leader, and every fourth id from every replica as well. It also
// records how far the replicas are.
func (l *driver) readAll() {
	w := l.world
	l.recordReplicas()
	turns := make(chan int)
	var wg sync.WaitGroup
	for i := range readers {
		rng := w.rng("final", i)
		wg.Go(func() {
			for turn := range turns {
				id := l.ids[turn]
				if outcome, a := l.get(w.ctx, l.anyNode(rng), finally(l.player.Get(id))); !load.Final(outcome, a) {
					w.problem("the final read of %s failed: %s", id, a.Error)
				}
				if turn%4 == 0 {
					l.readReplicas(id)
				}
			}
		})
	}
	for turn := range l.ids {
		turns <- turn
	}
	close(turns)
	wg.Wait()
}

func (l *driver) readReplicas(id string) {
	for _, n := range l.world.holders(l.world.shardOf(id)) {
		l.getStale(l.world.ctx, n, finally(l.player.GetStale(id)))
	}
}

// recordReplicas records the applied index and the state's hash of each running replica.
func (l *driver) recordReplicas() {
	for _, n := range l.world.nodes {
		p := n.running()
		if p == nil {
			continue
		}
		for _, r := range p.all() {
			status := r.shard.Status()
			l.world.rec.Replica(history.Replica{
				Shard: r.id, Node: n.name, Applied: status.Applied, Hash: fmt.Sprintf("%x", status.Hash),
			})
		}
	}
}

// replay rebuilds the state of each replica from its disk: the newest snapshot and the log after it. The result must
// equal the replica's state.
func (w *World) replay() {
	for _, n := range w.nodes {
		p := n.running()
		if p == nil {
			continue
		}
		for _, r := range p.all() {
			if err := replayDisk(r, n.files.disk(r.id)); err != nil {
				w.problem("shard %d from the disk of %s: %v", r.id, n.name, err)
			}
		}
	}
}

func replayDisk(r replica, d *disk.Disk) error {
	status := r.shard.Status()
	m, at := fsm.New(r.id), uint64(0)
	if data, _ := d.Newest(); data != nil {
		var err error
		if m, at, err = shard.ReadSnapshot(r.id, bytes.NewReader(data)); err != nil {
			return err
		}
	}
	for i := at + 1; i <= status.Applied; i++ {
		var l raft.Log
		if err := d.Entry(i, &l); err != nil {
			return fmt.Errorf("entry %d, applied to %d from a snapshot at %d: %w", i, status.Applied, at, err)
		}
		if l.Type != raft.LogCommand {
			continue
		}
		if _, err := m.Apply(l.Data, false); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
	}
	if commands, sum := m.Hash(); commands != status.Commands || sum != status.Hash {
		return fmt.Errorf("%d commands come to %x, and the replica has %x after %d", commands, sum,
			status.Hash, status.Commands)
	}
	return nil
}
