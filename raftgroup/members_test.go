package raftgroup

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/assert"
)

// seen returns the leader's membership.
func seen(t *testing.T, g *Group) Membership {
	t.Helper()
	m, err := g.Membership(t.Context())
	assert.NoError(t, err)
	return m
}

func newGates(ids ...raft.ServerID) gates {
	through := gates{}
	for _, id := range ids {
		through[id] = make(chan struct{}, 1)
	}
	return through
}

// openThreeInTouch opens a group of three replicas, and returns its leader once all have answered it.
func openThreeInTouch(t *testing.T) *Group {
	t.Helper()
	g := openThree(t, newGates("a", "b", "c"))
	<-time.After(g.cfg.Timing.Lease)
	return g
}

// other returns a voter besides the leader.
func other(g *Group) string {
	for _, id := range g.Voters() {
		if id != g.cfg.NodeID {
			return id
		}
	}
	return ""
}

// TestChangeOfMembersIsBoundToThoseSeen checks that a change that was decided for an earlier membership, or an earlier
// term, changes nothing.
func TestChangeOfMembersIsBoundToThoseSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openThreeInTouch(t)
		before := seen(t, g)
		gone := other(g)
		assert.NoError(t, g.ChangeMembers(t.Context(), before, MemberChange{Remove: gone}))
		after := seen(t, g)
		if len(after.Members) != 2 || after.Equal(before) {
			t.Fatalf("after the removal of %s: %v", gone, after)
		}
		late := MemberChange{AddNonvoter: gone}
		assert.ErrorIs(t, g.ChangeMembers(t.Context(), before, late), ErrUnfit, "decided for %v", before)
		old := after
		old.Term--
		assert.ErrorIs(t, g.ChangeMembers(t.Context(), old, late), ErrUnfit, "decided in an earlier term")
		if now := seen(t, g); !now.Equal(after) {
			t.Errorf("%v became %v", after, now)
		}
		for _, change := range []MemberChange{{AddNonvoter: "d"}, {Remove: "d"}} {
			assert.NoError(t, g.ChangeMembers(t.Context(), seen(t, g), change))
		}
		if err := g.ChangeMembers(t.Context(), after, late); !errors.Is(err, ErrUnfit) {
			t.Errorf("decided for the same members, before two other changes: %v", err)
		}
	})
}

// TestChangesOfMembersFollowEachOther checks that no change begins before Raft has answered the one before, although the
// caller of that has given up, and that a change waits no longer than its caller.
func TestChangesOfMembersFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		through := newGates("a", "b", "c")
		g := openThree(t, through)
		<-time.After(g.cfg.Timing.Lease)
		before, gone := seen(t, g), other(g)
		for _, gate := range through {
			gate <- struct{}{}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.ChangeMembers(ctx, before, MemberChange{Remove: gone}); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("a change that is not committed: %v", err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if m, err := g.Membership(ctx); !errors.Is(err, ErrUnfit) || ctx.Err() == nil {
			t.Errorf("a membership that is not committed: %v, %v", m, err)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		next := MemberChange{AddNonvoter: gone}
		if err := g.ChangeMembers(ctx, before, next); !errors.Is(err, ErrUnfit) || ctx.Err() == nil {
			t.Errorf("beside another change: %v", err)
		}
		for _, gate := range through {
			<-gate
		}
		synctest.Wait()
		assert.Equal(t, g.ChangeMembers(t.Context(), seen(t, g), next), nil, "after the other change")
	})
}

// TestUnfitChangesOfMembers checks the changes that a leader refuses whatever its caller has seen.
func TestUnfitChangesOfMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openThreeInTouch(t)
		for name, change := range map[string]MemberChange{
			"empty":            {},
			"of itself":        {Remove: g.cfg.NodeID},
			"own demotion":     {Demote: g.cfg.NodeID},
			"voter's vote":     {AddVoter: other(g)},
			"voter's demotion": {AddNonvoter: other(g)},
			"stranger's vote":  {AddVoter: "stranger"},
		} {
			assert.ErrorIs(t, g.ChangeMembers(t.Context(), seen(t, g), change), ErrUnfit, "%s", name)
		}
	})
}

// TestNoVoteBeforeTheLog checks that a member without the log does not become a voter.
func TestNoVoteBeforeTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openThreeInTouch(t)
		assert.NoError(t, g.ChangeMembers(t.Context(), seen(t, g), MemberChange{AddNonvoter: "d"}))
		for range MostLag {
			_, err := g.Propose(t.Context(), []byte("line"))
			assert.NoError(t, err)
		}
		if err := g.ChangeMembers(t.Context(), seen(t, g), MemberChange{AddVoter: "d"}); !errors.Is(err, ErrUnfit) {
			t.Errorf("a member that does not exist votes: %v", err)
		}
	})
}

// TestNoRemovalWithoutMajority checks that a voter is not removed while the voters that stay have no majority in touch.
func TestNoRemovalWithoutMajority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := openThreeInTouch(t)
		gone := other(g)
		<-time.After(g.cfg.Timing.Beat / 2) // between two heartbeats
		g.contacts.forget()
		if err := g.ChangeMembers(t.Context(), seen(t, g), MemberChange{Remove: gone}); !errors.Is(err, ErrUnfit) {
			t.Errorf("removed while no voter was in touch: %v", err)
		}
		if err := g.ChangeMembers(t.Context(), seen(t, g), MemberChange{Demote: gone}); !errors.Is(err, ErrUnfit) {
			t.Errorf("demoted while no voter was in touch: %v", err)
		}
		<-time.After(g.cfg.Timing.Lease)
		assert.Equal(t, g.ChangeMembers(t.Context(), seen(t, g), MemberChange{Demote: gone}), nil, "with all in touch")
		if !slices.Contains(seen(t, g).Members, Member{NodeID: gone}) {
			t.Errorf("after the demotion of %s: %v", gone, seen(t, g))
		}
		assert.Equal(t, g.ChangeMembers(t.Context(), seen(t, g), MemberChange{Remove: gone}), nil, "with all in touch")
	})
}
