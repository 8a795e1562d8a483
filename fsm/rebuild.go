package fsm

import (
	"io"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
)

// Rebuild builds a machine from tasks in other shards' snapshots, to restore a backup: see store.Rebuild.
type Rebuild struct {
	to    *store.Rebuild
	shard uint32
}

// NewRebuild begins the machine of a shard: see store.NewRebuild.
func NewRebuild(shard uint32, rules []*fsmpb.QueueRule, positionMs int64) *Rebuild {
	return &Rebuild{store.NewRebuild(shard, rules, positionMs), shard}
}

// From begins the tasks of another shard: see store.Rebuild.
func (b *Rebuild) From(header *fsmpb.SnapshotHeader, ranges []SlotRange) error {
	return b.to.From(header, ranges)
}

// Add adds a task of the shard that From named last.
func (b *Rebuild) Add(t *fsmpb.SnapshotTask) error { return b.to.Add(t) }

// Machine returns the machine after the last task. It gives back the attempts and leases that were under way: their
// tasks go before all others of their lanes, and no attempt counts. The Rebuild must not be used afterwards.
func (b *Rebuild) Machine() *Machine {
	m := newMachine(b.shard, b.to.Store())
	for _, t := range slices.Backward(m.store.Lanes.Firing()) { // each goes to the head of its lane
		m.store.Number++
		m.store.Change(t, m.applier.release)
	}
	m.store.Lanes.Settle(false)
	return m
}

// BuryOverdue makes dead letters of the tasks whose next attempt is due by nowMs, and returns their number. A schedule
// passes over its overdue occurrences, and its rule continues after nowMs. It is no command of the log: only a state
// outside a Raft group may be changed so.
func (m *Machine) BuryOverdue(nowMs int64, reason string) (buried int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	const atOnce = 10_000
	m.applier.passTime(nowMs)
	for _, t := range m.store.Schedules.All() {
		m.store.Number++
		m.applier.changeSeries(t, func(_ store.Edit, series *fsmpb.Series) { m.applier.passOverdue(series) })
	}
	for due, ok := m.store.Next(); ok && due <= nowMs; due, ok = m.store.Next() {
		m.store.Advance(nowMs, atOnce, func(e store.Edit) {
			if s := e.State(); s != fsmpb.State_STATE_SCHEDULED && s != fsmpb.State_STATE_RETRYING {
				m.applier.comeDue(e, newCredits(&fsmpb.Advance{}))
				return
			}
			e.Begin()
			e.SetLastError(reason)
			e.Bury()
			buried++
		})
		m.applier.closeOccurrences() // which may start further ones
	}
	m.store.Lanes.Settle(false)
	return buried
}

// passOverdue passes over the coming occurrences of a schedule that are overdue. Without coming ones, the rule
// continues after the log's time.
func (a *applier) passOverdue(series *fsmpb.Series) {
	for len(series.Next) > 0 && series.Next[0].FireMs <= a.store.NowMs {
		o := nextOf(series)
		o.Passed = fsmpb.Passed_PASSED_MISSED
		pass(series, o)
	}
	if len(series.Next) == 0 && !series.Complete {
		forgetInstants(series, a.store.NowMs)
	}
}

// SkipNumbers raises the machine's counter, so that it gives no number again that other replicas of the shard have
// given and this state does not know. It is no command of the log: only a state outside a Raft group may be changed so.
func (m *Machine) SkipNumbers(n uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.store.Number += n
}

// ReadHeader reads the header of a snapshot. It may read on behind the header.
func ReadHeader(r io.Reader) (*fsmpb.SnapshotHeader, error) { return store.ReadHeader(r) }

// ReadTasks reads a snapshot task by task without building its machine: see store.ReadTasks.
func ReadTasks(r io.Reader, begin func(*fsmpb.SnapshotHeader) error, add func(*fsmpb.SnapshotTask) error) error {
	return store.ReadTasks(r, begin, add)
}
