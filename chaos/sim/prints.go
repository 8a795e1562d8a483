package sim

import (
	"fmt"
	"sync"

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
	for _, n := range w.nodes {
		p := n.running()
		if p == nil {
			continue
		}
		for _, r := range p.all() {
			w.compareReplica(n, r.id, r.shard)
		}
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
