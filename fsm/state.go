package fsm

import (
	"hash/maphash"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/slab"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/wheel"
)

// state is all that a machine holds; a restore builds a new one aside.
type state struct {
	number uint64 // the last number given to a change; every revision and fence <= number
	now    int64  // the log's time, see passTime
	origin uint64 // random, from the first takeover: with an occurrence it makes a webhook id

	tasks    *slab.Pages[record]
	progress *slab.Pages[progress]
	blobs    *slab.Arena
	index    *slab.Index
	seed     maphash.Seed // of the index: ids cannot be made to collide from outside
	wheel    *wheel.Wheel // of tasks that wait for an instant

	queues  queues
	targets *internTable[target]
	manners *internTable[*fsmpb.Extra]
	lanes   lanes

	tombstones     list  // delivered and cancelled ones, oldest first
	tombstoneBytes int64 // sum of their sizes
	tombstoneBound int64 // 0: none
	horizon        int64 // how far the leader advances ahead of its clock: added to ends, so that none is early

	counts   byState
	slots    slotCounts
	given    givenRing // the last leases
	sum      uint64    // of digest over all tasks, digestCold over their blobs and digestKeys over their keys
	rulesSum uint64    // of digestRule over all rules

	full    bool         // this entry's results are wanted
	grants  []task.Grant // of this entry
	fired   []handle     // of this advance; reused
	scratch []byte       // for encoding; reused
	places  []place      // of an entry's commands; reused
	found   []handle     // what is there, perhaps; reused
	fetched uint64       // means nothing; what is read ahead must be used
}

func newState() *state {
	s := &state{
		tasks:    slab.NewPages[record](),
		progress: slab.NewPages[progress](),
		blobs:    slab.NewArena(),
		index:    slab.NewIndex(),
		seed:     maphash.MakeSeed(),
		queues:   newQueues(),
		targets:  newInternTable[target](),
		manners:  newInternTable[*fsmpb.Extra](),
		lanes:    newLanes(),
		slots:    make(slotCounts, task.Slots),
	}
	s.wheel = wheel.New(nodes{s.tasks}, 0)
	return s
}

func (s *state) links() listLinks { return listLinks{s.tasks, s.progress} }

// find returns the task of this id, 0 for none.
func (s *state) find(namespace, id string) handle {
	return s.findAt(s.placeOf(namespace, id), namespace, id)
}

func (s *state) findAt(at place, namespace, id string) handle {
	probe := s.index.Probe(at.slot, at.hash)
	for h := probe.Next(); h != 0; h = probe.Next() {
		if s.hasID(s.tasks.Read(h), namespace, id) {
			return h
		}
	}
	return 0
}

func isDefaultNamespace(namespace string) bool {
	return namespace == "" || namespace == task.DefaultNamespace
}

func fitsInline(namespace, id string) bool {
	return isDefaultNamespace(namespace) && len(id) <= inlineIDBytes && id != ""
}

func (s *state) hasID(r *record, namespace, id string) bool {
	if r.idLen != 0 {
		return isDefaultNamespace(namespace) && string(r.id[:r.idLen]) == id
	}
	return coldIs(s.blobs.Get(r.cold), task.CanonicalNamespace(namespace), id)
}

// idOf returns a task's namespace and id.
func (s *state) idOf(r *record) (namespace, id string) {
	if r.idLen != 0 {
		return task.DefaultNamespace, string(r.id[:r.idLen])
	}
	c := readCold(s.blobs.Get(r.cold))
	return c.namespace, c.id
}

// add makes a record of this id, with this blob, scheduled, not yet in the wheel, nor in the state hash and counts.
func (s *state) add(at place, namespace, id string, c *cold) handle {
	h := s.tasks.Alloc()
	r := s.tasks.Write(h)
	if fitsInline(namespace, id) {
		r.idLen = uint8(copy(r.id[:], id))
	} else {
		c.namespace, c.id = task.CanonicalNamespace(namespace), id
	}
	r.state = uint8(fsmpb.State_STATE_SCHEDULED)
	r.cold = s.putCold(r, c)
	s.index.Insert(at.slot, at.hash, h)
	return h
}

// drop forgets a task altogether.
func (s *state) drop(h handle) {
	s.lift(h)
	s.forget(h)
}

// forget is drop for a task that is already lifted.
func (s *state) forget(h handle) {
	s.stopWaiting(h)
	s.leaveList(h)
	s.dropKeys(h) // which may lean on the progress
	s.dropProgress(h)
	r := s.tasks.Read(h)
	at := s.placeOf(s.idOf(r))
	s.index.Delete(at.slot, at.hash, h)
	s.dropCold(r)
	s.tasks.Free(h)
}

// waitUntil puts a task into the wheel, or moves it there, under the current number.
func (s *state) waitUntil(h handle, due int64) {
	if s.tasks.Read(h).waits {
		s.wheel.Reschedule(h, due, s.number)
		return
	}
	s.wheel.Insert(h, due, s.number)
	s.tasks.Write(h).waits = true
}

func (s *state) stopWaiting(h handle) {
	if s.tasks.Read(h).waits {
		s.wheel.Remove(h)
		s.tasks.Write(h).waits = false
	}
}

// leaveList takes a task out of its lane's list or out of the tombstones.
func (s *state) leaveList(h handle) {
	r := s.tasks.Read(h)
	if r.progress == 0 {
		return
	}
	p := s.progress.Read(r.progress)
	switch {
	case p.lane != 0:
		l := s.lanes.lanes[p.lane]
		if r.is(fsmpb.State_STATE_READY) {
			l.ready.remove(s.links(), h)
		} else {
			l.firing.remove(s.links(), h)
		}
		s.progress.Write(r.progress).lane = 0
		s.lanes.touch(l)
	case p.size != 0:
		s.tombstones.remove(s.links(), h)
		s.tombstoneBytes -= int64(p.size)
		s.progress.Write(r.progress).size = 0
	}
}

// setState moves a begun task to another state, in which no consumer has it yet, and takes the current number as its
// revision.
func (s *state) setState(h handle, to fsmpb.State) {
	r := s.tasks.Write(h)
	r.state = uint8(to)
	p := s.progress.Write(r.progress)
	p.revision, p.leased = s.number, false
}

// progressOf returns a task's progress for writing; a scheduled task gets one.
func (s *state) progressOf(h handle) *progress {
	r := s.tasks.Read(h)
	if r.progress == 0 {
		s.tasks.Write(h).progress = s.progress.Alloc()
		s.progress.Write(r.progress).fireAt = r.Due()
	}
	return s.progress.Write(r.progress)
}

func (s *state) dropProgress(h handle) {
	r := s.tasks.Write(h)
	if r.progress == 0 {
		return
	}
	s.blobs.Free(s.progress.Read(r.progress).history)
	s.progress.Free(r.progress)
	r.progress = 0
}

// revisionOf returns the number of the last change of a task; 0 for none.
func (s *state) revisionOf(h handle) uint64 {
	if h == 0 {
		return 0
	}
	r := s.tasks.Read(h)
	if r.progress == 0 {
		return r.Seq()
	}
	return s.progress.Read(r.progress).revision
}

// fireAtOf returns when a task is due, whatever it waits for now.
func (s *state) fireAtOf(r *record) int64 {
	if r.progress == 0 {
		return r.Due()
	}
	return s.progress.Read(r.progress).fireAt
}
