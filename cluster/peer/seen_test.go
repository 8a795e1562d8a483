package peer

import (
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

// sightings records the positions of others that an endpoint saw in one group.
type sightings struct {
	mu  sync.Mutex
	all map[[3]uint64]string // the node, by term, index and entry term
}

func (s *sightings) Saw(node string, group uint32, term, index, entryTerm uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if group == 7 {
		s.all[[3]uint64{term, index, entryTerm}] = node
	}
}

func (s *sightings) are(t *testing.T, who string, want map[[3]uint64]string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !maps.Equal(s.all, want) {
		t.Errorf("%s saw %v, not %v", who, s.all, want)
	}
	clear(s.all)
}

// answerAll answers every kind of request in a term, without success if refuse is set.
func answerAll(tr *RaftTransport, term uint64, refuse bool, done <-chan struct{}) {
	for {
		select {
		case rpc := <-tr.Consumer():
			switch rpc.Command.(type) {
			case *raft.AppendEntriesRequest:
				rpc.Respond(&raft.AppendEntriesResponse{Term: term, Success: !refuse}, nil)
			case *raft.RequestVoteRequest:
				rpc.Respond(&raft.RequestVoteResponse{Term: term}, nil)
			case *raft.RequestPreVoteRequest:
				rpc.Respond(&raft.RequestPreVoteResponse{Term: term}, nil)
			case *raft.InstallSnapshotRequest:
				rpc.Respond(&raft.InstallSnapshotResponse{Term: term, Success: !refuse}, nil)
			}
		case <-done:
			return
		}
	}
}

// Both ends note the positions that the other end holds on disk, and no position that is on no disk.
func TestPositionsAreSeen(t *testing.T) {
	b := newBook()
	here, there := &sightings{all: map[[3]uint64]string{}}, &sightings{all: map[[3]uint64]string{}}
	one := listen(t, b, 1, func(c *Config) { c.Records = here })
	two := listen(t, b, 2, func(c *Config) { c.Records = there })
	from, to := transport(t, one, 7, cluster), transport(t, two, 7, cluster)
	go answerAll(to, 3, false, t.Context().Done())
	id, addr := raft.ServerID(nodeID(2)), raft.ServerAddress(nodeID(2))
	entries := func(term, prev, index uint64) *raft.AppendEntriesRequest {
		req := &raft.AppendEntriesRequest{RPCHeader: header(1), Term: term, PrevLogEntry: prev, PrevLogTerm: min(prev, 1)}
		if index > 0 {
			req.Entries = []*raft.Log{{Index: index, Term: 2}}
		}
		return req
	}
	must := func(err error) {
		t.Helper()
		assert.NoError(t, err)
	}
	must(from.AppendEntries(id, addr, entries(3, 4, 5), &raft.AppendEntriesResponse{}))
	must(from.AppendEntries(id, addr, entries(3, 4, 0), &raft.AppendEntriesResponse{}))
	must(from.AppendEntries(id, addr, entries(3, 0, 0), &raft.AppendEntriesResponse{}))
	must(from.AppendEntries(id, addr, entries(2, 8, 9), &raft.AppendEntriesResponse{})) // the answer has another term
	pipeline, err := from.AppendEntriesPipeline(id, addr)
	must(err)
	_, err = pipeline.AppendEntries(entries(3, 5, 6), &raft.AppendEntriesResponse{})
	must(err)
	must((<-pipeline.Consumer()).Error())
	must(pipeline.Close())
	here.are(t, "the leader", map[[3]uint64]string{
		{3, 5, 2}: nodeID(2), {3, 4, 1}: nodeID(2), {3, 0, 0}: nodeID(2), {3, 6, 2}: nodeID(2),
	})
	there.are(t, "the follower", map[[3]uint64]string{
		{3, 5, 2}: nodeID(1), {3, 4, 1}: nodeID(1), {3, 0, 0}: nodeID(1), {2, 9, 2}: nodeID(1), {3, 6, 2}: nodeID(1),
	})

	must(from.RequestVote(id, addr,
		&raft.RequestVoteRequest{RPCHeader: header(1), Term: 2, LastLogIndex: 9}, &raft.RequestVoteResponse{}))
	must(from.RequestPreVote(id, addr,
		&raft.RequestPreVoteRequest{RPCHeader: header(1), Term: 8}, &raft.RequestPreVoteResponse{}))
	must(from.InstallSnapshot(id, addr,
		&raft.InstallSnapshotRequest{RPCHeader: header(1), Term: 3, LastLogIndex: 20, LastLogTerm: 2, Size: 1},
		&raft.InstallSnapshotResponse{}, strings.NewReader("x")))
	here.are(t, "the candidate", map[[3]uint64]string{{3, 0, 0}: nodeID(2), {3, 20, 2}: nodeID(2)})
	there.are(t, "the voter", map[[3]uint64]string{{2, 0, 0}: nodeID(1), {3, 20, 2}: nodeID(1)})
}

// A refused position is not noted.
func TestRefusedPositionsAreNotSeen(t *testing.T) {
	b := newBook()
	here := &sightings{all: map[[3]uint64]string{}}
	one, two := listen(t, b, 1, func(c *Config) { c.Records = here }), listen(t, b, 2)
	from, to := transport(t, one, 7, cluster), transport(t, two, 7, cluster)
	go answerAll(to, 3, true, t.Context().Done())
	id, addr := raft.ServerID(nodeID(2)), raft.ServerAddress(nodeID(2))
	req := &raft.AppendEntriesRequest{RPCHeader: header(1), Term: 3, PrevLogEntry: 4}
	snapshot := &raft.InstallSnapshotRequest{RPCHeader: header(1), Term: 3, LastLogIndex: 20, LastLogTerm: 2, Size: 1}
	assert.NoError(t, from.AppendEntries(id, addr, req, &raft.AppendEntriesResponse{}))
	assert.NoError(t, from.InstallSnapshot(id, addr, snapshot, &raft.InstallSnapshotResponse{}, strings.NewReader("x")))
	here.are(t, "the leader", map[[3]uint64]string{{3, 0, 0}: nodeID(2)})
}
