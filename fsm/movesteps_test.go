package fsm

import (
	"fmt"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// step takes the next step of the move, or gives it up, or begins one. A step of a move that was given up may come before.
func (w *moveWorld) step() {
	if len(w.late) > 0 && rapid.Bool().Draw(w.t, "late") {
		w.refused(rapid.SampledFrom(w.late).Draw(w.t, "late step"))
	}
	switch mv := w.move; {
	case mv == nil:
		w.begin()
	case !mv.expected, !mv.owned && rapid.IntRange(0, 7).Draw(w.t, "gives up") == 0:
		w.giveUp()
	case !mv.copied:
		w.copy()
	case mv.sealed == nil && rapid.Bool().Draw(w.t, "streams"):
		w.stream()
	case mv.sealed == nil:
		w.seal()
	case !mv.ready:
		w.ready()
	case !mv.owned:
		mv.owned = true
		for _, id := range mv.ids {
			w.owner[id] = mv.to
		}
	case !mv.opened:
		w.open()
	default:
		w.drop()
	}
}

func (w *moveWorld) begin() {
	w.moves++
	mv := &move{id: w.moves, from: rapid.IntRange(0, 1).Draw(w.t, "from")}
	mv.to = 1 - mv.from
	slots := map[uint32]bool{}
	for _, id := range moveIDs {
		if w.owner[id] == mv.from && rapid.Bool().Draw(w.t, "takes "+id) {
			mv.ids = append(mv.ids, id)
			slots[task.Slot("", id)] = true
		}
	}
	if len(mv.ids) == 0 {
		return
	}
	for slot := range uint32(task.Slots) {
		if slots[slot] {
			mv.ranges = append(mv.ranges, &fsmpb.SlotRange{First: slot, End: slot + 1})
		}
	}
	fresh := len(w.shards[mv.to].m.Slots()) == 0 && mv.to == 1
	w.move = mv
	mv.expect = &fsmpb.Command{Op: &fsmpb.Command_ExpectSlots{ExpectSlots: &fsmpb.ExpectSlots{
		Move: mv.id, Ranges: mv.ranges, From: uint32(mv.from), Epoch: mv.id, Fresh: fresh,
	}}}
	mv.seal = &fsmpb.Command{Op: &fsmpb.Command_SealSlots{SealSlots: &fsmpb.SealSlots{
		Move: mv.id, Ranges: mv.ranges, To: uint32(mv.to), Epoch: mv.id,
	}}}
	if mv.expected = rapid.IntRange(0, 7).Draw(w.t, "expects") > 0; mv.expected {
		w.ok(mv.to, mv.expect)
	}
	mv.watch = w.shards[mv.from].m.Watch(rangesOf(mv.ranges))
}

func rangesOf(messages []*fsmpb.SlotRange) []SlotRange {
	var ranges []SlotRange
	for _, m := range messages {
		ranges = append(ranges, SlotRange{First: m.First, End: m.End})
	}
	return ranges
}

// ok applies a command of a move, sometimes twice, and returns whether there is more to do.
func (w *moveWorld) ok(shard int, c *fsmpb.Command) (more bool) {
	for range rapid.IntRange(1, 2).Draw(w.t, "times") {
		r := w.apply(shard, c).Results[0]
		assert.MustEqual(w.t, r.Code, fsmpb.Code_CODE_OK, "%v is answered %v", c, r)
		more = r.More
	}
	return more
}

// refused applies a step of a move that was given up. It may have left before, and comes late.
func (w *moveWorld) refused(s shardStep) {
	r := w.apply(s.shard, s.command).Results[0]
	assert.MustEqual(w.t, r.Code, fsmpb.Code_CODE_CONFLICT, "%v is answered %v", s.command, r)
}

func (w *moveWorld) copy() {
	tasks, done, _, err := w.move.watch.Copy(rapid.IntRange(1, 400).Draw(w.t, "bytes"))
	assert.NoError(w.t, err)
	w.take(tasks, nil)
	w.move.copied = done
}

func (w *moveWorld) take(tasks [][]byte, gone []*fsmpb.TaskName) {
	w.ok(w.move.to, &fsmpb.Command{Op: &fsmpb.Command_ImportTasks{ImportTasks: &fsmpb.ImportTasks{
		Move: w.move.id, Tasks: tasks, Gone: gone,
	}}})
}

func (w *moveWorld) stream() (left int) {
	tasks, gone, left, err := w.move.watch.Changes(rapid.IntRange(1, 400).Draw(w.t, "bytes"))
	assert.NoError(w.t, err)
	w.take(tasks, gone)
	return left
}

func (w *moveWorld) seal() {
	w.ok(w.move.from, w.move.seal)
	sealed, err := w.move.watch.Sealed()
	assert.NoError(w.t, err)
	w.move.sealed = sealed
}

func (w *moveWorld) ready() {
	for w.stream() > 0 {
		continue
	}
	w.move.sealed.Move = w.move.id
	w.ok(w.move.to, &fsmpb.Command{Op: &fsmpb.Command_ReadySlots{ReadySlots: w.move.sealed}})
	w.move.ready = true
}

func (w *moveWorld) open() {
	op := &fsmpb.OpenSlots{Move: w.move.id, Max: rapid.Uint32Range(1, 3).Draw(w.t, "max")}
	if w.ok(w.move.to, &fsmpb.Command{Op: &fsmpb.Command_OpenSlots{OpenSlots: op}}) {
		return
	}
	w.move.opened = true
	w.move.watch.Stop()
	w.catchUp()
}

// catchUp advances the shards to where the whole one is: what came due during the seal fires.
func (w *moveWorld) catchUp() { w.advance(w.whole.Position()) }

// advance is the only command of the shards themselves during a seal, so that catchUp can repeat it.
func (w *moveWorld) advance(to int64) {
	w.everywhere(func(uint64) *fsmpb.Command {
		c := &fsmpb.Command{}
		setOp(c, "advance", args{named: map[string]string{"to": fmt.Sprint(to), "window": "100000", "max": "100000"}}, w.now)
		return c
	})
}

func (w *moveWorld) drop() {
	op := &fsmpb.DropSlots{Move: w.move.id, Max: rapid.Uint32Range(1, 3).Draw(w.t, "max")}
	if !w.ok(w.move.from, &fsmpb.Command{Op: &fsmpb.Command_DropSlots{DropSlots: op}}) {
		w.move = nil
	}
}

// giveUp ends a move that the control group has not decided. Leaders may have changed: a later move copies again.
func (w *moveWorld) giveUp() {
	mv := w.move
	unseal := &fsmpb.Command{Op: &fsmpb.Command_UnsealSlots{UnsealSlots: &fsmpb.UnsealSlots{
		Move: mv.id, Max: 1, Ranges: mv.ranges, To: uint32(mv.to), Epoch: mv.id,
	}}}
	for w.ok(mv.from, unseal) {
		continue
	}
	abandon := &fsmpb.Command{Op: &fsmpb.Command_AbandonSlots{AbandonSlots: &fsmpb.AbandonSlots{
		Move: mv.id, Max: 1, Ranges: mv.ranges, From: uint32(mv.from), Epoch: mv.id,
	}}}
	for w.ok(mv.to, abandon) {
		continue
	}
	mv.watch.Stop()
	w.move = nil
	w.late = append(w.late, shardStep{mv.to, mv.expect}, shardStep{mv.from, mv.seal})
	if mv.sealed != nil {
		w.catchUp()
	}
}

// settle ends the move under way.
func (w *moveWorld) settle() {
	for w.move != nil {
		w.step()
	}
}
