package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/rights"
	"github.com/belfryhq/belfry/httpapi/internal/stream"
	"github.com/belfryhq/belfry/internal/admission"
	"github.com/belfryhq/belfry/internal/contract"
	"github.com/belfryhq/belfry/internal/wait"
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
	d, err := bodyOf(s.core, c, parseDemand)
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
func (s *consumerService) hold(memory admission.Part, tasks []*fsmpb.Task) (held int, ok bool) {
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

// consumer is one stream in progress: tasks flow to the consumer as it gives credit, and it may settle them on the same
// connection. Its steps run in parallel. The steps that put lines into the outbox are its producers, and the last of
// them to end ends the outbox.
type consumer struct {
	*stream.Conn
	s         *consumerService
	call      *call
	right     *rights.Right // of the call
	from      lane
	lease     time.Duration
	memory    admission.Part
	credit    *credit
	intake    *stream.Intake[consumerLine]
	outbox    *stream.Outbox
	producers atomic.Int32

	leasing context.Context // ends when no more tasks are to be leased
	stop    context.CancelFunc
}

// stream serves a consumer on one connection: tasks and answers go out while its lines of credit and settlements come
// in. There is no GET form, since it would lease tasks, and a GET has no effect.
func (s *consumerService) stream(c echo.Context) error {
	t, err := s.newConsumer(c)
	if err != nil {
		return err
	}
	defer t.outbox.Release()
	defer t.stop()
	s.metrics.waiting.Inc()
	defer s.metrics.waiting.Dec()
	t.SendHead()
	err = t.serve(c.Request().Context())
	s.giveBack(t.outbox.Unwritten())
	if err != nil {
		s.logCut(err)
		panic(http.ErrAbortHandler) // the consumer must not take this for an orderly end
	}
	return t.right.Refusal()
}

func (s *consumerService) newConsumer(c echo.Context) (*consumer, error) {
	from, err := s.laneOf(c)
	if err != nil {
		return nil, err
	}
	cl := callOf(c)
	t := &consumer{s: s, call: cl, right: cl.right, from: from, memory: s.memoryOf(c), lease: task.DefaultLease}
	if err := t.takeQuery(c.QueryParams()); err != nil {
		return nil, err
	}
	if err := checkLines(c.Request()); err != nil {
		return nil, err
	}
	t.Conn = s.openLines(c, t)
	t.intake = stream.NewIntake[consumerLine](s.bounds.BatchChunkLines, s.bounds.BatchChunkBytes)
	t.outbox = stream.NewOutbox(s.bounds.StreamBytes, s.bounds.StreamBytes, s.memoryOf(c))
	t.leasing, t.stop = context.WithCancel(context.Background())
	return t, nil
}

func (t *consumer) takeQuery(query url.Values) error {
	var n uint64
	var err error
	if query.Has("credit") {
		if n, err = wholeParam("credit", query.Get("credit"), 1, maxCredit); err != nil {
			return err
		}
	}
	t.credit = newCredit(int(n))
	if query.Has("lease") {
		t.lease, err = boundedSpan("lease", query.Get("lease"), task.MinLease, task.MaxLease, leaseRule)
	}
	return err
}

// serve runs until the consumer ends its lines, or the server closes. Tasks that were leased before the end are still
// written, and settles answered.
func (t *consumer) serve(request context.Context) error {
	t.producers.Store(2) // leaseTasks and settle
	return t.Run(request, func() { t.stop(); t.intake.Abandon(); t.outbox.Abandon() },
		t.leaseTasks, t.beat, t.watch, t.readLines, t.settle,
		func(context.Context) error { return t.Answer(t.outbox) })
}

// watch ends the stream in order when the server closes. The read that it wakes does not count as the consumer's
// leaving. It is a step, so that the connection is not touched after the handler.
func (t *consumer) watch(context.Context) error {
	select {
	case <-t.leasing.Done():
		return nil
	case <-t.s.closing.Done():
	}
	t.stop()
	t.StopReading()
	return nil
}

// Reading does nothing: the reading of a consumer's lines costs little.
func (t *consumer) Reading() {}

// Arrived does nothing: no line of a consumer counts from its arrival.
func (t *consumer) Arrived() {}

// Part ends the stream of a consumer that may not go on. Its unwritten tasks go back to the queue.
func (t *consumer) Part() {
	t.stop()
	t.outbox.Withdraw()
	t.intake.EndWith(consumerLine{refused: t.call.ending("stream")})
}

// produced ends one producer.
func (t *consumer) produced() {
	if t.producers.Add(-1) == 0 {
		t.outbox.End()
	}
}

// leaseTasks leases tasks as long as there is credit and room. It waits out failures of the shards, since the consumer
// would only come back and meet the same.
func (t *consumer) leaseTasks(context.Context) error {
	for pause := firstPause; ; {
		n, ok := t.credit.wait(t.leasing)
		if !ok {
			break
		}
		some, err := t.leaseSome(n)
		if err != nil {
			return err
		}
		if some {
			pause = firstPause
			continue
		}
		wait.For(t.leasing, pause) // credit.wait sees the end
		pause = min(2*pause, lastPause)
	}
	t.stop()
	t.produced()
	return nil
}

// leaseSome makes one lease call and delivers its tasks. some is false if there were none.
func (t *consumer) leaseSome(n int) (some bool, err error) {
	tasks, err := t.s.backend.Lease(t.leasing, task.LeaseRequest{
		Namespace: t.from.namespace, Queue: t.from.queue, Max: min(n, task.MaxLeaseTasks), Lease: t.lease,
	})
	if t.leasing.Err() != nil {
		t.s.giveBack(tasks)
		return false, nil
	}
	if err != nil {
		t.s.logger.Debug("stream's lease failed", "namespace", t.from.namespace, "queue", t.from.queue, "err", err)
	}
	held, ok := t.s.hold(t.memory, tasks)
	if !ok || len(tasks) == 0 {
		return false, nil
	}
	defer t.memory.Give(held)
	t.credit.spend(len(tasks))
	if !t.deliver(tasks) && t.right.Refusal() == nil {
		return false, stream.ErrCut
	}
	return true, nil
}

// deliver puts tasks into the outbox in pieces. The outbox's room slows the leasing down to the consumer's pace.
func (t *consumer) deliver(tasks []*fsmpb.Task) bool {
	const pieceBytes = 32 << 10
	t.s.metrics.leased.Add(float64(len(tasks)))
	for len(tasks) > 0 {
		buffer := t.s.buffers.get()
		b, n := *buffer, 0
		for n < len(tasks) && len(b) < pieceBytes {
			b = append(leasedView(tasks[n], t.from.key).append(append(b, `{"task":`...)), "}\n"...)
			n++
		}
		*buffer = b
		if !t.outbox.Put(stream.Piece{Data: buffer, Tasks: tasks[:n:n]}) {
			t.s.giveBack(tasks)
			return false
		}
		tasks = tasks[n:]
	}
	return true
}

// beat writes a heartbeat now and then while no other line is written, so that both sides notice a dead connection.
func (t *consumer) beat(context.Context) error {
	for wait.For(t.leasing, t.s.bounds.StreamBeat) {
		buffer := t.s.buffers.get()
		*buffer = append(contract.AppendInstant(append(*buffer, `{"heartbeat":`...), t.s.arrived().at.UnixMilli()), "}\n"...)
		if !t.outbox.PutIfEmpty(stream.Piece{Data: buffer}) {
			t.s.buffers.put(buffer)
		}
	}
	return nil
}

// consumerLine is one line's settlements, or its refusal.
type consumerLine struct {
	settlements []settlement
	refused     *problem
}

// readLines takes credit at once and settlements in order, until the consumer ends its lines, the server closes, or a
// line has no end.
func (t *consumer) readLines(context.Context) error {
	err := t.Lines(0, t.parseLine)
	switch {
	case err == nil || errors.Is(err, stream.ErrParted) || errors.Is(err, stream.ErrIdle): // of watch
	case errors.Is(err, stream.ErrLong): // the line is answered
	default:
		return err
	}
	t.stop()
	t.intake.End()
	return nil
}

func (t *consumer) parseLine(data []byte, tooLong bool) bool {
	if tooLong {
		return t.intake.Put(consumerLine{refused: t.s.lineTooLong()}, 0)
	}
	v, err := parseConsumerLine(data, t.from)
	if err == nil && v.credit > 0 {
		err = t.credit.add(v.credit)
	}
	if err != nil {
		return t.intake.Put(consumerLine{refused: problemOf(err)}, len(data))
	}
	if v.receipts == 0 {
		return true
	}
	return t.intake.Put(consumerLine{settlements: v.all()}, len(data))
}

func parseConsumerLine(data []byte, l lane) (*verdicts, error) {
	v := &verdicts{lane: l}
	return v, v.read(contract.NewReader(data), &contract.StreamObject)
}

// settle carries out the settlements, one commit at a time. It answers each line that settles leases, or is faulty,
// with a line.
func (t *consumer) settle(ctx context.Context) error {
	var spare []consumerLine
	for {
		lines, ok := t.intake.Take(spare)
		if !ok {
			break
		}
		var commands []*fsmpb.Command
		for _, l := range lines {
			commands = append(commands, settleCommands(l.settlements)...)
		}
		replies, err := t.settleAll(ctx, commands)
		if err != nil {
			return err
		}
		if !t.outbox.Put(stream.Piece{Data: t.answersTo(lines, replies)}) {
			return stream.ErrCut
		}
		clear(lines)
		spare = lines
	}
	if ctx.Err() != nil {
		return stream.ErrCut
	}
	t.produced()
	return nil
}

// settleAll carries out settlements, or refuses them if the consumer may not go on.
func (t *consumer) settleAll(ctx context.Context, commands []*fsmpb.Command) ([]task.Reply, error) {
	if refusal := t.right.Refusal(); refusal != nil {
		return refusals(len(commands), refusal), nil
	}
	return t.s.doPatiently(ctx, t.right, commands)
}

func (t *consumer) answersTo(lines []consumerLine, replies []task.Reply) *[]byte {
	buffer := t.s.buffers.get()
	b := *buffer
	for _, l := range lines {
		if l.refused != nil {
			b = append(appendProblem(append(b, `{"problem":`...), l.refused), "}\n"...)
			continue
		}
		n := len(settleCommands(l.settlements))
		b = append(t.s.appendResults(append(b, `{"settled":`...), l.settlements, replies[:n]), "}\n"...)
		replies = replies[n:]
	}
	*buffer = b
	return buffer
}

// maxCredit is the largest number of tasks that a consumer may ask a stream for in advance.
const maxCredit = 10_000

// credit is the number of tasks that a consumer still wants from its stream.
type credit struct {
	more chan struct{} // has a token if left has grown since the last look of wait

	mu   sync.Mutex
	left int // 0 <= left <= maxCredit
}

func newCredit(n int) *credit { return &credit{left: n, more: make(chan struct{}, 1)} }

// add adds n to the credit, or refuses all of it if the sum exceeds the limit.
func (c *credit) add(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left+n > maxCredit {
		return &task.FieldError{Field: "credit", Detail: fmt.Sprintf("would be %d in all", c.left+n),
			Limit: fmt.Sprint(maxCredit)}
	}
	c.left += n
	select {
	case c.more <- struct{}{}:
	default:
	}
	return nil
}

func (c *credit) spend(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = max(c.left-n, 0)
}

func (c *credit) now() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.left
}

// wait returns the credit once it is positive, or false when the context ends.
func (c *credit) wait(ctx context.Context) (int, bool) {
	for ctx.Err() == nil {
		if n := c.now(); n > 0 {
			return n, true
		}
		select {
		case <-c.more:
		case <-ctx.Done():
		}
	}
	return 0, false
}
