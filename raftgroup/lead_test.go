package raftgroup

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

// gates holds a channel of capacity one for each node. While it is full, pipelines to the node are held, and entries
// that are appended meanwhile share one trigger of Raft.
type gates map[raft.ServerID]chan struct{}

// gated is a transport whose pipelines wait at the gates.
type gated struct {
	*raft.InmemTransport
	gates gates
}

func (g gated) AppendEntriesPipeline(id raft.ServerID, addr raft.ServerAddress) (raft.AppendPipeline, error) {
	p, err := g.InmemTransport.AppendEntriesPipeline(id, addr)
	return gatedPipeline{p, g.gates[id]}, err
}

type gatedPipeline struct {
	raft.AppendPipeline
	gate chan struct{}
}

func (p gatedPipeline) AppendEntries(
	req *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) (raft.AppendFuture, error) {
	p.gate <- struct{}{}
	defer func() { <-p.gate }()
	return p.AppendPipeline.AppendEntries(req, resp)
}

// openThree opens a group of three replicas in memory, and returns its leader.
func openThree(t *testing.T, through gates) *Group {
	t.Helper()
	wires := map[raft.ServerID]*raft.InmemTransport{}
	var voters []string
	for id := range through {
		_, wires[id] = raft.NewInmemTransport(raft.ServerAddress(id))
		voters = append(voters, string(id))
	}
	leaders := make(chan *Group, len(through))
	for id := range through {
		for peer := range through {
			wires[id].Connect(raft.ServerAddress(peer), wires[peer])
		}
		g, err := Open(Config{
			Name: "group 7", NodeID: string(id), Machine: &journalist{}, Storage: newMemory(), Voters: voters,
			Transport: gated{wires[id], through}, MaxAppend: 8, Fatal: func(err error) { t.Error(err) },
			Timing: Timing{
				Heartbeat: 10 * time.Second, Election: 10 * time.Second, Lease: 10 * time.Second, Commit: time.Minute,
			},
		})
		assert.NoError(t, err)
		t.Cleanup(func() { closed(t, g) })
		g.Lead(func(ctx context.Context) {
			leaders <- g
			<-ctx.Done()
		})
	}
	return <-leaders
}

// TestCatchUpOfManyEntries checks that a voter that lacks many more entries than one request holds catches up in some
// round trips. It needs one commit timeout after another if the leader only waits.
func TestCatchUpOfManyEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		through := newGates("a", "b", "c")
		g := openThree(t, through)
		behind := g.Voters()[0]
		if behind == g.cfg.NodeID {
			behind = g.Voters()[1]
		}
		<-time.After(3 * g.cfg.Timing.Commit) // Raft pipelines its requests from here on
		through[raft.ServerID(behind)] <- struct{}{}
		for range 100 {
			_, err := g.Propose(t.Context(), []byte("line"))
			assert.NoError(t, err)
		}
		<-through[raft.ServerID(behind)]
		ctx, cancel := context.WithTimeout(t.Context(), g.cfg.Timing.Commit/2)
		defer cancel()
		assert.Equal(t, g.CatchUp(ctx, behind), nil)
	})
}

// TestHandOverLosesNoAnswer checks that callers who propose while the leadership is handed over get the answer of a
// committed entry, or ErrNotLeader. Raft alone would refuse their entries during the transfer.
func TestHandOverLosesNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openThreeInTouch(t)
		const callers = 20
		errs := make(chan error, callers)
		propose := func() { _, err := g.Propose(t.Context(), []byte("line")); errs <- err }
		for range callers / 2 {
			go propose()
		}
		handed := make(chan error, 1)
		go func() { handed <- g.HandOver(t.Context(), "") }()
		for range callers / 2 {
			go propose()
		}
		if err := <-handed; err != nil || g.Leads() {
			t.Errorf("handed over: %v, leads: %v", err, g.Leads())
		}
		for range callers {
			if err := <-errs; err != nil && !errors.Is(err, ErrNotLeader) {
				t.Error(err)
			}
		}
	})
}

// TestVerifyOfAnotherTerm checks that a leadership whose term is over is not confirmed by answers of a later one.
func TestVerifyOfAnotherTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openThree(t, newGates("a", "b", "c"))
		term := g.raft.CurrentTerm()
		assert.NoError(t, g.Verify(t.Context(), term))
		assert.ErrorIs(t, g.Verify(t.Context(), term-1), ErrNotLeader, "the term before is verified with")
	})
}

// TestVerifyNeedsVoters checks that answers of a node without a vote verify no leadership, and that Verify waits for
// the voters' answers without asking again and again.
func TestVerifyNeedsVoters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openThree(t, newGates("a", "b", "c"))
		var others []raft.ServerID
		for _, id := range g.Voters() {
			if id != g.cfg.NodeID {
				others = append(others, raft.ServerID(id))
			}
		}
		assert.NoError(t, g.raft.DemoteVoter(others[0], 0, 0).Error())
		assert.NoError(t, g.Verify(t.Context(), g.raft.CurrentTerm()))
		g.cfg.Transport.(gated).Disconnect(raft.ServerAddress(others[1]))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.Verify(ctx, g.raft.CurrentTerm()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a leadership without its only other voter is verified with %v", err)
		}
	})
}
