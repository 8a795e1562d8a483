package consume

import (
	"context"
	"errors"
	"io"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// upstream holds the demands at one node, and keeps a stream to it while one is needed.
type upstream struct {
	consumers *Consumers
	node      string
	wake      chan struct{}   // capacity 1; filled when unsent gets an ask
	asks      map[uint64]*ask // by number; asks that have not ended
	unsent    []*ask          // asks whose state is to be sent
}

// upstream returns the upstream to a node, and makes it if there is none.
func (p *Consumers) upstream(node string) *upstream {
	u := p.upstreams[node]
	if u == nil {
		u = &upstream{consumers: p, node: node, wake: make(chan struct{}, 1), asks: make(map[uint64]*ask)}
		p.upstreams[node] = u
		p.workers.Go(u.run)
	}
	return u
}

// send queues the state of a demand for the next message.
func (u *upstream) send(a *ask) {
	if !a.queued {
		a.queued = true
		u.unsent = append(u.unsent, a)
		notify(u.wake)
	}
}

// run opens a stream whenever there is a state to send, one stream after the other.
func (u *upstream) run() {
	for {
		select {
		case <-u.wake:
		case <-u.consumers.ctx.Done():
			u.broken()
			return
		}
		if err := u.stream(); err != nil && u.consumers.ctx.Err() == nil {
			u.consumers.cfg.Logger.Debug("a node gives no tasks", "node", u.node, "err", err)
		}
		u.broken()
	}
}

// stream opens a stream and uses it until it breaks. It returns the reason.
func (u *upstream) stream() error {
	ctx, cancel := context.WithCancelCause(u.consumers.ctx)
	defer cancel(nil)
	s, err := u.consumers.open(ctx, u.node)
	if err != nil {
		return err
	}
	received := make(chan struct{})
	go func() { defer close(received); cancel(u.receive(s)) }()
	defer func() { <-received }() // so no answer of this stream is handled after its end
	for {
		msg := u.take()
		if msg == nil {
			select {
			case <-u.wake:
				continue
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := s.Send(msg); err != nil {
			cancel(err)
			return err
		}
	}
}

// take returns the next message, or nil if there is no state to send.
func (u *upstream) take() *clusterpb.PullRequest {
	u.consumers.mu.Lock()
	defer u.consumers.mu.Unlock()
	if len(u.unsent) == 0 {
		return nil
	}
	msg := &clusterpb.PullRequest{}
	for _, a := range u.unsent {
		a.queued = false
		if a.end && !a.begun { // the other node does not know the demand
			u.forget(a)
			continue
		}
		msg.Demands = append(msg.Demands, a.message())
	}
	clear(u.unsent)
	u.unsent = u.unsent[:0]
	if len(msg.Demands) == 0 {
		return nil
	}
	return msg
}

var errEnded = errors.New("the stream ended")

func (u *upstream) receive(s Stream) error {
	for {
		msg, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return errEnded
		}
		if err != nil {
			return err
		}
		u.consumers.mu.Lock()
		for _, answer := range msg.Answers {
			u.hear(answer)
		}
		u.consumers.mu.Unlock()
	}
}

// hear handles one answer.
func (u *upstream) hear(answer *clusterpb.PullAnswer) {
	a := u.asks[answer.Number]
	if a == nil {
		u.consumers.release(answer.Tasks) // the demand has ended: a correct node sends no tasks for it
		return
	}
	current := a.supply.ask == a
	if len(answer.Tasks) > 0 {
		a.received += uint64(len(answer.Tasks))
		a.unsaid += sizeOf(answer.Tasks)
		if current {
			a.supply.ready, a.supply.nextMs = int(min(answer.Ready, maxNeed)), answer.NextMs
			a.supply.leader.Found()
		}
		u.deliver(a, u.consumers.arrivals(a.shard).take(answer.Tasks))
	}
	if answer.Looked > 0 && current && a.supply.ask == a {
		a.supply.looked = max(a.supply.looked, answer.Looked)
		a.supply.pool.dismiss()
	}
	if !answer.Ended {
		return
	}
	u.forget(a)
	if current && a.supply.ask == a {
		a.supply.lost(answer.Error)
		a.supply.pool.adjust()
	}
}

// deliver gives tasks to the pool of the demand, or to the pool that has replaced it.
func (u *upstream) deliver(a *ask, tasks []*fsmpb.Task) {
	q := a.supply.pool
	if q.closed && !u.consumers.closed {
		q = u.consumers.pool(a.key)
	}
	q.arrive(tasks)
	q.adjust()
	// The other node bounds the tasks in flight by the arrivals that it knows of.
	if a.unsaid > maxAnswerBytes/4 && !a.end {
		u.send(a)
	}
}

func (u *upstream) forget(a *ask) {
	delete(u.asks, a.number)
	u.consumers.asksEnded(1)
}

// broken ends all demands after the stream has ended.
func (u *upstream) broken() {
	p := u.consumers
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range u.unsent {
		a.queued = false
	}
	clear(u.unsent)
	u.unsent = u.unsent[:0]
	for _, a := range u.asks {
		u.forget(a)
		if a.supply.ask == a {
			a.supply.lost(nil)
			a.supply.pool.adjust()
		}
	}
}
