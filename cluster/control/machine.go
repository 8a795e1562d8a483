package control

import (
	"fmt"
	"io"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// machine is the group's raft.FSM. Raft applies on one goroutine; any number read.
type machine struct {
	fatal func(error)

	mu      sync.Mutex
	state   *clusterpb.ControlState // never changed, only replaced
	changed chan struct{}           // closed at the next change
	broken  error                   // nothing is applied any more
}

var _ raft.BatchingFSM = (*machine)(nil)

func newMachine(fatal func(error)) *machine {
	return &machine{fatal: fatal, state: &clusterpb.ControlState{}, changed: make(chan struct{})}
}

// watch returns the state, and a channel that is closed when there is a newer one.
func (m *machine) watch() (*clusterpb.ControlState, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, m.changed
}

// ApplyBatch is what Raft calls. Being a BatchingFSM lets an idle group snapshot after a change of membership.
func (m *machine) ApplyBatch(logs []*raft.Log) []any {
	answers := make([]any, len(logs))
	for i, l := range logs {
		if l.Type == raft.LogCommand {
			answers[i] = m.Apply(l)
		}
	}
	return answers
}

// Apply returns a Change, or an error: a refusal, or why the group has stopped here.
func (m *machine) Apply(l *raft.Log) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.broken != nil {
		return m.broken
	}
	next, change, err := apply(m.state, l.Data)
	if isUnreadable(err) {
		m.broken = fmt.Errorf("control group, index %d: %w", l.Index, err)
		go m.fatal(m.broken) // it may stop the very group whose goroutine this is
		return m.broken
	}
	if err != nil {
		return err
	}
	m.replace(next)
	return change
}

// replace is called with the lock held.
func (m *machine) replace(next *clusterpb.ControlState) {
	m.state = next
	close(m.changed)
	m.changed = make(chan struct{})
}

// Snapshot is the state itself: nobody ever changes it.
func (m *machine) Snapshot() (raft.FSMSnapshot, error) {
	state, _ := m.watch()
	return snapshot{state}, nil
}

// Restore replaces the state once all of it has been read.
func (m *machine) Restore(r io.ReadCloser) error {
	defer func() { _ = r.Close() }() // only read
	state, err := readSnapshot(r)
	if err != nil {
		return fmt.Errorf("control group's snapshot: %w", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.replace(state)
	return nil
}
