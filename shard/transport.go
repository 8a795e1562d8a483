package shard

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/raftgroup/heartbeat"
)

// transport wraps the group's transport for four reasons.
//
// It notes when each voter was last known to be in this leader's term: see contacts. It lets heartbeats leave together:
// see pacer. A replica that should not lead asks nobody for a vote as long as others may win one: see holdBack. And
// a leader tries again by itself to reach a follower: see replicate.
type transport struct {
	raft.Transport
	contacts *contacts
	pacer    *pacer
	holdBack func() bool
	leadsIn  func(term uint64) bool
	lacks    func(lastLog uint64) uint64 // how many entries a log lacks that ends there
}

// preVoteTransport is a transport whose inner one can pre-vote. Raft finds out by a type assertion, so that a wrapper
// must not have the method when the inner transport has not.
type preVoteTransport struct {
	*transport
	raft.WithPreVote
}

// wrap makes one of a group's transport.
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

// AppendEntries is every heartbeat, and replication while it is not pipelined.
func (t *transport) AppendEntries(id raft.ServerID, addr raft.ServerAddress,
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if heartbeat.Is(req) {
		t.pacer.await()
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
// group commits nothing although a majority is there. (After the minute Raft gets to see whether the follower was
// removed.)
//
// A success that was waited for is told as a failure, so that Raft looks up what the follower lacks by now. It would
// take the follower for up to date with what the request held, and send the rest at one request every half second.
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

// Close closes the inner transport, if it can be.
func (t *transport) Close() error {
	if closer, ok := t.Transport.(raft.WithClose); ok {
		return closer.Close()
	}
	return nil
}

// contacts remembers, for each peer, the newest request of a term that the peer answered in that term, by when the
// request was sent. A majority of such answers, all to requests sent after some moment, proves that no other leader
// had committed anything by that moment: whoever elects a later term must first leave this one.
type contacts struct {
	sequence atomic.Uint64

	mu    sync.Mutex
	peers map[string]contact
}

// stamp is a moment: seq orders moments within this process even when the clock stands still, at is monotonic.
type stamp struct {
	seq uint64
	at  time.Time
}

type contact struct {
	stamp          // when the request was sent
	term    uint64 // of the request and of the answer
	lastLog uint64 // the peer's last log index when it answered,
	lacked  uint64 // and how many entries that was behind the leader's then
}

func newContacts() *contacts { return &contacts{peers: map[string]contact{}} }

func (c *contacts) stamp() stamp { return stamp{c.sequence.Add(1), time.Now()} }

func (c *contacts) note(peer string, latest contact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.peers[peer]
	if latest.term > known.term || latest.term == known.term && latest.seq > known.seq {
		c.peers[peer] = latest
	}
}

// of returns the newest contact with a peer in this term; ok is false if there was none.
func (c *contacts) of(peer string, term uint64) (_ contact, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.peers[peer]
	return last, ok && last.term == term
}

// majority returns the latest moment since when a majority of the voters, self included, has answered in this term.
// ok is false if there is no such moment.
func (c *contacts) majority(self string, voters []string, term uint64) (_ stamp, ok bool) {
	need := len(voters)/2 + 1
	if slices.Contains(voters, self) {
		need--
	}
	if need <= 0 {
		return c.stamp(), true
	}
	var sent []stamp
	c.mu.Lock()
	for _, voter := range voters {
		if last, ok := c.peers[voter]; ok && voter != self && last.term == term {
			sent = append(sent, last.stamp)
		}
	}
	c.mu.Unlock()
	if len(sent) < need {
		return stamp{}, false
	}
	slices.SortFunc(sent, func(a, b stamp) int { return cmp.Compare(b.seq, a.seq) })
	return sent[need-1], true
}
