package bench

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client"
)

// op is one planned call.
type op struct {
	at     time.Duration // after the begin; 0 for all at the rate 0
	task   int
	cancel bool
}

// plan returns the calls in their order.
func (c *Config) plan() []op {
	ops := make([]op, 0, c.Tasks+c.Tasks/cancelEvery)
	behind := c.Callers // schedules between a task's and its cancel at the rate 0
	at := func(i int) time.Duration {
		if c.Rate == 0 {
			return 0
		}
		return time.Duration(float64(i) / c.Rate * float64(time.Second))
	}
	for i := range c.Tasks {
		ops = append(ops, op{at: at(i), task: i})
		if j := i - behind; c.Rate == 0 && j >= 0 && cancelled(j) {
			ops = append(ops, op{task: j, cancel: true})
		}
	}
	for i := range c.Tasks {
		if cancelled(i) && (c.Rate > 0 || i+behind >= c.Tasks) {
			ops = append(ops, op{at: at(i) + cancelAfter, task: i, cancel: true})
		}
	}
	if c.Rate == 0 {
		for i := range ops {
			ops[i].at = 0
		}
		return ops
	}
	slices.SortStableFunc(ops, func(a, b op) int { return cmp.Compare(a.at, b.at) })
	return ops
}

// cancelled reports whether the plan cancels a task.
func cancelled(task int) bool { return task%cancelEvery == cancelEvery-1 }

func (c *Config) id(task int) string { return fmt.Sprintf("%s-%d", c.Queue, task) }

// taskOf returns the number of the task with an id, or -1 for ids of others.
func (c *Config) taskOf(id string) int {
	text, ours := strings.CutPrefix(id, c.Queue+"-")
	n, err := strconv.Atoi(text)
	if !ours || err != nil || n < 0 || n >= c.Tasks {
		return -1
	}
	return n
}

// delay returns the time after which a task is due.
func delay(task int) time.Duration {
	if cancelled(task) {
		return cancelDelay
	}
	return minDelay + rand.N(maxDelay-minDelay)
}

// call makes one planned call.
func (r *run) call(ctx context.Context, o op) {
	began := time.Now()
	if r.Rate > 0 {
		began = r.began.Add(o.at)
	}
	if !o.cancel {
		task := client.Task{ID: r.id(o.task), Queue: r.Queue, Delay: delay(o.task), Payload: r.payload}
		_, err := r.Calls.Schedule(ctx, task)
		r.ledger.scheduled(o.task, time.Since(began), err)
		return
	}
	if !r.ledger.isScheduled(o.task) {
		return // its schedule call has failed, or has not ended
	}
	outcome, err := r.Calls.Cancel(ctx, r.id(o.task))
	r.ledger.cancelled(o.task, time.Since(began), outcome == client.OutcomeCancelled, err)
}
