package client

import (
	"sync/atomic"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/internal/contract"
)

// shard is one of the cluster's shards. Its identity lasts as long as the client.
type shard struct {
	leader atomic.Pointer[endpoint] // presumed leader, and usable; nil: none
	aside  atomic.Pointer[lane]     // lane of its own, while the shard is in trouble; nil: lines travel with others
}

// distrust makes the shard's lines travel alone from now on, since they would hold up the lines after them.
func (s *shard) distrust(c *conn) {
	if s.aside.Load() == nil {
		s.aside.CompareAndSwap(nil, &lane{c: c, shard: s})
	}
}

// trust ends the shard's travelling alone in the given lane. Lines that wait in that lane still go out from it.
func (s *shard) trust(aside *lane) { s.aside.CompareAndSwap(aside, nil) }

// urlOf returns the URL that a node announces, or "" if it leads no shard or is not up.
func urlOf(m *view.Map, node string) string {
	for _, n := range m.Nodes {
		if n.ID == node {
			return n.URL
		}
	}
	return ""
}

// layout maps each slot to its shard. It does not change once it is in use.
type layout struct {
	version   string // of the map that it was read from
	namespace string // of the client's calls
	shards    [contract.SlotCount]*shard
}

func (l *layout) shardOf(id string) *shard { return l.shards[contract.SlotOf(l.namespace, id)] }

// newLayout returns the map's layout, or nil if the map lacks slots. Known shards keep their identity.
func newLayout(m *view.Map, known map[uint32]*shard) *layout {
	l := &layout{version: m.Version, namespace: m.Namespace}
	for _, v := range m.Shards {
		s := known[v.ID]
		if s == nil {
			s = new(shard)
			known[v.ID] = s
		}
		for _, r := range v.Slots {
			for i := r.First; i < r.End && i < contract.SlotCount; i++ {
				l.shards[i] = s
			}
		}
	}
	for _, s := range l.shards {
		if s == nil {
			return nil
		}
	}
	return l
}
