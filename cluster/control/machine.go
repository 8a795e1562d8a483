package control

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/raftgroup"
)

// machine holds the group's state. One goroutine of the group applies entries; any number of goroutines read.
type machine struct {
	mu      sync.Mutex
	state   *clusterpb.ControlState // never changed, only replaced
	applied uint64                  // index of the last applied entry; 0: the state is a snapshot's
	edited  uint64                  // index of the entry that made the state; 0: likewise
	changed chan struct{}           // closed at the next change
}

var _ raftgroup.Machine = (*machine)(nil)

func newMachine() *machine {
	return &machine{state: &clusterpb.ControlState{}, changed: make(chan struct{})}
}

// watch returns the state, and a channel that is closed when there is a newer one.
func (m *machine) watch() (*clusterpb.ControlState, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, m.changed
}

// at returns the state, and the index of the last entry in it. The index is 0 if it is not known.
func (m *machine) at() (*clusterpb.ControlState, uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, m.applied
}

// lastChange returns the index of the entry that made the state, or 0 if it is not known.
func (m *machine) lastChange() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.edited
}

// await waits until the entry at an index, which was not refused, is applied.
func (m *machine) await(ctx context.Context, index uint64) error {
	for {
		m.mu.Lock()
		applied, changed := m.applied, m.changed
		m.mu.Unlock()
		if applied >= index {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Apply answers an entry with a *clusterpb.ControlChanged, or with the error that refuses it. It fails for an entry
// that it cannot read.
func (m *machine) Apply(e raftgroup.Entry) (answer any, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = e.Index
	if !e.Command {
		return nil, nil
	}
	next, changed, err := apply(m.state, e.Data)
	switch {
	case isUnreadable(err):
		return nil, err
	case err != nil:
		return err, nil
	}
	m.edited, changed.Index = e.Index, e.Index
	m.replace(next)
	return changed, nil
}

// replace makes next the state and wakes its watchers. The caller holds the lock.
func (m *machine) replace(next *clusterpb.ControlState) {
	m.state = next
	close(m.changed)
	m.changed = make(chan struct{})
}

// Snapshot returns the state itself, since states are never changed.
func (m *machine) Snapshot() (raftgroup.Snapshot, error) {
	state, _ := m.watch()
	return snapshot{state}, nil
}

// Restore replaces the state once all of it has been read.
func (m *machine) Restore(r io.Reader) error {
	state, err := readSnapshot(r)
	if err != nil {
		return fmt.Errorf("control group's snapshot: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied, m.edited = 0, 0
	m.replace(state)
	return nil
}
