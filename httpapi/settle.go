package httpapi

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"

	"github.com/cespare/xxhash/v2"
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
func (s *Server) settle(c echo.Context) error {
	body, err := bind(c, s.cfg.SettleBytes, jsonType)
	defer body.release()
	if err != nil {
		return err
	}
	asked, err := parseSettle(body.data, laneOf(c))
	if err != nil {
		return err
	}
	replies, err := s.doOnce(c.Request().Context(), settleCommands(asked))
	if err != nil {
		return err
	}
	buffer := s.buffers.get()
	defer s.buffers.put(buffer)
	b := append(*buffer, `{"results":`...)
	b = append(s.appendResults(b, asked, replies), "}\n"...)
	writeJSON(c.Response(), http.StatusOK, b)
	*buffer = b
	return nil
}

// settleCommands returns the settlements' commands in order. Do keeps the order for each task.
func settleCommands(asked []settlement) []*fsmpb.Command {
	commands := make([]*fsmpb.Command, 0, len(asked))
	for _, a := range asked {
		if a.cmd != nil {
			commands = append(commands, a.cmd)
		}
	}
	return commands
}

// appendResults appends an array with a result for each receipt.
func (s *Server) appendResults(b []byte, asked []settlement, replies []task.Reply) []byte {
	b = append(b, '[')
	for i, a := range asked {
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
func (s *Server) settleProblem(reply task.Reply) (_ *problem, replaced bool) {
	if reply.Err == nil && reply.Result.Code == fsmpb.Code_CODE_REPLACED {
		return nil, true
	}
	if reply.Err == nil {
		return resultProblem(reply.Result), false
	}
	p := problemOf(reply.Err)
	if p.kind == internalError {
		s.cfg.Logger.Error("settle failed", "err", reply.Err)
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

// settle returns the command that settles the receipt's lease.
func (r receipt) settle(verdict *fsmpb.Settle) *fsmpb.Command {
	verdict.Fence, verdict.Occurrence, verdict.Consumer = r.fence, r.occurrence, true
	return &fsmpb.Command{Namespace: r.namespace, Id: r.id, Op: &fsmpb.Command_Settle{Settle: verdict}}
}

func (r receipt) extend(leaseMs int64) *fsmpb.Command {
	e := &fsmpb.Extend{Fence: r.fence, Occurrence: r.occurrence, LeaseMs: leaseMs}
	return &fsmpb.Command{Namespace: r.namespace, Id: r.id, Op: &fsmpb.Command_Extend{Extend: e}}
}

// lane is the queue that a call's receipts must be of.
type lane struct{ namespace, queue string }

func laneOf(c echo.Context) lane { return lane{callOf(c).namespace, c.Param("queue")} }

// read reads a receipt. It returns the receipt of another queue too, with an error. A receipt of another namespace is
// as invalid as one that no lease gave.
func (l lane) read(text string) (receipt, error) {
	r, err := parseReceipt(text)
	switch {
	case err != nil:
		return r, noSuchLease(err.Error())
	case r.namespace != l.namespace:
		return receipt{}, noSuchLease(errReceipt.Error())
	case r.queue != l.queue:
		return r, noSuchLease(fmt.Sprintf("is of queue %q", r.queue))
	}
	return r, nil
}

// noSuchLease returns the problem for a receipt that never named a lease of the queue.
func noSuchLease(detail string) *problem {
	return &problem{kind: leaseNotFound, field: "receipt", detail: detail}
}

// receipt names one lease. Its holder may end or extend that lease while it lasts. A receipt is no secret and gives no
// right that the queue's consumers lack; its checksum detects torn and mixed-up receipts.
type receipt struct {
	namespace, queue, id string
	fence, occurrence    uint64
}

// A receipt is base64url of the version (one byte), four bytes of a checksum over the rest, fence and occurrence as
// varints, namespace and queue with their lengths (one byte each), and the id. The default namespace is left out.
const (
	receiptVersion = 1
	receiptHead    = 1 + 4
)

var errReceipt = errors.New("is not a receipt as a lease gives them")

func receiptOf(t *fsmpb.Task) receipt {
	r := receipt{namespace: t.Namespace, queue: orElse(t.Spec.GetQueue(), task.DefaultQueue), id: t.Id,
		fence: t.Fence, occurrence: t.Occurrence}
	if r.namespace == "" {
		r.namespace = task.DefaultNamespace
	}
	return r
}

func (r receipt) append(b []byte) []byte {
	var room [256]byte
	raw := append(room[:0], receiptVersion, 0, 0, 0, 0)
	raw = binary.AppendUvarint(raw, r.fence)
	raw = binary.AppendUvarint(raw, r.occurrence)
	namespace := r.namespace
	if namespace == task.DefaultNamespace {
		namespace = ""
	}
	raw = append(append(raw, byte(len(namespace))), namespace...)
	raw = append(append(raw, byte(len(r.queue))), r.queue...)
	raw = append(raw, r.id...)
	binary.BigEndian.PutUint32(raw[1:], uint32(xxhash.Sum64(raw[receiptHead:])))
	return base64.RawURLEncoding.AppendEncode(b, raw)
}

// parseReceipt reads a receipt. It accepts only the output of append.
func parseReceipt(text string) (receipt, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(raw) < receiptHead || raw[0] != receiptVersion ||
		binary.BigEndian.Uint32(raw[1:]) != uint32(xxhash.Sum64(raw[receiptHead:])) {
		return receipt{}, errReceipt
	}
	f := &receiptFields{rest: raw[receiptHead:], ok: true}
	r := receipt{fence: f.number(), occurrence: f.number(), namespace: f.text(), queue: f.text(), id: string(f.rest)}
	if r.namespace == "" {
		r.namespace = task.DefaultNamespace
	}
	for _, name := range []string{r.namespace, r.queue} {
		f.ok = f.ok && task.CheckName("receipt", name) == nil
	}
	f.ok = f.ok && task.CheckTaskID("receipt", r.id) == nil
	if !f.ok || string(r.append(nil)) != text { // each lease has one spelling
		return receipt{}, errReceipt
	}
	return r, nil
}

// receiptFields reads fields from the front of a receipt, until one is torn.
type receiptFields struct {
	rest []byte
	ok   bool
}

func (f *receiptFields) number() uint64 {
	n, size := binary.Uvarint(f.rest)
	if size <= 0 {
		f.ok, f.rest = false, nil
		return 0
	}
	f.rest = f.rest[size:]
	return n
}

func (f *receiptFields) text() string {
	if len(f.rest) == 0 || len(f.rest)-1 < int(f.rest[0]) {
		f.ok, f.rest = false, nil
		return ""
	}
	n := 1 + int(f.rest[0])
	text := string(f.rest[1:n])
	f.rest = f.rest[n:]
	return text
}
