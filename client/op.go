package client

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/belfryhq/belfry/internal/contract"
)

// Op is one operation of a batch.
type Op struct {
	verb   string
	id     string
	opts   options
	fields []byte // the call's members, each with a comma in front
	err    error
}

// ScheduleOp returns the operation of Schedule, for a batch.
func ScheduleOp(task Task, opts ...Option) Op {
	op := Op{verb: "schedule", id: task.ID, opts: gather(opts)}
	task.Payload = oneLine(task.Payload)
	op.fields, op.err = appendTask(nil, &task)
	return op
}

// CancelOp returns the operation of Cancel, for a batch.
func CancelOp(id string, opts ...Option) Op { return Op{verb: "cancel", id: id, opts: gather(opts)} }

// FireOp returns the operation of FireNow, for a batch.
func FireOp(id string, opts ...Option) Op { return Op{verb: "fire", id: id, opts: gather(opts)} }

// TouchOp returns the operation of Touch, for a batch.
func TouchOp(id string, touch Touch, opts ...Option) Op {
	op := Op{verb: "touch", id: id, opts: gather(opts)}
	touch = touch.oneLine()
	op.fields, op.err = appendTouch(nil, &touch)
	return op
}

// PatchOp returns the operation of Patch, for a batch.
func PatchOp(id string, patch Patch, opts ...Option) Op {
	op := Op{verb: "patch", id: id, opts: gather(opts)}
	fields, err := patch.fields()
	if err != nil {
		op.err = err
		return op
	}
	body, err := encode(fields, oneLine(patch.Payload))
	if err != nil {
		op.err = err
		return op
	}
	if members := body[1 : len(body)-1]; len(members) > 0 {
		op.fields = append([]byte{','}, members...)
	}
	return op
}

// oneLine returns a payload unchanged unless it has line breaks, and compacted otherwise.
func oneLine(payload json.RawMessage) json.RawMessage {
	if !breaksLine(payload) {
		return payload
	}
	var b bytes.Buffer
	if json.Compact(&b, payload) != nil {
		return payload // not JSON: appendPayload refuses it
	}
	return b.Bytes()
}

// Result is the answer to one operation of a batch.
type Result struct {
	ID       string
	Status   int // the operation's HTTP status as a call of its own; 0: unanswered
	Revision uint64
	Outcome  Outcome // of a cancel
	Previous State   // of a schedule: the replaced task's state; empty: there was none
	Err      error   // nil: done; it wraps an *Error if the service refused the operation
}

// readResult reads one line of a batch's answer, for the task with this id. refusal is the service's refusal of the
// operation; err means that the line is unreadable.
func readResult(text []byte, id string) (r Result, refusal, err error) {
	var refused *Error
	in := contract.NewReader(text)
	err = r.read(in, nil, &refused)
	if err == nil {
		err = in.End()
	}
	if err != nil {
		return Result{}, nil, &garbledError{fmt.Errorf("the answer for %s: %w", id, err)}
	}
	r.ID = id
	return r, lineError(r.Status, refused), nil
}

// read reads the result of a batch line or of a settle. id is the place for the id, or nil.
func (r *Result) read(in *contract.Reader, id any, refused **Error) error {
	return readObject(in, "result", []member{
		{contract.ID, id, 0}, {contract.Status, &r.Status, 0}, {contract.Revision, &r.Revision, 0},
		{contract.Outcome, &r.Outcome, 0}, {contract.Previous, &r.Previous, 0}, {contract.Problem, refused, 0},
	})
}

func lineError(status int, refused *Error) error {
	switch {
	case refused != nil:
		refused.Status = status
		return refused
	case status < 200 || status > 299:
		return &Error{Status: status}
	}
	return nil
}

func stateOf(text []byte) State {
	for _, s := range [...]State{
		StateScheduled, StateReady, StateFiring, StateRetrying, StateDelivered, StateDead, StateCancelled,
	} {
		if string(text) == string(s) {
			return s
		}
	}
	return ""
}
