package faults

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/chaos/netlab"
	"github.com/belfryhq/belfry/chaos/stand"
	"github.com/belfryhq/belfry/internal/wait"
)

// ErrFewNodes means that a fault needs a larger cluster.
var ErrFewNodes = errors.New("more nodes")

func needsNetwork(nodes int) func(*stand.Stand) error {
	return func(s *stand.Stand) error {
		if s.Network == nil {
			return errors.New("a stand whose nodes are on a network of their own, which needs root: see netlab.Supported")
		}
		if n := len(s.Names()); n < nodes {
			return fmt.Errorf("%w: %d at least, not %d", ErrFewNodes, nodes, n)
		}
		return nil
	}
}

func (s *striking) scene() scene {
	sc := scene{rand: s.Rand, names: s.Stand.Names()}
	if leader := leader(s); len(leader) > 0 {
		sc.leader = leader[0]
	}
	return sc
}

// damaging returns the strike of a kind that damages the network for a while.
func damaging(choose func(scene) damage) func(*striking, []string) error {
	return func(s *striking, _ []string) error {
		d, hold := choose(s.scene()), s.stretched()
		spared := func(f *history.Fault) { f.Deaf, f.Spared = d.deafens(), true }
		fault := s.begin(d.nodes, spared, "%s, for %v", d.detail, hold)
		lift, err := d.do(s.Stand.Network)
		s.hold(fault, hold)
		return s.mended(fault, errors.Join(err, lift()))
	}
}

// minFlap and maxFlap bound the time that a flapping link is cut, and the time that it is whole between two cuts.
const minFlap, maxFlap = 20 * time.Millisecond, 900 * time.Millisecond

// flap damages the network and lifts the damage, again and again.
func (s *striking) flap([]string) error {
	d := s.scene().flap()
	type span struct{ cut, whole time.Duration }
	draw := func() time.Duration { return minFlap + s.upTo(maxFlap-minFlap) }
	var spans []span
	for all := time.Duration(0); all < s.Hold; {
		next := span{draw(), draw()}
		spans, all = append(spans, next), all+next.cut+next.whole
	}
	spared := func(f *history.Fault) { f.Spared = true }
	fault := s.begin(d.nodes, spared, "%s, %d times in %v", d.detail, len(spans), s.Hold)
	var failed error
	for _, span := range spans {
		lift, err := d.do(s.Stand.Network)
		wait.For(s.ctx, span.cut)
		failed = errors.Join(failed, err, lift())
		if !wait.For(s.ctx, span.whole) {
			break
		}
	}
	s.Recorder.Mending(fault)
	return s.mended(fault, failed)
}

// damage is the effect of one fault on the network.
type damage struct {
	nodes   []string // nodes that it strikes
	detail  string
	links   []link
	outside []cut
}

// link is one direction between two nodes, with its quality.
type link struct {
	from, to string
	quality  netlab.Quality
}

// cut separates a node from its callers and receivers.
type cut struct {
	node     string
	to, from bool
}

// deafens reports whether the nodes do not hear their receivers' answers and yet go on leading, so that they repeat
// attempts. A node that the other nodes do not hear either loses its leaderships, and the new term explains a repeated
// attempt.
func (d damage) deafens() bool { return len(d.outside) > 0 && len(d.links) == 0 }

// do damages the network until lift is called.
func (d damage) do(n *netlab.Network) (lift func() error, err error) {
	var lifts []func() error
	for _, l := range d.links {
		mend := n.Impair(l.from, l.to, l.quality)
		lifts = append(lifts, func() error { mend(); return nil })
	}
	var failed []error
	for _, c := range d.outside {
		mend, err := n.CutOutside(c.node, c.to, c.from)
		lifts, failed = append(lifts, mend), append(failed, err)
	}
	return func() error {
		var failed []error
		for _, mend := range lifts {
			failed = append(failed, mend())
		}
		return errors.Join(failed...)
	}, errors.Join(failed...)
}

// scene is the cluster that damage is chosen for.
type scene struct {
	rand   *rand.Rand
	names  []string // of all nodes
	leader string   // leader of some shard; empty: none is known
}

// node returns mostly the leader, and sometimes any node.
func (s scene) node() string {
	node := pick(s.rand, s.names)
	if s.rand.IntN(4) > 0 && s.leader != "" {
		return s.leader
	}
	return node
}

func (s scene) others(than ...string) []string {
	return slices.DeleteFunc(slices.Clone(s.names), func(n string) bool { return slices.Contains(than, n) })
}

func (s scene) shuffled() []string {
	names := slices.Clone(s.names)
	s.rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	return names
}

// between returns a random number from low to high. Each order of magnitude is equally likely.
func (s scene) between(low, high float64) float64 { return low * math.Pow(high/low, s.rand.Float64()) }

func (s scene) time(low, high time.Duration) time.Duration {
	return time.Duration(s.between(float64(low), float64(high))).Round(time.Millisecond)
}

// oneWay returns links from each node of from to each node of to.
func oneWay(from, to []string, q netlab.Quality) (links []link) {
	for _, f := range from {
		for _, t := range to {
			if f != t {
				links = append(links, link{f, t, q})
			}
		}
	}
	return links
}

// cutLinks cuts groups off from each other.
func cutLinks(groups ...[]string) (links []link) {
	for i, a := range groups {
		for _, b := range groups[i+1:] {
			links = append(links, oneWay(a, b, netlab.Quality{Cut: true})...)
			links = append(links, oneWay(b, a, netlab.Quality{Cut: true})...)
		}
	}
	return links
}

func groupText(groups ...[]string) string {
	words := make([]string, len(groups))
	for i, g := range groups {
		words[i] = strings.Join(g, " ")
	}
	return strings.Join(words, " | ")
}

func (s scene) partition() damage { return s.partitionOf(s.node()) }

func (s scene) partitionOf(node string) damage {
	rest := s.others(node)
	return damage{nodes: []string{node}, detail: groupText([]string{node}, rest), links: cutLinks([]string{node}, rest)}
}

// split leaves a majority together. The leader may be on either side.
func (s scene) split() damage {
	names := s.shuffled()
	minority, majority := names[:(len(names)-1)/2], names[(len(names)-1)/2:]
	return damage{nodes: minority, detail: groupText(minority, majority), links: cutLinks(minority, majority)}
}

// shatter leaves no majority together.
func (s scene) shatter() damage {
	names := s.shuffled()
	var groups [][]string
	most := max((len(names)-1)/2, 1)
	for len(names) > 0 {
		n := min(1+s.rand.IntN(most), len(names))
		groups, names = append(groups, names[:n]), names[n:]
	}
	return damage{nodes: s.names, detail: groupText(groups...), links: cutLinks(groups...)}
}

func (s scene) mute() damage {
	node := s.node()
	return damage{
		nodes: []string{node}, detail: node + " hears the others, and is not heard",
		links: oneWay([]string{node}, s.others(node), netlab.Quality{Cut: true}),
	}
}

func (s scene) deaf() damage {
	node := s.node()
	return damage{
		nodes: []string{node}, detail: node + " is heard by the others, and hears nothing",
		links: oneWay(s.others(node), []string{node}, netlab.Quality{Cut: true}),
	}
}

// pair returns two nodes. The first is mostly a leader.
func (s scene) pair() (a, b string) {
	a = s.node()
	return a, pick(s.rand, s.others(a))
}

// bridge cuts two nodes off from each other. Both still see all others.
func (s scene) bridge() damage {
	a, b := s.pair()
	return damage{nodes: []string{a, b}, detail: a + " and " + b + " apart, both see the others",
		links: cutLinks([]string{a}, []string{b})}
}

// uncalled cuts a node off from its callers and receivers, in one direction or both.
func (s scene) uncalled() damage {
	c := cut{s.node(), true, true}
	how := "both ways"
	switch s.rand.IntN(4) {
	case 0:
		c.from, how = false, "it hears nothing"
	case 1:
		c.to, how = false, "it is not heard"
	}
	return damage{nodes: []string{c.node}, outside: []cut{c}, detail: fmt.Sprintf("%s, %s", c.node, how)}
}

// isolate cuts a node off from all nodes, callers and receivers.
func (s scene) isolate() damage {
	d := s.partition()
	d.outside = []cut{{d.nodes[0], true, true}}
	d.detail += ", and no callers"
	return d
}

// worsen worsens the links between all nodes, or those between one node and all others.
func (s scene) worsen(q netlab.Quality) damage {
	if s.rand.IntN(2) == 0 {
		return damage{nodes: s.names, detail: q.String() + ", between all", links: oneWay(s.names, s.names, q)}
	}
	node := s.node()
	one, rest := []string{node}, s.others(node)
	return damage{nodes: one, detail: fmt.Sprintf("%v, around %s", q, node),
		links: slices.Concat(oneWay(one, rest, q), oneWay(rest, one, q))}
}

func (s scene) lose() damage { return s.worsen(netlab.Quality{Loss: s.between(0.005, 0.4)}) }

func (s scene) delay() damage {
	return s.worsen(netlab.Quality{
		Delay: s.time(time.Millisecond, 250*time.Millisecond), Jitter: s.time(time.Millisecond, 150*time.Millisecond),
	})
}

func (s scene) jumble() damage {
	return s.worsen(netlab.Quality{
		Jitter: s.time(time.Millisecond, 10*time.Millisecond), Duplicate: s.between(0.01, 0.5), Reorder: s.between(0.01, 0.5),
	})
}

// flap returns the damage that comes and goes: a node's partition, or a cut between two nodes.
func (s scene) flap() damage {
	if s.rand.IntN(2) == 0 {
		return s.partition()
	}
	return s.bridge()
}
