package stand

import (
	"strings"
	"testing"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/deploy/local"
)

// zoned is a cluster of a shard with replicas on the given nodes, of a to e. The nodes a and b are in one zone, c and d
// in another, and e in a third. Capital letters are nodes that are down.
func zoned(replicas string) *client.Cluster {
	view := &client.Cluster{Replication: client.ReplicaCounts{Wanted: 3}}
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		down := strings.Contains(replicas, strings.ToUpper(name))
		view.Nodes = append(view.Nodes, client.Node{ID: name, Zone: []string{"1", "1", "2", "2", "3"}[i], Alive: !down})
	}
	shard := client.Shard{ID: 1}
	for _, node := range strings.Split(strings.ToLower(replicas), "") {
		shard.Replicas = append(shard.Replicas, client.Replica{Node: node, Voter: true})
	}
	view.Shards = []client.Shard{shard}
	return view
}

func TestLackingReplicas(t *testing.T) {
	for _, c := range []struct {
		replicas string
		lost     []string
		want     string
	}{
		{"ace", nil, ""},
		{"acE", nil, "its node is down"},
		{"ace", []string{"e"}, "on a lost node"},
		{"abd", []string{"e"}, ""},
		{"ac", nil, "2 replicas of 3"},
		{"abc", nil, "in 2 zones, and 3 have live nodes"},
		{"acde", nil, "4 replicas of 3"},
	} {
		if got := lacking(zoned(c.replicas), c.lost); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s without %v: %q", c.replicas, c.lost, got)
		}
	}
	view := zoned("ace")
	view.Shards[0].Replicas[1].Voter = false
	if got := lacking(view, nil); !strings.Contains(got, "does not vote") {
		t.Error(got)
	}
}

func TestZonesAreEven(t *testing.T) {
	places := make([]local.Place, 5)
	zones := setZones(3, places)
	if len(zones) != 3 || strings.Join(zones[0], " ") != "node-1 node-4" || strings.Join(zones[2], " ") != "node-3" ||
		strings.Join(places[4].Args, " ") != "--zone zone-2" {
		t.Errorf("%v, %v", zones, places)
	}
	s := &Stand{zones: zones, spare: []string{"node-3"}}
	if got := s.Zones(); len(got[0]) != 2 || len(got[2]) != 0 {
		t.Errorf("%v without node-3", got)
	}
}
