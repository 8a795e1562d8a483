package raftgroup

import (
	"errors"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/raftgroup/heartbeat"
)

// transport wraps the group's transport for four reasons:
//
//   - it notes when each voter was last known to be in this leader's term (contacts),
//   - it lets heartbeats leave together (metronome),
//   - a reluctant replica asks for no vote while others may win one (holdBack),
//   - a leader tries again by itself to reach a follower (replicate).
type transport struct {
	raft.Transport
	contacts  *contacts
	metronome *metronome
	holdBack  func() bool
	leadsIn   func(term uint64) bool
	lacks     func(lastLog uint64) uint64 // how many entries a log lacks that ends there
}

// preVoteTransport is a transport whose inner one can pre-vote. Raft finds out by a type assertion, so a wrapper must
// not have the method when the inner transport has not.
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

// RequestPreVote comes before every election but one that the leader asked for. A longer timeout instead would not do:
// a follower grants no vote before its own timeout is over, so the others would have to wait as long.
func (t preVoteTransport) RequestPreVote(id raft.ServerID, addr raft.ServerAddress,
	req *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if t.holdBack() {
		*resp = raft.RequestPreVoteResponse{RPCHeader: req.RPCHeader, Term: req.Term}
		return nil
	}
	return t.WithPreVote.RequestPreVote(id, addr, req, resp)
}

// AppendEntries is called for every heartbeat, and for replication while it is not pipelined.
func (t *transport) AppendEntries(id raft.ServerID, addr raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if heartbeat.Is(req) {
		t.metronome.await()
		return t.exchange(id, addr, req, resp)
	}
	return t.replicate(id, addr, req, resp)
}

const (
	persistence = time.Minute
	reachAgain  = 200 * time.Millisecond
)

var errBack = errors.New("the follower is back: what it lacks is to be looked up anew")

// replicate tries again as long as this replica leads, a minute at most. Raft counts each failure, waits twice as long
// after the next, up to ten seconds, and does not notice that heartbeats arrive again meanwhile: a follower that was
// away for half a minute would get nothing for up to ten seconds after its return, and if another one fails then, the
// group commits nothing although a majority is there. After the minute Raft gets to see whether the follower was
// removed.
//
// A success after retries is reported as a failure, so that Raft looks up what the follower lacks by now. It would take
// the follower for up to date with the entries of the request, and send the rest at one request every half second.
func (t *transport) replicate(id raft.ServerID, addr raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	err := t.exchange(id, addr, req, resp)
	for began := time.Now(); err != nil && time.Since(began) < persistence && t.leadsIn(req.Term); {
		<-time.After(reachAgain)
		*resp = raft.AppendEntriesResponse{}
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
