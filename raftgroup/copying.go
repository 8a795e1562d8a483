package raftgroup

import (
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/internal/wait"
	"github.com/belfryhq/belfry/raftgroup/copies"
)

// heldLog is the largest size of the log that is kept for a copy, per byte of the copied state. So a copy may take as
// long as the log needs to grow by that much.
const heldLog = 4

// copying keeps the log for the replicas that receive a snapshot: a replica goes on with the entry behind its snapshot,
// and if that entry is gone by then, Raft sends the next snapshot, without end.
type copying struct {
	mu    sync.Mutex
	holds map[string]*hold // by node
}

// hold is the reason to keep the log for one replica.
type hold struct {
	term  uint64
	from  int64     // bytes of log that were applied when the copy began
	limit int64     // bytes of log that may come after them
	whole time.Time // when the replica had the whole snapshot; it lacks entries behind it. Zero: not yet
}

// InstallSnapshot sends a snapshot as a copy, while this replica leads and the receiver is a member.
func (t *transport) InstallSnapshot(id raft.ServerID, addr raft.ServerAddress,
	req *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	return t.copy(string(id), req, func(c *copies.Copy) error {
		return t.Transport.InstallSnapshot(id, addr, req, resp, c.Reader(data))
	})
}

// sendCopy sends a snapshot to a node. Its log stays until the node has the entries behind the snapshot.
func (g *Group) sendCopy(node string, req *raft.InstallSnapshotRequest, send func(*copies.Copy) error) error {
	votes, err := g.awaitContact(node, req.Term)
	if err != nil {
		return err
	}
	held := &hold{
		term: req.Term, from: g.applier.bytes.Load(), limit: heldLog * max(req.Size, g.cfg.Snapshots.Bytes),
	}
	overtaken := g.copying.begin(node, held)
	if overtaken {
		g.cfg.Logger.Warn("the log grew faster than a copy could be sent: the copy is sent again, without a limit",
			"node", node, "bytes", req.Size)
	}
	g.keepTail()
	if err := g.followsLog(req.LastLogIndex); err != nil {
		g.copying.end(node, held, false)
		return err
	}
	c := g.cfg.Copies.Begin(g.ctx, node, req.Size, !votes && !overtaken, func() error {
		_, err := g.copyEnds(node, req.Term)
		return err
	})
	defer c.End()
	err = send(c)
	g.copying.end(node, held, err == nil)
	return err
}

// awaitContact waits until a node has answered in the term. A replica that does not know the term yet would read a
// whole snapshot only to refuse it.
func (g *Group) awaitContact(node string, term uint64) (votes bool, err error) {
	for {
		if votes, err = g.copyEnds(node, term); err != nil {
			return false, err
		}
		if _, ok := g.contacts.of(node, term); ok {
			return votes, nil
		}
		if !wait.For(g.ctx, reachAgain) {
			return false, context.Cause(g.ctx)
		}
	}
}

var (
	errNoLeaderNow = errors.New("this replica no longer leads in the term of the copy")
	errNoMember    = errors.New("the node is no member any more")
	errOvertaken   = errors.New("a newer snapshot has cut the log behind this one")
)

// followsLog returns an error if the log lacks the entry behind a snapshot. Raft has opened the snapshot before the
// hold began, and opens a newer one after the error.
func (g *Group) followsLog(index uint64) error {
	switch first, err := g.cfg.Storage.Log().FirstIndex(); {
	case err != nil:
		return err
	case first > index+1:
		return errOvertaken
	}
	return nil
}

// copyEnds returns whether the receiver of a copy votes, or the reason why the copy is of no more use.
func (g *Group) copyEnds(node string, term uint64) (votes bool, err error) {
	if !g.goesOnIn(term) {
		return false, errNoLeaderNow
	}
	members := g.Members()
	i := slices.IndexFunc(members, func(m Member) bool { return m.NodeID == node })
	if i < 0 {
		return false, errNoMember
	}
	return members[i].Voter, nil
}

// begin records a copy. It reports whether the log has outgrown the last copy to the node in this term.
func (c *copying) begin(node string, h *hold) (overtaken bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := c.holds[node]
	c.holds[node] = h
	return last != nil && last.term == h.term && !last.whole.IsZero()
}

// end records the end of a copy. It does nothing if the hold is gone, since the leadership ended meanwhile, or if the
// node has another copy's.
func (c *copying) end(node string, h *hold, whole bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.holds[node] != h:
	case whole:
		h.whole = time.Now()
	default:
		delete(c.holds, node)
	}
}

// holdsLog reports whether a replica needs the log that the next snapshot would cut off.
func (g *Group) holdsLog() bool {
	c := &g.copying
	c.mu.Lock()
	defer c.mu.Unlock()
	needs := false
	for node, h := range c.holds {
		switch {
		case !g.goesOnIn(h.term) || g.goesWithout(node, h):
			delete(c.holds, node)
		case g.applier.bytes.Load()-h.from <= h.limit:
			needs = true
		}
	}
	return needs
}

// answersWithin is the number of election timeouts within which a replica with a whole snapshot must answer.
const answersWithin = 10

// goesWithout reports whether a replica with a whole snapshot has caught up, or does not answer. It answers nothing
// while it reads the snapshot.
func (g *Group) goesWithout(node string, h *hold) bool {
	if h.whole.IsZero() {
		return false
	}
	peer := g.Peer(node, h.term)
	if peer.Contact.After(h.whole) {
		return peer.Lacked <= MostLag || time.Since(peer.Contact) > answersWithin*g.cfg.Timing.Election
	}
	return time.Since(h.whole) > answersWithin*g.cfg.Timing.Election
}

// keepTail sets the number of entries that Raft leaves behind the coming snapshot.
func (g *Group) keepTail() {
	if g.cfg.Snapshots.TailBytes == 0 {
		return
	}
	entries := g.applier.tail.within(g.cfg.Snapshots.TailBytes)
	if g.holdsLog() {
		entries = math.MaxUint64
	}
	g.reload("raft keeps as much log as before", func(c *raft.ReloadableConfig) { c.TrailingLogs = entries })
}
