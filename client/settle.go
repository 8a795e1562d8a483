package client

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// Settlement says what becomes of leases, by their receipts. It is carried out in the order of the fields.
type Settlement struct {
	Ack     []string // done: delivered
	Nack    []Nack   // failed: retried, or a dead letter after the last attempt
	Extend  []Extend
	Release []string // given back: due at once, not counted as an attempt
}

// Nack ends a lease whose task could not be done.
type Nack struct {
	Receipt string
	Delay   *time.Duration // when to retry; nil: the backoff decides
	Reason  string         // becomes the task's last error; at most 512 bytes
}

// Extend moves the end of a lease.
type Extend struct {
	Receipt string
	Lease   time.Duration // from now
}

// Settled is what became of one receipt.
type Settled struct {
	Receipt string
	ID      string // the task's; empty if it is not known
	Status  int    // the service's; 0: it was not answered
	// Replaced says that the task was scheduled anew since the lease was given, so that there is nothing left to settle:
	// an ack, nack or release of the lease changes nothing, and is no error.
	Replaced bool
	Err      error // nil: it was done. ErrConflict: the lease had ended. ErrNotFound: the task is gone
}

// Settle ends or extends any number of leases, and tells what became of each, in the order of the fields. Those that
// met a passing trouble are repeated; so one that was done in a try whose answer was lost may be told as ErrConflict.
func (c *Client) Settle(ctx context.Context, queue string, s Settlement) []Settled {
	lines := s.lines()
	for chunk := range slices.Chunk(lines, maxChunkLines) {
		c.settleLines(ctx, queue, chunk)
	}
	out := make([]Settled, len(lines))
	for i, l := range lines {
		out[i] = Settled{
			Receipt: l.receipt, ID: l.result.ID, Status: l.result.Status, Replaced: l.result.Outcome == replaced,
			Err: l.result.Err,
		}
	}
	return out
}

// settleLines settles at most as many lines as a request may have, which must be in the order of the verbs.
func (c *Client) settleLines(ctx context.Context, queue string, lines []*line) {
	c.sendUntilAnswered(ctx, lines, func(ctx context.Context, lines []*line) error {
		return c.sendReceipts(ctx, queue, lines)
	})
}

// What becomes of a lease, in the order in which it is carried out.
const (
	verbAck     = "ack"
	verbNack    = "nack"
	verbExtend  = "extend"
	verbRelease = "release"
)

var settleOrder = [...]string{verbAck, verbNack, verbExtend, verbRelease}

// settleLine is a receipt with what becomes of it.
func settleLine(verb, receipt string, fields []byte) *line {
	data := contract.AppendString(nil, receipt)
	if verb == verbNack || verb == verbExtend {
		data = contract.Close(append(contract.AppendText(nil, contract.Receipt, receipt), fields...), 0)
	}
	return &line{verb: verb, receipt: receipt, data: data}
}

func nackLine(n Nack) *line {
	var fields []byte
	if n.Delay != nil {
		fields = appendDuration(fields, contract.Delay, *n.Delay)
	}
	return settleLine(verbNack, n.Receipt, contract.AppendTextIf(fields, contract.Reason, n.Reason))
}

func extendLine(e Extend) *line {
	return settleLine(verbExtend, e.Receipt, appendDuration(nil, contract.Lease, e.Lease))
}

// lines are the receipts in the order of the verbs.
func (s Settlement) lines() []*line {
	var lines []*line
	for _, receipt := range s.Ack {
		lines = append(lines, settleLine(verbAck, receipt, nil))
	}
	for _, n := range s.Nack {
		lines = append(lines, nackLine(n))
	}
	for _, e := range s.Extend {
		lines = append(lines, extendLine(e))
	}
	for _, receipt := range s.Release {
		lines = append(lines, settleLine(verbRelease, receipt, nil))
	}
	return lines
}

func (c *Client) sendReceipts(ctx context.Context, queue string, lines []*line) error {
	// Without a key: the service has no use for it, and net/http would take it for a leave to send the call again by
	// itself, so that the results would hide what the first sending did.
	call := call{method: http.MethodPost, path: queuePath(queue) + "/settle", body: settleBody(lines),
		contentType: jsonType}
	return c.do(ctx, call, func(a reply) error { return readSettled(a.body, lines) })
}

// settleBody lists the entries by their verbs. Lines come in the order of the verbs, so results do in that of lines.
func settleBody(lines []*line) []byte {
	var b []byte
	verb := ""
	for _, l := range lines {
		switch {
		case l.verb == verb:
			b = append(b, ',')
		case verb != "":
			b = append(b, ']')
			fallthrough
		default:
			verb = l.verb
			b = append(append(append(b, `,"`...), verb...), `":[`...)
		}
		b = append(b, l.data...)
	}
	if verb != "" {
		b = append(b, ']')
	}
	return contract.Close(b, 0)
}

// readSettled gives each line its answer.
func readSettled(r io.Reader, lines []*line) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	n := 0
	err = whole(text, func(in *contract.Reader) error {
		return in.Known("answer", func(f contract.Field) error {
			if f != contract.Results {
				return in.Skip()
			}
			return in.Array(f.String(), func(int) error {
				if n == len(lines) {
					return fmt.Errorf("more results than %d receipts", n)
				}
				n++
				return readReceipt(in, lines[n-1])
			})
		})
	})
	if err == nil && n < len(lines) {
		err = &garbledError{fmt.Errorf("%d results for %d receipts", n, len(lines))}
	}
	return err
}

// replaced is the outcome of a settle of an earlier occurrence's lease.
const replaced Outcome = "replaced"

// readReceipt gives a line its answer.
func readReceipt(in *contract.Reader, l *line) error {
	var result Result
	var refused *Error
	err := in.Known("result", func(f contract.Field) error {
		return result.member(in, f, &refused)
	})
	if err == nil {
		l.settle(result, lineError(result.Status, refused))
	}
	return err
}
