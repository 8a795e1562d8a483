package fsm

import (
	"errors"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// Watch reads the tasks of slots that move away, and follows their changes: see store.Watch. Its methods hold the
// machine's lock for about a millisecond. One goroutine may use it while entries are applied.
type Watch struct {
	m *Machine
	w *store.Watch
}

// ErrUnwatched means that another Watch of the machine has begun, or that a snapshot has replaced the machine's state.
var ErrUnwatched = errors.New("the changes of the slots are no longer followed")

// Watch begins to follow the changes in ranges of slots. A machine has one Watch at a time.
func (m *Machine) Watch(ranges []SlotRange) *Watch {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &Watch{m, m.store.Moves.Watch(ranges)}
}

// Copy returns the next tasks, as ImportTasks has them. They have limit bytes and one task at most. done is set if no
// further task is left. changes is the number of changes so far.
func (w *Watch) Copy(limit int) (tasks [][]byte, done bool, changes int, err error) {
	w.m.mu.RLock()
	defer w.m.mu.RUnlock()
	if !w.m.store.Moves.Follows(w.w) {
		return nil, false, 0, ErrUnwatched
	}
	tasks, done = w.w.Copy(w.m.store, limit)
	return tasks, done, w.w.Left(), nil
}

// Changes returns tasks that have changed since Copy or Changes read them, as ImportTasks has them, and tasks that are
// gone. left is the number of further changes.
func (w *Watch) Changes(limit int) (tasks [][]byte, gone []*fsmpb.TaskName, left int, err error) {
	w.m.mu.RLock()
	defer w.m.mu.RUnlock()
	if !w.m.store.Moves.Follows(w.w) {
		return nil, nil, 0, ErrUnwatched
	}
	tasks, gone = w.w.Changes(w.m.store, limit)
	return tasks, gone, w.w.Left(), nil
}

// Sealed returns the numbers that ReadySlots compares and takes over. The slots must be sealed, and Copy must have read
// all tasks.
func (w *Watch) Sealed() (*fsmpb.ReadySlots, error) {
	w.m.mu.RLock()
	defer w.m.mu.RUnlock()
	if !w.m.store.Moves.Follows(w.w) {
		return nil, ErrUnwatched
	}
	tasks, sum := w.w.Sum()
	return &fsmpb.ReadySlots{
		Tasks: tasks, Sum: sum, Number: w.m.store.Number, Inherited: w.m.store.Origins.In(w.w.Ranges(), w.m.store.Number),
	}, nil
}

// Stop ends the Watch.
func (w *Watch) Stop() {
	w.m.mu.Lock()
	defer w.m.mu.Unlock()
	w.m.store.Moves.Unwatch(w.w)
}

// Slots returns the states of the slots that have taken part in moves, sorted.
func (m *Machine) Slots() []*fsmpb.SlotState {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Slots.Messages()
}

// IsMoving reports whether a slot of the shard is not open. It takes no lock.
func (m *Machine) IsMoving() bool { return m.moving.Load() }

// Copies returns the number of copied tasks in slots that are coming.
func (m *Machine) Copies() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.store.Moves.Coming() == 0 {
		return 0
	}
	tasks, _ := m.store.Moves.Copied()
	return tasks
}

// SlotOf returns the state of a task's slot.
func (m *Machine) SlotOf(namespace, id string) SlotState {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.store.Slots.At(task.Slot(namespace, id))
}
