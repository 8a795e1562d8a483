package control

import (
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// applyPlace gives replicas to shards that have none.
func applyPlace(s *clusterpb.ControlState, place *clusterpb.Place) error {
	s.Shards = slices.Clone(s.Shards)
	for _, p := range place.Shards {
		shard := Shard(s, p.Id)
		if shard == nil || !isPlacement(p.Replicas) || !slices.Contains(p.Replicas, p.Preferred) {
			return fmt.Errorf("%v is no placement", p)
		}
		if len(shard.Replicas) == 0 {
			placed := proto.CloneOf(shard)
			placed.Replicas, placed.Preferred = p.Replicas, p.Preferred
			s.Shards[p.Id-1] = placed
		}
	}
	return nil
}

// isPlacement reports whether the node ids are distinct and sorted, and at least one.
func isPlacement(nodes []string) bool {
	return len(nodes) > 0 && slices.IsSorted(nodes) && len(slices.Compact(slices.Clone(nodes))) == len(nodes)
}

// applyRetarget sets where the replicas of shards should be. The nodes must be registered. A shard that is where it
// should be loses its target.
func applyRetarget(s *clusterpb.ControlState, change *clusterpb.Retarget) error {
	s.Shards = slices.Clone(s.Shards)
	for _, p := range change.Shards {
		shard := Shard(s, p.Id)
		settled := len(p.Target) == 0
		if shard == nil || !settled && (!isPlacement(p.Target) || !slices.Contains(p.Target, p.Preferred)) {
			return fmt.Errorf("%v is no target", p)
		}
		if err := areRegistered(s, p.Target); err != nil {
			return err
		}
		aimed := proto.CloneOf(shard)
		if aimed.Target = p.Target; !settled {
			aimed.Preferred = p.Preferred
		} else {
			aimed.Mending, aimed.MendingSince = "", 0
		}
		s.Shards[p.Id-1] = aimed
	}
	return nil
}

func areRegistered(s *clusterpb.ControlState, nodes []string) error {
	for _, id := range nodes {
		if Node(s, id) == nil {
			return fmt.Errorf("node %s is not registered", id)
		}
	}
	return nil
}

// applyAssign replaces the nodes that hold a replica of a shard. A node that is new among them joins at the shard's new
// revision.
func applyAssign(s *clusterpb.ControlState, change *clusterpb.Assign) error {
	shard := Shard(s, change.Shard)
	switch {
	case shard == nil || !isPlacement(change.Replicas):
		return fmt.Errorf("%v is no placement", change)
	case shard.Revision != change.Revision:
		return fmt.Errorf("shard %d is at revision %d, not %d", shard.Id, shard.Revision, change.Revision)
	}
	if err := areRegistered(s, change.Replicas); err != nil {
		return err
	}
	assigned := proto.CloneOf(shard)
	assigned.Revision++
	assigned.Joined = joined(shard, change.Replicas, assigned.Revision)
	assigned.Replicas = change.Replicas
	s.Shards = slices.Clone(s.Shards)
	s.Shards[shard.Id-1] = assigned
	return nil
}

// applyMend begins to replace a faulty replica. The shard moves to the nodes that it is on, or on its way to, so that
// the steps of a move bring the replica back.
func applyMend(s *clusterpb.ControlState, change *clusterpb.Mend) error {
	shard := Shard(s, change.Shard)
	switch {
	case shard == nil || !slices.Contains(shard.Replicas, change.Node):
		return fmt.Errorf("%v is about no replica", change)
	case shard.Revision != change.Revision:
		return fmt.Errorf("shard %d is at revision %d, not %d", shard.Id, shard.Revision, change.Revision)
	case len(shard.Replicas) < 3:
		return fmt.Errorf("shard %d has %d replicas: too few remain without one", shard.Id, len(shard.Replicas))
	}
	if other := mending(s); other != nil {
		return fmt.Errorf("the replica of shard %d on node %s is being mended", other.Id, other.Mending)
	}
	mended := proto.CloneOf(shard)
	mended.Mending, mended.MendingSince = change.Node, shard.Revision
	if len(mended.Target) == 0 {
		mended.Target = mended.Replicas
	}
	s.Shards = slices.Clone(s.Shards)
	s.Shards[shard.Id-1] = mended
	return nil
}

// mending returns the shard with a replica that is being mended, or nil.
func mending(s *clusterpb.ControlState) *clusterpb.Shard {
	at := slices.IndexFunc(s.Shards, func(shard *clusterpb.Shard) bool { return shard.Mending != "" })
	if at < 0 {
		return nil
	}
	return s.Shards[at]
}

// joined returns the revisions at which the nodes of the next replicas joined.
func joined(before *clusterpb.Shard, next []string, revision uint64) map[string]uint64 {
	at := maps.Clone(before.Joined)
	if at == nil {
		at = make(map[string]uint64)
	}
	maps.DeleteFunc(at, func(node string, _ uint64) bool { return !slices.Contains(next, node) })
	for _, node := range next {
		if !slices.Contains(before.Replicas, node) {
			at[node] = revision
		}
	}
	return at
}

// Shard returns a shard of the state, or nil if there is none.
func Shard(s *clusterpb.ControlState, id uint32) *clusterpb.Shard {
	if id == 0 || int(id) > len(s.Shards) {
		return nil
	}
	return s.Shards[id-1]
}

// Placement is the placement of the shards, as the searches for their leaders need it.
type Placement struct {
	Control interface {
		State() *clusterpb.ControlState
	}
	Nodes interface{ Alive(node string) bool }
}

// Placed returns a shard of the present state, or nil if there is none.
func (p Placement) Placed(shard uint32) *clusterpb.Shard { return Shard(p.Control.State(), shard) }

// Alive reports whether a node seems alive.
func (p Placement) Alive(node string) bool { return p.Nodes.Alive(node) }
