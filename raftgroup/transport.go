package raftgroup

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/raftgroup/copies"
	"github.com/belfryhq/belfry/raftgroup/heartbeat"
)

// transport wraps the group's transport for five reasons:
//
//   - it records the latest answer of each voter in a term (contacts),
//   - it keeps the beat of heartbeats (metronome),
//   - it keeps a reluctant replica from asking for votes while others may win an election (holdBack),
//   - it retries a leader's request to a follower by itself (replicate),
//   - it sends snapshots as copies (copying.go).
type transport struct {
	raft.Transport
	contacts  *contacts
	metronome *metronome
	holdBack  func() bool
	leadsIn   func(term uint64) bool
	lacks     func(lastLog uint64) uint64 // number of entries that a log ending at lastLog lacks
	copy      func(node string, req *raft.InstallSnapshotRequest, send func(*copies.Copy) error) error
}

// preVoteTransport is a transport whose inner one can pre-vote. Raft detects this by a type assertion, so a wrapper
// must not have the method if the inner transport lacks it.
type preVoteTransport struct {
	*transport
	raft.WithPreVote
}

// wrap returns t over a group's transport.
func (t transport) wrap(inner raft.Transport) raft.Transport {
	t.Transport = inner
	if preVote, ok := inner.(raft.WithPreVote); ok {
		return preVoteTransport{&t, preVote}
	}
	return &t
}

// RequestPreVote refuses while this replica holds back from elections. Raft asks for a pre-vote before every election
// except one that the leader started. A longer timeout instead would not do: a follower grants no vote before its own
// timeout is over, so the others would have to wait as long.
func (t preVoteTransport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress,
	req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if t.holdBack() {
		*resp = raft.RequestPreVoteResponse{RPCHeader: req.RPCHeader, Term: req.Term}
		return nil
	}
	return t.WithPreVote.RequestPreVote(id, addr, req, resp)
}

// AppendEntries sends heartbeats, and entries while replication is not pipelined.
func (t *transport) AppendEntries(id raft.ServerID, addr raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if heartbeat.Is(req) {
		t.metronome.sent()
		return t.exchange(id, addr, req, resp)
	}
	return t.replicate(id, addr, req, resp)
}

const (
	persistence = time.Minute
	reachAgain  = 200 * time.Millisecond
)

var errBack = errors.New("the follower is back: its missing entries are to be looked up again")

// replicate sends a request and retries while this replica leads, a minute at most. Raft itself counts each failure and
// doubles its pause, up to ten seconds, even if heartbeats arrive again meanwhile. A follower that was away for half a
// minute would get nothing for up to ten seconds after its return. If another one fails then, the group commits nothing
// although a majority is there. After the minute, Raft can notice that the follower was removed.
//
// A success after retries is reported as a failure, so that Raft looks up which entries the follower lacks by now.
// Otherwise Raft would take the follower for up to date with the entries of the request, and send the rest at one
// request every Timing.Commit.
func (t *transport) replicate(id raft.ServerID, addr raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := t.exchange(id, addr, req, resp)
	for began := time.Now(); err != nil && time.Since(began) < persistence && t.leadsIn(req.Term); {
		<-time.After(reachAgain)
		*resp = raft.AppendEntriesResponse{}
		req.LeaderCommitIndex = 0 // the old commit index would pass for the present one: see install.Gate.Told
		if err = t.exchange(id, addr, req, resp); err == nil && resp.Term <= req.Term {
			return errBack
		}
	}
	return err
}

func (t *transport) exchange(id raft.ServerID, addr raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	sent := t.contacts.stamp()
	err := t.Transport.AppendEntries(id, addr, req, resp)
	if err == nil && resp.Term == req.Term {
		t.contacts.note(string(id), contact{
			stamp: sent, term: req.Term, lastLog: resp.LastLog, lacked: t.lacks(resp.LastLog),
		})
	}
	return err
}

// Close closes the inner transport, if it can be closed.
func (t *transport) Close() error {
	if closer, ok := t.Transport.(raft.WithClose); ok {
		return closer.Close()
	}
	return nil
}
