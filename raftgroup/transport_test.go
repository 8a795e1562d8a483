package raftgroup

import (
	"testing"

	"github.com/hashicorp/raft"
)

// TestTransportKeepsInterfaces checks that a wrapped transport has exactly the optional interfaces of the inner one.
func TestTransportKeepsInterfaces(t *testing.T) {
	_, inner := raft.NewInmemTransport("a")
	full := transport{}.wrap(inner)
	if _, ok := full.(raft.WithPreVote); !ok {
		t.Error("pre-vote is lost")
	}
	if _, ok := full.(raft.WithClose); !ok {
		t.Error("close is lost")
	}
	if _, ok := (transport{}).wrap(struct{ raft.Transport }{inner}).(raft.WithPreVote); ok {
		t.Error("pre-vote is claimed for a transport without")
	}
}
