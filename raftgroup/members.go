package raftgroup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

// Member is one server of a group.
type Member struct {
	NodeID string
	Voter  bool
}

// Membership is a committed configuration that a leader knows in its term.
type Membership struct {
	Term    uint64
	Changes uint64   // number of changes that the leader has begun in its term
	Members []Member // sorted by node id
}

// Equal reports whether m and other are the same configuration, with no change in between: members that were removed
// and added again make another one.
func (m Membership) Equal(other Membership) bool {
	return m.Term == other.Term && m.Changes == other.Changes && slices.Equal(m.Members, other.Members)
}

// Members returns the servers of the newest configuration that this replica knows, committed or not.
func (g *Group) Members() []Member {
	var members []Member
	for _, s := range g.raft.GetConfiguration().Configuration().Servers {
		members = append(members, Member{NodeID: string(s.ID), Voter: s.Suffrage == raft.Voter})
	}
	return members
}

// Voters returns the node ids of the group's voters.
func (g *Group) Voters() []string { return voters(g.Members()) }

func voters(members []Member) []string {
	var ids []string
	for _, m := range members {
		if m.Voter {
			ids = append(ids, m.NodeID)
		}
	}
	return ids
}

// Membership returns the configuration of the group that this leader leads. On another replica the error is
// ErrNotLeader. The configuration is committed: Membership waits for a change that is under way, and the error wraps
// ErrUnfit if ctx ends first. A member whose removal is not committed may be needed again by the next leader.
func (g *Group) Membership(ctx context.Context) (Membership, error) {
	if !g.Leads() {
		return Membership{}, ErrNotLeader
	}
	if err := g.beginChange(ctx); err != nil {
		return Membership{}, err
	}
	defer func() { <-g.changing }()
	return g.newest()
}

// beginChange waits for a change of membership that is under way, and keeps others from beginning.
func (g *Group) beginChange(ctx context.Context) error {
	select {
	case g.changing <- struct{}{}:
		return nil
	case <-g.futures.down:
		return errStopped
	case <-ctx.Done():
		return fmt.Errorf("%w: another change is under way: %w", ErrUnfit, context.Cause(ctx))
	}
}

// newest returns the newest configuration that this leader knows. The caller keeps changes from beginning. Then the
// configuration is committed, or the error wraps ErrUnfit: in each term, the entries that the leader began with must be
// committed first, and a change of an earlier leader may be one of them.
func (g *Group) newest() (Membership, error) {
	m := Membership{Term: g.Term(), Members: g.Members()}
	if g.reign.term != m.Term {
		g.reign = reign{term: m.Term, inherited: g.raft.LastIndex()}
	}
	m.Changes = g.reign.changes
	committed := g.raft.CommitIndex()
	switch {
	case !g.LeadsIn(m.Term):
		return Membership{}, ErrNotLeader
	case committed < g.reign.inherited:
		return Membership{}, fmt.Errorf("%w: entry %d may be an earlier change, and is not committed yet", ErrUnfit,
			g.reign.inherited)
	}
	slices.SortFunc(m.Members, func(a, b Member) int { return strings.Compare(a.NodeID, b.NodeID) })
	return m, nil
}

// reign is a term in which this replica leads.
type reign struct {
	term      uint64
	inherited uint64 // index at or behind the last entry of earlier leaders
	changes   uint64 // of the membership, begun in the term
}

// ErrUnfit is the error of a change of membership that would endanger the group, or that was decided for another
// configuration than the present one. Nothing has changed.
var ErrUnfit = errors.New("the change of membership does not fit")

// MostLag is the largest number of entries that a member may lack when it becomes a voter.
const MostLag = 64

// MemberChange is one change of a group's membership. One of the fields is set.
type MemberChange struct {
	AddNonvoter string // node that gets the log and does not vote
	AddVoter    string // member without a vote that gets one
	Demote      string // voter, other than the leader, that loses its vote and keeps getting the log
	Remove      string // member, other than the leader
}

// ChangeMembers makes one change of the membership and waits until it is committed. The leader makes it only in the
// configuration that the caller has seen: a request that arrives late, after other changes, gets ErrUnfit. A change
// whose caller has given up is still under way, and no other begins before Raft has answered it.
func (g *Group) ChangeMembers(ctx context.Context, seen Membership, change MemberChange) error {
	if err := g.beginChange(ctx); err != nil {
		return err
	}
	if err := g.mayChange(seen, change); err != nil {
		<-g.changing
		return err
	}
	g.reign.changes++
	return g.futures.await(ctx, func() raft.Future { return releasing{g.changeMembers(change), g.changing} })
}

// releasing is the future of a change of membership. It lets the next change begin once Raft has answered this one. If
// the group stops before, none begins.
type releasing struct {
	raft.Future
	changing <-chan struct{}
}

func (r releasing) Error() error {
	defer func() { <-r.changing }()
	return r.Future.Error()
}

// mayChange returns an error unless the group has the membership that the caller has seen and the change fits it.
func (g *Group) mayChange(seen Membership, change MemberChange) error {
	now, err := g.newest()
	if err != nil {
		return err
	}
	if !now.Equal(seen) && !flawIgnoresSeen() {
		return fmt.Errorf("%w: it was decided for %v, and the group is %v", ErrUnfit, seen, now)
	}
	if err := g.fits(now, change); err != nil {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	return nil
}

// changeLimit is the time that Raft has to accept a change of membership.
const changeLimit = 5 * time.Second

func (g *Group) changeMembers(change MemberChange) raft.Future {
	switch {
	case change.AddNonvoter != "":
		id := change.AddNonvoter
		return g.raft.AddNonvoter(raft.ServerID(id), raft.ServerAddress(id), 0, changeLimit)
	case change.AddVoter != "":
		id := change.AddVoter
		return g.raft.AddVoter(raft.ServerID(id), raft.ServerAddress(id), 0, changeLimit)
	case change.Demote != "":
		return g.raft.DemoteVoter(raft.ServerID(change.Demote), 0, changeLimit)
	default:
		return g.raft.RemoveServer(raft.ServerID(change.Remove), 0, changeLimit)
	}
}

// fits returns an error if the group would be worse off after the change.
func (g *Group) fits(now Membership, change MemberChange) error {
	is := func(id string, voter bool) bool {
		return slices.Contains(now.Members, Member{NodeID: id, Voter: voter})
	}
	switch {
	case change.AddNonvoter != "":
		if is(change.AddNonvoter, true) {
			return fmt.Errorf("node %s votes", change.AddNonvoter)
		}
	case change.AddVoter != "":
		if !is(change.AddVoter, false) {
			return fmt.Errorf("node %s is no member without a vote", change.AddVoter)
		}
		if lag := g.Peer(change.AddVoter, now.Term).Lag; lag > MostLag && !flawIgnoresLag() {
			return fmt.Errorf("node %s lacks %d entries", change.AddVoter, lag)
		}
	case change.Remove == g.cfg.NodeID || change.Demote == g.cfg.NodeID:
		return errors.New("the leader keeps its own vote")
	case change.Demote != "":
		return g.remains(now, change.Demote)
	case change.Remove != "":
		return g.remains(now, change.Remove)
	default:
		return errors.New("it is empty")
	}
	return nil
}

// remains returns an error unless a majority of the voters without the node has been in touch within the lease.
func (g *Group) remains(now Membership, without string) error {
	rest := slices.DeleteFunc(voters(now.Members), func(id string) bool { return id == without })
	at, ok := g.contacts.majority(g.cfg.NodeID, rest, now.Term)
	if !ok || time.Since(at.at) > g.cfg.Timing.Lease {
		return fmt.Errorf("without node %s no majority is in touch", without)
	}
	return nil
}
