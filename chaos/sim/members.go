package sim

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/belfryhq/belfry/chaos/sim/internal/disk"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
)

// members judges the memberships of the shards' groups by the configurations in the logs on the disks. Only the world
// sees all disks. The promises:
//
//   - Each change was decided for the membership and the term in which the leader made it.
//   - A shard that moves has at least as many voters as before the move, or as its target has.
//   - A replica gets its vote with the entries acknowledged a while before.
//   - A majority of the voters has each entry that a replica has applied.
type members struct {
	world *World

	mu     sync.Mutex
	shards map[uint32]*membership
}

// membership is the knowledge of one shard's group.
type membership struct {
	calls   []*clusterpb.MembersCall // changes that were asked for
	entries []disk.Reconfiguration   // in the order in which leaders appended them
	least   int                      // voters that the group must have
	applied []position               // in rising order of the times
}

// position is the greatest index that a replica of the shard had applied by a time.
type position struct {
	at    time.Time
	index uint64
}

func newMembers(w *World) *members {
	m := &members{world: w, shards: map[uint32]*membership{}}
	for _, s := range w.now().Shards {
		m.shards[s.Id] = &membership{least: len(s.Replicas)}
	}
	return m
}

// group returns the membership of a shard. The caller holds the lock.
func (m *members) group(shard uint32) *membership {
	if m.shards[shard] == nil {
		m.shards[shard] = &membership{}
	}
	return m.shards[shard]
}

// noteCall notes a change that a leader of the control group asks for.
func (m *members) noteCall(shard uint32, call *clusterpb.MembersCall) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.group(shard)
	g.calls = append(g.calls, call)
}

// aim notes that a shard gets a target, as the state before it has the shard.
func (m *members) aim(before *clusterpb.Shard, target []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.group(before.Id)
	if len(before.Target) == 0 {
		g.least = len(before.Replicas)
	}
	g.least = min(g.least, len(target))
}

// judge judges a configuration that a replica is about to append to its log.
func (m *members) judge(shard uint32, r disk.Reconfiguration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.group(shard)
	known := func(e disk.Reconfiguration) bool { return e.Index == r.Index && e.Term == r.Term }
	if slices.ContainsFunc(g.entries, known) {
		return
	}
	g.entries = append(g.entries, r)
	if len(r.Before.Servers) == 0 {
		return // the group begins
	}
	m.world.count(func(f *Figures) { f.Changes++ })
	change := fmt.Sprintf("shard %d: the change from %s to %s in term %d", shard, membersOf(r.Before), membersOf(r.After),
		r.Term)
	if !slices.ContainsFunc(g.calls, func(c *clusterpb.MembersCall) bool { return decides(c, r) }) {
		m.world.problem("%s was not decided for that membership", change)
	}
	if n := len(voters(r.After)); n < g.least {
		m.world.problem("%s leaves %d voters, and the move must leave %d", change, n, g.least)
	}
	m.judgeVotes(shard, g, r, change)
}

// judgeVotes judges whether the new voters of a configuration have caught up.
func (m *members) judgeVotes(shard uint32, g *membership, r disk.Reconfiguration, change string) {
	owed := g.appliedBefore(time.Now().Add(-m.world.cfg.pace.hold[1] - 3*callLasts))
	for _, node := range voters(r.After) {
		if slices.Contains(voters(r.Before), node) {
			continue
		}
		if last := m.world.node(node).files.disk(shard).Last(); last < owed {
			m.world.problem("%s gives a vote to %s, which has the entries up to %d: entry %d was applied long before", change,
				node, last, owed)
		}
	}
}

// leaves judges the deletion of a replica's files: its group must not count on its vote any more.
func (m *members) leaves(shard uint32, node string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var newest disk.Reconfiguration
	for _, e := range m.group(shard).entries {
		if e.Term > newest.Term || e.Term == newest.Term && e.Index > newest.Index {
			newest = e
		}
	}
	if slices.Contains(voters(newest.After), node) {
		m.world.problem("%s deletes its replica of shard %d, which votes in %s", node, shard, membersOf(newest.After))
	}
}

// appliedBefore returns the greatest index that was applied by a time.
func (g *membership) appliedBefore(at time.Time) uint64 {
	i, _ := slices.BinarySearchFunc(g.applied, at, func(p position, at time.Time) int { return p.at.Compare(at) })
	if i == 0 {
		return 0
	}
	return g.applied[i-1].index
}

// decides reports whether a call asks for the change that an entry makes, in the membership and the term of the entry.
func decides(c *clusterpb.MembersCall, r disk.Reconfiguration) bool {
	if c.Seen.GetTerm() != r.Term {
		return false
	}
	seen, node := map[string]bool{}, ""
	for _, m := range c.Seen.Members {
		seen[m.Node] = m.Voter
	}
	same := len(seen) == len(r.Before.Servers)
	for _, s := range r.Before.Servers {
		voter, member := seen[string(s.ID)]
		same = same && member && voter == (s.Suffrage == raft.Voter)
	}
	switch c := c.Change.(type) {
	case *clusterpb.MembersCall_AddNonvoter:
		node, seen[c.AddNonvoter] = c.AddNonvoter, false
	case *clusterpb.MembersCall_AddVoter:
		node, seen[c.AddVoter] = c.AddVoter, true
	case *clusterpb.MembersCall_Remove:
		node = c.Remove
		delete(seen, node)
	}
	same = same && node != "" && len(seen) == len(r.After.Servers)
	for _, s := range r.After.Servers {
		voter, member := seen[string(s.ID)]
		same = same && member && voter == (s.Suffrage == raft.Voter)
	}
	return same
}

func voters(c raft.Configuration) []string {
	var ids []string
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
}

// membersOf names the members of a configuration, those without a vote in brackets.
func membersOf(c raft.Configuration) string {
	text := ""
	for _, s := range c.Servers {
		if s.Suffrage == raft.Voter {
			text += " " + string(s.ID)
		} else {
			text += " (" + string(s.ID) + ")"
		}
	}
	return "[" + text + " ]"
}

// watch looks at the groups once a second, until the world ends.
func (m *members) watch() {
	for m.world.sleep(time.Second) {
		for _, s := range m.world.now().Shards {
			m.look(s)
		}
	}
}

// look notes the index that a shard has applied, and checks that a majority of its voters has it.
func (m *members) look(s *clusterpb.Shard) {
	var ahead *disk.Disk
	last := position{at: time.Now()}
	for _, n := range m.world.nodes {
		if p := n.running(); p != nil {
			if r, err := p.shard(s.Id); err == nil && r.Status().Applied > last.index {
				ahead, last.index = n.files.disk(s.Id), r.Status().Applied
			}
		}
	}
	if ahead == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	g := m.group(s.Id)
	g.applied = append(g.applied, last)
	since, now := ahead.Configuration(last.index)
	held := m.isHeld(s.Id, now, last.index)
	for _, e := range g.entries {
		// A leader that votes alone commits the entry that adds a second voter by itself.
		known := e.Index >= since
		held = held || known && (m.isHeld(s.Id, e.Before, last.index) || m.isHeld(s.Id, e.After, last.index))
	}
	if !held {
		m.world.problem("shard %d: no majority of %s has entry %d, which is applied: %s", s.Id, membersOf(now), last.index,
			m.disksOf(s.Id))
	}
}

// disksOf returns the last entry on each node's disk of a shard.
func (m *members) disksOf(shard uint32) string {
	text := ""
	for _, n := range m.world.nodes {
		text += fmt.Sprintf(" %s %d", n.name, n.files.disk(shard).Last())
	}
	return text
}

// isHeld reports whether a majority of a configuration's voters has an entry.
func (m *members) isHeld(shard uint32, c raft.Configuration, index uint64) bool {
	ids, holders := voters(c), 0
	for _, node := range ids {
		if m.world.node(node).files.disk(shard).Last() >= index {
			holders++
		}
	}
	return holders > len(ids)/2
}

// node returns the node of a name.
func (w *World) node(name string) *Node {
	return w.nodes[slices.IndexFunc(w.nodes, func(n *Node) bool { return n.name == name })]
}

// record returns a shard's record by the present decisions.
func (w *World) record(id uint32) *clusterpb.Shard { return control.Shard(w.now(), id) }
