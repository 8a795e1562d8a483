package workload

import (
	"context"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/load"
	"github.com/belfryhq/belfry/client"
)

// oneRequest is the largest number of lines that the client sends in one request.
const oneRequest = 1000

// batch sends operations through one node, some after the others, and records each line as a call. It returns an ending
// for each line that was answered, in the order of ops.
func (c *caller) batch(ctx context.Context, node int, timeout time.Duration, ops []load.Operation) []history.Ending {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	endings := make([]history.Ending, 0, len(ops))
	for part := range slices.Chunk(ops, oneRequest) {
		ended := c.request(ctx, node, part)
		endings = append(endings, ended...)
		if len(ended) < len(part) {
			break
		}
	}
	return endings
}

// request is batch for the lines of one request. Its sendings are counted, and those of another request would count for
// lines that never went out.
func (c *caller) request(ctx context.Context, node int, ops []load.Operation) []history.Ending {
	ctx, sent := countSends(ctx)
	calls := make([]history.Call, len(ops))
	for i, op := range ops {
		calls[i] = op.What
		calls[i].Batch, calls[i].Node, calls[i].Namespace = true, c.nodes[node].Name, c.space
	}
	first := c.rec.Begin(calls...)
	lines := func(yield func(client.Op) bool) {
		for _, op := range ops {
			if !yield(c.line(op)) {
				return
			}
		}
	}
	endings := make([]history.Ending, 0, len(ops))
	for r := range c.clients[node].Batch(ctx, lines) {
		a := history.Answer{Status: r.Status, Revision: r.Revision, Cancel: string(r.Outcome)}
		outcome := judge(&a, r.Err, int(sent.Load()))
		endings = append(endings, history.Ending{Outcome: outcome, Answer: a})
	}
	c.rec.EndAll(first, endings)
	return endings
}

// without returns the operations that have no ending, or an ending that is not done.
func without(ops []load.Operation, endings []history.Ending, done func(history.Outcome, history.Answer) bool) (
	left []load.Operation) {
	for i, op := range ops {
		if i >= len(endings) || !done(endings[i].Outcome, endings[i].Answer) {
			left = append(left, op)
		}
	}
	return left
}
