package witness

import (
	"maps"
	"slices"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// learn keeps the newest standing of the answers. One that is older than the folder tells nothing new.
func (c *Check) learn(s *clusterpb.Standing) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s != nil && s.Applied >= c.cfg.Applied && s.Applied > c.newest.GetApplied() {
		c.newest = s
	}
}

// nodes returns the nodes to ask: the voters of the folder's groups, the voters that should answer by now, and the
// other known nodes.
func (c *Check) nodes() []string {
	all := append(voters(c.cfg.Node, c.cfg.Replicas), voters(c.cfg.Node, c.required())...)
	all = append(all, c.cfg.Nodes.Known()...)
	all = slices.DeleteFunc(all, func(id string) bool { return id == c.cfg.Node })
	slices.Sort(all)
	return slices.Compact(all)
}

// required returns the replicas whose voters have to answer. A standing that is newer than the folder may have removed
// some replicas of the folder, and may name other voters for the rest.
func (c *Check) required() map[uint32]Replica {
	c.mu.Lock()
	now := c.newest
	c.mu.Unlock()
	if now == nil {
		return c.cfg.Replicas
	}
	over, required := c.over(now), maps.Clone(c.cfg.Replicas)
	for group, r := range c.cfg.Replicas {
		shard := shardOf(now, group)
		_, gone := over[group]
		switch {
		case gone:
			delete(required, group)
			continue
		case shard != nil:
			r.Voters = shard.Replicas
		case group == controlGroup && len(now.Voters) > 0:
			r.Voters = now.Voters
		}
		required[group] = r
	}
	return required
}

// Over returns the groups whose replica in the folder is no more, with the revisions at which those replicas joined:
// the cluster has removed them from this node while it was away. It is complete when Run has returned.
func (c *Check) Over() map[uint32]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over(c.newest)
}

func (c *Check) over(now *clusterpb.Standing) map[uint32]uint64 {
	over := make(map[uint32]uint64)
	for group, r := range c.cfg.Replicas {
		if shard := shardOf(now, group); shard != nil && isOver(shard, c.cfg.Node, r.Joined) {
			over[group] = r.Joined
		}
	}
	return over
}

// isOver reports whether a node's replica of a shard has been removed since it joined. A record says so if it is of a
// later revision and has no replica on the node, or one that joined later.
func isOver(shard *clusterpb.Shard, node string, joined uint64) bool {
	if slices.Contains(shard.Replicas, node) {
		return shard.Joined[node] > joined
	}
	return shard.Revision > joined
}

func shardOf(s *clusterpb.Standing, group uint32) *clusterpb.Shard {
	at := slices.IndexFunc(s.GetShards(), func(shard *clusterpb.Shard) bool { return shard.Id == group })
	if at < 0 || len(s.Shards[at].Replicas) == 0 {
		return nil
	}
	return s.Shards[at]
}
