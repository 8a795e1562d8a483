package shard

import (
	"cmp"
	"slices"
	"sync"
)

const (
	checkpointEvery  = 16  // Raft indexes between two checkpoints that every replica keeps
	checkpointsKept  = 256 // checkpoints kept at those indexes, which span 4096 indexes
	checkpointsFresh = 128 // checkpoints kept of the newest entries, at any index
)

// Checkpoint is a fingerprint of the machine right after a Raft index. Two replicas with checkpoints of the same index
// must have equal ones.
type Checkpoint struct {
	Index    uint64 // in the Raft log
	Commands uint64 // commands applied in the shard's life
	Sum      uint64 // the hash of the machine's state
}

// checkpoints holds a replica's fingerprints for comparison with other replicas. All replicas keep the fingerprints at
// the same fixed indexes, so that two replicas can be compared however far one is behind. The newest fingerprints serve
// quiet shards: this replica knows its own state at the index of another replica if it was at that index a moment ago.
type checkpoints struct {
	mu    sync.Mutex
	fixed recent // at multiples of checkpointEvery
	fresh recent
}

func newCheckpoints() *checkpoints {
	return &checkpoints{
		fixed: recent{all: make([]Checkpoint, checkpointsKept)}, fresh: recent{all: make([]Checkpoint, checkpointsFresh)},
	}
}

// add stores the checkpoint of the entry just applied.
func (c *checkpoints) add(p Checkpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fresh.add(p)
	if p.Index%checkpointEvery == 0 {
		c.fixed.add(p)
	}
}

// restart drops all checkpoints and stores p, after a snapshot has replaced the state.
func (c *checkpoints) restart(p Checkpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fixed.clear()
	c.fresh.clear()
	c.fresh.add(p)
}

// newest returns the checkpoint of the last applied entry, or the zero Checkpoint before the first entry.
func (c *checkpoints) newest() Checkpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fresh.newest()
}

// at returns the checkpoint of an index; ok is false if it is no longer kept.
func (c *checkpoints) at(index uint64) (_ Checkpoint, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.fresh.at(index); ok {
		return p, true
	}
	return c.fixed.at(index)
}

// from returns the checkpoints at fixed indexes of at least index, and the newest checkpoint, by rising index.
func (c *checkpoints) from(index uint64) []Checkpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []Checkpoint
	for _, p := range c.fixed.all {
		if p.Index > 0 && p.Index >= index {
			found = append(found, p)
		}
	}
	if p := c.fresh.newest(); p.Index > 0 && p.Index%checkpointEvery != 0 {
		found = append(found, p)
	}
	slices.SortFunc(found, func(a, b Checkpoint) int { return cmp.Compare(a.Index, b.Index) })
	return found
}

// recent is a ring of the checkpoints added last. Index 0 marks an empty place, because Raft's log begins with index 1.
type recent struct {
	all  []Checkpoint
	next int
}

func (r *recent) add(p Checkpoint) {
	r.all[r.next] = p
	r.next = (r.next + 1) % len(r.all)
}

func (r *recent) clear() { clear(r.all) }

func (r *recent) newest() Checkpoint { return r.all[(r.next+len(r.all)-1)%len(r.all)] }

func (r *recent) at(index uint64) (_ Checkpoint, ok bool) {
	for _, p := range r.all {
		if p.Index == index && index > 0 {
			return p, true
		}
	}
	return Checkpoint{}, false
}
