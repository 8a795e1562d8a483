package store

import (
	"hash/maphash"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Place is the position of an id in the index.
type Place struct {
	slot uint32
	hash uint64
}

// Slot returns the slot of the id.
func (at Place) Slot() uint32 { return at.slot }

// PlaceOf returns the place of an id.
func (s *Store) PlaceOf(namespace, id string) Place {
	return Place{slot: task.Slot(namespace, id), hash: s.indexHash(namespace, id)}
}

func (s *Store) indexHash(namespace, id string) uint64 {
	if isDefaultNamespace(namespace) {
		return maphash.String(s.seed, id)
	}
	var h maphash.Hash
	h.SetSeed(s.seed)
	_, _ = h.WriteString(namespace) // never fails
	_ = h.WriteByte(0)
	_, _ = h.WriteString(id)
	return h.Sum64()
}

// Locate returns the places of all commands of an entry. It also has the processor fetch the memory that they read
// first: index, record and blob of tasks anywhere in memory. The fetches overlap, where the commands would wait for
// each alone.
func (s *Store) Locate(commands []*fsmpb.Command) []Place {
	s.places = s.places[:0]
	for _, c := range commands {
		s.places = append(s.places, s.PlaceOf(c.Namespace, c.Id))
	}
	for _, at := range s.places {
		s.fetched += s.index.Fetch(at.slot, at.hash)
	}
	s.found = s.found[:0]
	for _, at := range s.places {
		probe := s.index.Probe(at.slot, at.hash)
		s.found = append(s.found, probe.Next())
	}
	for _, h := range s.found {
		if h != 0 {
			s.fetched += uint64(s.mem.tasks.Read(h).state)
		}
	}
	for _, h := range s.found {
		if h != 0 {
			s.fetched += uint64(s.mem.blobs.Get(s.mem.tasks.Read(h).cold)[0])
		}
	}
	return s.places
}
