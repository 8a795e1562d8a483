package forward

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/tracing"
)

// ServerStream is the answering end of the Forward call.
type ServerStream interface {
	Context() context.Context
	Send(*clusterpb.ForwardReply) error
	Recv() (*clusterpb.ForwardRequest, error)
}

// maxServed bounds the bytes of the calls in progress on one stream; at the bound the server stops reading the stream.
const maxServed = 64 << 20

// Serve answers a stream's calls until the stream ends or stopping is closed. In the latter case it answers all calls
// that it has begun and ends the stream cleanly. So the calling node knows that a call without an answer was not begun:
// see Client.
func Serve(stream ServerStream, node calls.Node, stopping <-chan struct{}) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	s := &server{
		ctx: ctx, node: node, room: semaphore.NewWeighted(maxServed), replies: make(chan *clusterpb.CallReply, 64),
	}
	sent := make(chan error, 1)
	go func() { sent <- s.sendAll(stream); cancel() }()
	received := make(chan error, 1)
	go func() { received <- s.receiveAll(stream) }()
	var err error
	select {
	case err = <-received:
		cancel() // the calling node is gone, and the calls have no callers any more
	case <-stopping:
	}
	s.stop()
	s.calls.Wait()
	close(s.replies)
	return errors.Join(err, <-sent)
}

type server struct {
	ctx     context.Context
	node    calls.Node
	room    *semaphore.Weighted
	replies chan *clusterpb.CallReply

	mu      sync.Mutex
	stopped bool // no further call begins
	calls   sync.WaitGroup
}

func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped = true
}

func (s *server) receiveAll(stream ServerStream) error {
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) || s.ctx.Err() != nil {
			return nil
		}
		if err != nil {
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
	return calls.Answer(ctx, s.node, call)
}
