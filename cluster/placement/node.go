package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Weights of nodes. A node of weight 20 gets twice as many replicas and leaderships as one of weight 10.
const (
	MinWeight     = 1
	MaxWeight     = 100
	DefaultWeight = 10
)

// MaxZoneBytes is the length of the longest zone.
const MaxZoneBytes = 63

// Node is a node of the cluster, as the placement sees it.
type Node struct {
	ID     string
	Zone   string // nodes of one zone may fail together; empty: the node is a zone of its own
	Weight int    // MinWeight to MaxWeight
	State  State
}

// State tells what a node may hold.
type State int

// The states of a node. A node that is not listed at all holds nothing: its replicas are gone.
const (
	Active   State = iota // takes replicas
	Absent                // keeps its replicas and takes no more: it is away and may soon be back
	Lost                  // gives its replicas away, as far as other nodes can hold them: it is away and may not be back
	Draining              // gives its replicas away, as far as other nodes can hold them
)

// leaves reports whether a node in this state gives its replicas away.
func (s State) leaves() bool { return s == Lost || s == Draining }

func (s State) String() string {
	switch s {
	case Active:
		return "active"
	case Absent:
		return "absent"
	case Lost:
		return "lost"
	case Draining:
		return "draining"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// CheckWeight returns an error unless a node may have the weight.
func CheckWeight(weight int) error {
	if weight < MinWeight || weight > MaxWeight {
		return fmt.Errorf("%d is not within %d to %d", weight, MinWeight, MaxWeight)
	}
	return nil
}

// CheckZone returns an error unless a node may name the zone. A zone has the syntax of a label's value in Kubernetes:
// at most MaxZoneBytes letters, digits, hyphens, underscores and dots, with a letter or digit at both ends. It may be
// empty.
func CheckZone(zone string) error {
	ok := len(zone) <= MaxZoneBytes
	for i := range len(zone) {
		inside := i > 0 && i < len(zone)-1
		ok = ok && (isAlphanumeric(zone[i]) || inside && (zone[i] == '-' || zone[i] == '_' || zone[i] == '.'))
	}
	if !ok {
		return fmt.Errorf("%q is not 1 to %d letters, digits, '-', '_' and '.', with a letter or digit at both ends",
			zone, MaxZoneBytes)
	}
	return nil
}

func isAlphanumeric(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
}

// CheckReplication returns an error unless it is a replication factor. Even ones survive no more failures than the odd
// ones below them.
func CheckReplication(replicas int) error {
	if replicas < 1 || replicas > 5 || replicas%2 == 0 {
		return fmt.Errorf("%d replicas: 1, 3 or 5", replicas)
	}
	return nil
}

// cluster is the nodes sorted by id, and their zones by number.
type cluster struct {
	nodes []Node
	index map[string]int // of a node's id
	zone  []int          // of each node
	zones [][]int        // the nodes of each zone
}

func newCluster(nodes []Node) (*cluster, error) {
	byID := func(a, b Node) int { return cmp.Compare(a.ID, b.ID) }
	c := &cluster{nodes: slices.SortedFunc(slices.Values(nodes), byID), index: make(map[string]int, len(nodes))}
	for i, n := range c.nodes {
		if err := n.check(); err != nil {
			return nil, err
		}
		if _, twice := c.index[n.ID]; twice {
			return nil, fmt.Errorf("node %s is named twice", n.ID)
		}
		c.index[n.ID] = i
	}
	if c.count(Active) == 0 {
		return nil, fmt.Errorf("none of %d nodes is active", len(nodes))
	}
	c.divideIntoZones()
	return c, nil
}

func (c *cluster) divideIntoZones() {
	number := make(map[string]int)
	for i, n := range c.nodes {
		z, known := number[n.Zone]
		if !known || n.Zone == "" {
			z = len(c.zones)
			number[n.Zone] = z
			c.zones = append(c.zones, nil)
		}
		c.zone = append(c.zone, z)
		c.zones[z] = append(c.zones[z], i)
	}
}

func (n Node) check() error {
	if n.ID == "" {
		return errors.New("a node has no id")
	}
	if n.State < Active || n.State > Draining {
		return fmt.Errorf("node %s: state %d is unknown", n.ID, int(n.State))
	}
	if err := CheckWeight(n.Weight); err != nil {
		return fmt.Errorf("node %s: weight %w", n.ID, err)
	}
	return nil
}

func (c *cluster) count(s State) int {
	count := 0
	for _, n := range c.nodes {
		if n.State == s {
			count++
		}
	}
	return count
}
