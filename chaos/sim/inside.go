package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/chaos/sim/internal/disk"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/shard"
)

// prints are fingerprints of the replicas' states. All replicas of a shard that have applied the same number of
// commands must have the same state, across restarts too.
type prints struct {
	mu   sync.Mutex
	seen map[printKey]stateHash
	held uint64 // fingerprints that equalled a known one
}

type printKey struct {
	shard    uint32
	commands uint64
}

type stateHash struct {
	sum  uint64
	node string
}

func newPrints() *prints { return &prints{seen: map[printKey]stateHash{}} }

// note compares the fingerprint of a replica with a known one after as many commands, or remembers it if there is
// none. An error says that the two differ.
func (f *prints) note(node string, id uint32, commands, sum uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := printKey{id, commands}
	known, ok := f.seen[key]
	switch {
	case !ok:
		f.seen[key] = stateHash{sum, node}
	case known.sum != sum:
		return fmt.Errorf("shard %d: after %d commands %s has the state %x, and %s has %x", id, commands,
			known.node, known.sum, node, sum)
	default:
		f.held++
	}
	return nil
}

// compare notes the fingerprints of every running replica.
func (w *World) compare() {
	for n, r := range replicasOn(w.nodes...) {
		w.compareReplica(n, r.id, r.shard)
	}
}

func (w *World) compareReplica(n *Node, id uint32, s *shard.Shard) {
	status := s.Status()
	err := w.prints.note(n.name, id, status.Commands, status.Hash)
	for _, c := range s.Checkpoints(0) {
		if err == nil {
			err = w.prints.note(n.name, id, c.Commands, c.Sum)
		}
	}
	if err != nil {
		w.problem("replicas differ: %v", err)
	}
}

// opening is slots that the target of a move has opened, as one of its replicas has applied.
type opening struct {
	shard uint32
	part  *fsmpb.SlotState
}

// watchOwners checks while slots move that no slot is open in two shards: once a replica of a move's target has opened
// the slots, the source must serve no linearizable read of them.
func (s *splitter) watchOwners() {
	w, rng := s.world, s.world.rng("owners", 0)
	moved := map[uint64]bool{} // moves whose sources are known to refuse reads
	pause := func() time.Duration { return load.Between(rng, 5*time.Millisecond, 500*time.Millisecond) }
	w.whileShifting(pause, func(*clusterpb.ControlState) {
		for _, o := range w.openings() {
			if !moved[o.part.Move] {
				moved[o.part.Move] = w.refuses(o)
			}
		}
	})
}

// openings returns the slots that the replicas of the targets have opened.
func (w *World) openings() []opening {
	var all []opening
	for _, r := range replicasOn(w.nodes...) {
		for _, part := range r.shard.Slots() {
			// A source that was unsealed has the epoch before the move.
			if part.Phase == fsmpb.SlotPhase_SLOT_PHASE_OPEN && part.Move > 0 && part.Epoch == part.Move {
				all = append(all, opening{r.id, part})
			}
		}
	}
	return all
}

// refuses reports whether the source of a move is known to refuse reads of slots that the target has opened.
func (w *World) refuses(o opening) bool {
	_, source := w.leading(o.part.Shard)
	if source == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(w.ctx, time.Second)
	defer cancel()
	_, err := source.Get(ctx, "", idIn(o.part.First), false)
	if err == nil && w.epochOf(o.part.First) == o.part.Move {
		w.problem("move %d: shard %d serves slot %d, and shard %d has opened it", o.part.Move, o.part.Shard,
			o.part.First, o.shard)
	}
	var moved *task.MovedError
	return errors.As(err, &moved)
}

// rangeOf returns the range of the slot map that has a slot.
func (w *World) rangeOf(slot uint32) *clusterpb.SlotRange {
	for _, r := range w.now().Slots {
		if slot < r.End {
			return r
		}
	}
	return nil
}

// shardOf returns the shard that holds an id.
func (w *World) shardOf(id string) uint32 { return w.rangeOf(task.Slot("", id)).Shard }

func (w *World) epochOf(slot uint32) uint64 { return w.rangeOf(slot).Epoch }

// idIn returns an id in a slot.
func idIn(slot uint32) string { return idsBySlot()[slot] }

var idsBySlot = sync.OnceValue(func() map[uint32]string {
	ids := map[uint32]string{}
	for i := 0; len(ids) < task.Slots; i++ {
		id := fmt.Sprint("slot-", i)
		ids[task.Slot("", id)] = id
	}
	return ids
})

// judgeOwners checks at the end of a run that each slot is open in the shard that the slot map names, and in no other.
// A shard has no state for slots that never took part in a move.
func (w *World) judgeOwners() {
	for _, s := range w.now().Shards {
		_, leader := w.leading(s.Id)
		if leader == nil {
			w.problem("at the end shard %d has no leader", s.Id)
			continue
		}
		for _, part := range leader.Slots() {
			for slot := part.First; slot < part.End; slot++ {
				open, owns := part.Phase == fsmpb.SlotPhase_SLOT_PHASE_OPEN, w.rangeOf(slot).Shard == s.Id
				if open != owns {
					w.problem("at the end shard %d has %v, and the slot map gives slot %d to shard %d", s.Id, part, slot,
						w.rangeOf(slot).Shard)
					break
				}
			}
		}
	}
}

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
	for n, r := range replicasOn(l.world.nodes...) {
		status := r.shard.Status()
		l.world.rec.Replica(history.Replica{
			Shard: r.id, Node: n.name, Applied: status.Applied, Hash: fmt.Sprintf("%x", status.Hash),
		})
	}
}

// replay rebuilds the state of each replica from its disk: the newest snapshot and the log after it. The result must
// equal the replica's state.
func (w *World) replay() {
	for n, r := range replicasOn(w.nodes...) {
		if err := replayDisk(r, n.files.disk(r.id)); err != nil {
			w.problem("shard %d from the disk of %s: %v", r.id, n.name, err)
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
