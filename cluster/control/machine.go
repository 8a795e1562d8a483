package control

import (
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

// Apply answers an entry with a Change, or with the error that refuses it. It fails for an entry that it cannot read.
func (m *machine) Apply(e raftgroup.Entry) (answer any, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.applied = e.Index
	if !e.Command {
		return nil, nil
	}
	next, change, err := apply(m.state, e.Data)
	switch {
	case isUnreadable(err):
		return nil, err
	case err != nil:
		return err, nil
	}
	m.replace(next)
	return change, nil
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
	m.applied = 0
	m.replace(state)
	return nil
}
