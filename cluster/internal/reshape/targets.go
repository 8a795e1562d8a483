package reshape

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/placement"
)

// DefaultReplication is the number of replicas of each shard, unless an operator sets another.
const DefaultReplication = 3

// Limits are the times after which a node counts as something else.
type Limits struct {
	Calm         time.Duration // a node that has been up for so long takes replicas
	ReplaceAfter time.Duration // a node that has been away for so long loses its replicas
}

// Sight tells whether a node is up, and for how long it has been up or away.
type Sight struct {
	Up  bool
	For time.Duration
}

// Nodes returns the registered nodes as the placement sees them.
func Nodes(state *clusterpb.ControlState, sight func(node string) Sight, limits Limits) []placement.Node {
	var nodes []placement.Node
	for _, n := range state.Nodes {
		nodes = append(nodes, placement.Node{
			ID: n.Id, Zone: n.Zone, Weight: cmp.Or(int(n.Weight), placement.DefaultWeight),
			State: stateOf(state.Orders[n.Id], sight(n.Id), limits),
		})
	}
	return keepEnough(state, nodes)
}

// keepEnough lets nodes that should give their replicas away keep them, as many nodes as a shard needs for the number
// of replicas that it has: first those that are up.
func keepEnough(state *clusterpb.ControlState, nodes []placement.Node) []placement.Node {
	lacking := min(Wanted(state), most(state)) - Takers(nodes)
	for _, kept := range []placement.State{placement.Draining, placement.Lost} {
		for i := range nodes {
			if lacking > 0 && nodes[i].State == kept && Holds(state, nodes[i].ID) {
				nodes[i].State = placement.Absent
				lacking--
			}
		}
	}
	return nodes
}

// isLeft reports whether a node with replicas should give them away.
func isLeft(state *clusterpb.ControlState, nodes []placement.Node) bool {
	return slices.ContainsFunc(nodes, func(n placement.Node) bool {
		return (n.State == placement.Lost || n.State == placement.Draining) && Holds(state, n.ID)
	})
}

// Holds reports whether a node has a replica, or is about to get one.
func Holds(state *clusterpb.ControlState, node string) bool {
	return slices.ContainsFunc(state.Shards, func(s *clusterpb.Shard) bool { return slices.Contains(present(s), node) })
}

func stateOf(order clusterpb.NodeOrder, seen Sight, limits Limits) placement.State {
	switch {
	case order == clusterpb.NodeOrder_NODE_ORDER_REPLACE:
		return placement.Lost
	case order == clusterpb.NodeOrder_NODE_ORDER_DRAIN || order == clusterpb.NodeOrder_NODE_ORDER_REMOVE:
		return placement.Draining
	case !seen.Up && seen.For >= limits.ReplaceAfter:
		return placement.Lost
	case order == clusterpb.NodeOrder_NODE_ORDER_REST:
		return placement.Absent
	case seen.Up && seen.For >= limits.Calm:
		return placement.Active
	default:
		return placement.Absent
	}
}

// Wanted returns the replication factor that the operators want.
func Wanted(state *clusterpb.ControlState) int {
	return cmp.Or(int(state.Replication), DefaultReplication)
}

// Factor returns the number of replicas that each shard should have now.
func Factor(state *clusterpb.ControlState, nodes []placement.Node) int {
	wanted := Wanted(state)
	return max(odd(min(wanted, Takers(nodes))), min(wanted, most(state)), 1)
}

// Takers counts the nodes that hold replicas and stay.
func Takers(nodes []placement.Node) int {
	count := 0
	for _, n := range nodes {
		if n.State == placement.Active || n.State == placement.Absent {
			count++
		}
	}
	return count
}

// odd returns the largest odd number up to n, and 0 if there is none.
func odd(n int) int {
	if n > 0 && n%2 == 0 {
		return n - 1
	}
	return n
}

// most returns the largest number of replicas that a shard has, or is on its way to.
func most(state *clusterpb.ControlState) int {
	count := 0
	for _, s := range state.Shards {
		count = max(count, len(present(s)))
	}
	return count
}

// present returns the nodes that a shard has, or is on its way to.
func present(s *clusterpb.Shard) []string {
	if len(s.Target) > 0 {
		return s.Target
	}
	return s.Replicas
}

// Placement returns where the replicas of the shards are, or are on their way to.
func Placement(state *clusterpb.ControlState) []placement.Replicas {
	var all []placement.Replicas
	for _, s := range state.Shards {
		all = append(all, placement.Replicas{Nodes: present(s), Preferred: s.Preferred})
	}
	return all
}

// Targets returns the shards whose replicas or preferred leader should be others, or nil. waits is the reason why the
// shards have fewer replicas than they should, or "".
func Targets(
	state *clusterpb.ControlState, nodes []placement.Node,
) (change *clusterpb.Retarget, waits string, err error) {
	factor, wanted := Factor(state, nodes), Wanted(state)
	if factor < wanted {
		waits = fmt.Sprintf("each shard has %d of %d replicas: %d nodes may hold one", factor, wanted, Takers(nodes))
	}
	if factor == 1 && wanted > 1 && most(state) <= 1 && Takers(nodes) > 1 && !isLeft(state, nodes) {
		return nil, waits, nil
	}
	if !slices.ContainsFunc(nodes, func(n placement.Node) bool { return n.State == placement.Active }) {
		return nil, "no node has been up for long enough to take replicas", nil
	}
	now := Placement(state)
	if len(now) == 0 {
		return nil, waits, nil
	}
	for _, s := range now {
		if stranger := firstUnlisted(nodes, s.Nodes); stranger != "" {
			return nil, fmt.Sprintf("node %s has replicas and has not registered yet", stranger), nil
		}
	}
	target, err := placement.Target(nodes, now, factor)
	if err != nil {
		return nil, waits, err
	}
	op := &clusterpb.Retarget{}
	for i, s := range state.Shards {
		if !slices.Equal(target[i].Nodes, present(s)) || target[i].Preferred != s.Preferred {
			op.Shards = append(op.Shards, &clusterpb.Shard{
				Id: s.Id, Target: target[i].Nodes, Preferred: target[i].Preferred,
			})
		}
	}
	if len(op.Shards) == 0 {
		return nil, waits, nil
	}
	return op, waits, nil
}

// Voters returns the nodes that should vote in the control group. It returns the present ones while one of them is not
// registered: the group is being formed.
func Voters(nodes []placement.Node, present []string) ([]string, error) {
	if firstUnlisted(nodes, present) != "" {
		return present, nil
	}
	if !slices.ContainsFunc(nodes, func(n placement.Node) bool { return n.State == placement.Active }) {
		return present, nil
	}
	return placement.Voters(nodes, present)
}

// firstUnlisted returns the first id of no listed node, or "".
func firstUnlisted(nodes []placement.Node, ids []string) string {
	for _, id := range ids {
		if !slices.ContainsFunc(nodes, func(n placement.Node) bool { return n.ID == id }) {
			return id
		}
	}
	return ""
}
