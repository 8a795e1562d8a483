package peer

import (
	"io"

	"github.com/hashicorp/raft"
)

// RequestVote asks a node for its vote. RequestPreVote stays the inner transport's: the terms in a pre-vote are on no
// disk.
func (t RaftTransport) RequestVote(id raft.ServerID, node raft.ServerAddress,
	req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	err := t.NetworkTransport.RequestVote(id, node, req, resp)
	if err == nil {
		t.wire.SawAnswer(string(node), req, resp)
	}
	return err
}

// InstallSnapshot sends a snapshot and returns when the receiver has installed it.
func (t RaftTransport) InstallSnapshot(id raft.ServerID, node raft.ServerAddress,
	req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, content io.Reader) error {
	err := t.NetworkTransport.InstallSnapshot(id, node, req, resp, content)
	if err == nil {
		t.wire.SawAnswer(string(node), req, resp)
	}
	return err
}
