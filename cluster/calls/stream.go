package calls

import (
	"cmp"
	"context"
	"errors"
	"io"
	"runtime"
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

// stream opens a stream and uses it until it breaks. It returns the reason.
func (c *Client) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := c.cfg.Open(ctx)
	if err != nil {
		return err
	}
	received := make(chan struct{})
	go func() { defer close(received); cancel(c.receive(s)) }()
	defer func() { <-received }() // so no answer of this stream meets a call of the next
	for {
		// A send ends when the message is in a buffer, long before it is on the wire. Gosched lets other callers add
		// their calls first: busy nodes then send messages of many calls, and idle nodes lose no time.
		runtime.Gosched()
		msg := c.take()
		if msg == nil {
			select {
			case <-c.wake:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		c.cfg.Metrics.message(len(msg.Calls))
		if err := s.Send(msg); err != nil {
			// After io.EOF only Recv tells how the stream has ended. Send returns it for a clean end and for a broken one.
			if !errors.Is(err, io.EOF) {
				cancel(err)
			}
			<-received
			return context.Cause(ctx)
		}
	}
}

// take moves waiting calls, up to one message's worth, to sent, and returns the message; nil: no call waits.
func (c *Client) take() *clusterpb.ForwardRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting.Len() == 0 {
		return nil
	}
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
	refused := errors.Is(cause, io.EOF) || c.cfg.Refused(cause)
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
		ctx: ctx, table: table, room: semaphore.NewWeighted(maxServed), replies: make(chan *clusterpb.CallReply, 64),
	}
	sent := make(chan error, 1)
	go func() { sent <- s.sendAll(stream); cancel() }()
	received := make(chan error, 1)
	go func() { received <- s.receiveAll(stream, admit) }()
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
	close(s.replies)
	return cmp.Or(err, <-sent)
}

type server struct {
	ctx     context.Context
	table   *Table
	room    *semaphore.Weighted
	replies chan *clusterpb.CallReply
	refused bool // receiveAll has ended with the error of admit

	mu      sync.Mutex
	stopped bool // no further call begins
	calls   sync.WaitGroup
}

func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

// receiveAll begins the calls of a stream until it ends, or admit returns an error.
func (s *server) receiveAll(stream ServerStream, admit func() error) error {
	for {
		msg, err := stream.Recv()
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
	s.calls.Go(func() {
		defer s.room.Release(size)
		s.reply(s.answer(call))
	})
	return true
}

func (s *server) reply(r *clusterpb.CallReply) {
	select {
	case s.replies <- r:
	case <-s.ctx.Done():
	}
}

// sendAll sends messages; each carries the replies that became ready while the last one was sent.
func (s *server) sendAll(stream ServerStream) error {
	for reply := range s.replies {
		runtime.Gosched() // see Client.stream
		msg := &clusterpb.ForwardReply{Replies: []*clusterpb.CallReply{reply}}
		s.fill(msg, reply.SizeVT())
		if err := stream.Send(msg); err != nil {
			return err
		}
	}
	return nil
}

func (s *server) fill(msg *clusterpb.ForwardReply, bytes int) {
	for bytes < messageBytes {
		select {
		case reply, ok := <-s.replies:
			if !ok {
				return
			}
			bytes += reply.SizeVT()
			msg.Replies = append(msg.Replies, reply)
		default:
			return
		}
	}
}

func (s *server) answer(call *clusterpb.Call) *clusterpb.CallReply {
	ctx := tracing.Remote(s.ctx, call.Traceparent)
	if call.TimeoutMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(call.TimeoutMs)*time.Millisecond)
		defer cancel()
	}
	return s.table.Answer(ctx, call)
}
