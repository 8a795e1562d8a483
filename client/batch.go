package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"sync"
)

// Batch carries out any number of operations and yields a Result for each, in order. Both sequences are streamed: at
// most four chunks of a thousand operations are on their way or have untaken results. Operations with a transient
// failure are repeated with their keys, so the order of two operations on one task in one batch is not certain. A
// Payload with line breaks is delivered without its white space.
func (c *Client) Batch(ctx context.Context, ops iter.Seq[Op]) iter.Seq[Result] {
	return batch(ctx, c, ops, (*chunk).addOp)
}

// ScheduleMany schedules tasks as Batch does.
func (c *Client) ScheduleMany(ctx context.Context, tasks iter.Seq[Task]) iter.Seq[Result] {
	return batch(ctx, c, tasks, (*chunk).addTask)
}

func batch[T any](ctx context.Context, c *Client, items iter.Seq[T], add func(*chunk, *T)) iter.Seq[Result] {
	return func(yield func(Result) bool) {
		p := c.conn.newPipeline(ctx, yield)
		defer p.close()
		var item T // shared: a variable of the loop would be allocated for each item
		for item = range items {
			add(p.filling, &item)
			if p.filling.full() && !p.ship() {
				return
			}
		}
		p.finish()
	}
}

// maxFlying is the largest number of chunks of one batch that are on their way or have untaken results.
const maxFlying = 4

// pipeline is one batch in progress. It belongs to its caller's goroutine.
type pipeline struct {
	c       *conn
	ctx     context.Context
	cancel  context.CancelFunc
	yield   func(Result) bool
	filling *chunk
	flying  []*chunk
	workers sync.WaitGroup
}

func (c *conn) newPipeline(ctx context.Context, yield func(Result) bool) *pipeline {
	p := &pipeline{c: c, yield: yield, filling: c.newChunk()}
	p.ctx, p.cancel = context.WithCancel(ctx)
	return p
}

// close gives up the chunks that are on their way.
func (p *pipeline) close() {
	p.cancel()
	p.workers.Wait()
}

// ship sends the filled chunk, and yields the results that have come. It returns false if the caller wants no more.
func (p *pipeline) ship() bool {
	k := p.filling
	p.filling = p.c.newChunk()
	if p.c.cfg.SingleCalls {
		p.c.carry(p.ctx, k)
		return p.deliver(k)
	}
	p.workers.Go(func() {
		p.c.carry(p.ctx, k)
		k.done <- struct{}{}
	})
	p.flying = append(p.flying, k)
	for len(p.flying) > 0 {
		k := p.flying[0]
		if len(p.flying) == maxFlying {
			<-k.done
		} else {
			select {
			case <-k.done:
			default:
				return true
			}
		}
		p.flying = p.flying[1:]
		if !p.deliver(k) {
			return false
		}
	}
	return true
}

// finish sends the last chunk from the caller's goroutine, and yields the remaining results.
func (p *pipeline) finish() {
	p.c.carry(p.ctx, p.filling)
	for _, k := range p.flying {
		<-k.done
		if !p.deliver(k) {
			return
		}
	}
	p.deliver(p.filling)
}

func (p *pipeline) deliver(k *chunk) bool {
	for i := range k.lines {
		if !p.yield(k.lines[i].result) {
			return false
		}
	}
	k.free()
	return true
}

// carry sends a chunk until each line has its final answer or the time is up.
func (c *conn) carry(ctx context.Context, k *chunk) {
	c.sendUntilAnswered(ctx, k.sendable(), func(ctx context.Context, lines []*line) error {
		if c.cfg.SingleCalls {
			return c.sendLines(ctx, lines)
		}
		k.held = c.putLines(ctx, lines) || k.held
		return nil
	})
}

// sendUntilAnswered sends lines until each has its final answer or the time is up. send returns an error only for a
// fault of the whole request.
func (c *conn) sendUntilAnswered(ctx context.Context, todo []*line, send func(context.Context, []*line) error) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Timeout)
	defer cancel()
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
		if c.wait(ctx, c.pause(round+len(c.nodes.given), worst)) != nil {
			return
		}
	}
}

// failAll gives the error of the whole request to the lines without a final answer.
func failAll(lines []*line, err error) {
	for _, l := range lines {
		if l.result.Status == 0 || l.result.Err != nil && retryable(l.result.Err) {
			l.settle(Result{ID: l.result.ID}, err)
		}
	}
}

// unanswered returns the lines that are worth a repeat, and the last of their errors.
func unanswered(lines []*line) (left []*line, last error) {
	for _, l := range lines {
		if l.result.Err != nil && l.failed.ended == nil && retryable(l.result.Err) {
			left, last = append(left, l), l.result.Err
		}
	}
	return left, last
}

// putLines sends lines by their lanes, once. left reports whether ctx ended before all were answered, so that lanes may
// still hold some of them.
func (c *conn) putLines(ctx context.Context, lines []*line) (left bool) {
	g := &group{done: make(chan struct{}, 1)}
	g.left.Store(int32(len(lines)))
	type part struct {
		lane  *lane
		lines []*line
	}
	var parts []part
	for _, l := range lines {
		l.group = g
		lane := c.directory.route(l)
		i := slices.IndexFunc(parts, func(p part) bool { return p.lane == lane })
		if i < 0 {
			i = len(parts)
			parts = append(parts, part{lane: lane})
		}
		parts[i].lines = append(parts[i].lines, l)
	}
	for _, p := range parts {
		p.lane.put(p.lines...)
	}
	return g.await(ctx, lines)
}

// sendLines sends lines in a request of their own.
func (c *conn) sendLines(ctx context.Context, lines []*line) error {
	var body []byte
	for _, l := range lines {
		body = append(body, l.data...)
	}
	call := call{method: http.MethodPost, path: c.root + "/batch", body: body, contentType: ndjsonType}
	return c.do(ctx, call, func(a reply) error { return readResults(a.body, lines) })
}

// readResults gives each line its answer. If the answers end too soon, do repeats the whole request.
func readResults(r io.Reader, lines []*line) error {
	return eachResult(bufio.NewReaderSize(r, resultsBuffer), lines, func(i int, result Result, refusal error) {
		lines[i].settle(result, refusal)
	})
}

const resultsBuffer = 16 << 10

// eachResult reads the results of lines, in order. An answer that ends too soon is a failure of the network; the lines
// answered so far keep their results.
func eachResult(in *bufio.Reader, lines []*line, take func(i int, result Result, refusal error)) error {
	for i, l := range lines {
		text, err := nextLine(in)
		if err != nil {
			return fmt.Errorf("the answer ended at line %d of %d: %w", i+1, len(lines), err)
		}
		result, refusal, err := readResult(text, l.id)
		if err != nil {
			return err
		}
		take(i, result, refusal)
	}
	return nil
}
