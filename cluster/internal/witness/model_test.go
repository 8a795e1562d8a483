package witness

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/internal/assert"
)

// model is one replica of a Raft group under leaders that do all that Raft allows, with the position that others saw of
// it.
type model struct {
	rand    *rand.Rand
	term    uint64
	log     []uint64 // terms of entries 1, 2, ...
	snap    int      // entries that a snapshot stands for
	leaders map[uint64][]uint64
	leads   bool
	seen    Position
	acked   int // acknowledgements of entries so far
}

// state is the replica's state on its disk.
type state struct {
	term  uint64
	log   []uint64
	snap  int
	acked int
}

func (m *model) state() state { return state{m.term, slices.Clone(m.log), m.snap, m.acked} }

func (s state) replica() Replica {
	return Replica{Term: s.term, Last: uint64(len(s.log)), Holds: func(index, term uint64) bool {
		i := int(index)
		return i <= s.snap || i <= len(s.log) && s.log[i-1] == term
	}}
}

func (m *model) see(p Position) {
	if m.seen.Before(p) {
		m.seen = p
	}
}

// step takes one random step.
func (m *model) step() {
	switch m.rand.IntN(8) {
	case 0: // the replica hears of a later term
		m.term += 2
		m.leads = m.rand.IntN(3) == 0
		m.leaders[m.term] = slices.Clone(m.log)
		if !m.leads {
			m.leaders[m.term] = m.other()
		}
		m.see(Position{Term: m.term})
	case 1, 2: // the leader writes
		if m.term > 0 {
			m.leaders[m.term] = append(m.leaders[m.term], m.term)
			if m.leads {
				m.log = append(m.log, m.term)
			}
		}
	case 3, 4, 5: // entries up to some index go from the leader to the follower
		m.exchange()
	case 6: // a snapshot of a log that its leader does not contradict
		if leader := m.leaders[m.term]; !m.leads && len(m.log) > 0 && len(leader) >= len(m.log) &&
			slices.Equal(leader[:len(m.log)], m.log) && m.acked > 0 {
			m.snap = m.rand.IntN(len(m.log)-m.snap+1) + m.snap
		}
	case 7: // a heartbeat is answered
		m.see(Position{Term: m.term})
	}
}

// other returns the log of a leader elsewhere: the log of some earlier leader without its tail, and then entries of the
// term before, which this replica never received.
func (m *model) other() []uint64 {
	from := m.log
	for _, term := range slices.Sorted(maps.Keys(m.leaders)) {
		if l := m.leaders[term]; m.rand.IntN(2) == 0 && len(l) >= m.snap && slices.Equal(l[:m.snap], m.log[:m.snap]) {
			from = l
		}
	}
	log := slices.Clone(from[:m.snap+m.rand.IntN(len(from)-m.snap+1)])
	for range m.rand.IntN(4) {
		log = append(log, m.term-1)
	}
	return log
}

func (m *model) exchange() {
	leader := m.leaders[m.term]
	if len(leader) <= m.snap {
		return
	}
	to := m.snap + 1 + m.rand.IntN(len(leader)-m.snap)
	if !m.leads {
		for i := range to { // as in Raft's AppendEntries, from a place where both are equal
			if i >= len(m.log) {
				m.log = append(m.log, leader[i])
			} else if m.log[i] != leader[i] {
				m.log = append(m.log[:i:i], leader[i])
			}
		}
	}
	m.acked++
	m.see(Position{m.term, uint64(to), leader[to-1]})
}

// A healthy replica is never refused, whatever was cut from its log. An older state of the replica is refused if it
// lacks an entry that was acknowledged since.
func TestModel(t *testing.T) {
	refused, accepted := 0, 0
	for seed := range uint64(3000) {
		m := &model{rand: rand.New(rand.NewPCG(seed, 1)), leaders: make(map[uint64][]uint64)}
		var copies []state
		for range 60 {
			m.step()
			if m.state().replica().lacks(m.seen) {
				t.Fatalf("seed %d: a healthy replica, %+v, lacks %+v", seed, m.state(), m.seen)
			}
			copies = append(copies, m.state())
		}
		for _, c := range copies {
			switch lacks := c.replica().lacks(m.seen); {
			case lacks:
				refused++
			case c.acked == m.acked:
			default:
				accepted++
				// The state has all entries that were acknowledged since: its log equals the leader's up to there.
				leader := m.leaders[m.seen.Term]
				if c.term != m.seen.Term || !slices.Equal(c.log[:m.seen.Index], leader[:m.seen.Index]) {
					t.Fatalf("seed %d: the older state %+v is taken although %+v was acknowledged since, of %v",
						seed, c, m.seen, leader)
				}
			}
		}
	}
	if refused < 10000 || accepted < 100 {
		t.Errorf("%d refused, %d taken: the model shows too little", refused, accepted)
	}
}

func TestJudge(t *testing.T) {
	holds := func(index, term uint64) bool { return index <= 10 && term == 2 }
	own := CheckConfig{
		Node: "p", Run: Run{Boot: 4, Nonce: 44}, Nodes: world{},
		Replicas: map[uint32]Replica{1: {Term: 3, Last: 10, Holds: holds}},
		Unread:   map[uint32]bool{9: true},
	}
	at := func(group uint32, term, index, entryTerm uint64) *clusterpb.SeenNode {
		return &clusterpb.SeenNode{Positions: []*clusterpb.SeenPosition{
			{Group: group, Term: term, Index: index, EntryTerm: entryTerm},
		}}
	}
	run := func(boot, nonce uint64) *clusterpb.SeenNode {
		return &clusterpb.SeenNode{Run: &clusterpb.NodeRun{Boot: boot, Nonce: nonce}}
	}
	for name, c := range map[string]struct {
		seen    *clusterpb.SeenNode
		refused bool
	}{
		"nothing":                  {nil, false},
		"less":                     {at(1, 3, 9, 2), false},
		"as much":                  {at(1, 3, 10, 2), false},
		"an earlier term":          {at(1, 2, 50, 2), false},
		"more":                     {at(1, 3, 11, 2), true},
		"another entry":            {at(1, 3, 10, 3), true},
		"a later term":             {at(1, 4, 0, 0), true},
		"a group that is not here": {at(2, 1, 0, 0), true},
		"a group that is broken":   {at(9, 5, 5, 5), false},
		"an earlier run":           {run(3, 33), false},
		"this run":                 {run(4, 44), false},
		"another such run":         {run(4, 45), true},
		"a later run":              {run(5, 55), true},
	} {
		got := judge(own, &clusterpb.WitnessReply{Node: "w", Seen: c.seen})
		assert.Equal(t, got != nil, c.refused, "%s: %v", name, got)
	}
}

func TestMissing(t *testing.T) {
	of := func(voters ...string) Replica { return Replica{Voters: voters} }
	for name, c := range map[string]struct {
		replicas map[uint32]Replica
		answered []string
		all      bool
		want     []string
	}{
		"alone":                      {map[uint32]Replica{0: of("p")}, nil, true, nil},
		"no configuration":           {map[uint32]Replica{0: of()}, nil, true, nil},
		"one of three":               {map[uint32]Replica{0: of("p", "a", "b")}, nil, false, []string{"a", "b"}},
		"two of three":               {map[uint32]Replica{0: of("p", "a", "b")}, []string{"b"}, false, nil},
		"two of three, of a copy":    {map[uint32]Replica{0: of("p", "a", "b")}, []string{"b"}, true, []string{"a"}},
		"no voter itself":            {map[uint32]Replica{0: of("a", "b", "c")}, []string{"b"}, false, []string{"a", "c"}},
		"other groups, other voters": {map[uint32]Replica{0: of("p", "a", "b"), 1: of("p", "c", "d")}, []string{"a"}, false, []string{"c", "d"}},
	} {
		answered := make(map[string]bool)
		for _, a := range c.answered {
			answered[a] = true
		}
		assert.EqualSlices(t, missing("p", c.replicas, answered, c.all), c.want, "%s", name)
	}
}
