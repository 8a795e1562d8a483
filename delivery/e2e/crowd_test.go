package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// crowd is many consumers of one queue that come and go. Each consumer treats its tasks at random.
type crowd struct {
	t     testing.TB
	stage *stage
	queue string

	mu     sync.Mutex // guards the fields below
	leases []*leased
	failed map[string]int // unsuccessful calls, by their status
}

// gather runs n consumers of a queue until the context ends, and returns their leases and settles.
func (s *stage) gather(ctx context.Context, t testing.TB, queue string, n int, seed uint64) *crowd {
	t.Helper()
	c := &crowd{t: t, stage: s, queue: queue, failed: map[string]int{}}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			chance := rand.New(rand.NewPCG(seed, uint64(i)))
			for ctx.Err() == nil {
				c.visit(ctx, chance)
			}
		})
	}
	all.Wait()
	return c
}

const rest = 50 * time.Millisecond

// visit makes one long-poll through any node and treats the leased tasks. The consumer cuts off one visit in five,
// perhaps while the answer is on its way.
func (c *crowd) visit(ctx context.Context, chance *rand.Rand) {
	wait := time.Duration(100+chance.IntN(1400)) * time.Millisecond
	length := time.Duration(1000+chance.IntN(2000)) * time.Millisecond
	patience := wait + 10*time.Second
	if chance.IntN(5) == 0 {
		patience = time.Duration(chance.Int64N(int64(wait)))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	n := c.stage.nodes[chance.IntN(len(c.stage.nodes))]
	called := time.Now()
	jobs, err := n.lease(ctx, c.queue, 1+chance.IntN(10), wait, length)
	got := time.Now()
	if err != nil {
		c.fail(ctx, err)
		until(c.t, got.Add(rest)) // no consumer retries without a pause
		return
	}
	for _, j := range jobs {
		l := &leased{
			id: j.ID, receipt: j.Receipt, fence: j.Fence, attempt: j.Attempt,
			called: called, got: got, length: length, ends: j.LeaseEndsAt,
		}
		c.note(l)
		c.treat(l, chance)
	}
}

// treat settles a task as consumers do: most acknowledge it, some of them twice or after an extension; other consumers
// refuse the task, give it back, or disappear.
func (c *crowd) treat(l *leased, chance *rand.Rand) {
	switch dice := chance.IntN(100); {
	case dice < 65:
		c.settle(l, "ack", ack(l.receipt), chance)
	case dice < 70:
		c.settle(l, "ack", ack(l.receipt), chance)
		c.settle(l, "ack", ack(l.receipt), chance)
	case dice < 75:
		c.settle(l, "extend", extend(l.receipt, l.length), chance)
		c.settle(l, "ack", ack(l.receipt), chance)
	case dice < 80:
		c.settle(l, "nack", nack(l.receipt, "10ms"), chance)
		c.settle(l, "ack", ack(l.receipt), chance) // too late by now
	case dice < 83:
		c.settle(l, "nack", nack(l.receipt, ""), chance)
	case dice < 88:
		c.settle(l, "release", release(l.receipt), chance)
	}
}

// settle makes one call through any node, without a retry. It finishes even after the crowd's context has ended.
func (c *crowd) settle(l *leased, verb string, ask object, chance *rand.Rand) {
	ctx, cancel := context.WithTimeout(c.t.Context(), 10*time.Second)
	defer cancel()
	s := settle{verb: verb, start: time.Now(), length: l.length}
	results, err := c.stage.nodes[chance.IntN(len(c.stage.nodes))].settle(ctx, c.queue, ask)
	s.end = time.Now()
	switch {
	case err != nil:
		c.fail(ctx, err)
	case len(results) == 1:
		if s.status = results[0].Status; s.status >= 500 { // 503: not settled, 504: unknown; 0 stands for both
			s.status = 0
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	l.settles = append(l.settles, s)
}

func (c *crowd) note(l *leased) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leases = append(c.leases, l)
}

// fail counts an error, unless the consumer itself cut the call off.
func (c *crowd) fail(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	answer := "no answer"
	var r *refusal
	if errors.As(err, &r) {
		answer = fmt.Sprint(r.Status)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed[answer]++
}

// given returns a copy of all leases so far.
func (c *crowd) given() []leased {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]leased, len(c.leases))
	for i, l := range c.leases {
		all[i] = *l
		all[i].settles = slices.Clone(l.settles)
	}
	return all
}
