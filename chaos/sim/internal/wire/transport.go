package wire

import (
	"bytes"
	"fmt"
	"io"
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
