package calls

import (
	"cmp"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/tracing"
)

// run opens a stream whenever a call waits, one stream after the other.
func (c *Client) run(ctx context.Context) {
	for {
		select {
		case <-c.wake:
		case <-ctx.Done():
			c.failAll(ctx.Err())
			return
		}
		c.failAll(c.stream(ctx))
	}
}

// opened is an open stream. The client's mutex guards its flags.
type opened struct {
	Stream
	cancel  context.CancelCauseFunc // ends the stream
	writing bool                    // a goroutine sends a message
	broken  bool                    // a message could not be sent
}

// stream opens a stream and uses it until it breaks. It returns the reason.
func (c *Client) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := c.cfg.Peer.Open(ctx)
	if err != nil {
		return err
	}
	received := make(chan struct{})
	go func() { defer close(received); cancel(c.receive(s)) }()
	defer func() { <-received }() // so no answer of this stream meets a call of the next
	o := &opened{Stream: s, cancel: cancel}
	c.use(o)
	defer c.use(nil)
	for {
		for c.write(o) {
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// use lets callers write to a stream; nil: there is none.
func (c *Client) use(o *opened) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = o
}

// write sends a message of waiting calls, and reports whether more calls wait for run. It leaves them to a goroutine
// that writes already.
//
// It first lets other goroutines run, so that their calls leave with the same message. A send ends when the message is
// in a buffer, long before it is on the wire: busy nodes then send messages of many calls, and idle nodes lose no time.
func (c *Client) write(o *opened) (more bool) {
	c.mu.Lock()
	if o.writing || o.broken || c.waiting.Len() == 0 {
		c.mu.Unlock()
		return false
	}
	o.writing = true
	c.mu.Unlock()
	runtime.Gosched()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opened == o && c.waiting.Len() > 0 {
		msg := c.take()
		c.mu.Unlock()
		c.cfg.Metrics.message(len(msg.Calls))
		err := o.Send(msg)
		// After io.EOF only Recv tells how the stream has ended. Send returns it for a clean end and for a broken one.
		if err != nil && !errors.Is(err, io.EOF) {
			o.cancel(err)
		}
		c.mu.Lock()
		o.broken = err != nil
	}
	o.writing = false
	return !o.broken && c.waiting.Len() > 0
}

// take moves waiting calls, up to one message's worth, to sent, and returns the message. The caller holds the lock.
func (c *Client) take() *clusterpb.ForwardRequest {
	msg := &clusterpb.ForwardRequest{}
	for bytes := 0; c.waiting.Len() > 0 && bytes < messageBytes; {
		k := c.next()
		if !k.until.IsZero() {
			k.msg.TimeoutMs = max(time.Until(k.until).Milliseconds(), 1)
		}
		bytes += k.size
		msg.Calls = append(msg.Calls, k.msg)
		c.sent[k.msg.Number] = k
	}
	return msg
}

// receive gives answers to their calls until the stream ends. It returns the reason.
func (c *Client) receive(s Stream) error {
	for {
		msg, err := s.Recv()
		if err != nil {
			return err
		}
		c.mu.Lock()
		for _, reply := range msg.Replies {
			if k := c.sent[reply.Number]; k != nil {
				delete(c.sent, reply.Number)
				c.finish(k, reply, nil)
			}
		}
		c.mu.Unlock()
	}
}

// failAll ends every call after a stream has ended, also waiting calls, so that their callers may look elsewhere.
func (c *Client) failAll(cause error) {
	if cause == nil {
		cause = errors.New("the stream ended")
	}
	// The other node ends a stream cleanly, or refuses it, only after it has answered every call that it has begun.
	refused := errors.Is(cause, io.EOF) || c.cfg.Peer.Refused(cause)
	c.mu.Lock()
	defer c.mu.Unlock()
	for number, k := range c.sent {
		delete(c.sent, number)
		if refused {
			c.finish(k, nil, notSent(c.cfg.Node, cause))
		} else {
			c.finish(k, nil, unanswered(c.cfg.Node, cause))
		}
	}
	for k := c.next(); k != nil; k = c.next() {
		c.finish(k, nil, notSent(c.cfg.Node, cause))
	}
}

// ServerStream is the answering end of the Forward call.
type ServerStream interface {
	Context() context.Context
	Send(*clusterpb.ForwardReply) error
	Recv() (*clusterpb.ForwardRequest, error)
}

// maxServed bounds the bytes of the calls in progress on one stream; at the bound the server stops reading the stream.
const maxServed = 64 << 20

// Serve answers a stream's calls until the stream ends, admit refuses the calling node, or stopping is closed. In the
// last two cases it answers all calls that it has begun and ends the stream, with the error of admit or cleanly. So the
// calling node knows that a call without an answer was not begun: see Client. Admit is asked before each message.
func Serve(stream ServerStream, table *Table, admit func() error, stopping <-chan struct{}) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	s := &server{
		ctx: ctx, cancel: cancel, stream: stream, table: table, room: semaphore.NewWeighted(maxServed),
		began: time.Now(), bounded: make(map[time.Duration]context.Context),
	}
	received := make(chan error, 1)
	go func() { received <- s.receiveAll(admit) }()
	var err error
	select {
	case err = <-received:
		if !s.refused {
			cancel() // the calling node is gone, and the calls have no callers any more
		}
	case <-stopping:
	}
	s.stop()
	s.calls.Wait()
	return cmp.Or(err, s.err)
}

type server struct {
	ctx     context.Context
	cancel  context.CancelFunc
	stream  ServerStream
	table   *Table
	room    *semaphore.Weighted
	began   time.Time
	refused bool // receiveAll has ended with the error of admit

	mu      sync.Mutex
	stopped bool                              // no further call begins
	bounded map[time.Duration]context.Context // of the calls under way, by their ends since began
	calls   sync.WaitGroup
	replies []reply
	writing bool  // a goroutine sends replies
	err     error // of a send
}

// reply is the answer to a call that takes size bytes of the server's room.
type reply struct {
	*clusterpb.CallReply
	size int64
}

func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

// receiveAll begins the calls of a stream until it ends, or admit returns an error.
func (s *server) receiveAll(admit func() error) error {
	for {
		msg, err := s.stream.Recv()
		if errors.Is(err, io.EOF) || s.ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		if err := admit(); err != nil {
			s.refused = true
			return err
		}
		for _, call := range msg.Calls {
			if !s.begin(call) {
				return nil // the stream has ended
			}
		}
	}
}

func (s *server) begin(call *clusterpb.Call) bool {
	size := int64(min(call.SizeVT(), maxServed))
	if s.room.Acquire(s.ctx, size) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return false
	}
	ctx := tracing.Remote(s.within(call.TimeoutMs), call.Traceparent)
	s.calls.Go(func() { s.reply(reply{s.table.Answer(ctx, call), size}) })
	return true
}

// boundStep is the distance between the instants at which calls end whose time is over. The caller has ended its call
// before, to the millisecond.
const boundStep = 100 * time.Millisecond

// within returns the context of a call with a timeout, if it is not 0. Calls that end at the same instant share a
// context: a timer for each call is dear, and few calls need it. The caller holds the lock.
func (s *server) within(timeoutMs int64) context.Context {
	if timeoutMs <= 0 {
		return s.ctx
	}
	end := (time.Since(s.began) + time.Duration(timeoutMs)*time.Millisecond).Truncate(boundStep) + boundStep
	if ctx := s.bounded[end]; ctx != nil {
		return ctx
	}
	ctx, cancel := context.WithDeadline(s.ctx, s.began.Add(end))
	s.bounded[end] = ctx
	context.AfterFunc(ctx, func() {
		cancel()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.bounded, end)
	})
	return ctx
}

// reply sends a reply, and all that become ready meanwhile, unless another goroutine does.
func (s *server) reply(r reply) {
	s.mu.Lock()
	s.replies = append(s.replies, r)
	writes := !s.writing
	s.writing = true
	s.mu.Unlock()
	for writes {
		runtime.Gosched() // see Client.write
		writes = s.write()
	}
}

// write sends a message of replies. It returns false when there are none, or after an error.
func (s *server) write() bool {
	s.mu.Lock()
	msg, size := s.take()
	s.writing = len(msg.Replies) > 0
	s.mu.Unlock()
	if len(msg.Replies) == 0 {
		return false
	}
	err := s.stream.Send(msg)
	s.room.Release(size)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.err = err
		s.cancel()
	}
	return err == nil
}

// take returns the next message, and the room that its calls take. The caller holds the lock.
func (s *server) take() (msg *clusterpb.ForwardReply, size int64) {
	msg = &clusterpb.ForwardReply{}
	n := 0
	for bytes := 0; n < len(s.replies) && bytes < messageBytes; n++ {
		r := s.replies[n]
		msg.Replies = append(msg.Replies, r.CallReply)
		bytes += r.SizeVT()
		size += r.size
	}
	s.replies = slices.Delete(s.replies, 0, n)
	return msg, size
}
