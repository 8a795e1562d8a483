package store

import (
	"hash/maphash"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/slab"
	"github.com/belfryhq/belfry/fsm/internal/slots"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/wheel"
)

// Store holds the tasks of one shard. It has no lock: while one goroutine changes it, no other may read it.
type Store struct {
	Header
	// Version is the newest version of the commands that made the state. A snapshot carries it, so that an older build
	// refuses a state that it would misread. It is no part of the hash: an older build does not know it.
	Version uint32
	shard   uint32

	mem    memory
	index  *slab.Index
	seed   maphash.Seed // of the index: a caller cannot choose ids that collide
	labels labelIndex
	dues   dueIndex
	wheel  *wheel.Wheel // of tasks that wait for an instant

	Lanes     Lanes
	Schedules Schedules
	Moves     Moves
	events    events
	leases    leaseRing

	tombstones     list  // delivered and cancelled tasks, oldest first
	tombstoneBytes int64 // sum of their sizes

	counts  byState
	pending dues // of all tasks that wait for an attempt, the copies among them
	bySlot  slotCounts
	sum     uint64 // sum of digest over all tasks, digestCold over their blobs and keysDigest over their keys

	followed []Followed // ended by the current command

	due     []handle // the tasks that the last Advance popped; reused
	places  []Place  // of an entry's commands; reused
	found   []handle // the first candidate at each of places; reused
	fetched uint64   // without meaning: it keeps the compiler from dropping the reads ahead
}

// Header is the state of the shard as a whole. It is part of the state hash and of a snapshot.
type Header struct {
	Number  uint64 // the last number assigned to a change; every revision and fence is at most Number
	NowMs   int64  // the log's time
	Origins Origins
	Slots   slots.Table // the parts that slots play in moves
	Defaults
}

// Defaults are the shard's settings from the last policy in the log.
type Defaults struct {
	TombstoneBound int64 // bytes that all tombstones may hold; 0: no bound
	HorizonMs      int64 // the leader's lead over its clock; added to ends, so that none is early
	KeepDoneMs     int64 // retention of a tombstone whose queue's rule does not set it
}

// New returns an empty store.
func New(shard uint32) *Store {
	s := &Store{
		Header:  Header{Defaults: Defaults{KeepDoneMs: task.DefaultKeepDone.Milliseconds()}},
		Version: FirstVersion,
		shard:   shard,
		mem:     newMemory(),
		index:   slab.NewIndex(),
		seed:    maphash.MakeSeed(),
		bySlot:  make(slotCounts, task.Slots),
	}
	s.wheel = wheel.New(nodes{s.mem.tasks}, 0)
	s.Lanes, s.Schedules, s.Moves = newLanes(s), newSchedules(s), newMoves(s)
	s.labels = newLabelIndex(func(h handle) uint32 { return s.mem.slotOf(s.mem.tasks.Read(h)) })
	return s
}

// Find returns the task of an id. The task may not exist.
func (s *Store) Find(namespace, id string) Task {
	return s.FindAt(s.PlaceOf(namespace, id), namespace, id)
}

// FindAt is Find for an id with a known place.
func (s *Store) FindAt(at Place, namespace, id string) Task {
	probe := s.index.Probe(at.slot, at.hash)
	for h := probe.Next(); h != 0; h = probe.Next() {
		if s.mem.hasID(s.mem.tasks.Read(h), namespace, id) {
			return Task{s, h}
		}
	}
	return Task{s, 0}
}

// FindOwn is Find for readers. It finds neither the copies of slots that are coming nor the remains of slots that are
// gone.
func (s *Store) FindOwn(namespace, id string) Task {
	at := s.PlaceOf(namespace, id)
	if !s.Slots.HoldsOwn(at.slot) {
		return Task{}
	}
	return s.FindAt(at, namespace, id)
}

func isDefaultNamespace(namespace string) bool {
	return namespace == "" || namespace == task.DefaultNamespace
}

func fitsInline(namespace, id string) bool {
	return isDefaultNamespace(namespace) && len(id) <= inlineIDBytes && id != ""
}

// Add makes a task under an id that has none. key is the key of the call that makes it, nil if the call has no key.
func (s *Store) Add(at Place, namespace, id string, key *fsmpb.Key, content Content, fireAtMs int64) {
	c := s.mem.newCold(namespace, &content)
	c.first = firstKeyOf(key)
	h := s.add(at, namespace, id, &c)
	s.waitUntil(h, fireAtMs)
	s.dues.add(dueKeysOf(Task{s, h}), at.slot, h)
	s.land(h, s.mem.identityOf(at.slot, h))
	if c.first.kept {
		s.sum += s.mem.keysDigest(s.mem.tasks.Read(h))
	}
	s.events.added(Task{s, h})
}

// add allocates a scheduled record with this id and blob. The record is not yet in the wheel, the state hash or the
// counts.
func (s *Store) add(at Place, namespace, id string, c *cold) handle {
	h := s.mem.tasks.Alloc()
	r := s.mem.tasks.Write(h)
	if fitsInline(namespace, id) {
		r.idLen = uint8(copy(r.id[:], id))
	} else {
		c.namespace, c.id = task.CanonicalNamespace(namespace), id
	}
	r.state = uint8(fsmpb.State_STATE_SCHEDULED)
	r.cold = s.putCold(r, c)
	s.index.Insert(at.slot, at.hash, h)
	s.labels.addTask(h, namespace, s.mem.labelsOf(c))
	return h
}

// Advance moves the wheel to an instant and calls edit for each task that has come due, at most limit of them, in
// order and under a number of its own. It reports whether more have come due.
func (s *Store) Advance(toMs int64, limit int, edit func(Edit)) (more bool) {
	s.due, more = s.wheel.Advance(toMs, limit, s.due[:0])
	for _, h := range s.due {
		if !s.Slots.AllOpen() && s.Moves.park(h) {
			continue
		}
		s.Number++
		s.Change(Task{s, h}, func(e Edit) {
			s.mem.tasks.Write(h).waits = false
			edit(e)
		})
	}
	return more
}

// Next returns the instant at which the earliest task in the wheel is due. ok is false if the wheel is empty. Next may
// tidy the wheel and so counts as a change.
func (s *Store) Next() (dueMs int64, ok bool) { return s.wheel.Next() }

// Position returns the instant to which the wheel has been advanced.
func (s *Store) Position() int64 { return s.wheel.Position() }

// waitUntil puts a task into the wheel, or moves it there, under the current number.
func (s *Store) waitUntil(h handle, due int64) {
	if s.mem.tasks.Read(h).waits {
		s.wheel.Reschedule(h, due, s.Number)
		return
	}
	s.wheel.Insert(h, due, s.Number)
	s.mem.tasks.Write(h).waits = true
}

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
