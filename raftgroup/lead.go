package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/wait"
)

// Verify returns nil if this node led in that term at some moment after the call. It makes Raft send heartbeats, and
// waits until a majority of the voters has answered heartbeats sent after the call, or ctx ends. It returns
// ErrNotLeader if this node leads no more or leads another term. Raft's own answer does not do: older heartbeats and
// answers of nodes without a vote satisfy it.
func (g *Group) Verify(ctx context.Context, term uint64) error {
	mark := g.contacts.stamp()
	if err := g.verifyLeader(ctx); err != nil {
		return err
	}
	for {
		news := g.contacts.next()
		if at, ok := g.lastMajority(term); ok && at.seq > mark.seq {
			return nil
		}
		if !g.LeadsIn(term) {
			return ErrNotLeader
		}
		select {
		case <-news:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// verifyLeader makes Raft send heartbeats to all other nodes.
func (g *Group) verifyLeader(ctx context.Context) error {
	return g.futures.await(ctx, func() raft.Future { return g.raft.VerifyLeader() })
}

// InTouch reports whether a majority of the voters has answered, in that term, requests sent within the leader lease.
func (g *Group) InTouch(term uint64) bool {
	at, ok := g.lastMajority(term)
	return ok && time.Since(at.at) <= g.cfg.Timing.Lease
}

// lastMajority returns the latest moment after which requests were sent that a majority of the voters has answered in
// this term.
func (g *Group) lastMajority(term uint64) (stamp, bool) {
	return g.contacts.majority(g.cfg.NodeID, g.Voters(), term)
}

// standsStill is the time after which a voter whose log has not grown gets a barrier. It is longer than most round
// trips and writes: a barrier is one more entry to wait for.
const standsStill = 20 * time.Millisecond

// CatchUp waits until a voter's log is as long as this leader's. It requests heartbeats meanwhile, and appends barriers
// while the voter stands still: Raft sends the voter at most MaxAppend entries for each entry appended or commit
// timeout, however many entries it lacks.
func (g *Group) CatchUp(ctx context.Context, nodeID string) error {
	least, grown := ^uint64(0), time.Now()
	for lag := g.lag(nodeID); lag > 0; lag = g.lag(nodeID) {
		if lag < least {
			least, grown = lag, time.Now()
		}
		ask := g.verifyLeader
		if time.Since(grown) >= standsStill {
			ask, least = g.Barrier, ^uint64(0)
		}
		if err := ask(ctx); err != nil {
			return err
		}
		if !wait.For(ctx, time.Millisecond) {
			return fmt.Errorf("it is behind: %w", context.Cause(ctx))
		}
	}
	return nil
}

func (g *Group) lag(nodeID string) uint64 { return g.Peer(nodeID, g.Term()).Lag }

// Transfer makes Raft elect another voter in this leader's place; an empty node id leaves the choice to Raft. The
// caller must propose nothing meanwhile: a transfer during which entries must still be replicated can leave Raft
// refusing entries for ever (hashicorp/raft issue 696). Transfer returns when the other voter was told to stand. The
// leadership ends a moment later.
func (g *Group) Transfer(ctx context.Context, to string) error {
	return g.futures.await(ctx, func() raft.Future {
		if to == "" {
			return g.raft.LeadershipTransfer()
		}
		return g.raft.LeadershipTransferToServer(raft.ServerID(to), raft.ServerAddress(to))
	})
}

// maxProposing is the number of entries that Raft may be accepting at once from callers of Propose.
const maxProposing = 1 << 20

// HandOver is Transfer for an owner whose callers propose side by side. Further calls of Propose wait until it returns,
// and those under way are answered before the transfer: otherwise they would lose their answers with the leadership. An
// empty node id stands for the voter in touch that lacks the fewest entries.
func (g *Group) HandOver(ctx context.Context, to string) error {
	ctx, cancel := context.WithTimeout(ctx, handOverFor*g.cfg.Timing.Election)
	defer cancel()
	if to == "" {
		to = g.nearest()
	}
	if to == "" {
		return errors.New("no other voter is in touch")
	}
	if err := g.proposing.Acquire(ctx, maxProposing); err != nil {
		return err
	}
	defer g.proposing.Release(maxProposing)
	if err := g.Barrier(ctx); err != nil {
		return err
	}
	if err := g.CatchUp(ctx, to); err != nil {
		return err
	}
	return g.Transfer(ctx, to)
}

// handOverFor is the number of election timeouts for which proposals wait at most during a HandOver.
const handOverFor = 4

// nearest returns the other voter in touch that lacks the fewest entries, or "".
func (g *Group) nearest() string {
	term, best, least := g.Term(), "", ^uint64(0)
	for _, id := range g.Voters() {
		peer := g.Peer(id, term)
		if id != g.cfg.NodeID && time.Since(peer.Contact) <= g.cfg.Timing.Lease && peer.Lag < least {
			best, least = id, peer.Lag
		}
	}
	return best
}

// Silence returns how long this replica has neither led nor heard a leader.
func (g *Group) Silence() time.Duration {
	if g.raft.State() == raft.Leader {
		return 0
	}
	return time.Since(g.raft.LastContact())
}

// holdBackFor is the number of election timeouts for which a reluctant replica asks for no votes after its last contact
// with a leader. By then other replicas have had some elections.
const holdBackFor = 5

func (g *Group) holdBack() bool {
	return g.cfg.Owner != nil && g.opened.Load() && g.cfg.Owner.Reluctant() &&
		time.Since(g.raft.LastContact()) < holdBackFor*g.cfg.Timing.Election
}

// Grown returns a channel with a token when LogBytes may have reached SnapshotConfig.Bytes.
func (g *Group) Grown() <-chan struct{} { return g.applier.grown }

// Snapshot takes a snapshot, if there are new entries, and cuts the log behind it except for the tail.
func (g *Group) Snapshot() error { return g.snapshot(context.Background()) }

// snapshot is Snapshot until ctx ends. The snapshot goes on after that.
func (g *Group) snapshot(ctx context.Context) error {
	g.keepTail()
	bytes := g.applier.bytes.Load()
	err := g.futures.await(ctx, func() raft.Future { return g.raft.Snapshot() })
	if err != nil && !errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return err
	}
	g.applier.saved.Store(bytes)
	return nil
}
