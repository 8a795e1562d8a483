package reshape

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/internal/assert"
)

// cluster is a state whose shards are on the first nodes of the alphabet, and the sight of every node.
type cluster struct {
	state *clusterpb.ControlState
	seen  map[string]Sight
}

var limits = Limits{Calm: 10 * time.Second, ReplaceAfter: 10 * time.Minute}

func newCluster(nodes, shards, replicas, factor int) *cluster {
	c := &cluster{state: &clusterpb.ControlState{Replication: uint32(factor)}, seen: make(map[string]Sight)}
	ids := strings.Split("abcdefgh"[:nodes], "")
	for _, id := range ids {
		c.state.Nodes = append(c.state.Nodes, &clusterpb.Node{Id: id})
		c.seen[id] = Sight{Up: true, For: time.Hour}
	}
	c.state.Orders = make(map[string]clusterpb.NodeOrder)
	for i := range shards {
		c.state.Shards = append(c.state.Shards, &clusterpb.Shard{
			Id: uint32(i) + 1, Replicas: ids[:replicas], Preferred: ids[i%replicas],
		})
	}
	return c
}

func (c *cluster) nodes() []placement.Node {
	return Nodes(c.state, func(id string) Sight { return c.seen[id] }, limits)
}

// aim sets the targets, and returns the reason why the cluster has fewer replicas than it should.
func (c *cluster) aim(t *testing.T) string {
	t.Helper()
	change, waits, err := Targets(c.state, c.nodes())
	assert.NoError(t, err)
	for _, s := range change.GetShards() {
		now := c.state.Shards[s.Id-1]
		now.Target, now.Preferred = s.Target, s.Preferred
	}
	return waits
}

// arrive moves all shards to their targets.
func (c *cluster) arrive() {
	for _, s := range c.state.Shards {
		if len(s.Target) > 0 {
			s.Replicas, s.Target = s.Target, nil
		}
	}
}

// held returns the number of replicas that each node has, or will have.
func (c *cluster) held() string {
	count := make(map[string]int)
	for _, s := range Placement(c.state) {
		for _, id := range s.Nodes {
			count[id]++
		}
	}
	return fmt.Sprint(count)
}

func (c *cluster) mustHold(t *testing.T, want string) {
	t.Helper()
	if got := c.held(); got != "map["+want+"]" {
		t.Errorf("replicas %s, want %s", got, want)
	}
}

func TestShapeFollowsTheNodes(t *testing.T) {
	away := func(d time.Duration) Sight { return Sight{For: d} }
	for name, test := range map[string]struct {
		nodes, replicas, factor int
		edit                    func(c *cluster)
		want, waits             string
	}{
		"as it should be":                    {3, 3, 3, func(*cluster) {}, "a:12 b:12 c:12", ""},
		"one of one":                         {1, 1, 3, func(*cluster) {}, "a:12", "1 of 3"},
		"a second node":                      {2, 1, 3, func(*cluster) {}, "a:12", "1 of 3"},
		"a second node for one replica each": {2, 1, 1, func(*cluster) {}, "a:6 b:6", ""},
		"a second node in place of the first": {2, 1, 3, func(c *cluster) {
			c.state.Orders["a"] = clusterpb.NodeOrder_NODE_ORDER_DRAIN
		}, "b:12", "1 of 3"},
		"a third node":                    {3, 1, 3, func(*cluster) {}, "a:12 b:12 c:12", ""},
		"a fourth node":                   {4, 3, 3, func(*cluster) {}, "a:9 b:9 c:9 d:9", ""},
		"a fourth node for five replicas": {4, 3, 5, func(*cluster) {}, "a:9 b:9 c:9 d:9", "3 of 5"},
		"a node just up": {4, 3, 3, func(c *cluster) { c.seen["d"] = Sight{Up: true, For: time.Second} },
			"a:12 b:12 c:12", ""},
		"a node away for a while": {4, 3, 3, func(c *cluster) { c.seen["a"] = away(9 * time.Minute) }, "a:9 b:9 c:9 d:9", ""},
		"a node gone":             {4, 3, 3, func(c *cluster) { c.seen["a"] = away(10 * time.Minute) }, "b:12 c:12 d:12", ""},
		"a node gone that no other replaces": {3, 3, 3, func(c *cluster) { c.seen["a"] = away(time.Hour) },
			"a:12 b:12 c:12", ""},
		"a node that rests": {4, 3, 3, func(c *cluster) { c.state.Orders["a"] = clusterpb.NodeOrder_NODE_ORDER_REST },
			"a:9 b:9 c:9 d:9", ""},
		"a resting node that is gone": {4, 3, 3, func(c *cluster) {
			c.state.Orders["a"], c.seen["a"] = clusterpb.NodeOrder_NODE_ORDER_REST, away(time.Hour)
		}, "b:12 c:12 d:12", ""},
		"a node drained": {4, 3, 3, func(c *cluster) { c.state.Orders["b"] = clusterpb.NodeOrder_NODE_ORDER_DRAIN },
			"a:12 c:12 d:12", ""},
		"a node drained that no other replaces": {5, 5, 5, func(c *cluster) {
			c.state.Orders["b"] = clusterpb.NodeOrder_NODE_ORDER_REMOVE
		}, "a:12 b:12 c:12 d:12 e:12", ""},
		"two nodes gone of four": {4, 3, 3, func(c *cluster) { c.seen["a"], c.seen["b"] = away(time.Hour), away(time.Hour) },
			"a:12 c:12 d:12", ""},
		"fewer replicas": {5, 5, 3, func(*cluster) {}, "a:7 b:7 c:8 d:7 e:7", ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(test.nodes, 12, test.replicas, test.factor)
			test.edit(c)
			waits := c.aim(t)
			if !strings.Contains(waits, test.waits) || (waits == "") != (test.waits == "") {
				t.Errorf("waits because %q, want %q", waits, test.waits)
			}
			c.mustHold(t, test.want)
			c.arrive()
			c.aim(t)
			c.mustHold(t, test.want)
		})
	}
}

// TestTargetsStay checks that a shard on its way keeps its target when another node comes or goes for a while.
func TestTargetsStay(t *testing.T) {
	c := newCluster(5, 12, 3, 3)
	c.aim(t)
	before := c.held()
	c.seen["d"] = Sight{For: time.Minute}
	c.aim(t)
	if after := c.held(); after != before {
		t.Errorf("on the way to %s, and then to %s", before, after)
	}
	c.seen["d"] = Sight{For: time.Hour}
	c.aim(t)
	c.mustHold(t, "a:9 b:9 c:9 e:9")
}

// TestStrangersAreAwaited checks that nothing moves while a node with replicas has not registered.
func TestStrangersAreAwaited(t *testing.T) {
	c := newCluster(4, 12, 3, 3)
	c.state.Nodes = c.state.Nodes[1:]
	assert.Contains(t, c.aim(t), "node a ", "waits because")
	c.mustHold(t, "a:12 b:12 c:12")
	if voters, err := Voters(c.nodes(), []string{"a", "b", "c"}); err != nil || !slices.Equal(voters, []string{"a", "b", "c"}) {
		t.Errorf("voters %v, %v", voters, err)
	}
}
