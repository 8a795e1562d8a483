package client

import (
	"sync/atomic"
	"time"
)

// endpoint is an address for calls: a configured one, or a learned one of a leader.
type endpoint struct {
	base string
	lane *lane

	// The directory's mutex guards the next three fields.
	usable   bool      // as a leader's: configured or probed, and has not failed since
	failures int       // consecutive failures
	retryAt  time.Time // when an unusable address may be probed again
}

func (c *Client) newEndpoint(base string, given bool) *endpoint {
	e := &endpoint{base: base, usable: given}
	e.lane = &lane{c: c, to: e}
	return e
}

// nodes holds the configured addresses. The last one that answered is used first; after a failure the next one is used.
type nodes struct {
	given []*endpoint
	at    atomic.Uint32
}

// first returns the node for a call that knows no better one.
func (n *nodes) first() *endpoint { return n.given[int(n.at.Load())%len(n.given)] }

// after takes the failure of a node and returns the next one. Calls that fail together move the choice only once.
func (n *nodes) after(e *endpoint) *endpoint {
	if at := n.at.Load(); n.given[int(at)%len(n.given)] == e {
		n.at.CompareAndSwap(at, at+1)
	}
	return n.first()
}
