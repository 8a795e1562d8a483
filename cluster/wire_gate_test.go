package cluster_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/cluster/peer"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/memnet"
	"github.com/belfryhq/belfry/raftgroup/install"
	"github.com/belfryhq/belfry/raftgroup/logstore"
)

const (
	gateLeader   = "gate-leader-0001"
	gateFollower = "gate-follower-01"
	gateCluster  = "gate-cluster-001"
)

// gatedReplica is a Raft replica of one node behind its gate, and a leader's connection to it from another node.
type gatedReplica struct {
	t        *testing.T
	leader   *peer.RaftTransport
	follower *raft.Raft
	log      raft.LogStore
}

type nothing struct{}

func (nothing) Apply(*raft.Log) any                 { return nil }
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nil, errors.New("no snapshot is wanted") }
func (nothing) Restore(snapshot io.ReadCloser) error {
	_, err := io.Copy(io.Discard, snapshot)
	return err
}

// nodesAt is the directory of nodes by their addresses.
type nodesAt map[string]string

func (n nodesAt) Lookup(id string) []peer.Target { return []peer.Target{{Addr: n[id]}} }
func (nodesAt) Reached(string, string)           {}
func (nodesAt) IsMember(string) bool             { return true }
func (nodesAt) IsRemoved(string) bool            { return false }

func newGatedReplica(t *testing.T) *gatedReplica {
	t.Helper()
	stores, err := logstore.Open(logstore.Config{
		Dir: t.TempDir(), Kind: logstore.WAL, Fatal: func(err error) { t.Error(err) },
	})
	assert.NoError(t, err)
	t.Cleanup(func() {
		assert.Equal(t, stores.Close(), nil)
	})
	g := &gatedReplica{t: t, log: stores.Log()}
	addrs, network := make(map[string]string), memnet.New()
	listen := func(id string) *peer.Endpoint {
		e, err := peer.Listen(peer.Config{
			NodeID: id, BindAddr: "127.0.0.1:0", Network: network,
			Directory: nodesAt(addrs),
		})
		assert.NoError(t, err)
		t.Cleanup(func() {
			assert.Equal(t, e.Close(), nil)
		})
		return e
	}
	from, to := listen(gateLeader), listen(gateFollower)
	addrs[gateFollower] = to.Addr()
	g.leader, err = from.Raft(1, gateCluster, hclog.NewNullLogger())
	assert.NoError(t, err)
	inner, err := to.Raft(1, gateCluster, hclog.NewNullLogger())
	assert.NoError(t, err)
	gate := install.New(inner, g.log, slog.New(slog.DiscardHandler), func(err error) { t.Error(err) })
	conf := raft.DefaultConfig()
	conf.LocalID, conf.Logger = gateFollower, hclog.NewNullLogger()
	conf.HeartbeatTimeout, conf.ElectionTimeout = time.Hour, time.Hour
	g.follower, err = raft.NewRaft(conf, nothing{}, g.log, stores.Stable(), raft.NewInmemSnapshotStore(), gate.Transport())
	assert.NoError(t, err)
	gate.Open(g.follower)
	t.Cleanup(func() {
		assert.Equal(t, errors.Join(g.follower.Shutdown().Error(), g.leader.Close()), nil)
	})
	return g
}

var gateHeader = raft.RPCHeader{
	ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(gateLeader), Addr: []byte(gateLeader),
}

// behind returns a request of term 2 for some entries after entry prev.
func behind(prev uint64, entries int, commit uint64) *raft.AppendEntriesRequest {
	req := &raft.AppendEntriesRequest{
		RPCHeader: gateHeader, Term: 2, PrevLogEntry: prev, LeaderCommitIndex: commit,
	}
	if prev > 0 {
		req.PrevLogTerm = 2
	}
	for i := range uint64(entries) {
		req.Entries = append(req.Entries, &raft.Log{
			Index: prev + 1 + i, Term: 2, Type: raft.LogCommand, Data: bytes.Repeat([]byte("x"), 100),
		})
	}
	return req
}

func (g *gatedReplica) append(req *raft.AppendEntriesRequest) {
	g.t.Helper()
	var resp raft.AppendEntriesResponse
	if err := g.leader.AppendEntries(gateFollower, gateFollower, req, &resp); err != nil || !resp.Success {
		g.t.Fatalf("%d entries behind %d: %+v, %v", len(req.Entries), req.PrevLogEntry, resp, err)
	}
}

func (g *gatedReplica) install(last uint64) {
	g.t.Helper()
	voters := raft.Configuration{Servers: []raft.Server{
		{ID: gateLeader, Address: gateLeader}, {ID: gateFollower, Address: gateFollower},
	}}
	const content = "all that there is"
	req := &raft.InstallSnapshotRequest{
		RPCHeader: gateHeader, SnapshotVersion: raft.SnapshotVersionMax, Term: 2,
		LastLogIndex: last, LastLogTerm: 2, Configuration: raft.EncodeConfiguration(voters), ConfigurationIndex: 1,
		Size: int64(len(content)),
	}
	var resp raft.InstallSnapshotResponse
	err := g.leader.InstallSnapshot(gateFollower, gateFollower, req, &resp, bytes.NewReader([]byte(content)))
	if err != nil || !resp.Success {
		g.t.Fatalf("a snapshot to %d: %+v, %v", last, resp, err)
	}
}

func (g *gatedReplica) holds(first, last, applied uint64) {
	g.t.Helper()
	from, err := g.log.FirstIndex()
	to, err2 := g.log.LastIndex()
	if err := errors.Join(err, err2); err != nil || from != first || to != last {
		g.t.Errorf("the log holds %d to %d, not %d to %d: %v", from, to, first, last, err)
	}
	assert.Equal(g.t, g.follower.AppliedIndex(), applied, "applied up to")
}

// Requests on the streams that all groups share pass the group's gate too. No more entries are committed than were
// compared, and entries that a snapshot has taken are left out.
func TestStreamsLeadThroughTheGate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGatedReplica(t)
		g.append(behind(0, 10, 3))
		g.append(behind(5, 0, 7)) // entries 6 and 7 are not compared
		g.holds(1, 10, 5)
		g.install(20)
		g.append(behind(18, 4, 22))
		g.holds(21, 22, 22)
		g.append(behind(15, 3, 22))
		g.holds(21, 22, 22)
	})
}

// A pipeline's entries and snapshots go different ways, and may overtake each other. In either order, no entry is lost
// and no gap appears.
func TestSnapshotAmongEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGatedReplica(t)
		g.append(behind(0, 10, 10))
		const rounds = 30
		for round := range uint64(rounds) {
			last := g.follower.LastIndex()
			pipeline, err := g.leader.AppendEntriesPipeline(gateFollower, gateFollower)
			assert.NoError(t, err)
			for i := range uint64(2) { // the leader's requests under way when it turns to sending a snapshot
				_, err := pipeline.AppendEntries(behind(last+5*i, 5, last), new(raft.AppendEntriesResponse))
				assert.NoError(t, err)
			}
			assert.NoError(t, pipeline.Close())
			g.install(last + 3 + 4*(round%3)) // among the entries, right behind them, or beyond
			end := last + 11
			g.append(behind(last, 11, end)) // all entries again
			assert.MustEqual(t, g.follower.LastIndex(), end, "round %d: the log ends at", round)
			assert.NoError(t, g.contiguous(), "round %d", round)
		}
		got, want := g.follower.AppliedIndex(), uint64(10+11*rounds)
		assert.Equal(t, got, want, "applied up to")
	})
}

// contiguous returns an error if the log has a gap.
func (g *gatedReplica) contiguous() error {
	first, err := g.log.FirstIndex()
	last, err2 := g.log.LastIndex()
	err = errors.Join(err, err2)
	for i := first; err == nil && i <= last && i > 0; i++ {
		var entry raft.Log
		if err = g.log.GetLog(i, &entry); err != nil {
			err = fmt.Errorf("entry %d of %d to %d: %w", i, first, last, err)
		}
	}
	return err
}
