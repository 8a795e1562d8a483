package peer

import (
	"io"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/peer/wire"
)

// RequestVote asks for a vote. RequestPreVote is the inner transport's: the terms in a pre-vote are on no disk.
func (t RaftTransport) RequestVote(id raft.ServerID, node raft.ServerAddress,
	req *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	err := t.NetworkTransport.RequestVote(id, node, req, resp)
	if err == nil {
		t.wire.SawAnswer(string(node), req, resp)
	}
	return err
}

// InstallSnapshot sends a snapshot, and returns when it is installed.
func (t RaftTransport) InstallSnapshot(id raft.ServerID, node raft.ServerAddress,
	req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, content io.Reader) error {
	err := t.NetworkTransport.InstallSnapshot(id, node, req, resp, content)
	if err == nil {
		t.wire.SawAnswer(string(node), req, resp)
	}
	return err
}

// watchedPipeline is the inner transport's pipeline, whose answers are looked at on their way to Raft.
type watchedPipeline struct {
	raft.AppendPipeline
	done chan raft.AppendFuture
	quit chan struct{}
}

func (t RaftTransport) watchedPipeline(id raft.ServerID, node raft.ServerAddress) (raft.AppendPipeline, error) {
	inner, err := t.NetworkTransport.AppendEntriesPipeline(id, node)
	if err != nil {
		return nil, err
	}
	p := &watchedPipeline{AppendPipeline: inner, done: make(chan raft.AppendFuture), quit: make(chan struct{})}
	go p.watch(string(node), t.wire)
	return p, nil
}

func (p *watchedPipeline) watch(node string, group *wire.Group) {
	for {
		select {
		case f := <-p.AppendPipeline.Consumer():
			if f.Error() == nil {
				group.SawAnswer(node, f.Request(), f.Response())
			}
			select {
			case p.done <- f:
			case <-p.quit:
				return
			}
		case <-p.quit:
			return
		}
	}
}

// Consumer gives the futures that are over.
func (p *watchedPipeline) Consumer() <-chan raft.AppendFuture { return p.done }

// Close is called once.
func (p *watchedPipeline) Close() error {
	close(p.quit)
	return p.AppendPipeline.Close()
}
