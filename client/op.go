package client

import (
	"bytes"
	"encoding/json"
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
	if touch.OrSchedule != nil {
		task := *touch.OrSchedule
		task.Payload = oneLine(task.Payload)
		touch.OrSchedule = &task
	}
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
