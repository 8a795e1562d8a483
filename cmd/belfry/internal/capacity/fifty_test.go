// The tests of this file run in one goroutine, and take minutes under the race detector.

//go:build !race

package capacity

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/cluster/placement"
	"github.com/belfryhq/belfry/shard"
)

func nodesOf(n int) []placement.Node {
	nodes := make([]placement.Node, n)
	for i := range nodes {
		nodes[i] = placement.Node{ID: fmt.Sprintf("node-%02d", i), Weight: placement.DefaultWeight}
	}
	return nodes
}

// targetOf returns the placement that follows the present one when the number of nodes changes.
func targetOf(t *testing.T, present []placement.Replicas, nodes int) []placement.Replicas {
	t.Helper()
	target, err := placement.Target(nodesOf(nodes), present, 3)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// laid describes how evenly a placement loads its nodes.
type laid struct {
	replicas, leads, heirs [2]int  // fewest and most of a node; heirs: nodes that may follow it as leader
	most                   float64 // shards that the busiest node leads after one was lost, each shared evenly by its heirs
	pairs                  int     // pairs of nodes whose loss takes a majority of some shard
}

func layOut(t *testing.T, shards, nodes int) ([]placement.Replicas, laid) {
	t.Helper()
	placed := targetOf(t, make([]placement.Replicas, shards), nodes)
	replicas, leads := make(map[string]int), make(map[string]int)
	heirs, pairs := make(map[string]map[string]float64), make(map[string]bool)
	for _, r := range placed {
		leads[r.Preferred]++
		for i, a := range r.Nodes {
			replicas[a]++
			for _, b := range r.Nodes[i+1:] {
				pairs[a+b] = true
			}
			if a != r.Preferred {
				if heirs[r.Preferred] == nil {
					heirs[r.Preferred] = make(map[string]float64)
				}
				heirs[r.Preferred][a] += 0.5
			}
		}
	}
	l := laid{pairs: len(pairs)}
	var held, led, shared []int
	for _, node := range nodesOf(nodes) {
		n := node.ID
		held, led, shared = append(held, replicas[n]), append(led, leads[n]), append(shared, len(heirs[n]))
		for heir, more := range heirs[n] {
			l.most = max(l.most, float64(leads[heir])+more)
		}
	}
	ends := func(all []int) [2]int { return [2]int{slices.Min(all), slices.Max(all)} }
	l.replicas, l.leads, l.heirs = ends(held), ends(led), ends(shared)
	return placed, l
}

// moved returns the number of replicas that are on other nodes than before.
func moved(before, after []placement.Replicas) int {
	n := 0
	for i, r := range after {
		for _, node := range r.Nodes {
			if !slices.Contains(before[i].Nodes, node) {
				n++
			}
		}
	}
	return n
}

// TestFiftyNodes prints the table of docs/measurements/fifty-nodes.md: the places of replicas and leaders, and the moves
// when a node joins or leaves.
func TestFiftyNodes(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	fmt.Fprintln(&table, "| nodes | shards | replicas a node | leads | may follow it | leads after a loss | "+
		"fatal pairs | copied if one joins | if one leaves |")
	fmt.Fprintln(&table, "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, c := range []struct{ nodes, shards int }{
		{3, 12}, {5, 20}, {10, 40}, {48, 192}, {50, 200}, {50, 250}, {50, 300}, {50, 600},
	} {
		placed, l := layOut(t, c.shards, c.nodes)
		comes, goes := moved(placed, targetOf(t, placed, c.nodes+1)), moved(placed, targetOf(t, placed, c.nodes-1))
		fmt.Fprintf(&table, "| %d | %d | %s | %s | %s | %.1f | %d of %d | %d | %d |\n", c.nodes, c.shards,
			fromTo(l.replicas), fromTo(l.leads), fromTo(l.heirs), l.most, l.pairs, c.nodes*(c.nodes-1)/2, comes, goes)
		if share := (3*c.shards + c.nodes) / (c.nodes + 1); comes > share {
			t.Errorf("%d shards on %d nodes: one more node moves %d replicas, its share is %d", c.shards, c.nodes, comes, share)
		}
		if goes > l.replicas[1] {
			t.Errorf("%d shards on %d nodes: a node that leaves moves %d replicas", c.shards, c.nodes, goes)
		}
		if l.replicas[1]-l.replicas[0] > 1 || l.leads[1]-l.leads[0] > 1 {
			t.Errorf("%d shards on %d nodes: %+v", c.shards, c.nodes, l)
		}
		if most := float64(l.leads[1]) * 1.75; l.most > most {
			t.Errorf("%d shards on %d nodes: after a loss one leads %.1f, more than %.1f", c.shards, c.nodes, l.most, most)
		}
	}
	t.Log("\n" + table.String())
}

func fromTo(ends [2]int) string {
	if ends[0] == ends[1] {
		return fmt.Sprint(ends[0])
	}
	return fmt.Sprintf("%d–%d", ends[0], ends[1])
}

// TestIdle prints the other table of docs/measurements/fifty-nodes.md: the traffic between nodes without calls.
func TestIdle(t *testing.T) {
	t.Parallel()
	c := Measured()
	var table strings.Builder
	fmt.Fprintln(&table, "| nodes | shards | timing | heartbeats | appends | control group | clocks | hashes | gossip | "+
		"KB/s | of a core |")
	fmt.Fprintln(&table, "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, s := range []struct {
		nodes, shards int
		timing        string
		of            shard.Timing
	}{
		{3, 12, "lan", shard.LAN()}, {5, 20, "lan", shard.LAN()}, {10, 40, "lan", shard.LAN()},
		{50, 200, "lan", shard.LAN()}, {50, 300, "lan", shard.LAN()}, {50, 600, "lan", shard.LAN()},
		{50, 600, "fast", shard.Fast()}, {50, 600, "wan", shard.WAN()},
	} {
		leads := float64(s.shards) / float64(s.nodes)
		i := c.Idle(Cluster{Nodes: s.nodes, Leaders: leads, Replicas: 3 * leads, Copies: 3, Peers: 4, Timing: s.of})
		fmt.Fprintf(&table, "| %d | %d | %s | %.0f | %.0f | %.0f | %.0f | %.0f | %.1f | %.0f | %.1f %% |\n", s.nodes, s.shards,
			s.timing, i.Beats, i.Appends, i.Control, i.Clocks, i.Compares, i.Gossip, i.Bytes/1000, 100*i.CPU)
		if i.CPU > 0.5 {
			t.Errorf("%d nodes with %d shards take %.2f cores each to do nothing", s.nodes, s.shards, i.CPU)
		}
	}
	t.Log("\n" + table.String())
}
