package fsm

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

var allSlots = []*fsmpb.SlotRange{{First: 0, End: task.Slots}}

func expectAll(move uint64, fresh bool) *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_ExpectSlots{ExpectSlots: &fsmpb.ExpectSlots{
		Move: move, Ranges: allSlots, From: 1, Epoch: move + 1, Fresh: fresh,
	}}}
}

func importOf(move uint64, tasks ...[]byte) *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_ImportTasks{ImportTasks: &fsmpb.ImportTasks{Move: move, Tasks: tasks}}}
}

func readyOf(sealed *fsmpb.ReadySlots, move uint64) *fsmpb.Command {
	sealed.Move = move
	return &fsmpb.Command{Op: &fsmpb.Command_ReadySlots{ReadySlots: sealed}}
}

func openOf(move uint64, limit uint32) *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_OpenSlots{OpenSlots: &fsmpb.OpenSlots{Move: move, Max: limit}}}
}

func abandonOf(move uint64) *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_AbandonSlots{AbandonSlots: &fsmpb.AbandonSlots{
		Move: move, Max: 9, Ranges: allSlots, From: 1, Epoch: move + 1,
	}}}
}

func sealAll(move uint64) *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_SealSlots{SealSlots: &fsmpb.SealSlots{
		Move: move, Ranges: allSlots, To: 2, Epoch: move + 1,
	}}}
}

func unsealOf(move uint64) *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_UnsealSlots{UnsealSlots: &fsmpb.UnsealSlots{
		Move: move, Max: 9, Ranges: allSlots, To: 2, Epoch: move + 1,
	}}}
}

func dropOf(move uint64, limit uint32) *fsmpb.Command {
	return &fsmpb.Command{Op: &fsmpb.Command_DropSlots{DropSlots: &fsmpb.DropSlots{Move: move, Max: limit}}}
}

// moved moves all slots from one machine to another at an instant, and returns the entries of the opening and the drop.
func moved(t *testing.T, from, to *Machine, at int64, move uint64, fresh bool) (opened, dropped int) {
	t.Helper()
	mustOK := func(m *Machine, c *fsmpb.Command) bool {
		t.Helper()
		r := applyAll(t, m, at, c).Results[0]
		assert.MustEqual(t, r.Code, fsmpb.Code_CODE_OK, "%v: %v", c, r)
		return r.More
	}
	mustOK(to, expectAll(move, fresh))
	w := from.Watch(rangesOf(allSlots))
	defer w.Stop()
	for done := false; !done; {
		tasks, last, _, err := w.Copy(1 << 20)
		assert.NoError(t, err)
		mustOK(to, importOf(move, tasks...))
		done = last
	}
	mustOK(from, sealAll(move))
	sealed, err := w.Sealed()
	assert.NoError(t, err)
	mustOK(to, readyOf(sealed, move))
	for opened = 1; mustOK(to, openOf(move, 10)); opened++ {
		continue
	}
	for dropped = 1; mustOK(from, dropOf(move, 10)); dropped++ {
		continue
	}
	audit(t, from)
	audit(t, to)
	return opened, dropped
}

// A command of a move that comes at the wrong time, or again after a later move, is refused and changes nothing.
func TestMoveRefuses(t *testing.T) {
	begun := func(cmds ...*fsmpb.Command) []*fsmpb.Command { return cmds }
	sum0 := func(move uint64) *fsmpb.Command { return readyOf(&fsmpb.ReadySlots{}, move) }
	for name, test := range map[string]struct {
		before  []*fsmpb.Command
		refused *fsmpb.Command
	}{
		"no number":               {nil, expectAll(0, true)},
		"seal without a number":   {nil, sealAll(0)},
		"import of no move":       {nil, importOf(0)},
		"import of another":       {begun(expectAll(5, true)), importOf(4)},
		"import when ready":       {begun(expectAll(5, true), sum0(5)), importOf(5, []byte{})},
		"ready of another":        {begun(expectAll(5, true)), sum0(4)},
		"open unready":            {begun(expectAll(5, true)), openOf(5, 1)},
		"open another":            {begun(expectAll(5, true), sum0(5)), openOf(4, 1)},
		"open abandoned":          {begun(expectAll(5, true), sum0(5), abandonOf(5)), openOf(5, 1)},
		"abandon opened":          {begun(expectAll(5, true), sum0(5), openOf(5, 1)), abandonOf(5)},
		"expect twice":            {begun(expectAll(5, true)), expectAll(6, true)},
		"expect abandoned":        {begun(expectAll(5, true), abandonOf(5)), expectAll(5, true)},
		"expect late":             {begun(expectAll(5, true), abandonOf(5)), expectAll(4, true)},
		"expect given up":         {begun(abandonOf(5)), expectAll(5, true)},
		"expect before given up":  {begun(abandonOf(5)), expectAll(4, true)},
		"expect own":              {begun(expectAll(5, true), sum0(5), openOf(5, 1)), expectAll(6, true)},
		"expect with tasks":       {begun(scheduleCommand("a", 9)), expectAll(6, true)},
		"expect sealed":           {begun(sealAll(5)), expectAll(6, true)},
		"seal sealed":             {begun(sealAll(5)), sealAll(6)},
		"seal unsealed":           {begun(sealAll(5), unsealOf(5)), sealAll(5)},
		"seal late":               {begun(sealAll(5), unsealOf(5)), sealAll(4)},
		"seal given up":           {begun(unsealOf(5)), sealAll(5)},
		"seal before given up":    {begun(unsealOf(5)), sealAll(4)},
		"seal coming":             {begun(expectAll(5, true)), sealAll(6)},
		"seal gone":               {begun(sealAll(5), dropOf(5, 1)), sealAll(6)},
		"unseal dropped":          {begun(sealAll(5), dropOf(5, 1)), unsealOf(5)},
		"drop unsealed":           {begun(sealAll(5), unsealOf(5)), dropOf(5, 1)},
		"drop coming":             {begun(expectAll(5, true)), dropOf(5, 1)},
		"drop ready":              {begun(expectAll(5, true), sum0(5)), dropOf(5, 1)},
		"drop opened":             {begun(expectAll(5, true), sum0(5), openOf(5, 1)), dropOf(5, 1)},
		"wrong number of copies":  {begun(expectAll(5, true)), readyOf(&fsmpb.ReadySlots{Tasks: 1}, 5)},
		"wrong sum of the copies": {begun(expectAll(5, true)), readyOf(&fsmpb.ReadySlots{Sum: 1}, 5)},
	} {
		m := New(2)
		applyAll(t, m, 1000, test.before...)
		before := fmt.Sprint(m.Slots())
		r := applyAll(t, m, 1000, test.refused).Results[0]
		if r.Code != fsmpb.Code_CODE_CONFLICT && r.Code != fsmpb.Code_CODE_INVALID {
			t.Errorf("%s: answered %v", name, r)
		}
		if after := fmt.Sprint(m.Slots()); after != before {
			t.Errorf("%s: the slots were %s and are %s", name, before, after)
		}
		audit(t, m)
	}
}

// A repeated command of a move is answered as before, and changes nothing.
func TestMoveRepeats(t *testing.T) {
	target, source := New(2), New(1)
	for _, step := range []struct {
		m *Machine
		c *fsmpb.Command
	}{
		{target, expectAll(5, true)}, {target, importOf(5)}, {source, sealAll(5)}, {target, readyOf(&fsmpb.ReadySlots{}, 5)},
		{target, openOf(5, 1)}, {source, dropOf(5, 1)},
	} {
		for range 2 {
			if r := applyAll(t, step.m, 1000, step.c).Results[0]; r.Code != fsmpb.Code_CODE_OK || r.More {
				t.Errorf("%v: %v", step.c, r)
			}
		}
	}
	for _, late := range []*fsmpb.Command{expectAll(5, true), readyOf(&fsmpb.ReadySlots{}, 5)} {
		r := applyAll(t, target, 1000, late).Results[0]
		assert.Equal(t, r.Code, fsmpb.Code_CODE_OK, "%v after the opening: %v", late, r)
	}
	r := applyAll(t, source, 1000, sealAll(5)).Results[0]
	assert.Equal(t, r.Code, fsmpb.Code_CODE_OK, "seal after the drop: %v", r)
	if got := target.Slots(); len(got) != 1 || got[0].Phase != open || got[0].Epoch != 6 {
		t.Errorf("the target's slots: %v", got)
	}
	if got := source.Slots(); len(got) != 1 || got[0].Phase != gone || got[0].Epoch != 6 || got[0].Shard != 2 {
		t.Errorf("the source's slots: %v", got)
	}
}

func moving(code fsmpb.Code, shard uint32, epoch uint64) *fsmpb.Result {
	return &fsmpb.Result{Code: code, Revision: epoch, Task: &fsmpb.Task{Shard: shard}}
}

// The answer to a command on a task that moves names the shard to ask.
func TestAnswersDuringMove(t *testing.T) {
	for name, test := range map[string]struct {
		before []*fsmpb.Command
		want   *fsmpb.Result
	}{
		"sealed": {[]*fsmpb.Command{sealAll(5)}, moving(fsmpb.Code_CODE_MOVING, 2, 6)},
		"gone":   {[]*fsmpb.Command{sealAll(5), dropOf(5, 1)}, moving(fsmpb.Code_CODE_MOVED, 2, 6)},
		"coming": {[]*fsmpb.Command{expectAll(5, true)}, moving(fsmpb.Code_CODE_MOVING, 7, 6)},
		"ready": {
			[]*fsmpb.Command{expectAll(5, true), readyOf(&fsmpb.ReadySlots{}, 5)},
			moving(fsmpb.Code_CODE_MOVING, 7, 6),
		},
		"abandoned": {
			[]*fsmpb.Command{expectAll(5, true), abandonOf(5)},
			moving(fsmpb.Code_CODE_MOVED, 1, 5),
		},
	} {
		for _, c := range []*fsmpb.Command{
			scheduleCommand("a", 9), {Id: "a", Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}},
			settleGiven(task.Grant{ID: "a", Fence: 3, Occurrence: 2}, fsmpb.Verdict_VERDICT_DELIVERED),
			{Id: "a", Op: &fsmpb.Command_Extend{Extend: &fsmpb.Extend{LeaseMs: 9}}},
		} {
			m := New(7)
			applyAll(t, m, 1000, test.before...)
			got := applyAll(t, m, 1000, c).Results[0]
			if !proto.Equal(got, test.want) {
				t.Errorf("%s: %v is answered %v, want %v", name, c, got, test.want)
			}
		}
	}
}

// A move is given up before its seal, or before the target expects it. The step comes late, also after a restart, and the
// next move of the slots goes through.
func TestLateStepOfGivenUpMove(t *testing.T) {
	from, to := New(1), New(2)
	applyAll(t, from, 1000, scheduleCommand("a", 9000))
	apply := func(m *Machine, want fsmpb.Code, c *fsmpb.Command) {
		t.Helper()
		if r := applyAll(t, m, 1000, c).Results[0]; r.Code != want {
			t.Errorf("%v: answered %v, want %v", c, r, want)
		}
	}
	for range 2 {
		apply(from, fsmpb.Code_CODE_OK, unsealOf(5))
		apply(to, fsmpb.Code_CODE_OK, abandonOf(5))
	}
	from, to = restored(t, from), restored(t, to)
	apply(from, fsmpb.Code_CODE_CONFLICT, sealAll(5))
	apply(to, fsmpb.Code_CODE_CONFLICT, expectAll(5, true))
	apply(from, fsmpb.Code_CODE_NOT_FOUND, &fsmpb.Command{Id: "b", Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}})
	apply(to, fsmpb.Code_CODE_MOVED, &fsmpb.Command{Id: "a", Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}})

	moved(t, from, to, 1000, 6, true)
	apply(from, fsmpb.Code_CODE_CONFLICT, unsealOf(6))
	apply(to, fsmpb.Code_CODE_OK, &fsmpb.Command{Id: "a", Op: &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}})
}

// Repeats of UnsealSlots and AbandonSlots that come after a later move change nothing.
func TestGiveUpAfterLaterMove(t *testing.T) {
	from, to := New(1), New(2)
	applyAll(t, from, 1000, unsealOf(5))
	applyAll(t, to, 1000, abandonOf(5))
	moved(t, from, to, 1000, 6, true)
	before := fmt.Sprint(from.Slots(), to.Slots())
	applyAll(t, from, 1000, unsealOf(5), unsealOf(4))
	applyAll(t, to, 1000, abandonOf(5), abandonOf(4))
	if after := fmt.Sprint(from.Slots(), to.Slots()); after != before {
		t.Errorf("the slots were %s and are %s", before, after)
	}
}
