package wire

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Transport is the access of one Raft group to the network. The addresses of its peers are the names of hosts.
type Transport struct {
	host    *Host
	group   uint32
	timeout time.Duration
	inbox   chan raft.RPC
}

var (
	_ raft.Transport   = (*Transport)(nil)
	_ raft.WithPreVote = (*Transport)(nil)
)

// snapshotPatience is how long the sender of a snapshot waits for the answer, in timeouts of the transport.
const snapshotPatience = 10

// Transport opens the transport of a group. timeout is how long the sender of a request waits for its answer.
func (h *Host) Transport(group uint32, timeout time.Duration) *Transport {
	return &Transport{host: h, group: group, timeout: timeout, inbox: h.inbox(group)}
}

// Consumer returns the channel on which requests arrive.
func (t *Transport) Consumer() <-chan raft.RPC { return t.inbox }

// LocalAddr returns the name of the host.
func (t *Transport) LocalAddr() raft.ServerAddress { return raft.ServerAddress(t.host.name) }

// EncodePeer returns the address unchanged.
func (t *Transport) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }

// DecodePeer returns the address unchanged.
func (t *Transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler does nothing, as in production.
func (t *Transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntries carries a heartbeat, or entries outside of a pipeline.
func (t *Transport) AppendEntries(_ raft.ServerID, to raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return ask(t, to, req, resp, nil, t.timeout)
}

// RequestVote asks a peer for its vote.
func (t *Transport) RequestVote(_ raft.ServerID, to raft.ServerAddress,
	req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return ask(t, to, req, resp, nil, t.timeout)
}

// RequestPreVote asks a peer whether it would give its vote.
func (t *Transport) RequestPreVote(_ raft.ServerID, to raft.ServerAddress,
	req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return ask(t, to, req, resp, nil, t.timeout)
}

// TimeoutNow tells a follower to become a candidate.
func (t *Transport) TimeoutNow(_ raft.ServerID, to raft.ServerAddress,
	req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return ask(t, to, req, resp, nil, t.timeout)
}

// InstallSnapshot sends a whole snapshot in one message.
func (t *Transport) InstallSnapshot(_ raft.ServerID, to raft.ServerAddress,
	req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	content, err := io.ReadAll(data)
	if err != nil {
		return err
	}
	err = ask(t, to, req, resp, content, snapshotPatience*t.timeout)
	if err == nil && resp.Success {
		t.host.net.installed()
	}
	return err
}

// parcel is a request on its way.
type parcel struct {
	command any    // a copy: the sender may reuse the original
	data    []byte // content of a snapshot, or nil
	to      *Host
	inbox   chan raft.RPC
}

// ask sends a request and waits for its answer.
func ask[Req, Resp any](t *Transport, to raft.ServerAddress, req *Req, resp *Resp, data []byte,
	timeout time.Duration) error {
	command := *req
	answer, err := t.exchange(string(to), &command, data, timeout)
	if err != nil {
		return err
	}
	got, ok := answer.(*Resp)
	if !ok {
		return fmt.Errorf("%T was answered with %T", req, answer)
	}
	*resp = *got
	return nil
}

func (t *Transport) exchange(name string, command any, data []byte, timeout time.Duration) (any, error) {
	h := t.host
	if !h.Gate() {
		return nil, ErrDown
	}
	giveUp := time.NewTimer(timeout)
	defer giveUp.Stop()
	to := h.net.host(name)
	p := h.net.pass(h.name, name, true)
	if p.lost {
		return nil, h.hopeless(giveUp)
	}
	if to == nil {
		h.Sleep(p.delay)
		return nil, ErrRefused
	}
	one := parcel{command: command, data: data, to: to, inbox: to.inbox(t.group)}
	if p.again > 0 {
		go one.arriveLate(timeout/2 + p.again)
	}
	if p.late > 0 {
		go one.arriveLate(timeout + p.late)
		return nil, h.hopeless(giveUp)
	}
	answers, err := h.bear(one, p.delay, giveUp)
	if err != nil {
		return nil, err
	}
	return h.await(to, answers, giveUp)
}

// hopeless waits until the sender gives up an answer that cannot come, or its process ends.
func (h *Host) hopeless(giveUp *time.Timer) error {
	select {
	case <-giveUp.C:
		return ErrTimeout
	case <-h.down:
		return ErrDown
	}
}

// bear carries a parcel to its inbox after delay, and returns the channel of its answer. A parcel for a frozen process
// waits until the process wakes.
func (h *Host) bear(one parcel, delay time.Duration, giveUp *time.Timer) (<-chan raft.RPCResponse, error) {
	if !h.Sleep(delay) {
		return nil, ErrDown
	}
	rpc, answers := one.open()
	if !isThawed(one.to) {
		go one.put(rpc)
		return answers, nil
	}
	select {
	case one.inbox <- rpc:
		return answers, nil
	case <-giveUp.C:
		return nil, ErrTimeout
	case <-one.to.down:
		return nil, ErrReset
	case <-h.down:
		return nil, ErrDown
	}
}

func isThawed(h *Host) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return isClosed(h.thawed)
}

// await waits for an answer and for its way back.
func (h *Host) await(from *Host, answers <-chan raft.RPCResponse, giveUp *time.Timer) (any, error) {
	var answer raft.RPCResponse
	select {
	case answer = <-answers:
	case <-giveUp.C:
		return nil, ErrTimeout
	case <-from.down:
		return nil, ErrReset
	case <-h.down:
		return nil, ErrDown
	}
	if from.isDown() {
		return nil, ErrReset
	}
	p := h.net.pass(from.name, h.name, false)
	if p.lost {
		return nil, h.hopeless(giveUp)
	}
	if !h.Sleep(p.delay) || !h.Gate() {
		return nil, ErrDown
	}
	return answer.Response, answer.Error
}

// open makes a request of a parcel. A parcel may be opened several times.
func (p parcel) open() (raft.RPC, <-chan raft.RPCResponse) {
	answers := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{Command: p.command, RespChan: answers}
	if p.data != nil {
		rpc.Reader = bytes.NewReader(p.data)
	}
	return rpc, answers
}

// put puts a request into the inbox once the receiving process is awake.
func (p parcel) put(rpc raft.RPC) {
	if !p.to.Gate() {
		return
	}
	select {
	case p.inbox <- rpc:
	case <-p.to.down:
	}
}

// arriveLate delivers a parcel after a while. Its answer is dropped.
func (p parcel) arriveLate(after time.Duration) {
	if p.to.Sleep(after) {
		rpc, _ := p.open()
		p.put(rpc)
	}
}

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
