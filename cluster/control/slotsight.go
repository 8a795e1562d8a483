package control

import (
	"cmp"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// slotSights remembers how far the moves of slots are and what stops them, during one leadership of the control group.
// Its methods are safe for concurrent use.
type slotSights struct {
	mu     sync.Mutex
	moves  map[uint64]*slotSight // by number
	failed map[[2]uint32]failure // moves that were given up, by source and target; a new try has another number
}

// slotSight is the sight of one move.
type slotSight struct {
	progress *clusterpb.SlotsProgress // empty before the target has answered
	since    time.Time                // of the last step or copy
	reason   string                   // of the last failure since then, or ""
	shut     bool                     // calls on the slots wait
}

type failure struct {
	count  uint32
	reason string
}

// begin begins the sight of a move. It returns false if it has begun before.
func (s *slotSights) begin(move *clusterpb.SlotMove) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moves == nil {
		s.moves, s.failed = make(map[uint64]*slotSight), make(map[[2]uint32]failure)
	}
	if s.moves[move.Number] != nil {
		return false
	}
	s.moves[move.Number] = &slotSight{
		progress: &clusterpb.SlotsProgress{}, since: time.Now(), shut: move.State != copying,
	}
	return true
}

// copied notes the progress of the target. The same progress again is none.
func (s *slotSights) copied(number uint64, p *clusterpb.SlotsProgress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sight := s.moves[number]
	p.Step = sight.progress.Step
	if !proto.Equal(sight.progress, p) {
		sight.since, sight.reason = time.Now(), ""
	}
	sight.progress, sight.shut = p, p.Sealed
}

// begins notes the step that a move takes next.
func (s *slotSights) begins(number uint64, step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := proto.CloneOf(s.moves[number].progress) // readers have the old one
	p.Step = step
	s.moves[number].progress = p
}

// stepped notes a step of the driver, or its failure.
func (s *slotSights) stepped(number uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sight := s.moves[number]
	if err != nil {
		sight.reason = err.Error()
		return
	}
	sight.since, sight.reason = time.Now(), ""
}

// opened notes that no call waits for the slots any more.
func (s *slotSights) opened(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moves[number].shut = false
}

// givenUp notes that a move begins anew.
func (s *slotSights) givenUp(move *clusterpb.SlotMove, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	way := [2]uint32{move.From, move.To}
	s.failed[way] = failure{s.failed[way].count + 1, err.Error()}
}

// arrived forgets the failures of a move that has come to its end.
func (s *slotSights) arrived(move *clusterpb.SlotMove) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, [2]uint32{move.From, move.To})
}

// fill tells how far the moves under way are, and what stops them.
func (s *slotSights) fill(state *clusterpb.ControlState, shape *clusterpb.Shape) {
	s.mu.Lock()
	defer s.mu.Unlock()
	shape.Slots = make(map[uint64]*clusterpb.SlotsProgress)
	shape.SlotsWait = make(map[uint64]*clusterpb.SlotsWait)
	for _, move := range state.SlotMoves {
		sight := s.moves[move.Number]
		if sight == nil {
			continue
		}
		failed := s.failed[[2]uint32{move.From, move.To}]
		shape.Slots[move.Number] = sight.progress
		shape.SlotsWait[move.Number] = &clusterpb.SlotsWait{
			StillMs: time.Since(sight.since).Milliseconds(), CallsWait: sight.shut,
			Reason: cmp.Or(sight.reason, failed.reason), GivenUp: max(move.Tries, failed.count),
		}
	}
}
