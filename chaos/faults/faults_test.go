package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/internal/assert"
)

func view(leader string) *client.Cluster {
	return &client.Cluster{
		Nodes: []client.Node{{ID: "x", Name: "node-1"}, {ID: "y", Name: "node-2"}},
		Shards: []client.Shard{
			{ID: 1, Leader: "x", Replicas: []client.Replica{
				{Node: "x", Applied: 7, Hash: "f"}, {Node: "y", Applied: 7, Hash: "f"}}},
			{ID: 2, Leader: leader, Replicas: []client.Replica{{Node: "x", Applied: 9, Hash: "e"}, {Node: "z", Applied: 9}}},
		},
	}
}

func TestReplicas(t *testing.T) {
	got := replicasOf(view(""))
	want := []history.Replica{
		{Shard: 1, Node: "node-1", Applied: 7, Hash: "f"}, {Shard: 1, Node: "node-2", Applied: 7, Hash: "f"},
		{Shard: 2, Node: "node-1", Applied: 9, Hash: "e"}, {Shard: 2, Node: "z", Applied: 9},
	}
	assert.EqualSlices(t, got, want)
	shards := byShard(got)
	if !slices.Equal(shards[1], want[:2]) || !areLevel(shards[1]) || areLevel(shards[2]) || len(shards) != 2 {
		t.Errorf("%+v: the replicas of shard 1 are level, and one of shard 2 has no hash", shards)
	}
	shards[1][1].Applied = 6
	if areLevel(shards[1]) || areLevel(nil) {
		t.Errorf("%+v are level, though one is behind", shards[1])
	}
}

// A diverged replica is recorded once.
func TestDivergedIsSeen(t *testing.T) {
	rec := history.NewRecorder(nil)
	w := &watch{rec: rec, diverged: map[replica]bool{}}
	bad := view("x")
	bad.Shards[1].Replicas[0].Diverged = true
	for range 3 {
		for _, r := range replicasOf(bad) {
			if r.Diverged {
				w.seeDiverged(r)
			}
		}
	}
	if got := rec.History().Replicas; len(got) != 1 || got[0].Shard != 2 || got[0].Node != "node-1" || !got[0].Diverged {
		t.Errorf("%+v", got)
	}
}

// Each new term is recorded once, with the time at which the term before was last seen.
func TestTermsAreSeen(t *testing.T) {
	rec := history.NewRecorder(nil)
	w := &watch{rec: rec, shards: map[uint32]*leadership{}}
	w.see(1, 2, "node-1")
	w.see(1, 2, "node-1")
	w.see(1, 4, "node-2")
	w.see(1, 2, "node-1") // answer of a node that does not know the new term yet
	w.see(1, 4, "node-2")
	terms := rec.History().Terms
	if len(terms) != 2 || terms[0].Before != 0 || terms[1].Leader != "node-2" ||
		terms[1].Before < terms[0].At || terms[1].Before > terms[1].At {
		t.Errorf("%+v", terms)
	}
	w.last()
	terms = rec.History().Terms
	if last := terms[len(terms)-1]; len(terms) != 3 || last.Term != 4 || last.Leader != "node-2" ||
		last.Before < terms[1].At {
		t.Errorf("the last sight is %+v", terms[2:])
	}
}

// Each range of slots is recorded once for each shard that owns it.
func TestOwnersAreSeen(t *testing.T) {
	rec := history.NewRecorder(nil)
	w := &watch{rec: rec, owned: map[history.Owner]bool{}}
	first, second := client.Slots{First: 0, End: 10}, client.Slots{First: 10, End: 20}
	w.seeOwner(client.Shard{ID: 1, Slots: []client.Slots{first, second}})
	w.seeOwner(client.Shard{ID: 1, Slots: []client.Slots{first}})
	w.seeOwner(client.Shard{ID: 2, Slots: []client.Slots{second}})
	w.seeOwner(client.Shard{ID: 1, Slots: []client.Slots{first, second}}) // answer of a node that is behind
	var seen []string
	for _, o := range rec.History().Owners {
		seen = append(seen, fmt.Sprint(o.Shard, ":", o.First, "-", o.End))
	}
	assert.Equal(t, strings.Join(seen, " "), "1:0-10 1:10-20 2:10-20")
}

// kindsOf returns the kinds of a group.
func kindsOf(group string) []Kind {
	return slices.DeleteFunc(Kinds(), func(k Kind) bool { return k.Group != group })
}

// A fault claims the nodes that it chooses, one thing for itself, or nothing. A kind that leaves the choice of its
// nodes to the strike claims none.
func TestKindsClaimTheirTargets(t *testing.T) {
	for _, k := range Kinds() {
		if k.strike == nil || k.nodes == nil && k.claims == "" {
			t.Errorf("%s strikes nothing, or does not claim what it strikes", k.Name)
		}
	}
}
