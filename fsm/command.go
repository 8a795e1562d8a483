package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/store"
)

// command is how one kind of command is applied.
type command struct {
	apply func(*Machine, request) *fsmpb.Result
	// call says that a caller made the command: it may carry a key, a condition, and a wish for the task in its answer.
	call bool
	// present says that a call needs a task. Without one it is answered not found.
	present bool
}

// commandOf is the table of commands, by the kind of their op. (A map by type would cost each command 35 ns.)
func commandOf(op any) command {
	switch op.(type) {
	case *fsmpb.Command_Takeover:
		return command{apply: (*Machine).applyTakeover}
	case *fsmpb.Command_SetRules:
		return command{apply: (*Machine).applySetRules}
	case *fsmpb.Command_Advance:
		return command{apply: (*Machine).applyAdvance}
	case *fsmpb.Command_Grant:
		return command{apply: (*Machine).applyGrant}
	case *fsmpb.Command_Settle:
		return command{apply: (*Machine).applySettle}
	case *fsmpb.Command_Extend:
		return command{apply: (*Machine).applyExtend}
	case *fsmpb.Command_Schedule:
		return command{apply: (*Machine).applySchedule, call: true}
	case *fsmpb.Command_Touch:
		return command{apply: (*Machine).applyTouch, call: true}
	case *fsmpb.Command_Cancel:
		return command{apply: (*Machine).applyCancel, call: true, present: true}
	case *fsmpb.Command_Patch:
		return command{apply: (*Machine).applyPatch, call: true, present: true}
	case *fsmpb.Command_FireNow:
		return command{apply: (*Machine).applyFireNow, call: true, present: true}
	case *fsmpb.Command_Replay:
		return command{apply: (*Machine).applyReplay, call: true, present: true}
	case *fsmpb.Command_Drop:
		return command{apply: (*Machine).applyDrop, call: true, present: true}
	}
	return command{}
}

// request is a command with the task that it names.
type request struct {
	*fsmpb.Command
	at   store.Place
	task store.Task // the task of the command's id; it may not exist
}

// apply carries out one command.
func (m *Machine) apply(c *fsmpb.Command, at store.Place) *fsmpb.Result {
	m.store.Number++
	kind := commandOf(c.Op)
	if !kind.call {
		return kind.apply(m, request{Command: c, at: at})
	}
	if c.Id == "" {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: "id", Detail: "is empty"}
	}
	return m.applyCall(kind, request{c, at, m.find(c, at)})
}

func (m *Machine) find(c *fsmpb.Command, at store.Place) store.Task {
	return m.store.FindAt(at, c.Namespace, c.Id)
}

// applyCall carries out a caller's command: a repeat of a remembered one changes nothing, a failed condition neither.
func (m *Machine) applyCall(kind command, r request) *fsmpb.Result {
	if result := m.recall(r); result != nil {
		return result
	}
	if !holds(r.task, r.Condition) {
		return m.unmet(r)
	}
	if kind.present && !r.task.Exists() {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	}
	result := kind.apply(m, r)
	if code := result.Code; code == fsmpb.Code_CODE_OK || code == fsmpb.Code_CODE_CREATED {
		left := m.find(r.Command, r.at)
		result.Revision = left.Revision()
		m.store.Remember(left, r.Key, result)
		m.answer(result, left, r.Answer)
	}
	return result
}

// holds reports whether a task, which may be none, meets the condition of a call.
func holds(t store.Task, c *fsmpb.Condition) bool {
	switch {
	case c == nil:
		return true
	case c.Absent && t.Exists(), c.Present && !t.Exists():
		return false
	case len(c.Revisions) == 0:
		return true
	}
	for _, revision := range c.Revisions {
		if t.Exists() && revision == t.Revision() {
			return true
		}
	}
	return false
}
