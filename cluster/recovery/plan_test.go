package recovery

import (
	"testing"

	"github.com/belfryhq/belfry/cluster/clusterpb"
)

// The newest log has the highest last term, and then the highest index.
func TestNewerLog(t *testing.T) {
	old := candidate{lastTerm: 3, lastIndex: 90}
	for name, c := range map[string]struct {
		other candidate
		want  bool
	}{
		"longer":                {candidate{lastTerm: 3, lastIndex: 91}, true},
		"equal":                 {candidate{lastTerm: 3, lastIndex: 90}, false},
		"shorter":               {candidate{lastTerm: 3, lastIndex: 89}, false},
		"of a later term":       {candidate{lastTerm: 4, lastIndex: 10}, true},
		"longer, an older term": {candidate{lastTerm: 2, lastIndex: 200}, false},
	} {
		if got := c.other.newer(old); got != c.want {
			t.Errorf("%s: newer is %t", name, got)
		}
	}
}

// The plan of a group follows from the newest log, the folders that are there, and the positions that survivors have
// seen of other nodes.
func TestLossOfAGroup(t *testing.T) {
	seen := func(index, term uint64) []*clusterpb.SeenNode {
		return []*clusterpb.SeenNode{{Node: "b", Positions: []*clusterpb.SeenPosition{
			{Group: 4, Term: 9, Index: 500, EntryTerm: 9}, {Group: 3, Term: 6, Index: index, EntryTerm: term},
		}}}
	}
	for name, c := range map[string]struct {
		seen    []*clusterpb.SeenNode
		loss    Loss
		missing uint64
	}{
		"none seen":                    {nil, Possible, 0},
		"seen behind":                  {seen(80, 5), Possible, 0},
		"seen at the same entry":       {seen(90, 5), Possible, 0},
		"seen ahead":                   {seen(97, 5), Certain, 7},
		"seen ahead in a later term":   {seen(60, 6), Certain, 1},
		"seen, with no entry":          {seen(0, 0), Possible, 0},
		"seen longer, an earlier term": {seen(200, 4), Possible, 0},
	} {
		r := &Recovery{cfg: Config{Dirs: []string{"one"}}, newest: map[uint32]candidate{
			3: {lastTerm: 5, lastIndex: 90, voters: []string{"a", "b", "c"}},
		}}
		g := r.planGroup(3, c.seen)
		if g.Loss != c.loss || g.LeastMissing() != c.missing || g.From != "one" || g.Voters != 3 || g.Held != 0 {
			t.Errorf("%s: %+v, %d missing", name, g, g.LeastMissing())
		}
	}
}
