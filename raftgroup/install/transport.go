package install

import "github.com/hashicorp/raft"

// transport is the inner transport with the gate before its requests.
type transport struct {
	raft.Transport
	gate *Gate
}

// preVoteTransport is a transport whose inner one can pre-vote. Raft detects this by a type assertion.
type preVoteTransport struct {
	*transport
	raft.WithPreVote
}

// Transport returns the transport for Raft.
func (g *Gate) Transport() raft.Transport {
	t := &transport{g.inner, g}
	if preVote, ok := g.inner.(raft.WithPreVote); ok {
		return preVoteTransport{t, preVote}
	}
	return t
}

// Consumer returns the channel of the requests that passed the gate.
func (t *transport) Consumer() <-chan raft.RPC { return t.gate.out }

// SetHeartbeatHandler does nothing, so that every heartbeat goes through Raft's main loop. Handled on the transport's
// goroutine, a heartbeat may raise the term while the main loop, as leader, writes an entry. The entry then carries a
// term that its author never led, and logs diverge (hashicorp/raft issue 695).
func (*transport) SetHeartbeatHandler(func(raft.RPC)) {}

// Close closes the inner transport, if it can be closed, and the gate. Raft calls it after its shutdown.
func (t *transport) Close() error {
	var err error
	if closer, ok := t.Transport.(raft.WithClose); ok {
		err = closer.Close()
	}
	t.gate.shut()
	t.gate.ended.Wait()
	return err
}
