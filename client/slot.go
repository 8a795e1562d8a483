package client

import (
	"sync/atomic"

	"github.com/belfryhq/belfry/internal/contract"
)

// shard is one of the cluster's shards. Its identity lasts as long as the client.
type shard struct {
	leader atomic.Pointer[endpoint] // presumed leader, and usable; nil: none
	aside  atomic.Pointer[lane]     // lane of its own, while the shard is in trouble; nil: lines travel with others
}

// distrust makes the shard's lines travel alone from now on, since they would hold up the lines after them.
func (s *shard) distrust(c *Client) {
	if s.aside.Load() == nil {
		s.aside.CompareAndSwap(nil, &lane{c: c, of: s})
	}
}

// trust ends the shard's travelling alone in the given lane. Lines that wait in that lane still go out from it.
func (s *shard) trust(aside *lane) { s.aside.CompareAndSwap(aside, nil) }

// clusterMap is the answer to GET /v1/map.
type clusterMap struct {
	ClusterID string     `json:"cluster_id"`
	Version   string     `json:"map"`
	Namespace string     `json:"namespace"` // of calls that name none
	Nodes     []mapNode  `json:"nodes"`     // that lead a shard and are up
	Shards    []mapShard `json:"shards"`
}

type mapNode struct {
	ID  string `json:"id"`
	URL string `json:"http_url"`
}

type mapShard struct {
	ID     uint32  `json:"id"`
	Leader string  `json:"leader"` // a node's id; empty: none is known
	Slots  []Slots `json:"slots"`
}

// urlOf returns the URL that a node announces, or "" if it leads no shard or is not up.
func (m *clusterMap) urlOf(node string) string {
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
func newLayout(view *clusterMap, known map[uint32]*shard) *layout {
	l := &layout{version: view.Version, namespace: view.Namespace}
	for _, v := range view.Shards {
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
