package placement

import (
	"fmt"
	"testing"
)

// BenchmarkTarget places 512 shards with five replicas on 30 nodes in three zones: anew, when nothing changes, when a
// node joins or leaves, when a zone is lost, and when the replication factor rises.
func BenchmarkTarget(b *testing.B) {
	nodes, fresh := zoned(30, 3), make([]Replicas, 512)
	present := target(b, world{nodes, fresh, 5})
	lost := zoned(30, 3)
	for i := range lost {
		if lost[i].Zone == "z2" {
			lost[i].State = Lost
		}
	}
	for _, c := range []struct {
		name string
		world
	}{
		{"new", world{nodes, fresh, 5}},
		{"new without zones", world{zoned(30, 0), fresh, 5}},
		{"unchanged", world{nodes, present, 5}},
		{"joins", world{zoned(31, 3), present, 5}},
		{"leaves", world{zoned(29, 3), present, 5}},
		{"zone lost", world{lost, present, 5}},
		{"three to five", world{nodes, target(b, world{nodes, fresh, 3}), 5}},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				target(b, c.world)
			}
		})
	}
}

// zoned returns nodes of equal weight, divided evenly among zones; no zones: each is one of its own.
func zoned(nodes, zones int) []Node {
	all := make([]Node, nodes)
	for i := range all {
		all[i] = Node{ID: fmt.Sprintf("n%03d", i), Weight: DefaultWeight}
		if zones > 0 {
			all[i].Zone = fmt.Sprintf("z%d", i%zones)
		}
	}
	return all
}
