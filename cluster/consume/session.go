package consume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Serve answers another node's demands for the shards that are led here, until the stream ends or stopping is closed.
// It releases tasks that were granted to the node and could not be sent.
func (p *Consumers) Serve(stream ServerStream, stopping <-chan struct{}) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	s := &session{consumers: p, demands: make(map[uint64]Demand), wake: make(chan struct{}, 1)}
	received := make(chan error, 1)
	go func() { received <- s.receive(ctx, stream) }()
	sent := make(chan error, 1)
	go func() { sent <- s.send(ctx, stream) }()
	var err error
	select {
	case err = <-received:
		cancel()
		err = errors.Join(err, <-sent)
	case err = <-sent:
	case <-stopping:
		cancel()
		err = <-sent
	}
	s.close()
	return err
}

// session holds the demands of one stream, and the answers to be sent on it.
type session struct {
	consumers *Consumers
	wake      chan struct{} // capacity 1; filled when outbox gets an answer

	mu      sync.Mutex
	closed  bool
	demands map[uint64]Demand
	outbox  []*clusterpb.PullAnswer
	bytes   int // of the tasks in outbox
}

// errSlow ends a stream whose other end does not read the tasks of its demands.
var errSlow = fmt.Errorf("%w: more than %d bytes wait to be sent", task.ErrOverloaded, maxOutboxBytes)

func (s *session) receive(ctx context.Context, stream ServerStream) error {
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, d := range msg.Demands {
			s.handle(d)
		}
	}
}

func (s *session) handle(msg *clusterpb.PullDemand) {
	s.mu.Lock()
	d, closed := s.demands[msg.Number], s.closed
	s.mu.Unlock()
	switch {
	case closed:
	case msg.End:
		s.end(msg.Number, d)
	case d != nil:
		d.Set(msg.Total, msg.Received, msg.Look)
	case msg.LeaseMs > 0:
		s.begin(msg)
	} // else the demand has ended, and the other node did not know it yet
}

func (s *session) begin(msg *clusterpb.PullDemand) {
	c := &remoteConsumer{session: s, number: msg.Number}
	d, err := s.consumers.cfg.Replicas.Lease(msg.Shard, task.LeaseRequest{
		Namespace: msg.Namespace, Queue: msg.Queue, Max: int(min(msg.Total, maxNeed)),
		Lease: time.Duration(msg.LeaseMs) * time.Millisecond, Holder: msg.Holder,
	}, c)
	if err != nil {
		c.End(err)
		return
	}
	s.mu.Lock()
	drop := s.closed || c.ended
	if !drop {
		s.demands[msg.Number] = d
	}
	s.mu.Unlock()
	if drop {
		d.Withdraw()
		return
	}
	d.Set(msg.Total, msg.Received, msg.Look)
}

func (s *session) end(number uint64, d Demand) {
	if d == nil {
		return // it has ended by itself, and the answer says so
	}
	d.Withdraw()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.demands, number)
	s.put(&clusterpb.PullAnswer{Number: number, Ended: true})
}

// put adds an answer to the outbox. The caller holds the lock.
func (s *session) put(a *clusterpb.PullAnswer) {
	s.outbox = append(s.outbox, a)
	notify(s.wake)
}

// send sends messages; each carries the answers that gathered while the last one was sent.
func (s *session) send(ctx context.Context, stream ServerStream) error {
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
		for {
			msg, err := s.take()
			if err != nil {
				return err
			}
			if msg == nil {
				break
			}
			if err := stream.Send(msg); err != nil {
				return err // these tasks may have arrived or not: their leases decide
			}
		}
	}
}

// take returns the next message, or nil if there are no answers.
func (s *session) take() (*clusterpb.PullReply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes > maxOutboxBytes {
		return nil, errSlow
	}
	if len(s.outbox) == 0 {
		return nil, nil
	}
	n, bytes := 0, 0
	for n < len(s.outbox) && bytes < messageBytes {
		bytes += sizeOf(s.outbox[n].Tasks)
		n++
	}
	msg := &clusterpb.PullReply{Answers: s.outbox[:n:n]}
	if s.outbox = s.outbox[n:]; len(s.outbox) == 0 {
		s.outbox = nil
	}
	s.bytes -= bytes
	return msg, nil
}

// close withdraws all demands and releases the tasks that were not sent.
func (s *session) close() {
	s.mu.Lock()
	s.closed = true
	demands := s.demands
	s.demands = nil
	s.mu.Unlock()
	for _, d := range demands {
		d.Withdraw()
	}
	s.mu.Lock()
	outbox := s.outbox // final: closed is set and the demands are withdrawn
	s.outbox = nil
	s.mu.Unlock()
	var unsent []*fsmpb.Task
	for _, a := range outbox {
		unsent = append(unsent, a.Tasks...)
	}
	s.consumers.giveBack(unsent)
}

// remoteConsumer represents one demand of another node's consumers at the desk.
type remoteConsumer struct {
	session *session
	number  uint64
	ended   bool
}

// Take queues tasks for the stream.
func (c *remoteConsumer) Take(leased task.Leased) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += sizeOf(leased.Tasks)
	s.put(&clusterpb.PullAnswer{Number: c.number, Tasks: leased.Tasks, Ready: uint64(leased.Ready), NextMs: leased.NextMs})
}

// Nothing tells the other node that no task was there when it asked.
func (c *remoteConsumer) Nothing(look uint64) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(&clusterpb.PullAnswer{Number: c.number, Looked: look})
}

// End tells the other node why its demand ended.
func (c *remoteConsumer) End(err error) {
	s := c.session
	s.mu.Lock()
	defer s.mu.Unlock()
	c.ended = true
	delete(s.demands, c.number)
	s.put(&clusterpb.PullAnswer{Number: c.number, Ended: true, Error: endOf(err)})
}

// endOf encodes the reason. The other end distinguishes only one reason: another node leads.
func endOf(err error) *clusterpb.CallError {
	e := &clusterpb.CallError{Kind: clusterpb.ErrorKind_ERROR_KIND_NOT_PROPOSED, Detail: err.Error()}
	var notLeader *task.NotLeaderError
	if errors.As(err, &notLeader) {
		e.Kind, e.Leader = clusterpb.ErrorKind_ERROR_KIND_NOT_LEADER, notLeader.Leader
	}
	return e
}

func sizeOf(tasks []*fsmpb.Task) int {
	n := 0
	for _, t := range tasks {
		n += t.SizeVT()
	}
	return n
}

// notify wakes the goroutine that waits on a channel of capacity one.
func notify(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
