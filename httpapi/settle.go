package httpapi

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/contract"
)

// settlement is one receipt of a settle with its command, or the reason why there is none.
type settlement struct {
	receipt string // as it was sent
	id      string // the task's id; empty if the receipt is unreadable
	cmd     *fsmpb.Command
	refused *problem
}

// settle ends or extends leases, and answers each receipt.
func (s *consumerService) settle(c echo.Context) error {
	body, err := bind(c, s.bounds.SettleBytes, jsonType)
	defer body.release()
	if err != nil {
		return err
	}
	from, err := s.laneOf(c)
	if err != nil {
		return err
	}
	settlements, err := parseSettle(body.data, from)
	if err != nil {
		return err
	}
	replies, err := s.doOnce(c.Request().Context(), settleCommands(settlements))
	if err != nil {
		return err
	}
	buffer := s.buffers.get()
	defer s.buffers.put(buffer)
	b := append(*buffer, `{"results":`...)
	b = append(s.appendResults(b, settlements, replies), "}\n"...)
	writeJSON(c.Response(), http.StatusOK, b)
	*buffer = b
	return nil
}

// settleCommands returns the settlements' commands in order. Do keeps the order for each task.
func settleCommands(settlements []settlement) []*fsmpb.Command {
	commands := make([]*fsmpb.Command, 0, len(settlements))
	for _, a := range settlements {
		if a.cmd != nil {
			commands = append(commands, a.cmd)
		}
	}
	return commands
}

// appendResults appends an array with a result for each receipt.
func (s *consumerService) appendResults(b []byte, settlements []settlement, replies []task.Reply) []byte {
	b = append(b, '[')
	for i, a := range settlements {
		if i > 0 {
			b = append(b, ',')
		}
		refused, replaced := a.refused, false
		if refused == nil {
			refused, replaced = s.settleProblem(replies[0])
			replies = replies[1:]
		}
		b = a.appendResult(b, refused, replaced)
		s.metrics.settled(refused)
	}
	return append(b, ']')
}

// settleProblem returns the reason why a lease was not settled. It returns nil if the lease was settled, or if the task
// was scheduled anew, since no lease is left to settle then.
func (s *consumerService) settleProblem(reply task.Reply) (_ *problem, replaced bool) {
	if reply.Err == nil && reply.Result.Code == fsmpb.Code_CODE_REPLACED {
		return nil, true
	}
	if reply.Err == nil {
		return resultProblem(reply.Result), false
	}
	p := problemOf(reply.Err)
	if p.kind == internalError {
		s.logger.Error("settle failed", "err", reply.Err)
	}
	return p, false
}

func (a settlement) appendResult(b []byte, refused *problem, replaced bool) []byte {
	status, begin := http.StatusOK, len(b)
	if refused != nil {
		status = refused.status
	}
	b = contract.AppendText(b, contract.Receipt, a.receipt)
	b = appendHead(b, a.id, status)
	if replaced {
		b = contract.AppendText(b, contract.Outcome, "replaced")
	}
	if refused != nil {
		b = appendProblem(contract.AppendName(b, contract.Problem), refused)
	}
	return contract.Close(b, begin)
}

const (
	maxReceipts    = 4000 // of one call, or one line of a stream
	maxReasonBytes = task.MaxErrorBytes

	// noReason is the error of a nack without a reason. An attempt without an error would look delivered.
	noReason = "the consumer gave no reason"
)

// verdicts are the lists of a settle, in the order in which they are carried out and answered.
type verdicts struct {
	lane                       lane
	ack, nack, extend, release []settlement
	receipts                   int
	credit                     int // of a stream's line
}

func (v *verdicts) all() []settlement {
	out := make([]settlement, 0, v.receipts)
	for _, list := range [][]settlement{v.ack, v.nack, v.extend, v.release} {
		out = append(out, list...)
	}
	return out
}

// parseSettle reads the body of a settle. A body of the wrong shape is refused as a whole. A faulty receipt or value
// only makes its own result a problem.
func parseSettle(data []byte, l lane) ([]settlement, error) {
	v := &verdicts{lane: l}
	err := v.read(contract.NewReader(data), &contract.SettleObject)
	return v.all(), err
}

// read reads a text that is the object o.
func (v *verdicts) read(r *contract.Reader, o *contract.Object) error {
	seen := contract.Set(0)
	return r.Root(o, &seen, func(f contract.Field) error { return v.member(r, f) })
}

// member reads one of the lists.
func (v *verdicts) member(r *contract.Reader, f contract.Field) (err error) {
	switch name := f.String(); f {
	case contract.Credit:
		var n int64
		n, err = r.Whole(name, 1, maxCredit)
		v.credit = int(n)
	case contract.Ack:
		v.ack, err = v.receiptList(r, name, func(r receipt) *fsmpb.Command {
			return r.settle(&fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_DELIVERED})
		})
	case contract.Release:
		v.release, err = v.receiptList(r, name, func(r receipt) *fsmpb.Command {
			return r.settle(&fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_RELEASED})
		})
	case contract.Nack:
		v.nack, err = v.entries(r, name, 1<<contract.Receipt|1<<contract.Delay|1<<contract.Reason, nackCommand)
	case contract.Extend:
		v.extend, err = v.entries(r, name, 1<<contract.Receipt|1<<contract.Lease, extendCommand)
	}
	return err
}

// count bounds the number of receipts in one call or line.
func (v *verdicts) count(member string) error {
	if v.receipts++; v.receipts > maxReceipts {
		return &task.FieldError{Field: member, Detail: "has a receipt too many", Limit: fmt.Sprintf("%d in all", maxReceipts)}
	}
	return nil
}

// receiptList reads an array of receipts, which are strings or objects.
func (v *verdicts) receiptList(r *contract.Reader, member string,
	command func(receipt) *fsmpb.Command) ([]settlement, error) {
	var out []settlement
	err := r.Array(member, func(i int) error {
		if err := v.count(member); err != nil {
			return err
		}
		text, err := readReceipt(r, fmt.Sprintf("%s[%d]", member, i))
		if err == nil {
			out = append(out, v.settlement(text, func(r receipt) (*fsmpb.Command, error) { return command(r), nil }))
		}
		return err
	})
	return out, err
}

// readReceipt reads a receipt that is a string, or an object like a nack's.
func readReceipt(r *contract.Reader, at string) (string, error) {
	if r.Peek() != '{' {
		return r.Text(at)
	}
	e, err := readEntry(r, at, 1<<contract.Receipt)
	return e[contract.Receipt], err
}

// settlement turns a receipt into a command, or a refusal.
func (v *verdicts) settlement(text string, command func(receipt) (*fsmpb.Command, error)) settlement {
	r, err := v.lane.read(text)
	a := settlement{receipt: text, id: r.id}
	if err == nil {
		a.cmd, err = command(r)
	}
	if err != nil {
		a.refused = problemOf(err)
	}
	return a
}

// entry is an object with a receipt and further members about it.
type entry map[contract.Field]string

// entries reads an array of objects of strings.
func (v *verdicts) entries(r *contract.Reader, member string, fields contract.Set,
	command func(receipt, entry) (*fsmpb.Command, error)) ([]settlement, error) {
	var out []settlement
	err := r.Array(member, func(i int) error {
		if err := v.count(member); err != nil {
			return err
		}
		e, err := readEntry(r, fmt.Sprintf("%s[%d]", member, i), fields)
		if err == nil {
			out = append(out, v.settlement(e[contract.Receipt],
				func(r receipt) (*fsmpb.Command, error) { return command(r, e) }))
		}
		return err
	})
	return out, err
}

func readEntry(r *contract.Reader, at string, fields contract.Set) (entry, error) {
	e, seen := entry{}, contract.Set(0)
	o := contract.Object{Prefix: at + ".", Takes: fields}
	err := r.Object(at, &o, &seen, func(f contract.Field) (err error) {
		e[f], err = r.Text(o.Prefix + f.String())
		return err
	})
	if _, ok := e[contract.Receipt]; err == nil && !ok {
		err = &task.FieldError{Field: at + ".receipt", Detail: "is absent"}
	}
	return e, err
}

func nackCommand(r receipt, e entry) (*fsmpb.Command, error) {
	verdict := &fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_RETRY, Error: orElse(e[contract.Reason], noReason)}
	if n := len(verdict.Error); n > maxReasonBytes {
		return nil, &task.FieldError{Field: "reason", Detail: fmt.Sprintf("is %d bytes", n),
			Limit: fmt.Sprintf("%d bytes", maxReasonBytes)}
	}
	if text, ok := e[contract.Delay]; ok {
		delay, err := boundedSpan("delay", text, 0, task.MaxDelay, spanLimit)
		if err != nil {
			return nil, err
		}
		ms := delay.Milliseconds()
		verdict.DelayMs = &ms
	}
	return r.settle(verdict), nil
}

func extendCommand(r receipt, e entry) (*fsmpb.Command, error) {
	text, ok := e[contract.Lease]
	if !ok {
		return nil, &task.FieldError{Field: "lease", Detail: "is absent", Limit: leaseRule}
	}
	lease, err := boundedSpan("lease", text, task.MinLease, task.MaxLease, leaseRule)
	if err != nil {
		return nil, err
	}
	return r.extend(int64(lease / time.Millisecond)), nil
}
