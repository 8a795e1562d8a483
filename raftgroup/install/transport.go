package install

import "github.com/hashicorp/raft"

// transport is the inner one, but what arrives comes through the gate.
type transport struct {
	raft.Transport
	gate *Gate
}

// preVoteTransport is one whose inner transport can pre-vote, which Raft finds out by a type assertion.
type preVoteTransport struct {
	*transport
	raft.WithPreVote
}

// Transport is for Raft.
func (g *Gate) Transport() raft.Transport {
	t := &transport{g.inner, g}
	if preVote, ok := g.inner.(raft.WithPreVote); ok {
		return preVoteTransport{t, preVote}
	}
	return t
}

// Consumer is where requests arrive that passed the gate.
func (t *transport) Consumer() <-chan raft.RPC { return t.gate.out }

// SetHeartbeatHandler does nothing, so that every heartbeat goes through Raft's main loop, as all the rest: handled on
// the transport's goroutine, one may raise the term while the main loop, as leader, writes an entry, which then
// carries a term that its author never led, and logs diverge (hashicorp/raft issue 695).
func (*transport) SetHeartbeatHandler(func(raft.RPC)) {}

// Close closes the inner transport, if it can be, and the gate. Raft calls it when it has shut down.
func (t *transport) Close() error {
	var err error
	if closer, ok := t.Transport.(raft.WithClose); ok {
		err = closer.Close()
	}
	t.gate.shut()
	t.gate.ended.Wait()
	return err
}
