package httpapi

import (
	"errors"
	"fmt"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// line is one line of a batch: a command, or the reason for its absence.
type line struct {
	id      string
	cmd     *fsmpb.Command // nil if refused
	refused *problem
}

// batchLine reads one line. Its call hashes like the single call with the same meaning.
func (p *parser) batchLine(data []byte) line {
	d, err := p.parse(data, &contract.LineObject)
	if errors.Is(err, errPatchLine) || err != nil && textIn(data, contract.Op) == "patch" {
		d, err = p.patch(data, &contract.PatchLineObject)
	}
	if err == nil {
		err = p.lineCommand(d)
	}
	if err == nil {
		d.order.cmd.Namespace = scopeOf(p.namespace)
		return line{id: d.order.cmd.Id, cmd: d.order.finish()}
	}
	return line{id: textIn(data, contract.ID), refused: problemOf(err)}
}

// errPatchLine ends the reading of a line as another operation, since a patch's members have other meanings.
var errPatchLine = errors.New("the line is a patch")

// lineOp reads the operation of a line. It refuses a patch unless the line is read as one.
func (d *draft) lineOp() (string, error) {
	op, err := d.r.Text("op")
	if err == nil && op == "patch" && d.patch == nil {
		err = errPatchLine
	}
	return op, err
}

func (p *parser) lineCommand(d *draft) error {
	fields, ok := opFields(d.op)
	switch {
	case !d.seen.Has(contract.Op):
		return &task.FieldError{Field: "op", Detail: "is absent"}
	case !ok:
		detail := fmt.Sprintf("is %q and must be schedule, cancel, touch, fire or patch", contract.Clip(d.op))
		return &task.FieldError{Field: "op", Detail: detail}
	case !d.seen.Has(contract.ID):
		return &task.FieldError{Field: "id", Detail: "is absent; only POST /v1/tasks makes one"}
	}
	check := checkTaskID
	if d.op == "schedule" || d.order.instead != nil {
		check = checkNewID
	}
	if err := check("id", d.order.cmd.Id); err != nil {
		return err
	}
	if extra := d.seen &^ fields; extra != 0 {
		return &task.FieldError{Field: extra.First().String(), Detail: "is not a field of " + d.op}
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

func opFields(op string) (contract.Set, bool) {
	switch op {
	case "schedule":
		return contract.HeadFields | contract.PutFields, true
	case "touch":
		return contract.HeadFields | contract.TouchFields, true
	case "cancel", "fire":
		return contract.HeadFields, true
	case "patch":
		return contract.HeadFields | contract.PatchFields, true
	}
	return 0, false
}

var errFound = errors.New("found")

// textIn returns a member of a refused line, such as its id for the answer, or "" if the member cannot be read.
func textIn(data []byte, member contract.Field) (found string) {
	r := contract.NewReader(data)
	err := r.Each("line", func(name []byte) error {
		if contract.FieldOf(name) != member {
			return r.Skip()
		}
		text, err := r.Text(member.String())
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

// appendReply appends the answer to one line and returns its status.
func appendReply(b []byte, id string, reply task.Reply) ([]byte, int) {
	if reply.Err != nil {
		return appendRefusal(b, id, problemOf(reply.Err))
	}
	r := reply.Result
	if p := resultProblem(r); p != nil {
		return appendRefusal(b, id, p)
	}
	status, begin := statusOf(r.Code), len(b)
	b = appendHead(b, id, status)
	b = contract.AppendUint(b, contract.Revision, r.Revision)
	b = appendPrevious(appendOutcome(b, r.Outcome), r.Previous)
	return append(contract.Close(b, begin), '\n'), status
}

func appendRefusal(b []byte, id string, p *problem) ([]byte, int) {
	begin := len(b)
	b = appendHead(b, id, p.status)
	b = appendProblem(contract.AppendName(b, contract.Problem), p)
	return append(contract.Close(b, begin), '\n'), p.status
}

func appendHead(b []byte, id string, status int) []byte {
	return contract.AppendUint(contract.AppendText(b, contract.ID, id), contract.Status, uint64(status))
}
