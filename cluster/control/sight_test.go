package control

import (
	"testing"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/reshape"
)

// TestSightings checks after which times a new leader trusts a node to stay, and counts it as lost.
func TestSightings(t *testing.T) {
	state := &clusterpb.ControlState{
		Nodes:  []*clusterpb.Node{{Id: "away"}, {Id: "flaps"}, {Id: "holds"}, {Id: "new"}},
		Shards: []*clusterpb.Shard{{Id: 1, Replicas: []string{"away", "flaps", "holds"}}},
	}
	up := map[string]bool{"flaps": true, "holds": true, "new": true}
	s := newSightings(func(node string) bool { return up[node] })
	began := time.UnixMilli(1_700_000_000_000)
	s.look(state, began)
	up["flaps"] = false
	s.look(state, began.Add(time.Second))
	up["flaps"] = true
	s.look(state, began.Add(2*time.Second))
	now := began.Add(10 * time.Second)
	for node, want := range map[string]reshape.Sight{
		"away": {For: 10 * time.Second}, "flaps": {Up: true, For: 8 * time.Second}, "new": {Up: true, For: 10 * time.Second},
	} {
		if got := s.of(node, now); got != want {
			t.Errorf("%s: %+v, want %+v", node, got, want)
		}
	}
	if got := s.of("holds", now); !got.Up || got.For < time.Hour {
		t.Errorf("a node that was up before: %+v", got)
	}
	if away := s.away(now); len(away) != 1 || away["away"] != 10_000 {
		t.Errorf("away: %v", away)
	}
}
