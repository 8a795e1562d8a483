package wire

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// maxInFlight is how many requests are under way while the next is being put together. More do harm: each then holds
	// fewer entries (hashicorp/raft issue 541).
	maxInFlight = 2
	// maxUnread is how many answers may wait for whoever takes them without making the sender wait.
	maxUnread = 16
)

// Pipeline sends requests to a node without waiting for each answer. It is a raft.AppendPipeline.
type Pipeline struct {
	group *Group
	node  string
	link  *link
	done  chan raft.AppendFuture
	quit  chan struct{} // closed with closed

	mu     sync.Mutex
	moved  *sync.Cond // flight or closed has changed
	flight []*future  // not delivered yet, in the order in which they were sent
	slowly bool       // deliverSlowly runs, and nobody else delivers
	closed bool
}

// future is a request in a pipeline.
type future struct {
	exchange
	pipeline *Pipeline
	start    time.Time
	req      *raft.AppendEntriesRequest
	ended    sync.WaitGroup
	over     bool // guarded by the pipeline
	err      error
}

// Pipeline begins one to a node that can be reached.
func (g *Group) Pipeline(node string) (*Pipeline, error) {
	if g.isClosed() {
		return nil, raft.ErrTransportShutdown
	}
	p := &Pipeline{
		group: g, node: node, link: g.mux.link(route{node: node, cluster: g.cluster, traffic: entries}),
		done: make(chan raft.AppendFuture, maxUnread), quit: make(chan struct{}),
	}
	p.moved = sync.NewCond(&p.mu)
	if _, err := p.link.connected(); err != nil {
		return nil, err
	}
	return p, nil
}

// AppendEntries sends a request, and returns once another one may be put together.
func (p *Pipeline) AppendEntries(
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	f := &future{pipeline: p, start: time.Now(), req: req}
	f.group, f.resp, f.done = p.group, resp, f
	f.ended.Add(1)
	if err := p.enter(f); err != nil {
		return nil, err
	}
	if err := p.link.submit(&f.exchange, req); err != nil {
		p.withdraw(f)
		return nil, err
	}
	if !p.awaitRoom() {
		f.cancel(raft.ErrPipelineShutdown)
		return nil, raft.ErrPipelineShutdown
	}
	return f, nil
}

// awaitRoom returns false if the pipeline is closed.
func (p *Pipeline) awaitRoom() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.flight) >= maxInFlight && !p.closed {
		p.moved.Wait()
	}
	return !p.closed
}

func (p *Pipeline) enter(f *future) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
		return raft.ErrPipelineShutdown
	case p.group.isClosed():
		return raft.ErrTransportShutdown
	}
	p.flight = append(p.flight, f)
	return nil
}

// withdraw takes out what was not sent.
func (p *Pipeline) withdraw(f *future) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flight = slices.DeleteFunc(p.flight, func(other *future) bool { return other == f })
	p.deliver()
}

// complete is called once, by whoever ends the exchange. As ever in Raft's pipelines, a request that failed is
// delivered too, with an answer that tells of no success.
func (f *future) complete(err error) {
	p := f.pipeline
	if err == nil {
		p.group.sawAnswer(p.node, f.req, f.resp)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	f.err, f.over = err, true
	f.ended.Done()
	p.deliver()
}

// deliver hands out what is over, in order; with the lock. It must not wait, for it runs where all groups' answers are
// read.
func (p *Pipeline) deliver() {
	for !p.slowly && len(p.flight) > 0 && p.flight[0].over {
		if p.closed {
			p.shift()
			continue
		}
		select {
		case p.done <- p.flight[0]:
			p.shift()
		default:
			p.slowly = true
			go p.deliverSlowly()
		}
	}
	p.moved.Broadcast()
}

func (p *Pipeline) shift() { p.flight = slices.Delete(p.flight, 0, 1) }

// deliverSlowly waits for whoever takes the answers, until none is left.
func (p *Pipeline) deliverSlowly() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.flight) > 0 && p.flight[0].over && !p.closed {
		f := p.flight[0]
		p.mu.Unlock()
		select {
		case p.done <- f:
		case <-p.quit:
		}
		p.mu.Lock()
		p.shift()
		p.moved.Broadcast()
	}
	p.slowly = false
	p.deliver()
}

// Consumer gives the futures that are over.
func (p *Pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close cancels what is under way. Nothing is delivered any more.
func (p *Pipeline) Close() error {
	p.mu.Lock()
	if !p.closed {
		p.closed = true
		close(p.quit)
	}
	flight := slices.Clone(p.flight)
	p.moved.Broadcast()
	p.mu.Unlock()
	for _, f := range flight {
		f.cancel(raft.ErrPipelineShutdown)
	}
	return nil
}

// Error waits for the end.
func (f *future) Error() error {
	f.ended.Wait()
	return f.err
}

func (f *future) Start() time.Time                      { return f.start }
func (f *future) Request() *raft.AppendEntriesRequest   { return f.req }
func (f *future) Response() *raft.AppendEntriesResponse { return f.resp }
