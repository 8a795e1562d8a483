package wire

import (
	"errors"
	"sync"

	"github.com/hashicorp/raft"
)

// The bounds of one group's inbox, and of all inboxes together. A leader has four requests in flight for a group, of
// four megabytes at the very most. More arrive only from leaders that have given up older ones.
const (
	inboxRequests = 64
	inboxBytes    = 8 << 20
	allBytes      = 64 << 20
	inboxRefused  = 256
)

var (
	errFull     = errors.New("the group has too many requests waiting")
	errNoAnswer = errors.New("no answer to AppendEntries")
)

// inbox holds the requests of a group that Raft has taken, in the order in which Raft took them. It answers in this
// order. Each request has a channel of its own: an answer to another request would be a false statement about the disk.
type inbox struct {
	answers [inboxRequests]chan raft.RPCResponse // request i uses channel i%inboxRequests

	mu      sync.Mutex
	tickets [inboxRequests]ticket // Raft has the requests of [oldest, next)
	oldest  uint64                // <= next <= oldest+inboxRequests
	next    uint64
	bytes   int
	refused []ticket // refused requests, answered when there is room; empty if there are no tickets
	closed  bool
}

// ticket names the stream and request that an answer goes to.
type ticket struct {
	server *server
	number uint64
	bytes  int
}

func (b *inbox) init() {
	for i := range b.answers {
		b.answers[i] = make(chan raft.RPCResponse, 1)
	}
}

// take passes a request to Raft, or refuses it for lack of room. It never waits. It returns false if the group is
// closed.
func (g *Group) take(t ticket, rpc *raft.AppendEntriesRequest) bool {
	b := &g.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	g.sawRequest(t.server.header.From, rpc)
	if !g.hasRoom(t.bytes) {
		g.refuse(t)
		return true
	}
	g.rpcs <- raft.RPC{Command: rpc, RespChan: b.answers[b.next%inboxRequests]} // there is room for it
	b.tickets[b.next%inboxRequests] = t
	b.next++
	b.bytes += t.bytes
	g.mux.waiting.Add(int64(t.bytes))
	return true
}

// hasRoom reports whether the inbox has room for a request of bytes. An empty inbox takes any request. The caller holds
// the lock.
func (g *Group) hasRoom(bytes int) bool {
	b := &g.inbox
	switch n := b.next - b.oldest; {
	case n == 0 || bytes == 0 && n < inboxRequests:
		return true
	case n == inboxRequests:
		return false
	}
	return b.bytes+bytes <= inboxBytes && g.mux.waiting.Load()+int64(bytes) <= allBytes
}

// refuse records a request that will be refused later. The caller holds the lock. Requests beyond the bound are never
// answered.
func (g *Group) refuse(t ticket) {
	g.mux.metrics.refused.Inc()
	if b := &g.inbox; len(b.refused) < inboxRefused {
		b.refused = append(b.refused, t)
	}
}

// answer sends Raft's answers until the group is closed. It relies on Raft to answer every request that it takes.
func (g *Group) answer() {
	for i := uint64(0); ; i++ {
		select {
		case r := <-g.inbox.answers[i%inboxRequests]:
			t, refused := g.remove()
			resp, ok := r.Response.(*raft.AppendEntriesResponse)
			if r.Error == nil && !ok {
				r.Error = errNoAnswer
			}
			t.server.answer(t.number, resp, r.Error)
			answerAll(refused, errFull)
		case <-g.done:
			answerAll(g.removeAll(), errNotHere)
			return
		}
	}
}

func answerAll(tickets []ticket, err error) {
	for _, t := range tickets {
		t.server.answer(t.number, nil, err)
	}
}

// remove takes the oldest request out of the inbox. It also returns the refused requests, which can be answered now.
func (g *Group) remove() (ticket, []ticket) {
	b := &g.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.tickets[b.oldest%inboxRequests]
	b.tickets[b.oldest%inboxRequests] = ticket{}
	b.oldest++
	b.bytes -= t.bytes
	g.mux.waiting.Add(-int64(t.bytes))
	refused := b.refused
	b.refused = nil
	return t, refused
}

// removeAll closes the inbox and returns all its requests.
func (g *Group) removeAll() []ticket {
	b := &g.inbox
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	all := b.refused
	for ; b.oldest < b.next; b.oldest++ {
		all = append(all, b.tickets[b.oldest%inboxRequests])
	}
	g.mux.waiting.Add(-int64(b.bytes))
	b.tickets, b.refused, b.bytes = [inboxRequests]ticket{}, nil, 0
	return all
}
