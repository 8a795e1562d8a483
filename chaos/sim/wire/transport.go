package wire

import (
	"bytes"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"
)

// Transport is one Raft group's way over the network. Its addresses are the names of hosts.
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

// snapshotPatience is how many timeouts the sender of a snapshot waits.
const snapshotPatience = 10

// Transport opens a group's transport; timeout is how long whoever asks waits for an answer.
func (h *Host) Transport(group uint32, timeout time.Duration) *Transport {
	return &Transport{host: h, group: group, timeout: timeout, inbox: h.inbox(group)}
}

// Consumer is where requests arrive.
func (t *Transport) Consumer() <-chan raft.RPC { return t.inbox }

// LocalAddr is the host's name.
func (t *Transport) LocalAddr() raft.ServerAddress { return raft.ServerAddress(t.host.name) }

// EncodePeer and DecodePeer change nothing.
func (t *Transport) EncodePeer(_ raft.ServerID, addr raft.ServerAddress) []byte { return []byte(addr) }

// DecodePeer is the other way round.
func (t *Transport) DecodePeer(b []byte) raft.ServerAddress { return raft.ServerAddress(b) }

// SetHeartbeatHandler does nothing, as in production.
func (t *Transport) SetHeartbeatHandler(func(raft.RPC)) {}

// AppendEntries carries heartbeats, and entries that are not pipelined.
func (t *Transport) AppendEntries(_ raft.ServerID, to raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	return ask(t, to, req, resp, nil, t.timeout)
}

// RequestVote asks for a vote.
func (t *Transport) RequestVote(_ raft.ServerID, to raft.ServerAddress,
	req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	return ask(t, to, req, resp, nil, t.timeout)
}

// RequestPreVote asks whether there would be a vote.
func (t *Transport) RequestPreVote(_ raft.ServerID, to raft.ServerAddress,
	req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	return ask(t, to, req, resp, nil, t.timeout)
}

// TimeoutNow tells a follower to become a candidate.
func (t *Transport) TimeoutNow(_ raft.ServerID, to raft.ServerAddress,
	req *raft.TimeoutNowRequest, resp *raft.TimeoutNowResponse) error {
	return ask(t, to, req, resp, nil, t.timeout)
}

// InstallSnapshot carries a snapshot whole.
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
	command any    // a copy: the sender may use his again
	data    []byte // of a snapshot
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
		return nil, h.net.refused()
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

// hopeless waits for an answer that cannot come.
func (h *Host) hopeless(giveUp *time.Timer) error {
	select {
	case <-giveUp.C:
		return ErrTimeout
	case <-h.down:
		return ErrDown
	}
}

// bear brings a parcel to its inbox. One for a frozen process lies there until that wakes.
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

// await waits for an answer, and for its way back.
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

// open makes a request of a parcel. Each may be opened several times.
func (p parcel) open() (raft.RPC, <-chan raft.RPCResponse) {
	answers := make(chan raft.RPCResponse, 1)
	rpc := raft.RPC{Command: p.command, RespChan: answers}
	if p.data != nil {
		rpc.Reader = bytes.NewReader(p.data)
	}
	return rpc, answers
}

// put lays a request into the inbox of a process once that is awake.
func (p parcel) put(rpc raft.RPC) {
	if !p.to.Gate() {
		return
	}
	select {
	case p.inbox <- rpc:
	case <-p.to.down:
	}
}

// arriveLate brings a parcel whose answer nobody waits for.
func (p parcel) arriveLate(after time.Duration) {
	if p.to.Sleep(after) {
		rpc, _ := p.open()
		p.put(rpc)
	}
}
