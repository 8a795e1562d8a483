package shard

import (
	"cmp"
	"slices"
	"sync"
)

const (
	checkpointEvery  = 16  // Raft indexes between two checkpoints that every replica keeps
	checkpointsKept  = 256 // of those: 4096 indexes
	checkpointsFresh = 128 // and of the newest entries, whatever their index
)

// Checkpoint is a fingerprint of the machine right after a Raft index. Replicas that have one for the same index must
// agree in it.
type Checkpoint struct {
	Index    uint64 // of the Raft log
	Commands uint64 // applied in the shard's life
	Sum      uint64 // fsm.Machine's state hash
}

// checkpoints are what a replica can be compared by. Those at fixed indexes are kept by all replicas alike, so that two
// can be compared however far one is behind. The newest ones are for shards where little happens: whatever index
// another replica stands at, this one knows what it was there itself, if it was there a moment ago.
type checkpoints struct {
	mu    sync.Mutex
	fixed recent // a multiple of checkpointEvery each
	fresh recent
}

func newCheckpoints() *checkpoints {
	return &checkpoints{
		fixed: recent{all: make([]Checkpoint, checkpointsKept)}, fresh: recent{all: make([]Checkpoint, checkpointsFresh)},
	}
}

// add takes the checkpoint of the entry that was just applied.
func (c *checkpoints) add(p Checkpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fresh.add(p)
	if p.Index%checkpointEvery == 0 {
		c.fixed.add(p)
	}
}

// restart forgets what the state was before it was replaced by a snapshot's.
func (c *checkpoints) restart(p Checkpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fixed.clear()
	c.fresh.clear()
	c.fresh.add(p)
}

// newest is where the machine stands; zero: nothing was applied yet.
func (c *checkpoints) newest() Checkpoint {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fresh.newest()
}

// at returns the one at an index, if it is still kept.
func (c *checkpoints) at(index uint64) (_ Checkpoint, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.fresh.at(index); ok {
		return p, true
	}
	return c.fixed.at(index)
}

// from returns those at fixed indexes from this one on, and the newest one, by rising index.
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

// recent holds the last few of what was added. Index 0 is none: Raft begins with 1.
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
