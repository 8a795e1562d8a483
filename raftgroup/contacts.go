package raftgroup

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// contacts holds, for each peer, the contact of the newest term: the send time of the newest request that the peer
// answered in that term. A majority of answers to requests sent after some moment proves that no other leader had
// committed an entry by that moment: the majority that elects a later term must first leave this one.
type contacts struct {
	sequence atomic.Uint64

	mu    sync.Mutex
	peers map[string]contact
	news  chan struct{} // closed by the next note; nil: no caller of next waits
}

// stamp is a moment. seq orders moments of this process even while the clock stands still; at is monotonic.
type stamp struct {
	seq uint64
	at  time.Time
}

type contact struct {
	stamp          // when the request was sent
	term    uint64 // of the request and of the answer
	lastLog uint64 // the peer's last log index at its answer
	lacked  uint64 // entries that the peer's log lacked then, compared with the leader's
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
	if c.news != nil {
		close(c.news)
		c.news = nil
	}
}

// next returns a channel that is closed by the next note.
func (c *contacts) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.news == nil {
		c.news = make(chan struct{})
	}
	return c.news
}

// of returns the newest contact with a peer in this term; ok is false if there is none.
func (c *contacts) of(peer string, term uint64) (_ contact, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last, ok := c.peers[peer]
	return last, ok && last.term == term
}

// majority returns the latest moment after which requests were sent to a majority of the voters and answered in this
// term. The node self counts as one answer if it votes. ok is false if there is no such moment.
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
