package fsm

import (
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// command describes how one kind of command is applied.
type command struct {
	apply func(*applier, request) *fsmpb.Result
	// call is set if a caller made the command. Such a command may have a key, a condition, and a wish for the task in
	// the answer.
	call bool
	// present is set if the call needs an existing task. Without a task, the answer is not found.
	present bool
	// series is set if the call is about a schedule. Other calls find no schedule, and such a call finds no task.
	series bool
	// since is the first command version with the kind; 0 stands for FirstVersion.
	since uint32
}

// VersionOf returns the lowest command version at which a command may be written.
func VersionOf(c *fsmpb.Command) uint32 {
	return max(commandOf(c.Op).since, sinceOfParts(c), FirstVersion)
}

// IsolationSince is the first command version with isolated paths, the newest part of commands.
const IsolationSince = CommandVersion

// sinceOfParts returns the first command version with all parts of a command; 0 stands for FirstVersion.
func sinceOfParts(c *fsmpb.Command) uint32 {
	switch op := c.Op.(type) {
	case *fsmpb.Command_Settle:
		if op.Settle.GetVerdict() == fsmpb.Verdict_VERDICT_PROBED {
			return IsolationSince
		}
	case *fsmpb.Command_Grant:
		if op.Grant.GetTurn() != 0 || op.Grant.GetLane().GetPath() != "" {
			return IsolationSince
		}
	}
	return 0
}

// commandOf returns the entry of the command table for the kind of op. (A map by type would cost each command 35 ns.)
func commandOf(op any) command {
	switch op.(type) {
	case *fsmpb.Command_Takeover:
		return command{apply: (*applier).applyTakeover}
	case *fsmpb.Command_SetRules:
		return command{apply: (*applier).applySetRules}
	case *fsmpb.Command_Advance:
		return command{apply: (*applier).applyAdvance}
	case *fsmpb.Command_Grant:
		return command{apply: (*applier).applyGrant}
	case *fsmpb.Command_Isolate:
		return command{apply: (*applier).applyIsolate, since: IsolationSince}
	case *fsmpb.Command_Settle:
		return command{apply: (*applier).applySettle}
	case *fsmpb.Command_Extend:
		return command{apply: (*applier).applyExtend}
	case *fsmpb.Command_Schedule:
		return command{apply: (*applier).applySchedule, call: true}
	case *fsmpb.Command_Touch:
		return command{apply: (*applier).applyTouch, call: true}
	case *fsmpb.Command_Cancel:
		return command{apply: (*applier).applyCancel, call: true, present: true}
	case *fsmpb.Command_Patch:
		return command{apply: (*applier).applyPatch, call: true, present: true}
	case *fsmpb.Command_FireNow:
		return command{apply: (*applier).applyFireNow, call: true, present: true}
	case *fsmpb.Command_Replay:
		return command{apply: (*applier).applyReplay, call: true, present: true}
	case *fsmpb.Command_Drop:
		return command{apply: (*applier).applyDrop, call: true, present: true}
	case *fsmpb.Command_Erase:
		return command{apply: (*applier).applyErase, call: true, present: true, since: CommandVersion}
	}
	return commandOfSeries(op)
}

func commandOfSeries(op any) command {
	call := command{call: true, present: true, series: true}
	switch op.(type) {
	case *fsmpb.Command_SetSeries:
		call.apply, call.present = (*applier).applySetSeries, false
	case *fsmpb.Command_PauseSeries:
		call.apply = (*applier).applyPauseSeries
	case *fsmpb.Command_StartOccurrence:
		call.apply = (*applier).applyStartOccurrence
	case *fsmpb.Command_SkipOccurrence:
		call.apply = (*applier).applySkipOccurrence
	case *fsmpb.Command_Backfill:
		call.apply = (*applier).applyBackfill
	case *fsmpb.Command_ExtendSeries:
		return command{apply: (*applier).applyExtendSeries}
	default:
		return commandOfMove(op)
	}
	return call
}

// request is a command together with the task that it names.
type request struct {
	*fsmpb.Command
	at   store.Place
	task store.Task // the task of the command's id; it may not exist
}

// apply carries out one command.
func (a *applier) apply(c *fsmpb.Command, at store.Place) *fsmpb.Result {
	a.store.Number++
	kind := commandOf(c.Op)
	if !a.store.Slots.IsOpen(at.Slot()) && c.Id != "" {
		return a.shut(at)
	}
	if !kind.call {
		return kind.apply(a, request{Command: c, at: at})
	}
	if c.Id == "" {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: "id", Detail: "is empty"}
	}
	return a.applyCall(kind, request{c, at, a.store.FindAt(at, c.Namespace, c.Id)})
}

// applyCall carries out a caller's command. A repeat of a remembered call and a failed condition change nothing.
func (a *applier) applyCall(kind command, r request) *fsmpb.Result {
	if result := a.recall(r); result != nil {
		return result
	}
	if !holds(r.task, r.Condition) {
		return a.unmet(r)
	}
	if kind.present && !r.task.Exists() || !kind.fits(r) {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	}
	number := a.store.Number // of this command
	result := kind.apply(a, r)
	if code := result.Code; code == fsmpb.Code_CODE_OK || code == fsmpb.Code_CODE_CREATED {
		left := a.store.FindAt(r.at, r.Namespace, r.Id)
		result.Revision = left.Revision()
		a.store.Remember(left, r.Key, result, number)
		a.answer(result, left, r.Answer)
	}
	return result
}

// fits reports whether a call about a task names a task, and one about a schedule a schedule. Both can be erased.
func (kind command) fits(r request) bool {
	_, isSeries := task.SplitSeries(r.Id)
	return isSeries == kind.series || r.GetErase() != nil
}

// holds reports whether a task meets the condition of a call. The task may not exist.
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
