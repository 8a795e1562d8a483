package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Local is the replicas on this node, and only those.
type Local interface {
	Do(ctx context.Context, shard uint32, cmds []*fsmpb.Command) []task.Reply
	Get(ctx context.Context, shard uint32, namespace, id string, stale bool) (*fsmpb.Task, error)
	List(ctx context.Context, shard uint32, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error)
	Queues(ctx context.Context, shard uint32, ask *clusterpb.QueuesCall) ([]*fsmpb.QueueCounts, error)
	Lend(ctx context.Context, shard uint32, ask *clusterpb.LendCall) (*clusterpb.Loan, error)
	// ChangeQueue is for the control group.
	ChangeQueue(ctx context.Context, change *clusterpb.QueueChange) (*clusterpb.QueueChanged, error)
}

// ServerStream is the answering end of the Forward call.
type ServerStream interface {
	Context() context.Context
	Send(*clusterpb.ForwardReply) error
	Recv() (*clusterpb.ForwardRequest, error)
}

// maxServed bounds the bytes of calls that one stream has under way here; beyond that it is not read from.
const maxServed = 64 << 20

// Serve answers a stream's calls until it ends, or until stopping is closed. Then it answers what it has read and ends
// the stream cleanly, which tells the asker that whatever has no answer was not read: see Client.
func Serve(stream ServerStream, local Local, stopping <-chan struct{}) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	s := &server{
		ctx: ctx, local: local, room: semaphore.NewWeighted(maxServed), replies: make(chan *clusterpb.CallReply, 64),
	}
	sent := make(chan error, 1)
	go func() { sent <- s.sendAll(stream); cancel() }()
	received := make(chan error, 1)
	go func() { received <- s.receiveAll(stream) }()
	var err error
	select {
	case err = <-received:
		cancel() // the asker is gone: nobody waits for what is under way
	case <-stopping:
	}
	s.stop()
	s.calls.Wait()
	close(s.replies)
	return errors.Join(err, <-sent)
}

type server struct {
	ctx     context.Context
	local   Local
	room    *semaphore.Weighted
	replies chan *clusterpb.CallReply

	mu      sync.Mutex
	stopped bool // no call begins any more
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

// sendAll sends what is ready while the last message was being sent.
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
	ctx := s.ctx
	if call.TimeoutMs > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(call.TimeoutMs)*time.Millisecond)
		defer cancel()
	}
	reply := &clusterpb.CallReply{Number: call.Number}
	var err error
	switch op := call.Op.(type) {
	case *clusterpb.Call_Commands:
		for _, r := range s.local.Do(ctx, call.Shard, op.Commands.GetCommands()) {
			reply.Commands = append(reply.Commands, &clusterpb.CommandReply{Result: r.Result, Error: encodeError(r.Err)})
		}
	case *clusterpb.Call_Get:
		reply.Task, err = s.local.Get(ctx, call.Shard, op.Get.Namespace, op.Get.Id, op.Get.Stale)
	case *clusterpb.Call_List:
		reply.Page, err = s.local.List(ctx, call.Shard, op.List.Query, op.List.Stale)
	case *clusterpb.Call_Queues:
		reply.Counts, err = s.local.Queues(ctx, call.Shard, op.Queues)
	case *clusterpb.Call_Lend:
		reply.Loan, err = s.local.Lend(ctx, call.Shard, op.Lend)
	case *clusterpb.Call_ChangeQueue:
		reply.Queue, err = s.local.ChangeQueue(ctx, op.ChangeQueue)
	default:
		err = fmt.Errorf("%w: a call of a kind that this build does not know", task.ErrNotProposed)
	}
	reply.Error = encodeError(err)
	return reply
}
