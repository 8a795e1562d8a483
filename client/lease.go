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

// Demand describes a lease call. Zero fields are the service's defaults.
type Demand struct {
	Max   int           // number of tasks, at most 1000; 0: one
	Wait  time.Duration // how long to wait for the first one, at most a minute; 0: not at all
	Lease time.Duration // length of the leases, 100 ms to 12 h; 0: 30 s
}

// Leased is a task that is leased to a consumer until LeaseEndsAt.
type Leased struct {
	Task
	Receipt string // identifies this lease in Settle
	Attempt int    // 1, 2, …
	Fence   uint64 // rises with every grant of the task
}

// UnmarshalJSON reads a leased task as the service writes it.
func (l *Leased) UnmarshalJSON(data []byte) error { return unlessNull(data, l.read) }

// MarshalJSON writes a leased task as the service does.
func (l Leased) MarshalJSON() ([]byte, error) {
	b, err := l.Task.MarshalJSON()
	if err != nil {
		return nil, err
	}
	b = contract.AppendText(b[:len(b)-1], contract.Receipt, l.Receipt)
	b = contract.AppendInt(b, contract.Attempt, int64(l.Attempt))
	return append(contract.AppendUint(b, contract.Fence, l.Fence), '}'), nil
}

// Lease takes due tasks of a queue that is pulled. It returns as soon as there is at least one task, or none when the
// wait ends. The tasks of a lost answer return to the queue when their leases end.
func (c *Client) Lease(ctx context.Context, queue string, demand Demand) ([]Leased, error) {
	var body []byte
	if demand.Max != 0 {
		body = contract.AppendInt(body, contract.Max, int64(demand.Max))
	}
	body = contract.AppendSpan(body, contract.Wait, demand.Wait)
	body = contract.Close(contract.AppendSpan(body, contract.Lease, demand.Lease), 0)
	var tasks []Leased
	// The call has no key, as in Settle: net/http might send a call with a key twice, and it would lease twice.
	call := call{method: http.MethodPost, path: c.conn.path("queues", queue) + "/lease", body: body, contentType: jsonType,
		wait: demand.Wait}
	err := c.conn.do(ctx, call, readAnswer(func(r *contract.Reader) error {
		return readObject(r, "lease", []member{{contract.Tasks, func() error {
			return readList(r, "tasks", &tasks, func(l *Leased) error { return l.read(r) })
		}, 0}})
	}))
	return tasks, err
}

// Settlement lists leases to end or extend, by their receipts. The service processes the fields in order.
type Settlement struct {
	Ack     []string // done: delivered
	Nack    []Nack   // failed: retried, or a dead letter after the last attempt
	Extend  []Extend
	Release []string // given back: due at once, not counted as an attempt
}

// Nack ends a lease whose task failed.
type Nack struct {
	Receipt string
	Delay   *time.Duration // until the retry; nil: the backoff decides
	Reason  string         // becomes the task's last error; at most 512 bytes
}

// Extend moves the end of a lease.
type Extend struct {
	Receipt string
	Lease   time.Duration // from now
}

// Settled is the result for one receipt.
type Settled struct {
	Receipt string
	ID      string // the task's id; empty: unknown
	Status  int    // the service's status; 0: unanswered
	// Replaced means that the task was scheduled anew after the lease was given. An ack, nack or release of the lease then
	// changes nothing, and is no error.
	Replaced bool
	Err      error // nil: done. ErrConflict: the lease had ended. ErrNotFound: the task is gone
}

// Settle ends or extends any number of leases, and returns the result for each, in the order of the fields. Receipts
// with a transient failure are repeated. A receipt that was settled in a try whose answer was lost may thus be reported
// as ErrConflict.
func (c *Client) Settle(ctx context.Context, queue string, s Settlement) []Settled {
	lines := s.lines()
	for chunk := range slices.Chunk(lines, maxChunkLines) {
		c.conn.settleLines(ctx, queue, chunk)
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

// settleLines settles at most as many lines as a request may have. The lines must be in the order of the verbs.
func (c *conn) settleLines(ctx context.Context, queue string, lines []*line) {
	c.sendUntilAnswered(ctx, lines, func(ctx context.Context, lines []*line) error {
		return c.sendReceipts(ctx, queue, lines)
	})
}

// The verbs of a settle, in the order in which the service processes them.
const (
	verbAck     = "ack"
	verbNack    = "nack"
	verbExtend  = "extend"
	verbRelease = "release"
)

var settleOrder = [...]string{verbAck, verbNack, verbExtend, verbRelease}

// settleLine returns the line of a receipt and its verb.
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

// lines returns the lines of all receipts, in the order of the verbs.
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

func (c *conn) sendReceipts(ctx context.Context, queue string, lines []*line) error {
	// The call has no key. The service has no use for one, and net/http would take it as leave to repeat the call by
	// itself, so that the results would hide those of the first try.
	call := call{method: http.MethodPost, path: c.path("queues", queue) + "/settle", body: settleBody(lines),
		contentType: jsonType}
	return c.do(ctx, call, func(a reply) error { return readSettled(a.body, lines) })
}

// settleBody lists the lines by their verbs. Lines come in the order of the verbs, so results come in the order of
// lines.
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
		return readObject(in, "answer", []member{{contract.Results, func() error {
			return in.Array("results", func(int) error {
				if n == len(lines) {
					return fmt.Errorf("more results than %d receipts", n)
				}
				n++
				return readReceipt(in, lines[n-1])
			})
		}, 0}})
	})
	if err == nil && n < len(lines) {
		err = &garbledError{fmt.Errorf("%d results for %d receipts", n, len(lines))}
	}
	return err
}

// replaced is the outcome of a settle after the task was scheduled anew.
const replaced Outcome = "replaced"

// readReceipt reads a line's result.
func readReceipt(in *contract.Reader, l *line) error {
	var result Result
	var refused *Error
	err := result.read(in, &result.ID, &refused)
	if err == nil {
		l.settle(result, lineError(result.Status, refused))
	}
	return err
}
