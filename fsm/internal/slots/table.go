// Package slots records the part that each slot of a shard plays in moves between shards. It is a pure data structure.
//
//	Range   the slots [First, End)
//	State   phase, move, other shard and epoch of slots
//	Table   the states of all slots; those without a state are open
//
// A table has a few parts, and is read for each command. So it also keeps one bit for each slot that is not open, and
// no bits at all while all slots are open.
package slots

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Range is the slots [First, End).
type Range struct{ First, End uint32 }

// And returns the slots that are in both ranges. The result may be empty.
func (r Range) And(o Range) Range {
	return Range{First: max(r.First, o.First), End: max(max(r.First, o.First), min(r.End, o.End))}
}

// Have reports whether one of the ranges has a slot.
func Have(ranges []Range, slot uint32) bool {
	return slices.ContainsFunc(ranges, func(r Range) bool { return r.First <= slot && slot < r.End })
}

func (r Range) isEmpty() bool { return r.First >= r.End }

// RangesOf returns the ranges of a message. They must be sorted, disjoint and not empty.
func RangesOf(messages []*fsmpb.SlotRange) ([]Range, error) {
	if len(messages) == 0 {
		return nil, errors.New("is empty")
	}
	ranges := make([]Range, len(messages))
	end := uint32(0)
	for i, m := range messages {
		ranges[i] = Range{m.GetFirst(), m.GetEnd()}
		if r := ranges[i]; r.First < end || r.isEmpty() || r.End > task.Slots {
			return nil, fmt.Errorf("[%d, %d) is no range of slots, or not behind the range before it", r.First, r.End)
		}
		end = ranges[i].End
	}
	return ranges, nil
}

// State is the phase of slots, and the last move that they took part in. The zero State is that of slots that never
// took part in one.
type State struct {
	Phase fsmpb.SlotPhase
	Move  uint64
	Shard uint32 // the other shard of the move
	Epoch uint64 // owner's epoch; of sealed slots that of the target
}

// Part is a range of slots with the same state.
type Part struct {
	Range
	State
}

// Table has the states of all slots. The zero Table is that of a shard without a move.
type Table struct {
	parts []Part                   // sorted, disjoint; without zero States
	shut  *[task.Slots / 64]uint64 // a bit for each slot that is not open; nil: all are open
}

// AllOpen reports whether all slots are open.
func (t *Table) AllOpen() bool { return t.shut == nil }

// IsOpen reports whether a slot is open.
func (t *Table) IsOpen(slot uint32) bool {
	return t.shut == nil || t.shut[slot/64]&(1<<(slot%64)) == 0
}

// HoldsOwn reports whether the tasks of a slot are the shard's own, and neither copies nor remains.
func (t *Table) HoldsOwn(slot uint32) bool {
	return t.IsOpen(slot) || t.At(slot).Phase == fsmpb.SlotPhase_SLOT_PHASE_SEALED
}

// At returns the state of a slot.
func (t *Table) At(slot uint32) State {
	for _, p := range t.parts {
		if p.First <= slot && slot < p.End {
			return p.State
		}
	}
	return State{}
}

// Parts returns the parts with a state, sorted. The caller must not change them.
func (t *Table) Parts() []Part { return t.parts }

// In yields the parts of ranges, those with the zero State included.
func (t *Table) In(ranges []Range) iter.Seq[Part] {
	return func(yield func(Part) bool) {
		for _, r := range ranges {
			if !t.each(r, yield) {
				return
			}
		}
	}
}

func (t *Table) each(r Range, yield func(Part) bool) bool {
	at := r.First
	for _, p := range t.parts {
		both := p.And(r)
		if both.isEmpty() {
			continue
		}
		if at < both.First && !yield(Part{Range: Range{at, both.First}}) {
			return false
		}
		if !yield(Part{both, p.State}) {
			return false
		}
		at = both.End
	}
	return at >= r.End || yield(Part{Range: Range{at, r.End}})
}

// Of returns the ranges of a move that are in a phase.
func (t *Table) Of(move uint64, phase fsmpb.SlotPhase) []Range {
	var ranges []Range
	for _, p := range t.parts {
		if p.Move == move && p.Phase == phase {
			ranges = append(ranges, p.Range)
		}
	}
	return ranges
}

// Set gives slots a state.
func (t *Table) Set(r Range, s State) {
	parts := []Part{{r, s}}
	for _, p := range t.parts {
		for _, rest := range []Range{{p.First, min(p.End, r.First)}, {max(p.First, r.End), p.End}} {
			if !rest.isEmpty() {
				parts = append(parts, Part{rest, p.State})
			}
		}
	}
	t.put(parts)
}

// put replaces the parts by others, in any order and disjoint.
func (t *Table) put(parts []Part) {
	slices.SortFunc(parts, func(a, b Part) int { return cmp.Compare(a.First, b.First) })
	t.parts, t.shut = nil, nil
	for _, p := range parts {
		if p.State == (State{}) {
			continue
		}
		if last := len(t.parts) - 1; last >= 0 && t.parts[last].End == p.First && t.parts[last].State == p.State {
			t.parts[last].End = p.End
		} else {
			t.parts = append(t.parts, p)
		}
		if p.Phase != fsmpb.SlotPhase_SLOT_PHASE_OPEN {
			t.close(p.Range)
		}
	}
}

func (t *Table) close(r Range) {
	if t.shut == nil {
		t.shut = new([task.Slots / 64]uint64)
	}
	for slot := r.First; slot < r.End; slot++ {
		t.shut[slot/64] |= 1 << (slot % 64)
	}
}

// Messages returns the parts as a snapshot has them.
func (t *Table) Messages() []*fsmpb.SlotState {
	var messages []*fsmpb.SlotState
	for _, p := range t.parts {
		messages = append(messages, &fsmpb.SlotState{
			First: p.First, End: p.End, Phase: p.Phase, Move: p.Move, Shard: p.Shard, Epoch: p.Epoch,
		})
	}
	return messages
}

// TableOf returns the table of a snapshot.
func TableOf(messages []*fsmpb.SlotState) (Table, error) {
	var t Table
	var parts []Part
	end := uint32(0)
	for _, m := range messages {
		p := Part{Range{m.First, m.End}, State{m.Phase, m.Move, m.Shard, m.Epoch}}
		if p.First < end || p.isEmpty() || p.End > task.Slots {
			return t, fmt.Errorf("slots [%d, %d) are no range, or not behind the range before it", p.First, p.End)
		}
		if p.Phase < fsmpb.SlotPhase_SLOT_PHASE_OPEN || p.Phase > fsmpb.SlotPhase_SLOT_PHASE_GONE {
			return t, fmt.Errorf("slots [%d, %d) are in phase %d, which there is not", p.First, p.End, p.Phase)
		}
		parts, end = append(parts, p), p.End
	}
	t.put(parts)
	return t, nil
}
