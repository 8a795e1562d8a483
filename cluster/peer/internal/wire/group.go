package wire

import (
	"sync"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/raftgroup/heartbeat"
)

// Group is one Raft group's part in the streams: it sends requests to other nodes, and holds the inbox of theirs.
type Group struct {
	mux     *Mux
	number  uint32
	cluster string
	rpcs    chan raft.RPC // has room for a full inbox and all offered requests
	offered chan struct{} // holds one element for each offered request
	done    chan struct{}
	once    sync.Once
	inbox   inbox
}

func newGroup(m *Mux, number uint32, cluster string) *Group {
	g := &Group{mux: m, number: number, cluster: cluster, done: make(chan struct{})}
	g.rpcs = make(chan raft.RPC, inboxRequests+maxOffered)
	g.offered = make(chan struct{}, maxOffered)
	g.inbox.init()
	return g
}

// Consumer returns the channel from which Raft takes requests, of the streams and of Offer.
func (g *Group) Consumer() <-chan raft.RPC { return g.rpcs }

// maxOffered is the greatest number of unanswered requests from connections of the group's own. Each has its own
// connection, and at most two or three nodes at a time believe that they have something to ask.
const maxOffered = 16

// Offer passes to Raft a request from a connection of the group's own. It does not wait for the answer, since the
// installation of a snapshot may take long and must not delay other requests. It waits for room while maxOffered
// requests are unanswered. It returns false if the group is closed.
func (g *Group) Offer(rpc raft.RPC) bool {
	if g.isClosed() {
		return false
	}
	select {
	case g.offered <- struct{}{}:
	case <-g.done:
		return false
	}
	answers := make(chan raft.RPCResponse, 1)
	g.rpcs <- raft.RPC{Command: rpc.Command, Reader: rpc.Reader, RespChan: answers} // there is room for it
	go func() {
		defer func() { <-g.offered }()
		select {
		case r := <-answers:
			rpc.Respond(r.Response, r.Error)
		case <-g.done: // its connection is closed too
		}
	}()
	return true
}

// Done returns a channel that is closed when the group is.
func (g *Group) Done() <-chan struct{} { return g.done }

func (g *Group) isClosed() bool {
	select {
	case <-g.done:
		return true
	default:
		return false
	}
}

// Close ends the group's exchanges, and refuses further requests of it.
func (g *Group) Close() error {
	g.once.Do(func() {
		close(g.done)
		g.mux.leave(g)
	})
	return nil
}

// waiting is an exchange whose sender waits for the answer.
type waiting struct {
	exchange
	ended chan error
}

func (w *waiting) complete(err error) { w.ended <- err }

func newWaiting() any {
	w := &waiting{ended: make(chan error, 1)}
	w.done = w
	return w
}

// AppendEntries sends a request to a node and waits for the answer.
func (g *Group) AppendEntries(node string, req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if g.isClosed() {
		return raft.ErrTransportShutdown
	}
	to := route{node: node, cluster: g.cluster, traffic: entries}
	if heartbeat.Is(req) {
		to.traffic = beats
	}
	w := g.mux.exchanges.Get().(*waiting)
	w.group, w.resp = g, resp
	err := g.mux.link(to).submit(&w.exchange, req)
	if err == nil {
		if err = <-w.ended; err == nil {
			g.sawAnswer(node, req, resp)
		}
	}
	w.group, w.resp = nil, nil
	w.client.Store(nil)
	g.mux.exchanges.Put(w) // the exchange is over and not referenced elsewhere
	return err
}
