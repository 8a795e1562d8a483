package placement

import (
	"math"
	"slices"
)

// exchange improves an assignment of shards to nodes by cycles of moves. A move takes a shard from one node to another.
// The price of an assignment is the sum of these parts:
//
//   - for each node, the prices of its shards by number: each further shard is dearer than the one before
//   - for each shard, the prices of the nodes that it is on
//
// A cycle leads from node to node. It may pass the hub once, which stands for the numbers: the arc from the hub to a
// node takes one off the node's number, the arc to the hub adds one.
type exchange struct {
	zone    []int // of each node
	spreads []*spread
	number  func(node, nth int) int64 // price of the node's nth shard, counted from 0
	count   []int
	arcs    [][]arc // by the numbers of the nodes that they leave and reach; the hub's number is len(zone)
}

// spread is the nodes that one shard is on, and those that it may be on.
type spread struct {
	nodes  []int
	prices []int64   // of each node; never: the shard may not be there
	zones  []between // bounds of the number of nodes in each zone; nil: no bounds
	filled []int     // number of nodes in each zone
}

// between is the range of an allowed number.
type between struct{ least, most int }

// arc is the cheapest move between two nodes, or an arc of the hub.
type arc struct {
	from, to int
	price    int64
	spread   *spread // nil: an arc of the hub
}

const never = math.MaxInt64 / 4

// improve makes the assignment a cheapest one. An assignment is cheapest if it has no cycle of a negative price (Klein,
// "A primal method for minimal cost flows", Management Science 14, 1967). Prices are whole numbers, so the search ends.
func (x *exchange) improve() {
	x.count = make([]int, len(x.zone))
	for _, s := range x.spreads {
		for _, n := range s.nodes {
			x.count[n]++
		}
	}
	for cycle := x.negativeCycle(); cycle != nil; cycle = x.negativeCycle() {
		for _, a := range x.untangle(cycle) {
			x.apply(a)
		}
	}
}

func (x *exchange) apply(a arc) {
	if a.spread == nil {
		return
	}
	a.spread.nodes[slices.Index(a.spread.nodes, a.from)] = a.to
	if a.spread.zones != nil {
		a.spread.filled[x.zone[a.from]]--
		a.spread.filled[x.zone[a.to]]++
	}
	x.count[a.from]--
	x.count[a.to]++
}

// weigh finds the cheapest move between any two nodes.
func (x *exchange) weigh() {
	hub := len(x.zone)
	x.arcs = make([][]arc, hub+1)
	for from := range x.arcs {
		x.arcs[from] = make([]arc, hub+1)
		for to := range x.arcs[from] {
			x.arcs[from][to] = arc{from: from, to: to, price: never}
		}
	}
	for n, count := range x.count {
		x.arcs[n][hub].price = x.number(n, count)
		if count > 0 {
			x.arcs[hub][n].price = -x.number(n, count-1)
		}
	}
	for _, s := range x.spreads {
		x.weighMoves(s)
	}
}

func (x *exchange) weighMoves(s *spread) {
	for to, price := range s.prices {
		if price == never || slices.Contains(s.nodes, to) {
			continue
		}
		for _, from := range s.nodes {
			if a := x.move(s, from, to); a.price < x.arcs[from][to].price && x.keepsBounds(a) {
				x.arcs[from][to] = a
			}
		}
	}
}

func (x *exchange) move(s *spread, from, to int) arc {
	return arc{from, to, s.prices[to] - s.prices[from], s}
}

func (x *exchange) keepsBounds(a arc) bool {
	if !x.crosses(a) {
		return true
	}
	s, from, to := a.spread, x.zone[a.from], x.zone[a.to]
	return s.filled[from] > s.zones[from].least && s.filled[to] < s.zones[to].most
}

// crosses reports whether the move changes the numbers of a spread that has bounds.
func (x *exchange) crosses(a arc) bool {
	return a.spread != nil && a.spread.zones != nil && x.zone[a.from] != x.zone[a.to]
}

// negativeCycle returns a cycle of a negative price, or nil (Bellman and Ford).
func (x *exchange) negativeCycle() []arc {
	x.weigh()
	distance, last := make([]int64, len(x.arcs)), make([]*arc, len(x.arcs))
	for x.relax(distance, last) {
		if cycle := findCycle(last); cycle != nil {
			return cycle
		}
	}
	return nil
}

// relax lengthens the cheapest known paths by one arc, and reports whether it found a cheaper path to any node.
func (x *exchange) relax(distance []int64, last []*arc) bool {
	found := false
	for from := range x.arcs {
		for to := range x.arcs[from] {
			a := &x.arcs[from][to]
			if d := distance[from] + a.price; a.price < never && d < distance[to] {
				distance[to], last[to], found = d, a, true
			}
		}
	}
	return found
}

// findCycle returns a cycle of last arcs, which is negative, or nil.
func findCycle(last []*arc) []arc {
	walk := make([]int, len(last)) // the walk that passed a node first; 0: none
	for start := range last {
		n := start
		for last[n] != nil && walk[n] == 0 {
			walk[n] = start + 1
			n = last[n].from
		}
		if last[n] != nil && walk[n] == start+1 {
			return cycleTo(n, last)
		}
	}
	return nil
}

func cycleTo(node int, last []*arc) []arc {
	cycle := []arc{*last[node]}
	for n := last[node].from; n != node; n = last[n].from {
		cycle = append(cycle, *last[n])
	}
	slices.Reverse(cycle)
	return cycle
}

// untangle returns a negative cycle in which no shard crosses zones twice: each move alone keeps the bounds of the
// zones, but two of one shard might break them together. If a shard crosses from a to b and from c to d, it may cross
// from a to d and from c to b instead. This makes two cycles of the same price in all, so one of them is negative.
func (x *exchange) untangle(cycle []arc) []arc {
	for i, first := range cycle {
		for j := i + 1; j < len(cycle); j++ {
			second := cycle[j]
			if first.spread != second.spread || !x.crosses(first) || !x.crosses(second) {
				continue
			}
			inner := append(slices.Clone(cycle[i+1:j]), x.move(first.spread, second.from, first.to))
			outer := slices.Concat(cycle[:i], []arc{x.move(first.spread, first.from, second.to)}, cycle[j+1:])
			if total(inner) < 0 {
				return x.untangle(inner)
			}
			return x.untangle(outer)
		}
	}
	return cycle
}

func total(cycle []arc) int64 {
	sum := int64(0)
	for _, a := range cycle {
		sum += a.price
	}
	return sum
}
