package placement

const (
	fewVoters  = 3
	manyVoters = 5
)

// Voters returns the nodes that should vote in the control group, sorted. The group is placed like one more shard: its
// voters are spread over the zones, and a present voter stays if it can. Weights do not count.
//
// The group has five voters if five nodes may vote, else three. Five would give one zone a majority if one of three
// zones or more had three of them: then the group has three. With fewer than three nodes the rules of shards hold.
func Voters(nodes []Node, present []string) ([]string, error) {
	c, err := newCluster(nodes)
	if err != nil {
		return nil, err
	}
	for i := range c.nodes {
		c.nodes[i].Weight = DefaultWeight
	}
	group := Replicas{Nodes: present}
	s, err := c.shardOf(group, manyVoters)
	if err != nil {
		return nil, err
	}
	number := fewVoters
	if s.want == manyVoters && !s.oneZoneRules() {
		number = manyVoters
	}
	target, err := Target(c.nodes, []Replicas{group}, number)
	if err != nil {
		return nil, err
	}
	return target[0].Nodes, nil
}

// oneZoneRules reports whether one zone must have a majority although there are three zones.
func (s *shard) oneZoneRules() bool {
	most, zones := 0, 0
	for _, z := range s.zones {
		most = max(most, z.least)
		if z.most > 0 {
			zones++
		}
	}
	return zones >= fewVoters && most > s.want/2
}
