package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/chaos/netlab"
)

func scenes(nodes, n int, do func(name string, s scene)) {
	var names []string
	for i := range nodes {
		names = append(names, fmt.Sprintf("node-%d", i+1))
	}
	for seed := range n {
		s := scene{rand: rand.New(rand.NewPCG(uint64(seed), 0)), names: names}
		if seed%2 == 0 {
			s.leader = names[seed%nodes]
		}
		do(fmt.Sprintf("%d nodes, seed %d", nodes, seed), s)
	}
}

// openLinks returns the directions between nodes that are not cut, as "from>to".
func openLinks(s scene, d damage) (all []string) {
	for _, from := range s.names {
		for _, to := range s.names {
			cut := slices.ContainsFunc(d.links, func(l link) bool { return l.from == from && l.to == to && l.quality.Cut })
			if from != to && !cut {
				all = append(all, from+">"+to)
			}
		}
	}
	return all
}

// largest returns the size of the largest group in which one node sees all others in both directions.
func largest(s scene, d damage) int {
	most := 1
	for _, center := range s.names {
		n := 1
		for _, other := range s.names {
			seen := openLinks(s, d)
			if other != center && slices.Contains(seen, center+">"+other) && slices.Contains(seen, other+">"+center) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// TestWhatIsCut checks how many links each kind of damage cuts among three and five nodes.
func TestWhatIsCut(t *testing.T) {
	tests := map[string]struct {
		choose  func(scene) damage
		cut     func(nodes int) []int // numbers of directions that it may cut
		largest func(nodes int) int   // size of the largest group that is left
	}{
		"partition": {scene.partition, func(n int) []int { return []int{2 * (n - 1)} }, func(n int) int { return n - 1 }},
		"mute":      {scene.mute, func(n int) []int { return []int{n - 1} }, func(n int) int { return n - 1 }},
		"deaf":      {scene.deaf, func(n int) []int { return []int{n - 1} }, func(n int) int { return n - 1 }},
		"bridge":    {scene.bridge, func(int) []int { return []int{2} }, func(n int) int { return n }},
		"isolate":   {scene.isolate, func(n int) []int { return []int{2 * (n - 1)} }, func(n int) int { return n - 1 }},
		"split": {scene.split, func(n int) []int { return []int{(n - 1) / 2 * (n + 1) / 2 * 2} },
			func(n int) int { return (n + 1) / 2 }},
		"uncalled": {scene.uncalled, func(int) []int { return []int{0} }, func(n int) int { return n }},
		"lose":     {scene.lose, func(int) []int { return []int{0} }, func(n int) int { return n }},
		"delay":    {scene.delay, func(int) []int { return []int{0} }, func(n int) int { return n }},
		"jumble":   {scene.jumble, func(int) []int { return []int{0} }, func(n int) int { return n }},
	}
	for name, test := range tests {
		for _, nodes := range []int{3, 5} {
			scenes(nodes, 50, func(at string, s scene) {
				d := test.choose(s)
				cut := nodes*(nodes-1) - len(openLinks(s, d))
				if !slices.Contains(test.cut(nodes), cut) || largest(s, d) != test.largest(nodes) {
					t.Errorf("%s, %s: %d directions cut, a group of %d left: %+v", name, at, cut, largest(s, d), d)
				}
				complain(t, name+", "+at, s, d)
			})
		}
	}
}

// Only damage that keeps a leader from hearing its receivers without deposing it excuses repeated attempts.
func TestWhatDeafens(t *testing.T) {
	scenes(3, 50, func(at string, s scene) {
		if d := s.uncalled(); !d.deafens() {
			t.Errorf("%s: %+v", at, d)
		}
		for name, choose := range map[string]func(scene) damage{
			"isolate": scene.isolate, "partition": scene.partition, "mute": scene.mute, "deaf": scene.deaf,
			"bridge": scene.bridge, "flap": scene.flap, "lose": scene.lose, "delay": scene.delay,
		} {
			if d := choose(s); d.deafens() {
				t.Errorf("%s, %s: %+v", name, at, d)
			}
		}
	})
}

func TestNoMajorityIsLeft(t *testing.T) {
	for _, nodes := range []int{2, 3, 4, 5} {
		scenes(nodes, 50, func(at string, s scene) {
			d := scene.shatter(s)
			if largest(s, d) > nodes/2 {
				t.Errorf("%s: %+v", at, d)
			}
			complain(t, at, s, d)
		})
	}
}

// complain checks the common rules of damage: it strikes existing nodes, and its detail describes it.
func complain(t *testing.T, at string, s scene, d damage) {
	t.Helper()
	if len(d.nodes) == 0 || d.detail == "" || len(d.links)+len(d.outside) == 0 {
		t.Errorf("%s: %+v", at, d)
	}
	for _, n := range d.nodes {
		if !slices.Contains(s.names, n) {
			t.Errorf("%s: %s is struck", at, n)
		}
	}
	for _, l := range d.links {
		struck := slices.Contains(d.nodes, l.from) || slices.Contains(d.nodes, l.to)
		if l.from == l.to || !struck || l.quality == (netlab.Quality{}) {
			t.Errorf("%s: link %+v, with %v struck", at, l, d.nodes)
		}
	}
	for _, c := range d.outside {
		if !slices.Contains(d.nodes, c.node) || !c.to && !c.from {
			t.Errorf("%s: %+v, with %v struck", at, c, d.nodes)
		}
	}
}

// The leader is struck more often than by chance, and other nodes are struck, too.
func TestLeadersArePreferred(t *testing.T) {
	struck := map[bool]int{}
	scenes(5, 1000, func(_ string, s scene) {
		if s.leader != "" {
			struck[s.node() == s.leader]++
		}
	})
	if struck[true] < 350 || struck[false] < 30 {
		t.Error(struck)
	}
}

func TestDetailHasTheFigures(t *testing.T) {
	scenes(3, 20, func(at string, s scene) {
		d := s.lose()
		share := d.links[0].quality.Loss
		if share < 0.005 || share > 0.4 || !strings.Contains(d.detail, fmt.Sprintf("loss %.3g%%", 100*share)) {
			t.Errorf("%s: %v as %q", at, share, d.detail)
		}
	})
}
