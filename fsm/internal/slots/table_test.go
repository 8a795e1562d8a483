package slots

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// A table equals an array with the state of each slot, also after its messages have been read back.
func TestTableEqualsArray(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var table Table
		var want [task.Slots]State
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			r := drawRange(t)
			s := State{
				Phase: fsmpb.SlotPhase(rapid.IntRange(0, 4).Draw(t, "phase")), Move: rapid.Uint64Range(0, 2).Draw(t, "move"),
				Shard: rapid.Uint32Range(0, 1).Draw(t, "shard"),
			}
			table.Set(r, s)
			for slot := r.First; slot < r.End; slot++ {
				want[slot] = s
			}
		}
		again, err := TableOf(table.Messages())
		assert.NoError(t, err)
		assert.MustEqual(t, cmp.Diff(table.Parts(), again.Parts()), "", "written (-) and read (+)")
		checkSlots(t, &again, &want)
		checkParts(t, &again, &want)
	})
}

func drawRange(t *rapid.T) Range {
	first := rapid.Uint32Range(0, task.Slots-1).Draw(t, "first")
	return Range{first, rapid.Uint32Range(first+1, task.Slots).Draw(t, "end")}
}

func checkSlots(t *rapid.T, table *Table, want *[task.Slots]State) {
	allOpen := true
	for slot := range uint32(task.Slots) {
		open := want[slot].Phase == fsmpb.SlotPhase_SLOT_PHASE_OPEN
		allOpen = allOpen && open
		if table.At(slot) != want[slot] || table.IsOpen(slot) != open {
			t.Fatalf("slot %d: %+v, open %v, want %+v", slot, table.At(slot), table.IsOpen(slot), want[slot])
		}
	}
	assert.MustEqual(t, table.AllOpen(), allOpen, "all open")
}

func checkParts(t *rapid.T, table *Table, want *[task.Slots]State) {
	r := drawRange(t)
	at := r.First
	for p := range table.In([]Range{r}) {
		assert.MustEqual(t, p.First, at, "a part begins at")
		for ; at < p.End; at++ {
			assert.MustEqual(t, p.State, want[at], "slot %d", at)
		}
	}
	assert.MustEqual(t, at, r.End, "the parts end at")
}

func TestRangesOfRefuses(t *testing.T) {
	for name, ranges := range map[string][]*fsmpb.SlotRange{
		"none":        nil,
		"empty":       {{First: 3, End: 3}},
		"reversed":    {{First: 3, End: 2}},
		"beyond":      {{First: 3, End: task.Slots + 1}},
		"overlapping": {{First: 3, End: 5}, {First: 4, End: 6}},
		"unsorted":    {{First: 8, End: 9}, {First: 1, End: 2}},
	} {
		_, err := RangesOf(ranges)
		assert.Error(t, err, "%s: no error", name)
	}
	if got, err := RangesOf([]*fsmpb.SlotRange{{First: 1, End: 2}, {First: 2, End: task.Slots}}); err != nil || len(got) != 2 {
		t.Errorf("%v, %v", got, err)
	}
}
