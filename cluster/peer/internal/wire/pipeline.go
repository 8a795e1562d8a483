package wire

import (
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// maxInFlight is the number of requests in flight while Raft prepares the next. A higher number does harm, because
	// each request then holds fewer entries (hashicorp/raft issue 541).
	maxInFlight = 2
	// maxUnread is the number of undelivered answers from which on the sender waits.
	maxUnread = 16
)

// Pipeline sends requests to a node without waiting for each answer. It is a raft.AppendPipeline.
type Pipeline struct {
	group *Group
	node  string
	link  *link
	done  chan raft.AppendFuture
	quit  chan struct{} // closed when closed is set

	mu     sync.Mutex
	moved  *sync.Cond // signals a change of flight or closed
	flight []*future  // requests not delivered yet, in the order in which they were sent
	slowly bool       // deliverSlowly runs, and is the only one to deliver
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

// Pipeline opens a pipeline to a node. It fails if the node cannot be reached.
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

// AppendEntries sends a request, and returns once Raft may prepare another one.
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

// awaitRoom waits until fewer than maxInFlight requests are in flight. It returns false if the pipeline is closed.
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

// withdraw removes a request that was not sent.
func (p *Pipeline) withdraw(f *future) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flight = slices.DeleteFunc(p.flight, func(other *future) bool { return other == f })
	p.deliver()
}

// complete records the outcome of the exchange. It is called once. A failed request is delivered too, with an
// unsuccessful answer, as in Raft's own pipelines.
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

// deliver passes on completed requests, in order. The caller holds the lock. deliver must not wait: it runs on the
// goroutine that reads all groups' answers.
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

// deliverSlowly delivers completed requests and waits for the reader of each, until none is left.
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

// Consumer returns the channel of completed requests.
func (p *Pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close cancels the requests in flight. The pipeline delivers none of them.
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

// Error waits for the request to complete and returns its error.
func (f *future) Error() error {
	f.ended.Wait()
	return f.err
}

func (f *future) Start() time.Time                      { return f.start }
func (f *future) Request() *raft.AppendEntriesRequest   { return f.req }
func (f *future) Response() *raft.AppendEntriesResponse { return f.resp }
