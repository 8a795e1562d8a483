package store

import "github.com/belfryhq/belfry/fsm/fsmpb"

// View returns the task as a caller sees it, with its payload only if withPayload is set.
func (t Task) View(withPayload bool) *fsmpb.Task {
	s, r, c := t.s, t.record(), t.cold()
	namespace, id := t.ID()
	v := &fsmpb.Task{
		Namespace:   namespace,
		Id:          id,
		Spec:        s.mem.specOf(&c, withPayload),
		FireAtMs:    t.FireAtMs(),
		CreatedAtMs: c.created,
		State:       t.State(),
		Revision:    t.Revision(),
		Occurrence:  c.occurrence,
		WebhookId:   s.Origins.WebhookID(namespace, id, c.occurrence),
		Shard:       s.shard,
	}
	if r.is(fsmpb.State_STATE_REPEATING) {
		v.Series = t.Series()
	}
	if r.progress == 0 {
		return v
	}
	p := t.read()
	v.Attempts, v.Fence = p.attempts, p.fence
	flawChangesWebhookID(s, v)
	history := t.history()
	history.addTo(v)
	v.Outcome = t.Outcome()
	if p.leased {
		v.Leased, v.LeaseEndMs = true, r.Due()-s.HorizonMs
	}
	if v.State == fsmpb.State_STATE_RETRYING || v.State == fsmpb.State_STATE_SCHEDULED && r.Due() != p.fireAt {
		v.NextAttemptAtMs = r.Due()
	}
	return v
}

// Counts holds the numbers of tasks, lanes and bytes of a store. Reading them costs the same at any size.
type Counts struct {
	ByState [states]int // indexed by fsmpb.State
	Tasks   int         // tombstones included
	Lanes   int         // lanes with a task in them
	Bytes   int64       // memory of tasks, blobs, indexes and queues
	Free    int64       // the free part of Bytes, for new tasks
	Coming  int64       // beside Bytes: memory that tasks may take when they come due
}

// comingBytes is the memory that a task takes from the moment it comes due, in addition to its own. It is the task's
// progress, of 64 bytes, and a short history of one attempt once an attempt has ended.
const comingBytes = 64 + 64

// Counts returns the counts of the store.
func (s *Store) Counts() Counts {
	return Counts{
		ByState: s.counted(),
		Tasks:   s.mem.tasks.Len() - s.Moves.coming.count(),
		Lanes:   len(s.Lanes.numbers),
		Bytes: s.mem.tasks.Bytes() + s.mem.progress.Bytes() + s.mem.blobs.Bytes() + s.index.Bytes() +
			s.labels.Bytes() + s.dues.Bytes() + s.mem.queues.bytes(),
		Free:   s.mem.tasks.FreeBytes() + s.mem.progress.FreeBytes() + s.mem.blobs.FreeBytes(),
		Coming: int64(s.mem.tasks.Len()-s.mem.progress.Len()) * comingBytes,
	}
}
