package fsm

import (
	"encoding/base32"
	"encoding/binary"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Get returns a task as it stands, tombstones included; nil if there is none of this id.
func (m *Machine) Get(namespace, id string) *fsmpb.Task {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if h := m.find(namespace, id); h != 0 {
		return m.view(h, true)
	}
	return nil
}

// Attempt returns the task whose current grant has this fence, with its payload, and the instant at which its lease
// ends. ok is false if the grant has been superseded, or if a cancel has stopped it.
func (m *Machine) Attempt(namespace, id string, fence uint64) (task *fsmpb.Task, leaseEndMs int64, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	h := m.find(namespace, id)
	if h == 0 {
		return nil, 0, false
	}
	r := m.tasks.Read(h)
	if !r.is(fsmpb.State_STATE_FIRING) {
		return nil, 0, false
	}
	if p := m.progress.Read(r.progress); p.fence != fence || p.outcome != 0 {
		return nil, 0, false
	}
	return m.view(h, true), r.Due(), true
}

// view builds a task as a caller sees it.
func (m *Machine) view(h handle, withPayload bool) *fsmpb.Task {
	r := m.tasks.Read(h)
	c := readCold(m.blobs.Get(r.cold))
	namespace, id := m.idOf(r)
	t := &fsmpb.Task{
		Namespace:   namespace,
		Id:          id,
		Spec:        m.specOf(&c, withPayload),
		FireAtMs:    m.fireAtOf(r),
		CreatedAtMs: c.created,
		State:       fsmpb.State(r.state),
		Revision:    m.revisionOf(h),
		Occurrence:  c.occurrence,
		WebhookId:   webhookID(m.origin, c.occurrence),
		Shard:       m.shard,
	}
	if r.progress == 0 {
		return t
	}
	p := m.progress.Read(r.progress)
	t.Attempts, t.Fence = p.attempts, p.fence
	flawChangesWebhookID(t, m.origin)
	history := readHistory(m.blob(p.history))
	history.addTo(t)
	t.Outcome = fsmpb.CancelOutcome(p.outcome)
	if p.leased {
		t.Leased, t.LeaseEndMs = true, r.Due()-m.horizon
	}
	if t.State == fsmpb.State_STATE_RETRYING {
		t.NextAttemptAtMs = r.Due()
	}
	return t
}

// webhookID is unique to an occurrence: origin is random to the shard's life, and no two occurrences share a number.
func webhookID(origin, occurrence uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], origin)
	binary.BigEndian.PutUint64(b[8:], occurrence)
	return "msg_" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}

// Counts is what a machine holds. Reading it costs the same however much that is.
type Counts struct {
	ByState [fsmpb.State_STATE_CANCELLED + 1]int // indexed by fsmpb.State
	Tasks   int                                  // tombstones included
	Lanes   int                                  // lanes with a task in them
	Bytes   int64                                // memory of tasks, blobs, index and queues
	Free    int64                                // of that, for tasks to come
	Coming  int64                                // beside that, what tasks may come to take when they come due
}

// comingBytes is what a task takes beside its own from the moment it comes due: its progress, of 64 bytes, and, once an
// attempt has ended, its history, with few words about one attempt.
const comingBytes = 64 + 64

// Counts returns what the machine holds.
func (m *Machine) Counts() Counts {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return Counts{
		ByState: m.counts,
		Tasks:   m.tasks.Len(),
		Lanes:   len(m.lanes.numbers),
		Bytes:   m.tasks.Bytes() + m.progress.Bytes() + m.blobs.Bytes() + m.index.Bytes() + m.queues.bytes(),
		Free:    m.tasks.FreeBytes() + m.progress.FreeBytes() + m.blobs.FreeBytes(),
		Coming:  int64(m.tasks.Len()-m.progress.Len()) * comingBytes,
	}
}

// Next returns when the earliest task in the wheel is due, exactly; ok is false if none waits. It may tidy the wheel,
// and so takes the writer's lock.
func (m *Machine) Next() (dueMs int64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.wheel.Next()
}

// Position returns how far the wheel has been advanced.
func (m *Machine) Position() int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.wheel.Position()
}
