package fsm

import "github.com/belfryhq/belfry/fsm/task"

// givenKept is how many leases a replica remembers: those of the last moments of a leader that takes as many tasks
// through its shard as one can.
const givenKept = 4096

// Given is a lease that was given lately and still runs, with the run of the node whose consumers it was given for.
type Given struct {
	task.Grant
	Holder uint32
}

// given is a lease that was given. Its fence tells whether it is still the task's.
type given struct {
	fence  uint64
	task   handle
	holder uint32
}

// givenRing holds the last leases whose holder is known. It is of no consequence for what applying does, and in no
// snapshot: a replica that restored one knows of the leases since.
type givenRing struct {
	leases []given
	next   int // the oldest, once there are as many as are kept
}

func (r *givenRing) note(g given) {
	switch {
	case g.holder == 0:
	case len(r.leases) < givenKept:
		r.leases = append(r.leases, g)
	default:
		r.leases[r.next] = g
		r.next = (r.next + 1) % givenKept
	}
}

// Given returns the leases of the last few thousand that have neither been settled nor ended, the earliest first. A
// leader that begins asks whether they arrived: the one before it may have died with them. Their start and tag are not
// known any more.
func (m *Machine) Given() []Given {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var running []Given
	for i := range m.given.leases {
		g := m.given.leases[(m.given.next+i)%len(m.given.leases)]
		r := m.tasks.Read(g.task) // of a task, of another one by now, or zero
		if r.progress == 0 {
			continue
		}
		p := m.progress.Read(r.progress)
		if !p.leased || p.fence != g.fence {
			continue
		}
		namespace, id := m.idOf(r)
		running = append(running, Given{Holder: g.holder, Grant: task.Grant{
			Namespace: namespace, ID: id, Fence: g.fence, Occurrence: readCold(m.blobs.Get(r.cold)).occurrence,
			Lane: m.lanes.lanes[p.lane].Lane,
		}})
	}
	return running
}
