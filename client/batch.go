package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
)

// A batch is sent in chunks of this size, each as one request: large enough that a request costs little a line, small
// enough that repeating one costs little too.
const (
	maxChunkLines = 1000
	maxChunkBytes = 1 << 20
	ndjsonType    = "application/x-ndjson"
)

// Op is one operation of a batch.
type Op struct {
	verb    string
	id      string
	body    any // its fields, nil: none
	payload json.RawMessage
	opts    options
	err     error
}

// ScheduleOp is Schedule in a batch.
func ScheduleOp(task Task, opts ...Option) Op {
	w := newWireTask(task)
	w.ID = "" // Op says it
	return Op{verb: "schedule", id: task.ID, body: w, payload: oneLine(task.Payload), opts: gather(opts)}
}

// CancelOp is Cancel in a batch.
func CancelOp(id string, opts ...Option) Op { return Op{verb: "cancel", id: id, opts: gather(opts)} }

// FireOp is FireNow in a batch.
func FireOp(id string, opts ...Option) Op { return Op{verb: "fire", id: id, opts: gather(opts)} }

// TouchOp is Touch in a batch.
func TouchOp(id string, touch Touch, opts ...Option) Op {
	body, err := touch.encode()
	return Op{verb: "touch", id: id, body: body, opts: gather(opts), err: err}
}

// line is the operation in JSON, one object without line breaks: that of its fields with those of every line in front.
func (o Op) line() ([]byte, error) {
	if o.err != nil {
		return nil, o.err
	}
	head, err := json.Marshal(struct {
		Op          string `json:"op"`
		ID          string `json:"id,omitempty"`
		Key         string `json:"key"`
		IfMatch     string `json:"if_match,omitempty"`
		IfNoneMatch string `json:"if_none_match,omitempty"`
	}{o.verb, o.id, o.opts.key, o.opts.ifMatch, o.opts.ifNoneMatch})
	if err != nil || o.body == nil {
		return append(head, '\n'), err
	}
	fields, err := encode(o.body, o.payload)
	if err != nil {
		return nil, err
	}
	if len(fields) > len("{}") {
		head[len(head)-1] = ','
		head = append(head, fields[1:]...)
	}
	return append(head, '\n'), nil
}

// Result answers one operation of a batch.
type Result struct {
	ID       string
	Status   int // the HTTP status that the operation would have had as a call of its own; 0: it was not answered
	Revision uint64
	Outcome  Outcome // of a cancel
	Err      error   // nil: it was done. It wraps an *Error if the service refused it
}

// Batch carries out any number of operations and yields a Result for each, in order. Both sequences are streamed: at
// most one chunk is in memory, and the next is taken from ops when the results of the one before have been consumed.
// Operations that met a passing trouble are repeated with their keys. So two operations about one task belong into
// one batch only if their order does not matter. A Payload with line breaks is delivered without its white space.
func (c *Client) Batch(ctx context.Context, ops iter.Seq[Op]) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		next, stop := iter.Pull(ops)
		defer stop()
		for {
			chunk := nextChunk(next)
			if len(chunk) == 0 {
				return
			}
			c.sendUntilAnswered(ctx, chunk, c.sendLines)
			for _, l := range chunk {
				if !yield(l.result) {
					return
				}
			}
		}
	}
}

// ScheduleMany is Batch for tasks alone.
func (c *Client) ScheduleMany(ctx context.Context, tasks iter.Seq[Task]) iter.Seq[Result] {
	return c.Batch(ctx, func(yield func(Op) bool) {
		for task := range tasks {
			if !yield(ScheduleOp(task)) {
				return
			}
		}
	})
}

// line is one operation on its way.
type line struct {
	data    []byte
	receipt string // of a lease that it settles
	result  Result
	failed  callError // what its attempts so far came to
}

// settle takes the line's answer.
func (l *line) settle(r Result, err error) {
	if err != nil {
		l.failed.add(err)
		r.Err = &l.failed
	}
	l.result = r
}

func nextChunk(next func() (Op, bool)) []*line {
	var chunk []*line
	for size := 0; len(chunk) < maxChunkLines && size < maxChunkBytes; {
		op, ok := next()
		if !ok {
			break
		}
		data, err := op.line()
		l := &line{data: data, result: Result{ID: op.id}, failed: callError{method: op.verb, path: op.id}}
		if err != nil {
			l.settle(l.result, &unsendableError{err})
		}
		chunk = append(chunk, l)
		size += len(data)
	}
	return chunk
}

// sendUntilAnswered sends the chunk's lines until each is answered for good or time is up.
func (c *Client) sendUntilAnswered(ctx context.Context, chunk []*line, send func(context.Context, []*line) error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
	todo := sendable(chunk)
	for round := 1; len(todo) > 0; round++ {
		if err := send(ctx, todo); err != nil {
			failAll(todo, err)
			return
		}
		var worst error
		todo, worst = unanswered(todo)
		if len(todo) == 0 || round == c.cfg.MaxAttempts {
			return
		}
		if c.wait(ctx, c.pause(round+len(c.nodes.bases), worst)) != nil {
			return
		}
	}
}

func sendable(chunk []*line) []*line {
	var lines []*line
	for _, l := range chunk {
		if l.result.Err == nil {
			lines = append(lines, l)
		}
	}
	return lines
}

// failAll gives the error of the whole request to the lines that it left without an answer for good.
func failAll(lines []*line, err error) {
	for _, l := range lines {
		if l.result.Status == 0 || l.result.Err != nil && retryable(l.result.Err) {
			l.settle(Result{ID: l.result.ID}, err)
		}
	}
}

// unanswered keeps the lines that are worth a repeat, and one of their errors.
func unanswered(lines []*line) (left []*line, last error) {
	for _, l := range lines {
		if l.result.Err != nil && retryable(l.result.Err) {
			left, last = append(left, l), l.result.Err
		}
	}
	return left, last
}

func (c *Client) sendLines(ctx context.Context, lines []*line) error {
	size := 0
	for _, l := range lines {
		size += len(l.data)
	}
	body := make([]byte, 0, size)
	for _, l := range lines {
		body = append(body, l.data...)
	}
	call := call{method: http.MethodPost, path: "/v1/batch", body: body, contentType: ndjsonType}
	return c.do(ctx, call, func(r io.Reader) error { return readResults(r, lines) })
}

// readResults gives each line its answer. An answer that ends too soon is a failure of the network: the lines
// answered so far keep what they have, and the whole is sent again.
func readResults(r io.Reader, lines []*line) error {
	dec := json.NewDecoder(bufio.NewReaderSize(r, 32<<10))
	for i, l := range lines {
		var w struct {
			ID       string   `json:"id"`
			Status   int      `json:"status"`
			Revision uint64   `json:"revision"`
			Outcome  Outcome  `json:"outcome"`
			Problem  *problem `json:"problem"`
		}
		if err := dec.Decode(&w); err != nil {
			return fmt.Errorf("the answer ended at line %d of %d: %w", i+1, len(lines), err)
		}
		l.settle(Result{ID: w.ID, Status: w.Status, Revision: w.Revision, Outcome: w.Outcome}, lineError(w.Status, w.Problem))
	}
	return nil
}

func lineError(status int, p *problem) error {
	switch {
	case p != nil:
		return p.asError(status)
	case status < 200 || status > 299:
		return &Error{Status: status}
	}
	return nil
}
