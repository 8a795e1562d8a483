package client

import (
	"sync/atomic"
	"time"
)

// endpoint is an address that calls go to: one of the configured ones, or a leader's that was learned.
type endpoint struct {
	base string
	lane *lane

	// Guarded by the directory's mutex.
	usable   bool      // as a leader's: it has not failed since it was found to be what it should
	failures int       // in a row
	retryAt  time.Time // when it may be asked again what it is, while it is not usable
}

func (c *Client) newEndpoint(base string, given bool) *endpoint {
	e := &endpoint{base: base, usable: given}
	e.lane = &lane{c: c, to: e}
	return e
}

// nodes are the configured addresses. The one that answered last is asked first; one that fails is left for the next.
type nodes struct {
	given []*endpoint
	at    atomic.Uint32
}

// first is the node that a call begins with, if it does not know a better one.
func (n *nodes) first() *endpoint { return n.given[int(n.at.Load())%len(n.given)] }

// after says that a node failed and which one to ask now. Calls that fail together move the choice on only once.
func (n *nodes) after(e *endpoint) *endpoint {
	if at := n.at.Load(); n.given[int(at)%len(n.given)] == e {
		n.at.CompareAndSwap(at, at+1)
	}
	return n.first()
}
