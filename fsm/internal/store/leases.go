package store

import "github.com/belfryhq/belfry/fsm/task"

// leasesKept is the number of leases that a replica remembers: about as many as the busiest shard gives in a second.
const leasesKept = 4096

// lease is a lease that was given. The lease is over if the task has another fence.
type lease struct {
	fence  uint64
	task   handle
	holder uint32
}

// leaseRing holds the last leases whose holder is known. It has no influence on commands, and is part of no snapshot:
// a replica that restored one knows only later leases.
type leaseRing struct {
	leases []lease
	next   int // index of the oldest lease, once leases has its full length
}

func (r *leaseRing) note(l lease) {
	switch {
	case l.holder == 0:
	case len(r.leases) < leasesKept:
		r.leases = append(r.leases, l)
	default:
		r.leases[r.next] = l
		r.next = (r.next + 1) % leasesKept
	}
}

// Grant gives the firing task the current number as its fence and revision. The attempt may begin at startMs.
func (e Edit) Grant(startMs int64) {
	p := e.write()
	e.s.events.startMs = startMs
	p.fence, p.revision = e.s.Number, e.s.Number
}

// Lease records that a consumer has the task by the current grant. holder is the boot number of its node, 0 if
// unknown.
func (e Edit) Lease(holder uint32) {
	e.write().leased = true
	e.s.leases.note(lease{fence: e.Fence(), task: e.h, holder: holder})
}

// LiveLeases returns the leases among the last few thousand that are neither settled nor ended, the earliest first.
// Their start and tag are no longer known.
func (s *Store) LiveLeases() []task.LiveLease {
	var live []task.LiveLease
	for i := range s.leases.leases {
		l := s.leases.leases[(s.leases.next+i)%len(s.leases.leases)]
		t := Task{s, l.task} // the lease's task, or a later one in the same record, or none
		if !t.Leased() || t.Fence() != l.fence || t.Lane() == nil {
			continue
		}
		namespace, id := t.ID()
		live = append(live, task.LiveLease{Holder: l.holder, Grant: task.Grant{
			Namespace: namespace, ID: id, Fence: l.fence, Occurrence: t.Occurrence(), Lane: t.Lane().Lane,
		}})
	}
	return live
}
