package httpapi

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// line is one line of a batch: a command, or why there is none.
type line struct {
	id      string
	cmd     *fsmpb.Command // nil if refused
	refused *problem
}

// batchLine reads one line. The call in it hashes like the single call that says the same.
func (p *parser) batchLine(data []byte) line {
	d, err := p.parse(data, fieldsOfLine)
	if errors.Is(err, errPatchLine) || err != nil && textIn(data, fieldOp) == "patch" {
		d, err = p.patchLine(data)
	}
	if err == nil {
		err = p.lineCommand(d)
	}
	if err == nil {
		return line{id: d.order.cmd.Id, cmd: d.order.finish()}
	}
	return line{id: textIn(data, fieldID), refused: problemOf(err)}
}

// errPatchLine ends the reading of a line as one of the other operations: its members mean something else.
var errPatchLine = errors.New("the line is a patch")

// lineOp reads the operation of a line that is not known to be a patch.
func (s *scanner) lineOp() (string, error) {
	op, err := s.text("op")
	if err == nil && op == "patch" {
		err = errPatchLine
	}
	return op, err
}

// patchLine reads a line that is a patch.
func (p *parser) patchLine(data []byte) (*draft, error) {
	d, patch := newDraft(), new(fsmpb.Patch)
	s := &scanner{data: data}
	s.peek() // it begins an object, since it has an op
	err := p.patchObject(s, &d.seen, fieldsOfHead|fieldsOfPatch, func(f field) (err error) {
		switch {
		case f == fieldOp:
			d.op, err = s.text("op")
		case fieldsOfHead.has(f):
			err = p.member(s, d, f)
		default:
			err = p.patchMember(s, f, patch)
		}
		return err
	})
	if err == nil {
		err = p.checkPatch(patch, d.seen)
	}
	d.order.cmd.Op = &fsmpb.Command_Patch{Patch: patch}
	return d, err
}

func (p *parser) lineCommand(d *draft) error {
	fields, ok := fieldsOfOp(d.op)
	switch {
	case !d.seen.has(fieldOp):
		return &task.FieldError{Field: "op", Detail: "is absent"}
	case !ok:
		detail := fmt.Sprintf("is %q and must be schedule, cancel, touch, fire or patch", clip(d.op))
		return &task.FieldError{Field: "op", Detail: detail}
	case !d.seen.has(fieldID):
		return &task.FieldError{Field: "id", Detail: "is absent; only POST /v1/tasks makes one"}
	}
	if err := task.CheckName("id", d.order.cmd.Id); err != nil {
		return err
	}
	if extra := d.seen &^ fields; extra != 0 {
		return &task.FieldError{Field: extra.first().String(), Detail: "is not a field of " + d.op}
	}
	switch d.op {
	case "schedule":
		return p.asSchedule(d, false)
	case "touch":
		return p.asTouch(d)
	case "cancel":
		p.asCancel(d)
	case "fire":
		p.asFire(d)
	}
	return nil
}

func fieldsOfOp(op string) (fieldSet, bool) {
	switch op {
	case "schedule":
		return fieldsOfHead | fieldsOfPut, true
	case "touch":
		return fieldsOfHead | fieldsOfTouch, true
	case "cancel", "fire":
		return fieldsOfHead, true
	case "patch":
		return fieldsOfHead | fieldsOfPatch, true
	}
	return 0, false
}

var errFound = errors.New("found")

// textIn looks for a member of a line that was refused: its answer names the id. Empty if there is none to be read.
func textIn(data []byte, member field) (found string) {
	s := &scanner{data: data}
	if s.peek() != '{' {
		return ""
	}
	err := s.object(func(name []byte) error {
		if fieldOf(name) != member {
			return s.skipValue()
		}
		text, err := s.text(member.String())
		if err == nil {
			found, err = text, errFound
		}
		return err
	})
	if !errors.Is(err, errFound) {
		return ""
	}
	return found
}

// appendReply writes the answer to one line and tells its status.
func appendReply(b []byte, id string, reply task.Reply) ([]byte, int) {
	if reply.Err != nil {
		return appendRefusal(b, id, problemOf(reply.Err))
	}
	r := reply.Result
	if p := resultProblem(r); p != nil {
		return appendRefusal(b, id, p)
	}
	status := statusOf(r.Code)
	b = appendHead(b, id, status)
	b = strconv.AppendUint(append(b, `,"revision":`...), r.Revision, 10)
	if r.Outcome != fsmpb.CancelOutcome_CANCEL_OUTCOME_UNSPECIFIED {
		b = appendString(append(b, `,"outcome":`...), outcomeName(r.Outcome))
	}
	if r.Previous != fsmpb.State_STATE_UNSPECIFIED {
		b = appendString(append(b, `,"previous":`...), stateName(r.Previous))
	}
	return append(b, "}\n"...), status
}

func appendRefusal(b []byte, id string, p *problem) ([]byte, int) {
	b = appendHead(b, id, p.status)
	b = appendProblem(append(b, `,"problem":`...), p)
	return append(b, "}\n"...), p.status
}

func appendHead(b []byte, id string, status int) []byte {
	b = appendString(append(b, `{"id":`...), id)
	return strconv.AppendInt(append(b, `,"status":`...), int64(status), 10)
}
