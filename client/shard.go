package client

import "sync/atomic"

// shard is one of the cluster's shards, as long as the client lives.
type shard struct {
	leader atomic.Pointer[endpoint] // believed, and usable; nil: none
	aside  atomic.Pointer[lane]     // its own, while it is in trouble; nil: its lines travel with those of others
}

// distrust has the shard's lines travel alone from now on: they would keep back those behind them.
func (s *shard) distrust(c *Client) {
	if s.aside.Load() == nil {
		s.aside.CompareAndSwap(nil, &lane{c: c, of: s})
	}
}

// trust ends that, if nobody has begun it anew. What waits in the lane goes out from there.
func (s *shard) trust(aside *lane) { s.aside.CompareAndSwap(aside, nil) }

// layout says which shard a slot belongs to. It does not change once it is in use.
type layout struct {
	version string // of the map that it was learned with
	shards  [slotCount]*shard
}

// newLayout tells what the view says about slots; nil if that is not all. Shards that are known already keep their
// identity.
func newLayout(view *Cluster, known map[uint32]*shard) *layout {
	l := &layout{version: view.Map}
	for _, v := range view.Shards {
		s := known[v.ID]
		if s == nil {
			s = new(shard)
			known[v.ID] = s
		}
		for _, r := range v.Slots {
			for slot := r.First; slot < r.End && slot < slotCount; slot++ {
				l.shards[slot] = s
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
