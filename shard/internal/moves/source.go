package moves

import (
	"errors"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/belfryhq/belfry/fsm"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// ErrLost means that the two leaders do not know the same batches of a move, so the move must begin anew.
var ErrLost = errors.New("a leader of the move has changed: the copy must begin anew")

// batchBytes is the size of a batch's tasks, except for a last large one. A batch becomes one entry of the target.
const batchBytes = 96 << 10

// Request asks the source of a move for a batch.
type Request struct {
	Move    uint64
	Ranges  []fsm.SlotRange
	Session uint64 // of the source's last answer; 0: begin
	Batch   uint64 // number of the batch, from 1 on; the last number again repeats the last batch
}

// Batch is a part of the tasks, or of the changes since they were read.
type Batch struct {
	Session uint64
	Tasks   [][]byte          // as ImportTasks has them
	Gone    []*fsmpb.TaskName // tasks to drop before Tasks are added
	Copied  bool              // all tasks were read; Tasks are changes
	Left    int               // further changes
	// Ready has the numbers of ReadySlots, without the move, after the last change of sealed slots. Otherwise it is nil.
	Ready *fsmpb.ReadySlots
}

// Source reads the tasks of a move at the leader of its source, one move at a time.
type Source struct {
	machine *fsm.Machine

	mu     sync.Mutex // guards all fields below
	watch  *fsm.Watch // nil: no session
	last   Batch
	number uint64 // of last
	ended  bool
}

// NewSource returns a Source of a machine's tasks.
func NewSource(m *fsm.Machine) *Source { return &Source{machine: m} }

// Next returns the batch that r asks for. A request without a session ends any other session.
func (s *Source) Next(r Request) (Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended:
		return Batch{}, ErrLost
	case r.Session == 0:
		s.stop()
		s.watch, s.last, s.number = s.machine.Watch(r.Ranges), Batch{Session: rand.Uint64() | 1}, 0
	case s.watch == nil || r.Session != s.last.Session || r.Batch != s.number && r.Batch != s.number+1:
		return Batch{}, ErrLost
	case r.Batch == s.number:
		return s.last, nil
	}
	next, err := s.read(r.Move)
	if err != nil {
		s.stop()
		return Batch{}, err
	}
	s.last = next
	s.number++
	return next, nil
}

// read reads the next batch. The slots are seen to be sealed before the last changes are read.
func (s *Source) read(move uint64) (Batch, error) {
	next := Batch{Session: s.last.Session, Copied: s.last.Copied}
	var err error
	if !next.Copied {
		next.Tasks, next.Copied, next.Left, err = s.watch.Copy(batchBytes)
		return next, err
	}
	sealed := s.isSealed(move) || flawReadsUnsealed()
	if next.Tasks, next.Gone, next.Left, err = s.watch.Changes(batchBytes); err == nil && sealed && next.Left == 0 {
		next.Ready, err = s.watch.Sealed()
	}
	return next, err
}

func (s *Source) isSealed(move uint64) bool {
	return slices.ContainsFunc(s.machine.Slots(), func(p *fsmpb.SlotState) bool {
		return p.Move == move && p.Phase == fsmpb.SlotPhase_SLOT_PHASE_SEALED
	})
}

// Stop ends all sessions because the leadership has ended. None begins afterwards.
func (s *Source) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.stop()
}

func (s *Source) stop() {
	if s.watch != nil {
		s.watch.Stop()
		s.watch = nil
	}
}
