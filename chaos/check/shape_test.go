package check

import (
	"maps"
	"testing"

	"github.com/belfryhq/belfry/chaos/history"
)

// owns adds the first sight of all slots at a shard.
func (s *story) owns(shard uint32, at int64) {
	s.h.Owners = append(s.h.Owners, history.Owner{Shard: shard, End: history.Slots, At: ms(at)})
}

// termOf adds the first sight of a shard's first term.
func (s *story) termOf(shard uint32, at int64) {
	s.h.Terms = append(s.h.Terms, history.Term{Shard: shard, Term: 1, At: ms(at)})
}

// survivable adds a fault that leaves a majority of each shard's replicas.
func (s *story) survivable(struck, mended int64) {
	s.fault("kill of a zone", struck, mended, mended)
	s.h.Faults[len(s.h.Faults)-1].Survivable = true
}

// shapeCases are about slots that move between shards, and about nodes that stay away.
var shapeCases = []example{
	{"repeated by a failover of the shard that got the slot", limited(Repeats), func(s *story) {
		s.owns(1, 0)
		s.schedule("a", 0, 100).Answer.Shard = 2
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 800, 100, 1)
	}, ""},
	{"repeated by a failover of the shard of another slot", limited(Repeats), func(s *story) {
		s.h.Owners = []history.Owner{{Shard: 1, First: 0, End: history.SlotOf("a")}}
		s.schedule("a", 0, 100).Answer.Shard = 2
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 800, 100, 1)
	}, "came again"},
	{"repeated at the end of a lease, after the leader died in a move", limited(Repeats), func(s *story) {
		s.owns(1, 0)
		s.owns(2, 2000)
		s.arrived()
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 20105, 100, 1)
	}, ""},
	{"repeated at the end of a lease, without a move", limited(Repeats), func(s *story) {
		s.owns(1, 0)
		s.arrived()
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 20105, 100, 1)
	}, "came again"},
	{"repeated long after the end of a lease, after a move", limited(Repeats), func(s *story) {
		s.owns(1, 0)
		s.owns(2, 2000)
		s.arrived()
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 40105, 100, 1)
	}, "came again"},
	{"settled at another shard, some time after the answer", limited(Repeats), func(s *story) {
		s.owns(1, 0)
		s.owns(2, 2000)
		s.arrived()
		s.fault("slow fsync", 150, 4900, 5000)
		s.h.Faults[0].Shards = nil
		s.schedule("b", 1500, 90000) // a write of the first shard, which proves nothing about the second
		s.fault(history.KillLeader, 6000, 6900, 7000)
		s.arrive("a", 6800, 100, 1)
	}, ""},
	{"a shard that is born after the mending", limited(Recovery), func(s *story) {
		s.owns(1, 0)
		s.fault(history.KillLeader, 0, 900, 1000)
		s.schedule("a", 1010, 20000)
		s.termOf(2, 1000)
		s.owns(2, 9000)
		s.schedule("b", 9010, 20000).Answer.Shard = 2
	}, ""},
	{"a shard without slots", limited(Recovery), func(s *story) {
		s.owns(1, 0)
		s.fault(history.KillLeader, 0, 900, 1000)
		s.schedule("a", 1010, 20000)
		s.termOf(2, 1000)
	}, ""},
	{"a new shard that is never back", limited(Recovery), func(s *story) {
		s.owns(1, 0)
		s.owns(2, 10)
		s.fault(history.KillLeader, 100, 900, 1000)
		s.schedule("a", 1010, 20000)
		s.termOf(2, 1000)
	}, "shard 2 took no write"},
	{"back with a majority", limited(Majority), func(s *story) {
		s.survivable(100, 19000)
		s.schedule("a", 1500, 30000)
		s.schedule("b", 19500, 30000)
	}, ""},
	{"back only with all nodes", limited(Majority), func(s *story) {
		s.survivable(100, 19000)
		s.schedule("b", 19500, 30000)
	}, "of the kill of a zone of [node-1] (it took 19.405s"},
	{"something else was broken beside the majority", limited(Majority), func(s *story) {
		s.fault(history.PauseLeader, 0, 18000, 18500)
		s.survivable(100, 19000)
		s.schedule("b", 19500, 30000)
	}, ""},
	{"struck again before the majority was back", limited(Majority), func(s *story) {
		s.survivable(100, 19000)
		s.fault(history.PauseLeader, 200, 18000, 18500)
		s.schedule("b", 19500, 30000)
	}, ""},
	{"struck again long before a shard was back", limited(Majority), func(s *story) {
		s.survivable(100, 19000)
		s.fault(history.PauseLeader, 18000, 18100, 18500)
		s.schedule("b", 19500, 30000)
	}, "shard 1 took no write within"},
}

// Calls that are answered 5xx during a planned change count, but not those of the node that the change is about.
func TestRefusedCallsAreCounted(t *testing.T) {
	s := &story{}
	s.h.Faults = []history.Fault{{
		Kind: "node joins", Nodes: []string{"node-4"}, Planned: true, Struck: ms(0), Mending: ms(5000), Mended: ms(5000),
	}}
	refused := func(node string, kind history.Kind, at int64, status int) {
		s.call(history.Call{Kind: kind, ID: "a", Node: node}, at, at+5, history.Failed, history.Answer{Status: status})
	}
	refused("node-1", history.Schedule, 100, 503)
	refused("node-1", history.Ack, 200, 504)
	refused("node-1", history.Get, 300, 503)
	refused("node-1", history.Cancel, 400, 409)
	refused("node-4", history.Schedule, 500, 503)
	refused("node-4", history.Schedule, 20_000, 503)
	got := map[string]int{}
	for _, toll := range Tolls(NewIndex(&s.h)) {
		got[toll.Kind] = toll.Refused
	}
	if want := map[string]int{"node joins": 2, PlannedAlone: 2, Calm: 1}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
