package consume

import (
	"context"
	"errors"
	"io"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// link is the demands at one node, and the stream to it while there is one.
type link struct {
	puller *Puller
	node   string
	wake   chan struct{}   // capacity 1: queue is not empty
	asks   map[uint64]*ask // that have not ended
	queue  []*ask          // whose state is to be sent
}

// link returns the one to a node, a new one if there is none.
func (p *Puller) link(node string) *link {
	l := p.links[node]
	if l == nil {
		l = &link{puller: p, node: node, wake: make(chan struct{}, 1), asks: make(map[uint64]*ask)}
		p.links[node] = l
		p.workers.Go(l.run)
	}
	return l
}

// send has the other side told where a demand stands, with what else there is to tell by then.
func (l *link) send(a *ask) {
	if !a.queued {
		a.queued = true
		l.queue = append(l.queue, a)
		notify(l.wake)
	}
}

// run keeps a stream open while there is something to ask, one after the other.
func (l *link) run() {
	for {
		select {
		case <-l.wake:
		case <-l.puller.ctx.Done():
			l.broken()
			return
		}
		if err := l.stream(); err != nil && l.puller.ctx.Err() == nil {
			l.puller.cfg.Logger.Debug("a node gives no tasks", "node", l.node, "err", err)
		}
		l.broken()
	}
}

// stream opens a stream and uses it until it breaks; it returns why.
func (l *link) stream() error {
	ctx, cancel := context.WithCancelCause(l.puller.ctx)
	defer cancel(nil)
	s, err := l.puller.open(ctx, l.node)
	if err != nil {
		return err
	}
	received := make(chan struct{})
	go func() { defer close(received); cancel(l.receive(s)) }()
	defer func() { <-received }() // so that nothing of this stream comes after its end
	for {
		msg := l.take()
		if msg == nil {
			select {
			case <-l.wake:
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

// take returns what there is to tell; nil: nothing.
func (l *link) take() *clusterpb.PullRequest {
	l.puller.mu.Lock()
	defer l.puller.mu.Unlock()
	if len(l.queue) == 0 {
		return nil
	}
	msg := &clusterpb.PullRequest{}
	for _, a := range l.queue {
		a.queued = false
		if a.end && !a.begun { // nobody has heard of it
			l.forget(a)
			continue
		}
		msg.Demands = append(msg.Demands, a.message())
	}
	clear(l.queue)
	l.queue = l.queue[:0]
	if len(msg.Demands) == 0 {
		return nil
	}
	return msg
}

var errEnded = errors.New("the stream ended")

func (l *link) receive(s Stream) error {
	for {
		msg, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return errEnded
		}
		if err != nil {
			return err
		}
		l.puller.mu.Lock()
		for _, answer := range msg.Answers {
			l.hear(answer)
		}
		l.puller.mu.Unlock()
	}
}

// hear takes one answer.
func (l *link) hear(answer *clusterpb.PullAnswer) {
	a := l.asks[answer.Number]
	if a == nil {
		l.puller.release(answer.Tasks) // of a demand that has ended: no node that keeps to the rules sends such
		return
	}
	current := a.place.ask == a
	if len(answer.Tasks) > 0 {
		a.received += uint64(len(answer.Tasks))
		a.unsaid += sizeOf(answer.Tasks)
		if current {
			a.place.ready = int(min(answer.Ready, maxNeed))
			a.place.leader.Found()
		}
		l.deliver(a, l.puller.arrivals(a.shard).take(answer.Tasks))
	}
	if answer.Looked > 0 && current && a.place.ask == a {
		a.place.looked = max(a.place.looked, answer.Looked)
		a.place.pool.dismiss()
	}
	if !answer.Ended {
		return
	}
	l.forget(a)
	if current && a.place.ask == a {
		a.place.lost(answer.Error)
		a.place.pool.adjust()
	}
}

// deliver gives tasks to the pool that they were asked for, or the one that has taken its place.
func (l *link) deliver(a *ask, tasks []*fsmpb.Task) {
	q := a.place.pool
	if q.closed && !l.puller.closed {
		q = l.puller.pool(a.key)
	}
	q.arrive(tasks)
	q.adjust()
	// What is under way is bounded by what the other side knows to have arrived.
	if a.unsaid > maxAnswerBytes/4 && !a.end {
		l.send(a)
	}
}

func (l *link) forget(a *ask) {
	delete(l.asks, a.number)
	l.puller.asksEnded(1)
}

// broken ends all demands: the stream has.
func (l *link) broken() {
	p := l.puller
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range l.queue {
		a.queued = false
	}
	clear(l.queue)
	l.queue = l.queue[:0]
	for _, a := range l.asks {
		l.forget(a)
		if a.place.ask == a {
			a.place.lost(nil)
			a.place.pool.adjust()
		}
	}
}
