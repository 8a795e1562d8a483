package httpapi

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/shares"
	"github.com/belfryhq/belfry/internal/contract"
)

// Leases hands tasks to consumers.
type Leases interface {
	// Lease leases due tasks of a queue's pull lane to a consumer, from all shards: at most the request's Max, within a
	// bound on their total bytes (a single task always fits). Lease waits for the first task. When the context ends, it
	// returns the tasks granted so far, or none, without an error. With the request's Look it returns no tasks as soon as
	// every shard's leader has none. The caller settles or releases each task, or lets its lease end.
	Lease(ctx context.Context, request task.LeaseRequest) ([]*fsmpb.Task, error)

	// ReceiptKey returns the secret under which all nodes of the cluster sign the receipts of leases. It is empty until
	// the node knows the cluster's state.
	ReceiptKey() []byte
}

// consumerService answers the calls of consumers.
type consumerService struct {
	*core
	backend Leases
}

const (
	maxLeaseWait = time.Minute
	// leaseLook is how long a call with wait 0 waits for the shards, which may have to commit grants. It waits less if
	// every shard's leader reports that it has no tasks.
	leaseLook    = 250 * time.Millisecond
	leaseRule    = "100ms to 12h"
	writeReserve = 30 * time.Second // time for an answer to be taken, after any wait
)

// demand is the content of a lease's body.
type demand struct {
	max   int
	wait  time.Duration
	lease time.Duration
}

// lease answers as soon as there is one task, or when the wait, the connection or the server ends. Waiting consumers
// are not among the calls that single bounds: they hold almost no memory, and there may be many.
func (s *consumerService) lease(c echo.Context) error {
	d, err := s.readDemand(c)
	if err != nil {
		return err
	}
	key, err := s.receiptKey()
	if err != nil {
		return err
	}
	defer s.metrics.waiting.Dec()
	s.metrics.waiting.Inc()
	s.writeWithin(c, d.wait+s.bounds.RequestTimeout+writeReserve)
	tasks, err := s.demand(callOf(c), d)
	if err != nil {
		return err
	}
	if callOf(c).life().Err() != nil {
		s.giveBack(tasks)
		return callOf(c).right.Refusal()
	}
	memory := s.memoryOf(c)
	held, ok := s.hold(memory, tasks)
	if !ok {
		return &problem{kind: overloaded, detail: "other answers take all the memory for them", retryAfter: 1}
	}
	defer memory.Give(held)
	s.metrics.leased.Add(float64(len(tasks)))
	s.writeLeased(c.Response(), tasks, key)
	return nil
}

// hold takes memory for tasks that wait to be written, or gives the tasks back if there is no memory. A few small tasks
// are not counted.
func (s *consumerService) hold(memory shares.Part, tasks []*fsmpb.Task) (held int, ok bool) {
	for _, t := range tasks {
		held += len(t.Spec.GetPayload())
	}
	if held <= freeBody {
		return 0, true
	}
	if !memory.Take(held) {
		s.giveBack(tasks)
		return 0, false
	}
	return held, true
}

func (s *consumerService) readDemand(c echo.Context) (demand, error) {
	body, err := bind(c, s.bounds.BodyBytes, jsonType)
	defer body.release()
	if err != nil {
		return demand{}, err
	}
	return parseDemand(body.data)
}

func parseDemand(data []byte) (demand, error) {
	d := demand{max: 1, lease: task.DefaultLease}
	err := contract.Members{
		"max":   contract.Whole(&d.max, 1, task.MaxLeaseTasks),
		"wait":  span(&d.wait, 0, maxLeaseWait, "0s to 1m"),
		"lease": span(&d.lease, task.MinLease, task.MaxLease, leaseRule),
	}.Optional(data)
	return d, err
}

// demand leases tasks until the wait is over, the request ends, or the server closes.
func (s *consumerService) demand(c *call, d demand) ([]*fsmpb.Task, error) {
	ctx, cancel := context.WithTimeout(c.life(), max(d.wait, leaseLook))
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	tasks, err := s.backend.Lease(ctx, task.LeaseRequest{
		Namespace: c.namespace, Queue: c.Param("queue"), Max: d.max, Lease: d.lease, Look: d.wait == 0,
	})
	if err != nil && ctx.Err() != nil {
		return nil, nil // the end of the wait is no failure
	}
	return tasks, err
}

// writeLeased answers task by task, so that the answer is not in memory twice. Tasks that a broken connection leaves
// unwritten go back to the queue.
func (s *consumerService) writeLeased(w http.ResponseWriter, tasks []*fsmpb.Task, key receiptKey) {
	h := w.Header()
	h["Content-Type"] = []string{jsonType}
	h["Cache-Control"] = []string{"no-store"}
	w.WriteHeader(http.StatusOK)
	buffer := s.buffers.get()
	defer s.buffers.put(buffer)
	b := append(*buffer, `{"tasks":[`...)
	written := 0 // tasks that went out before b
	for i, t := range tasks {
		if i > 0 {
			b = append(b, ',')
		}
		b = leasedView(t, key).append(b)
		if len(b) > 32<<10 {
			if _, err := w.Write(b); err != nil {
				s.giveBack(tasks[written:])
				return
			}
			b, written = b[:0], i+1
		}
	}
	b = append(b, "]}\n"...)
	if _, err := w.Write(b); err != nil {
		s.giveBack(tasks[written:])
	}
	*buffer = b
}

func leasedView(t *fsmpb.Task, key receiptKey) taskView {
	v := viewOf(t)
	v.lease = key
	return v
}

// giveBack releases tasks that their consumer never got. A release does not count as an attempt. A task whose release
// fails returns when its lease ends.
func (s *consumerService) giveBack(tasks []*fsmpb.Task) {
	if len(tasks) == 0 {
		return
	}
	s.metrics.givenBack.Add(float64(len(tasks)))
	commands := make([]*fsmpb.Command, len(tasks))
	for i, t := range tasks {
		commands[i] = receiptOf(t).settle(&fsmpb.Settle{Verdict: fsmpb.Verdict_VERDICT_RELEASED})
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.bounds.RequestTimeout)
	defer cancel()
	for _, reply := range s.tasks.Do(ctx, commands) {
		if reply.Err != nil {
			s.logger.Debug("a task stays leased that no consumer took", "err", reply.Err)
		}
	}
}
