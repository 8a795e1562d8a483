package calls

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/tracing"
)

// pipe is a stream in memory whose ends a test can break.
type pipe struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	requests chan *clusterpb.ForwardRequest
	replies  chan *clusterpb.ForwardReply
}

var errBroken = errors.New("the wire broke")

func newPipe(ctx context.Context) *pipe {
	ctx, cancel := context.WithCancelCause(ctx)
	return &pipe{ctx: ctx, cancel: cancel,
		requests: make(chan *clusterpb.ForwardRequest), replies: make(chan *clusterpb.ForwardReply)}
}

type askingEnd struct{ *pipe }

func (p askingEnd) Send(m *clusterpb.ForwardRequest) error {
	select {
	case p.requests <- m:
		return nil
	case <-p.ctx.Done():
		return io.EOF
	}
}

func (p askingEnd) Recv() (*clusterpb.ForwardReply, error) {
	select {
	case m := <-p.replies:
		return m, nil
	case <-p.ctx.Done():
		return nil, context.Cause(p.ctx)
	}
}

type answeringEnd struct{ *pipe }

func (p answeringEnd) Context() context.Context { return p.ctx }

func (p answeringEnd) Send(m *clusterpb.ForwardReply) error {
	select {
	case p.replies <- m:
		return nil
	case <-p.ctx.Done():
		return context.Cause(p.ctx)
	}
}

func (p answeringEnd) Recv() (*clusterpb.ForwardRequest, error) {
	select {
	case m := <-p.requests:
		return m, nil
	case <-p.ctx.Done():
		return nil, io.EOF
	}
}

// doer answers each command and every other call with do.
type doer struct {
	do func(ctx context.Context, shard uint32, id string) task.Reply
}

func (l doer) Do(ctx context.Context, shard uint32, cmds []*fsmpb.Command) []task.Reply {
	var replies []task.Reply
	for _, c := range cmds {
		replies = append(replies, l.do(ctx, shard, c.Id))
	}
	return replies
}

func (l doer) get(ctx context.Context, shard uint32, c *clusterpb.GetCall) (*fsmpb.Task, error) {
	r := l.do(ctx, shard, c.Id)
	return &fsmpb.Task{Id: c.Id, Shard: shard}, r.Err
}

func (l doer) queues(ctx context.Context, shard uint32, c *clusterpb.QueuesCall) (*clusterpb.QueuesReply, error) {
	r := l.do(ctx, shard, c.Queue)
	return &clusterpb.QueuesReply{Counts: []*fsmpb.QueueCounts{{Queue: c.Queue, Ready: uint64(shard)}}}, r.Err
}

func (l doer) table() *Table { return NewTable(l.Do, On(l.get), On(l.queues)) }

func echo(_ context.Context, shard uint32, id string) task.Reply {
	return task.Reply{Result: &fsmpb.Result{Detail: fmt.Sprintf("%d/%s", shard, id)}}
}

// served is a client whose streams the doer shards answer. It keeps the newest stream for the test to break.
type served struct {
	*Client
	mu     sync.Mutex
	stream *pipe
	opened int
	stop   chan struct{}
	refuse chan error // error of admit, for one message
	wg     sync.WaitGroup

	shards  doer
	refusal error // by which the node refuses a stream; nil: none
	bound   int   // of ClientConfig.MaxOutstanding
}

func (s *served) Open(ctx context.Context) (Stream, error) {
	p := newPipe(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream = p
	s.opened++
	s.wg.Go(func() {
		err := Serve(answeringEnd{p}, s.shards.table(), s.admit, s.stop)
		if err == nil {
			err = io.EOF
		}
		p.cancel(err)
	})
	return askingEnd{p}, nil
}

func (s *served) Refused(err error) bool { return s.refusal != nil && errors.Is(err, s.refusal) }

// opener is a node to which streams open as the function says. The node refuses none.
type opener func(ctx context.Context) (Stream, error)

func (o opener) Open(ctx context.Context) (Stream, error) { return o(ctx) }

func (opener) Refused(error) bool { return false }

// admit returns an error that waits in refuse.
func (s *served) admit() error {
	select {
	case err := <-s.refuse:
		return err
	default:
		return nil
	}
}

func serve(t *testing.T, l doer, edit ...func(*served)) *served {
	s := &served{stop: make(chan struct{}), refuse: make(chan error, 1), shards: l}
	for _, f := range edit {
		f(s)
	}
	s.Client = NewClient(ClientConfig{Node: "b", Peer: s, MaxOutstanding: s.bound})
	t.Cleanup(func() {
		s.Close()
		s.wg.Wait()
	})
	return s
}

func (s *served) breakWire(cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stream.cancel(cause)
}

func command(id string) []*fsmpb.Command { return []*fsmpb.Command{{Id: id}} }

func TestAnswersFindTheirCalls(t *testing.T) {
	s := serve(t, doer{echo})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			id, shard := fmt.Sprint(i), uint32(i%7)
			r := s.Do(t.Context(), shard, []*fsmpb.Command{{Id: id}, {Id: id + "b"}})
			if want := fmt.Sprintf("%d/%s", shard, id); r[0].Err != nil ||
				r[0].Result.Detail != want || r[1].Result.Detail != want+"b" {
				t.Errorf("call %d: %v", i, r)
			}
			task, err := Ask[*fsmpb.Task](t.Context(), s, shard, &clusterpb.GetCall{Id: id})
			if err != nil || task.Id != id || task.Shard != shard {
				t.Errorf("get %d: %v, %v", i, task, err)
			}
			queues, err := Ask[*clusterpb.QueuesReply](t.Context(), s, shard, &clusterpb.QueuesCall{Queue: id})
			if counts := queues.GetCounts(); err != nil || len(counts) != 1 || counts[0].Queue != id ||
				counts[0].Ready != uint64(shard) {
				t.Errorf("queues %d: %v, %v", i, counts, err)
			}
		})
	}
	wg.Wait()
	if s.opened != 1 || s.outstanding.Taken() != 0 {
		t.Errorf("%d streams, %d bytes outstanding", s.opened, s.outstanding.Taken())
	}
}

// Calls that arrive while a message is being sent leave with the next one, in order of arrival.
func TestWaitingCallsShareAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipe(t.Context())
		open := opener(func(context.Context) (Stream, error) { return askingEnd{p}, nil })
		c := NewClient(ClientConfig{Node: "b", Peer: open})
		defer c.Close()
		defer p.cancel(errBroken)
		for i := range 10 {
			go c.Do(t.Context(), 1, command(fmt.Sprint(i)))
			synctest.Wait() // so they arrive in this order; the first one is being sent all the time
		}
		var sizes []int
		var order []string
		for len(order) < 10 {
			msg := <-p.requests
			sizes = append(sizes, len(msg.Calls))
			for _, call := range msg.Calls {
				sent, err := decode[*clusterpb.Commands](call.Request)
				assert.NoError(t, err)
				order = append(order, sent.Commands[0].Id)
			}
		}
		if !slices.Equal(sizes, []int{1, 9}) || !slices.IsSorted(order) {
			t.Errorf("messages of %v calls: %v", sizes, order)
		}
	})
}

// begun returns a doer whose calls send their id to started, and then hang.
func begun(started chan<- string) doer {
	return doer{func(ctx context.Context, _ uint32, id string) task.Reply {
		started <- id
		<-ctx.Done()
		return task.Reply{Err: ctx.Err()}
	}}
}

// A call that was on a broken stream may have been carried out, whatever its kind.
func TestStreamBrokenMidCall(t *testing.T) {
	refused := errors.New("the wrong node")
	for name, c := range map[string]struct{ cause, want error }{
		"broken":  {errBroken, task.ErrUnknown},
		"refused": {refused, task.ErrNotProposed},
	} {
		t.Run(name, func(t *testing.T) {
			started := make(chan string)
			s := serve(t, begun(started), func(s *served) { s.refusal = refused })
			errs := make(chan error, 2)
			go func() { errs <- s.Do(t.Context(), 1, command("x"))[0].Err }()
			<-started
			s.breakWire(c.cause)
			if err := <-errs; !errors.Is(err, c.want) || !errors.Is(err, c.cause) {
				t.Errorf("command: %v", err)
			}
			go func() {
				_, err := Ask[*fsmpb.Task](t.Context(), s, 1, &clusterpb.GetCall{Id: "x"})
				errs <- err
			}()
			<-started // on a new stream
			s.breakWire(c.cause)
			if err := <-errs; !errors.Is(err, c.want) || !errors.Is(err, c.cause) {
				t.Errorf("read: %v", err)
			}
			assert.Equal(t, s.outstanding.Taken(), 0, "bytes outstanding")
		})
	}
}

func TestUnreachableNodeIsNoticedAtOnce(t *testing.T) {
	c := NewClient(ClientConfig{Node: "b", Peer: opener(func(context.Context) (Stream, error) { return nil, errBroken })})
	defer c.Close()
	for range 3 {
		if err := c.Do(t.Context(), 1, command("x"))[0].Err; !errors.Is(err, task.ErrNotProposed) || !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	}
}

func TestCallerGivesUp(t *testing.T) {
	started := make(chan string)
	s := serve(t, begun(started))
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() { errs <- s.Do(ctx, 1, command("x"))[0].Err }()
	<-started
	cancel()
	if err := <-errs; !errors.Is(err, task.ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("sent: %v", err)
	}

	never := NewClient(ClientConfig{Node: "b", Peer: opener(func(ctx context.Context) (Stream, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})})
	defer never.Close()
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, never.Do(ctx, 1, command("x"))[0].Err, task.ErrNotProposed, "not sent")
	if never.outstanding.Taken() != 0 || never.waiting.Len() != 0 {
		t.Errorf("%d bytes outstanding", never.outstanding.Taken())
	}
}

func TestDeadlineTravels(t *testing.T) {
	s := serve(t, doer{func(ctx context.Context, _ uint32, _ string) task.Reply {
		until, ok := ctx.Deadline()
		return task.Reply{Result: &fsmpb.Result{Detail: fmt.Sprint(ok && time.Until(until) <= time.Minute+boundStep)}}
	}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if r := s.Do(ctx, 1, command("x")); r[0].Err != nil || r[0].Result.Detail != "true" {
		t.Errorf("%v", r)
	}
}

// TestServedCallEnds checks that a call without an answer ends at its time at the answering node, and no more than a
// step later. Calls that end together have one context, and the node keeps none that is over.
func TestServedCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPipe(t.Context())
		began, took := time.Now(), make(chan time.Duration)
		table := doer{func(ctx context.Context, _ uint32, _ string) task.Reply {
			<-ctx.Done()
			took <- time.Since(began)
			return task.Reply{Err: ctx.Err()}
		}}.table()
		s := &server{
			ctx: p.ctx, cancel: func() { p.cancel(nil) }, stream: answeringEnd{p}, table: table,
			room: semaphore.NewWeighted(maxServed), began: began, bounded: make(map[time.Duration]context.Context),
		}
		encoded, err := encode(&clusterpb.Commands{Commands: command("x")})
		assert.NoError(t, err)
		for number, timeout := range []int64{10, 99, 1000} {
			s.begin(&clusterpb.Call{Number: uint64(number), Kind: "Commands", Request: encoded, TimeoutMs: timeout})
		}
		requireContexts := func(want int) {
			s.mu.Lock()
			defer s.mu.Unlock()
			assert.Equal(t, len(s.bounded), want, "contexts")
		}
		requireContexts(2)
		for _, least := range []time.Duration{99 * time.Millisecond, 99 * time.Millisecond, time.Second} {
			if d := <-took; d < least || d > least+boundStep {
				t.Errorf("ended after %v, not %v", d, least)
			}
		}
		synctest.Wait()
		requireContexts(0)
		p.cancel(errBroken)
	})
}

func TestOutstandingBytesAreBounded(t *testing.T) {
	started := make(chan string)
	s := serve(t, begun(started), func(s *served) { s.bound = 1000 })
	big := []*fsmpb.Command{{Id: "x", Op: &fsmpb.Command_Schedule{Schedule: &fsmpb.Schedule{
		Spec: &fsmpb.Spec{Payload: make([]byte, 2000)}}}}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Do(ctx, 1, big) }() // one call may exceed the bound, alone
	<-started
	assert.ErrorIs(t, s.Do(t.Context(), 1, command("y"))[0].Err, task.ErrOverloaded, "beside it")
	cancel()
	<-ended
	go s.Do(t.Context(), 1, command("z"))
	assert.Equal(t, <-started, "z", "began")
}

func TestClosedClientAnswers(t *testing.T) {
	s := serve(t, doer{echo})
	s.Close()
	assert.ErrorIs(t, s.Do(t.Context(), 1, command("x"))[0].Err, task.ErrNotProposed)
}

// TestServerEndsInOrder checks that a node that stops, or that refuses the calling node from now on, answers the calls
// that it has begun. A call that it has not begun is certainly not proposed.
func TestServerEndsInOrder(t *testing.T) {
	removed := errors.New("the caller was removed")
	for name, end := range map[string]func(*served){
		"stopping": func(s *served) { close(s.stop) },
		"refusing": func(s *served) { s.refuse <- removed },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { endInOrder(t, end, removed) })
		})
	}
}

func endInOrder(t *testing.T, end func(*served), refusal error) {
	var begun []string
	finish := make(chan struct{})
	s := serve(t, doer{func(_ context.Context, _ uint32, id string) task.Reply {
		begun = append(begun, id)
		<-finish
		return task.Reply{Result: &fsmpb.Result{Detail: id}}
	}}, func(s *served) { s.refusal = refusal })
	ask := func(id string) <-chan task.Reply {
		answer := make(chan task.Reply, 1)
		go func() { answer <- s.Do(t.Context(), 1, command(id))[0] }()
		synctest.Wait()
		return answer
	}
	first := ask("x")
	end(s)
	synctest.Wait()
	second := ask("y")
	close(finish)
	if r := <-first; r.Err != nil || r.Result.Detail != "x" {
		t.Errorf("begun before: %v", r)
	}
	if r := <-second; !errors.Is(r.Err, task.ErrNotProposed) || !slices.Equal(begun, []string{"x"}) {
		t.Errorf("not begun: %v; begun: %v", r, begun)
	}
}

// halfBroken takes one message, then ends: Send notices the end first, and Recv tells the reason.
type halfBroken struct {
	sent chan struct{} // capacity 1: holds a token after the first Send
	told chan error
}

func (s halfBroken) Send(*clusterpb.ForwardRequest) error {
	select {
	case s.sent <- struct{}{}:
		return nil
	default:
		return io.EOF
	}
}

func (s halfBroken) Recv() (*clusterpb.ForwardReply, error) { return nil, <-s.told }

// TestFailedSendTellsNothing: a Send that fails with io.EOF says that the stream is over, and not that it ended cleanly.
func TestFailedSendTellsNothing(t *testing.T) {
	for name, c := range map[string]struct{ end, want error }{
		"broken":        {errBroken, task.ErrUnknown},
		"ended cleanly": {io.EOF, task.ErrNotProposed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stream := halfBroken{make(chan struct{}, 1), make(chan error)}
				client := NewClient(ClientConfig{
					Node: "b", Peer: opener(func(context.Context) (Stream, error) { return stream, nil }),
				})
				defer client.Close()
				errs := make(chan error, 2)
				for _, id := range []string{"x", "y"} {
					go func() { errs <- client.Do(t.Context(), 1, command(id))[0].Err }()
					synctest.Wait()
				}
				stream.told <- c.end
				for range 2 {
					assert.ErrorIs(t, <-errs, c.want)
				}
			})
		})
	}
}

// The trace of a caller reaches the node that answers. A call without one has none there.
func TestTraceCrossesNodes(t *testing.T) {
	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	var arrived string
	s := serve(t, doer{func(ctx context.Context, _ uint32, _ string) task.Reply {
		arrived = tracing.Traceparent(ctx)
		return task.Reply{}
	}})
	for _, sent := range []string{caller, ""} {
		s.Do(tracing.Remote(t.Context(), sent), 1, command("a"))
		assert.Equal(t, arrived, sent, "arrived in place")
	}
}
