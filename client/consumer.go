package client

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// consumer is one Consume in progress.
type consumer struct {
	c       *conn
	queue   string
	o       ConsumeOptions
	handle  Handler
	settler *settler
	keeper  *keeper

	handlers context.Context // of all handlers; ends when the grace is over
	giveUp   context.CancelCauseFunc

	mu        sync.Mutex
	jobs      []*job        // with a running handler
	requested int           // tasks asked for that have not come; len(jobs) + requested <= Concurrency
	moved     chan struct{} // capacity 1: filled when there may be more to ask for
	stopped   chan struct{} // closed when stopping and jobs is empty; nil: not stopping
}

// job is a task and its handler.
type job struct {
	task   Leased
	ctx    context.Context
	cancel context.CancelCauseFunc

	at        int       // index in the consumer's jobs
	ends      time.Time // when the lease ends without an extension, by this machine's clock
	extending bool
}

func newConsumer(ctx context.Context, c *conn, queue string, o ConsumeOptions, handle Handler) *consumer {
	k := &consumer{c: c, queue: queue, o: o, handle: handle, moved: make(chan struct{}, 1)}
	k.handlers, k.giveUp = context.WithCancelCause(context.WithoutCancel(ctx))
	k.settler = newSettler(context.WithoutCancel(ctx), c, queue, k.notify)
	k.keeper = k.keep()
	return k
}

// newJob returns the job of a task that has just come.
func (k *consumer) newJob() *job {
	j := &job{ends: time.Now().Add(k.o.Lease)}
	j.ctx, j.cancel = context.WithCancelCause(k.handlers)
	return j
}

// begin starts the handler of a task.
func (k *consumer) begin(j *job) {
	k.mu.Lock()
	j.at = len(k.jobs)
	k.jobs = append(k.jobs, j)
	k.requested = max(k.requested-1, 0)
	k.mu.Unlock()
	go k.work(j)
}

var errExited = errors.New("the handler's goroutine has exited")

// work calls the handler and settles its outcome.
func (k *consumer) work(j *job) {
	err := errExited // unless the handler returns or panics
	defer func() {
		if cause := recover(); cause != nil {
			k.o.Logger.Error("a handler panicked", "queue", k.queue, "task", j.task.ID, "panic", cause,
				"stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", cause)
		}
		k.end(j, err)
	}()
	err = k.handle(j.ctx, &j.task)
}

// end settles a task and frees its handler's place.
func (k *consumer) end(j *job, err error) {
	if errors.Is(err, context.Canceled) && errors.Is(context.Cause(j.ctx), errGraceOver) {
		err = ErrRelease // not the task's fault
	}
	verdict := verdictOf(j.task.Receipt, err)
	k.settler.put(verdict, func(l *line) {
		if l.result.Err != nil {
			k.o.Logger.Warn("a task was not settled", "queue", k.queue, "task", j.task.ID, "as", l.verb,
				"err", l.result.Err)
		}
	})
	j.cancel(nil)
	k.mu.Lock()
	last := len(k.jobs) - 1
	k.jobs[j.at], k.jobs[last].at = k.jobs[last], j.at
	k.jobs[last] = nil
	k.jobs = k.jobs[:last]
	if last == 0 && k.stopped != nil {
		close(k.stopped)
	}
	k.mu.Unlock()
	k.notify()
}

func (k *consumer) notify() {
	select {
	case k.moved <- struct{}{}:
	default:
	}
}

// maxReasonBytes is the number of bytes of an error that the service keeps.
const maxReasonBytes = 512

// verdictOf returns the settle line for a handler's error.
func verdictOf(receipt string, err error) *line {
	if err == nil {
		return settleLine(verbAck, receipt, nil)
	}
	if errors.Is(err, ErrRelease) {
		return settleLine(verbRelease, receipt, nil)
	}
	n := Nack{Receipt: receipt, Reason: err.Error()}
	if len(n.Reason) > maxReasonBytes {
		n.Reason = strings.ToValidUTF8(n.Reason[:maxReasonBytes], "")
	}
	var in *retryIn
	if errors.As(err, &in) {
		n.Delay = &in.delay
	}
	return nackLine(n)
}

// giveBack releases a task that came after the consumer's stop. If the release fails, the lease ends by itself.
func (k *consumer) giveBack(j *job) {
	j.cancel(nil)
	k.settler.put(settleLine(verbRelease, j.task.Receipt, nil), func(*line) {})
}

// demand returns how many more tasks to ask for now, and counts them as asked for. It returns 0 while too many outcomes
// wait to be settled.
func (k *consumer) demand() int {
	if k.settler.backlog() > max(maxChunkLines, 2*k.o.Concurrency) {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	n := k.o.Concurrency - len(k.jobs) - k.requested
	k.requested += n
	return n
}

// forget resets the number of tasks asked for, since an ended stream brings no more.
func (k *consumer) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.requested = 0
}

// partingTime is the time for handlers to return after their context has ended.
const partingTime = time.Second

// stop waits for the handlers, no longer than the grace and partingTime, and then until all outcomes are settled.
func (k *consumer) stop() error {
	defer k.giveUp(nil)
	k.mu.Lock()
	k.stopped = make(chan struct{})
	if len(k.jobs) == 0 {
		close(k.stopped)
	}
	k.mu.Unlock()
	grace := time.AfterFunc(k.o.Grace, func() { k.giveUp(errGraceOver) })
	defer grace.Stop()
	late := time.NewTimer(k.o.Grace + partingTime)
	defer late.Stop()
	var err error
	select {
	case <-k.stopped:
	case <-late.C:
		k.mu.Lock()
		err = fmt.Errorf("%d handlers have not ended within %v", len(k.jobs), k.o.Grace)
		k.mu.Unlock()
	}
	k.settler.wait()
	k.keeper.stop()
	return err
}

// keeper extends the leases of a consumer's tasks while their handlers run.
type keeper struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// keep starts the consumer's keeper.
func (k *consumer) keep() *keeper {
	ctx, cancel := context.WithCancel(context.Background())
	p := &keeper{cancel: cancel}
	p.done.Go(func() {
		for wait(ctx, k.o.Lease/6) == nil {
			k.extendLeases(time.Now())
		}
	})
	return p
}

// stop ends the keeper and waits for its goroutine.
func (p *keeper) stop() {
	p.cancel()
	p.done.Wait()
}

// extendLeases extends the leases with at most half of their time left. A lease that has run out is lost: the service
// does not report its end.
func (k *consumer) extendLeases(now time.Time) {
	k.mu.Lock()
	var due []*job
	for _, j := range k.jobs {
		switch left := j.ends.Sub(now); {
		case left <= 0:
			j.cancel(ErrLeaseLost)
		case left <= k.o.Lease/2 && !j.extending:
			j.extending = true
			due = append(due, j)
		}
	}
	k.mu.Unlock()
	for _, j := range due {
		k.settler.put(extendLine(Extend{j.task.Receipt, k.o.Lease}), func(l *line) { k.extended(j, now, l.result.Err) })
	}
}

// extended takes the answer to an extension sent at an instant. If the outcome is unknown, a later turn tries again.
func (k *consumer) extended(j *job, sentAt time.Time, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	j.extending = false
	switch {
	case err == nil:
		j.ends = sentAt.Add(k.o.Lease)
	case errors.Is(err, ErrConflict) || errors.Is(err, ErrNotFound):
		j.cancel(ErrLeaseLost)
	}
}
