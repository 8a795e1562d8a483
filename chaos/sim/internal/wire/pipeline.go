package wire

import (
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// pipeline is one connection for entries that are sent before earlier entries are answered. Requests arrive in order
// and are answered in order. A lost one breaks the connection.
type pipeline struct {
	transport *Transport
	to        *Host
	name      string // of to
	sent      chan *appending
	handled   chan *appending
	done      chan raft.AppendFuture
	broken    chan struct{}
	breaking  sync.Once
}

// pipelineDepth is how many requests each stage of a pipeline holds.
const pipelineDepth = 4

// AppendEntriesPipeline opens a pipeline.
func (t *Transport) AppendEntriesPipeline(_ raft.ServerID, to raft.ServerAddress) (raft.AppendPipeline, error) {
	h := t.host
	peer := h.net.host(string(to))
	switch {
	case h.isDown():
		return nil, ErrDown
	case peer == nil:
		return nil, ErrRefused
	}
	p := &pipeline{
		transport: t, to: peer, name: string(to),
		sent: make(chan *appending, pipelineDepth), handled: make(chan *appending, pipelineDepth),
		done: make(chan raft.AppendFuture, pipelineDepth), broken: make(chan struct{}),
	}
	go p.bring()
	go p.bringBack()
	return p, nil
}

// appending is one request of a pipeline.
type appending struct {
	started time.Time
	req     *raft.AppendEntriesRequest
	resp    *raft.AppendEntriesResponse
	arrives time.Time // at the other side; once handled, back at the sender
	lost    bool
	err     error // valid once ended is closed
	ended   chan struct{}
}

func (a *appending) Error() error {
	<-a.ended
	return a.err
}

func (a *appending) Start() time.Time                      { return a.started }
func (a *appending) Request() *raft.AppendEntriesRequest   { return a.req }
func (a *appending) Response() *raft.AppendEntriesResponse { return a.resp }

// AppendEntries sends one request. The future ends when its answer is back or the connection breaks on it.
func (p *pipeline) AppendEntries(req *raft.AppendEntriesRequest,
	resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	h := p.transport.host
	if !h.Gate() || isClosed(p.broken) {
		return nil, raft.ErrPipelineShutdown
	}
	now := time.Now()
	pass := h.net.pass(h.name, p.name, true)
	a := &appending{
		started: now, req: req, resp: resp, arrives: now.Add(pass.delay), lost: pass.lost, ended: make(chan struct{}),
	}
	if pass.again > 0 {
		go p.parcel(a).arriveLate(pass.again)
	}
	select {
	case p.sent <- a:
		return a, nil
	case <-p.broken:
		return nil, raft.ErrPipelineShutdown
	case <-h.down:
		return nil, ErrDown
	}
}

func (p *pipeline) parcel(a *appending) parcel {
	command := *a.req
	return parcel{command: &command, to: p.to, inbox: p.to.inbox(p.transport.group)}
}

// bring carries requests to the other side, one after the other. Each is handled before the next arrives.
func (p *pipeline) bring() {
	for {
		select {
		case a := <-p.sent:
			p.have(a)
			select {
			case p.handled <- a:
			case <-p.broken:
				return
			}
		case <-p.broken:
			return
		}
	}
}

// have delivers one request and waits for its answer, or for the error that takes its place. Both go into a.
func (p *pipeline) have(a *appending) {
	h := p.transport.host
	giveUp := time.NewTimer(p.transport.timeout)
	defer giveUp.Stop()
	if a.lost {
		a.err = h.hopeless(giveUp)
		return
	}
	answers, err := h.bear(p.parcel(a), time.Until(a.arrives), giveUp)
	if err != nil {
		a.err = err
		return
	}
	select {
	case answer := <-answers:
		a.take(answer)
	case <-giveUp.C:
		a.err = ErrTimeout
	case <-p.to.down:
		a.err = ErrReset
	case <-h.down:
		a.err = ErrDown
	case <-p.broken:
		a.err = ErrReset
	}
	if back := h.net.pass(p.name, h.name, false); back.lost {
		a.lost = true
	} else {
		a.arrives = time.Now().Add(back.delay)
	}
}

func (a *appending) take(answer raft.RPCResponse) {
	if got, ok := answer.Response.(*raft.AppendEntriesResponse); ok {
		*a.resp = *got
	}
	a.err = answer.Error
}

// bringBack carries answers back, in order. The first failure breaks the connection.
func (p *pipeline) bringBack() {
	h := p.transport.host
	for {
		select {
		case a := <-p.handled:
			if a.err == nil && a.lost {
				h.Sleep(p.transport.timeout)
				a.err = ErrTimeout
			}
			h.Sleep(time.Until(a.arrives))
			failed := a.err != nil || !h.Gate() || p.to.isDown()
			if failed {
				*a.resp = raft.AppendEntriesResponse{} // Raft looks at the response in place of the error
			}
			close(a.ended)
			select {
			case p.done <- a:
			case <-p.broken:
				return
			}
			if failed {
				p.breakUp()
				return
			}
		case <-p.broken:
			return
		}
	}
}

// Consumer returns the channel of answered requests.
func (p *pipeline) Consumer() <-chan raft.AppendFuture { return p.done }

func (p *pipeline) breakUp() { p.breaking.Do(func() { close(p.broken) }) }

// Close ends the connection. Requests that have not arrived yet never will.
func (p *pipeline) Close() error {
	p.breakUp()
	return nil
}
