package check

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

var faultCases = []example{
	{"retried", limited(Repeats), func(s *story) {
		s.arrived().Answer = 500
		s.arrive("a", 201, 100, 1).Attempt = 2
	}, ""},
	{"repeated without a fault", limited(Repeats), func(s *story) {
		s.arrived()
		s.arrive("a", 201, 100, 1)
	}, "came again"},
	{"tried again after success", limited(Repeats), func(s *story) {
		s.arrived()
		s.arrive("a", 201, 100, 1).Attempt = 2
	}, "came again"},
	{"repeated by a failover", limited(Repeats), func(s *story) {
		s.arrived()
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 800, 100, 1)
	}, ""},
	{"repeated by a node that was asked to stop", limited(Repeats), func(s *story) {
		s.arrived().Held = time.Second
		s.stop(150, 2900, 3000)
		s.arrive("a", 1800, 100, 1)
	}, "came again"},
	{"longer than a stop waits", limited(Repeats), func(s *story) {
		s.arrived().Held = 3 * time.Second
		s.stop(150, 2900, 3000)
		s.arrive("a", 2800, 100, 1)
	}, ""},
	{"repeated by a stop beside a kill", limited(Repeats), func(s *story) {
		s.arrived().Held = time.Second
		s.stop(150, 2900, 3000)
		s.fault(history.KillLeader, 160, 900, 1000)
		s.term(1, 0, 10)
		s.term(2, 140, 300)
		s.arrive("a", 1800, 100, 1)
	}, ""},
	{"repeated by the failover of another shard", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100).Answer.Shard = 2
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 800, 100, 1)
	}, "came again"},
	{"repeated twice by one failover", limited(Repeats), func(s *story) {
		s.arrived()
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 800, 100, 1)
		s.arrive("a", 810, 100, 1)
	}, "came again"},
	{"repeated twice by two failovers", limited(Repeats), func(s *story) {
		s.arrived()
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 800, 100, 1)
		s.fault(history.KillLeader, 1100, 1900, 2000)
		s.arrive("a", 1800, 100, 1)
	}, ""},
	{"taken over by a leader that died before it started it", limited(Repeats), func(s *story) {
		s.arrived()
		s.fault(history.KillLeader, 150, 900, 1000)
		s.schedule("b", 1500, 90000) // a write of the shard: earlier outcomes are settled
		s.fault(history.KillLeader, 3000, 3900, 4000)
		s.arrive("a", 3800, 100, 1)
	}, ""},
	{"taken over by a leader that had long started it", limited(Repeats), func(s *story) {
		s.arrived()
		s.fault(history.KillLeader, 150, 900, 1000)
		s.schedule("b", 1500, 90000)
		s.fault(history.KillLeader, 9000, 9900, 10000)
		s.arrive("a", 9800, 100, 1)
	}, "came again"},
	{"repeated though it was long settled", limited(Repeats), func(s *story) {
		s.arrived()
		s.fault(history.KillLeader, 5000, 6000, 7000)
		s.arrive("a", 6000, 100, 1)
	}, "came again"},
	{"held by the receiver until the failover", limited(Repeats), func(s *story) {
		s.arrived().Held = 5 * time.Second
		s.fault(history.KillLeader, 5000, 6000, 7000)
		s.arrive("a", 6000, 100, 1)
	}, ""},
	{"repeated long after the failover", limited(Repeats), func(s *story) {
		s.arrived()
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 30000, 100, 1)
	}, "came again"},
	{"tried again after a repeat that failed", limited(Repeats), func(s *story) {
		s.arrived()
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 800, 100, 1).Answer = 500
		s.arrive("a", 9000, 100, 1).Attempt = 2
	}, ""},
	{"repeated in turmoil, though its shard had taken a write since", limited(Repeats), func(s *story) {
		s.term(1, 0, 10)
		s.fault("pause of all nodes", 50, 20000, 20000)
		s.schedule("a", 60, 100)
		s.arrive("a", 101, 100, 1)
		s.schedule("b", 2000, 99999)
		s.fault(history.KillLeader, 8000, 9000, 9000)
		s.term(2, 8100, 8500)
		s.arrive("a", 8600, 100, 1)
	}, "came again"},
	{"repeated in turmoil", limited(Repeats), func(s *story) {
		s.term(1, 0, 10)
		s.fault("receiver is slow", 50, 20000, 20000)
		s.schedule("a", 60, 100)
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillLeader, 8000, 9000, 9000)
		s.term(2, 8100, 8500)
		s.arrive("a", 8600, 100, 1)
	}, ""},
	{"repeated in a fault that changed no leader", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.term(1, 0, 10)
		s.arrive("a", 101, 100, 1)
		s.fault("pause of a leader", 150, 300, 310)
		s.arrive("a", 800, 100, 1)
		s.lastSeen(1, 5000)
	}, "came again"},
	{"repeated while answers were lost", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.fault("deaf", 90, 3000, 3010)
		f := &s.h.Faults[0]
		f.Deaf, f.Shards = true, nil
		s.arrive("a", 101, 100, 1)
		s.arrive("a", 15200, 100, 1).Attempt = 2
	}, ""},
	{"repeated though answers had come through", limited(Repeats), func(s *story) {
		s.arrived()
		s.fault("deaf", 300, 3000, 3010)
		f := &s.h.Faults[0]
		f.Deaf, f.Shards = true, nil
		s.arrive("a", 15200, 100, 1).Attempt = 2
	}, "came again"},
	{"repeated while answers to another shard's leader were lost", limited(Repeats), func(s *story) {
		s.term(1, 0, 10)
		s.h.Terms[0].Leader = "node-2"
		s.schedule("a", 0, 100)
		s.fault("deaf", 90, 3000, 3010)
		s.h.Faults[0].Deaf = true
		s.arrive("a", 101, 100, 1)
		s.arrive("a", 15200, 100, 1).Attempt = 2
		s.lastSeen(1, 20000)
	}, "came again"},
	{"repeated while answers to who had led before were lost", limited(Repeats), func(s *story) {
		s.term(1, 0, 10)
		s.term(2, 40, 50)
		s.h.Terms[0].Leader, s.h.Terms[1].Leader = "node-1", "node-2"
		s.schedule("a", 60, 5000)
		s.fault("deaf", 5000, 9000, 9010)
		s.h.Faults[0].Deaf = true
		s.arrive("a", 5001, 5000, 1)
		s.arrive("a", 20100, 5000, 1).Attempt = 2
		s.lastSeen(2, 30000)
	}, "came again"},
	{"repeated while answers to a leader of that time were lost", limited(Repeats), func(s *story) {
		s.term(1, 0, 10)
		s.term(2, 4000, 4100)
		s.h.Terms[0].Leader, s.h.Terms[1].Leader = "node-2", "node-1"
		s.schedule("a", 60, 5000)
		s.fault("deaf", 90, 9000, 9010)
		s.h.Faults[0].Deaf = true
		s.arrive("a", 5001, 5000, 1)
		s.arrive("a", 20100, 5000, 1).Attempt = 2
		s.lastSeen(2, 30000)
	}, ""},
	{"repeated while answers to a leader that nobody saw may have been lost", limited(Repeats), func(s *story) {
		s.term(1, 0, 10)
		s.term(3, 4000, 8100)
		s.h.Terms[0].Leader, s.h.Terms[1].Leader = "node-2", "node-3"
		s.schedule("a", 60, 5000)
		s.fault("deaf", 90, 9000, 9010)
		s.h.Faults[0].Deaf = true
		s.arrive("a", 5001, 5000, 1)
		s.arrive("a", 20100, 5000, 1).Attempt = 2
		s.lastSeen(3, 30000)
	}, ""},
	{"repeated by a failover, of a batch whose shard is known by another", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 9000).Answer.Shard = 2
		s.batched(neighbour("a"), 0, 100)
		s.arrive(neighbour("a"), 101, 100, 2)
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive(neighbour("a"), 800, 100, 2)
	}, "came again"},
	{"repeated by a failover, of a batch whose shard is not known", limited(Repeats), func(s *story) {
		s.batched("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 800, 100, 1)
	}, ""},
	{"repeated by a change of leader of its own", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.term(1, 0, 10)
		s.arrive("a", 101, 100, 1)
		s.term(2, 400, 700)
		s.arrive("a", 800, 100, 1)
	}, ""},

	{"repeated by the process that led before", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.term(1, 0, 10)
		s.arrive("a", 101, 100, 1).Held = 400 * time.Millisecond
		s.term(2, 400, 700)
		s.ledBy("node-1", "node-1")
		s.arrive("a", 800, 100, 1)
	}, "came again"},
	{"repeated by the process that led before the network broke", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.term(1, 0, 10)
		s.arrive("a", 101, 100, 1)
		s.fault("leader cut off", 150, 900, 1000)
		s.h.Faults[0].Spared = true
		s.term(2, 400, 700)
		s.ledBy("node-1", "node-1")
		s.arrive("a", 800, 100, 1)
	}, "came again"},
	{"repeated by the node that led before, in another process", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.term(1, 0, 10)
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillLeader, 150, 900, 1000)
		s.term(2, 400, 700)
		s.ledBy("node-1", "node-1")
		s.arrive("a", 800, 100, 1)
	}, ""},
	{"repeated by the process that led before, after another leader", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.term(1, 0, 10)
		s.arrive("a", 101, 100, 1)
		s.term(3, 400, 700)
		s.ledBy("node-1", "node-1")
		s.arrive("a", 800, 100, 1)
	}, ""},
	{"taken over by a process that led again before it started it", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.term(1, 0, 10)
		s.arrive("a", 101, 100, 1)
		s.term(2, 400, 700)
		s.schedule("b", 1500, 90000) // a write of the shard: earlier outcomes are settled
		s.term(3, 5000, 5500)
		s.ledBy("node-2", "node-1", "node-1")
		s.arrive("a", 6000, 100, 1)
	}, ""},

	{"within the budget of a failover", limited(Lateness), func(s *story) {
		s.schedule("a", 0, 1200)
		s.failover(1000)
		s.arrive("a", 2699, 1200, 1)
	}, ""},
	{"beyond the budget of a failover", limited(Lateness), func(s *story) {
		s.schedule("a", 0, 1200)
		s.failover(1000)
		s.arrive("a", 2801, 1200, 1)
	}, "due within the kill -9 of a leader"},
	{"beyond the budget of a failover, with more broken soon after", limited(Lateness), func(s *story) {
		s.schedule("a", 0, 1200)
		s.failover(1000)
		s.fault("slow fsync", 2000, 3000, 3000)
		s.arrive("a", 2801, 1200, 1)
	}, ""},
	{"beyond the budget of a failover, with more broken", limited(Lateness), func(s *story) {
		s.schedule("a", 0, 1200)
		s.fault("slow fsync", 900, 3000, 3000)
		s.failover(1000)
		s.arrive("a", 2801, 1200, 1)
	}, ""},

	{"rising", limited(Fences), func(s *story) {
		s.arrived()
		s.arrive("a", 201, 100, 1)
	}, ""},
	{"falling", limited(Fences), func(s *story) {
		s.arrived()
		s.arrive("a", 201, 100, 1).Fence = 7
	}, "came 100ms after the higher"},
	{"falling around a failover", limited(Fences), func(s *story) {
		s.schedule("a", 0, 100)
		s.fault(history.PauseLeader, 100, 900, 901)
		s.arrive("a", 801, 100, 1)
		s.arrive("a", 902, 100, 1).Fence = 7
	}, ""},
	{"falling, of a request that was held up", limited(Fences), func(s *story) {
		s.schedule("a", 0, 100)
		s.fault(history.PauseLeader, 100, 900, 901)
		s.arrive("a", 801, 100, 1)
		s.arrive("a", 14902, 100, 1).Fence = 7
	}, ""},
	{"falling, after its attempt had been given up", limited(Fences), func(s *story) {
		s.schedule("a", 0, 100)
		s.fault(history.PauseLeader, 100, 900, 901)
		s.arrive("a", 801, 100, 1)
		s.arrive("a", 16902, 100, 1).Fence = 7
	}, "without a failover"},
	{"falling between occurrences", limited(Fences), func(s *story) {
		s.schedule("a", 0, 100)
		s.schedule("a", 99, 105)
		s.arrive("a", 105, 105, 2)
		s.arrive("a", 106, 100, 1).Fence = 100
	}, ""},
	{"one fence twice", limited(Fences), func(s *story) {
		s.arrived()
		s.arrive("a", 201, 100, 1).Fence = 101
	}, "came twice"},
	{"no fence", limited(Fences), func(s *story) {
		s.arrived().Fence = 0
	}, "no fence"},

	{"finished for good", limited(Undead), func(s *story) {
		s.arrived()
		s.fault(history.KillAll, 5000, 6000, 7000)
		s.get("a", 200, "delivered", 9, 0)
		s.get("a", 8000, "delivered", 9, 0)
	}, ""},
	{"delivered again after a restart", limited(Undead), func(s *story) {
		s.arrived()
		s.fault(history.KillAll, 5000, 6000, 7000)
		s.arrive("a", 7100, 100, 1)
	}, "came again 2.1s after"},
	{"scheduled again by itself", limited(Undead), func(s *story) {
		s.schedule("a", 0, 100)
		s.get("a", 200, "delivered", 9, 0)
		s.get("a", 8000, "scheduled", 9, 1)
	}, "shows it scheduled"},
	{"scheduled again by a cancelled call", limited(Undead), func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 10, "cancelled")
		s.get("a", 50, "scheduled", 9, 1)
	}, "shows it scheduled"},
	{"scheduled again by a call", limited(Undead), func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 10, "cancelled")
		s.schedule("a", 30, 100)
		s.get("a", 50, "scheduled", 9, 1)
	}, ""},
	{"scheduled again by a call of unknown outcome", limited(Undead), func(s *story) {
		s.schedule("a", 0, 100)
		s.scheduleAs("a", 6, 0, 100, history.Unknown)
		s.cancel("a", 10, "cancelled")
		s.get("a", 50, "scheduled", 9, 1)
	}, ""},

	{"alike", Replicas, func(s *story) {
		s.get("a", 8000, "delivered", 9, 0)
		s.stale("a", "node-1", "delivered", 9)
		s.stale("a", "node-2", "delivered", 9)
		s.replica("node-1", 12, "ff")
		s.replica("node-2", 12, "ff")
	}, ""},
	{"another revision", Replicas, func(s *story) {
		s.stale("a", "node-1", "delivered", 9)
		s.stale("a", "node-2", "delivered", 8)
	}, "revision 8"},
	{"another state than the certain read", Replicas, func(s *story) {
		s.get("a", 8000, "delivered", 9, 0).Final = true
		s.stale("a", "node-2", "firing", 9)
	}, "firing"},
	{"not there", Replicas, func(s *story) {
		s.stale("a", "node-1", "delivered", 9)
		c := history.Call{Kind: history.Stale, ID: "a", Node: "node-2", Final: true}
		s.call(c, 9000, 9001, history.Failed, history.Answer{Status: notFound})
	}, "no task"},
	{"behind", Replicas, func(s *story) { s.replica("node-1", 12, "ff"); s.replica("node-2", 11, "fe") }, "node-2 11"},
	{"of no hash", Replicas, func(s *story) { s.replica("node-1", 12, ""); s.replica("node-2", 12, "") },
		"no hash is known of the replica of node-2"},
	{"diverged meanwhile", Replicas, func(s *story) {
		s.h.Replicas = append(s.h.Replicas, history.Replica{Shard: 1, Node: "node-3", Applied: 3, Diverged: true})
		s.replica("node-1", 12, "ff")
		s.replica("node-2", 12, "ff")
	}, "node-3 has diverged"},
	{"of another hash", Replicas, func(s *story) { s.replica("node-1", 12, "ff"); s.replica("node-2", 12, "fe") }, "fe"},

	{"back at once", limited(Recovery), func(s *story) {
		s.fault(history.KillLeader, 0, 900, 1000)
		s.schedule("a", 1010, 2000)
	}, ""},
	{"back after all was mended", limited(Recovery), func(s *story) {
		s.fault(history.KillLeader, 0, 900, 1000)
		s.fault(history.PauseLeader, 500, 19000, 20000)
		s.schedule("a", 20100, 30000)
	}, ""},
	{"struck again before it was back", limited(Recovery), func(s *story) {
		s.fault(history.KillLeader, 0, 900, 1000)
		s.fault(history.KillLeader, 2000, 19000, 20000)
		s.schedule("a", 20100, 30000)
	}, ""},
	{"not back before it was struck again", limited(Recovery), func(s *story) {
		s.fault(history.KillLeader, 0, 900, 1000)
		s.fault(history.KillLeader, 12000, 19000, 20000)
		s.schedule("a", 20100, 30000)
	}, "it took 19.105s"},
	{"back too late", limited(Recovery), func(s *story) {
		s.fault(history.KillLeader, 0, 900, 1000)
		s.schedule("a", 9000, 2000)
	}, "it took 8.005s"},
	{"never back", limited(Recovery), func(s *story) {
		s.schedule("a", 0, 100)
		s.fault(history.KillLeader, 10, 900, 1000)
	}, "shard 1 took no write"},
	{"one of two shards never back", limited(Recovery), func(s *story) {
		s.term(1, 0, 5)
		s.fault(history.KillLeader, 10, 900, 1000)
		s.schedule("a", 1100, 2000).Answer.Shard = 2
	}, "shard 1 took no write"},
	{"not mended", limited(Recovery), func(s *story) {
		s.fault(history.KillLeader, 0, 900, 1000)
		s.h.Faults[0].Mended = 0
	}, "never mended"},
	{"due and left lying", limited(Recovery), func(s *story) {
		s.schedule("a", 0, 100)
		c := s.get("a", 8000, "ready", 9, 1)
		c.Final, c.Answer.FireAt = true, ms(100)
	}, "at the end it is ready"},
	{"not due yet", limited(Recovery), func(s *story) {
		s.schedule("a", 0, 100)
		s.get("a", 8000, "scheduled", 9, 1).Final = true
	}, ""},

	{"fires soon", limited(FirstFire), func(s *story) {
		s.schedule("a", 0, 500)
		s.fault(history.KillAll, 100, 1000, 2000)
		s.arrive("a", 2900, 500, 1)
	}, ""},
	{"fires late", limited(FirstFire), func(s *story) {
		s.schedule("a", 0, 500)
		s.fault(history.KillAll, 100, 1000, 2000)
		s.arrive("a", 3100, 500, 1)
	}, "2.1s after the start"},
	{"fires never", limited(FirstFire), func(s *story) {
		s.schedule("a", 0, 500)
		s.fault(history.KillAll, 100, 1000, 2000)
	}, "0: never"},
	{"held back by another fault", limited(FirstFire), func(s *story) {
		s.schedule("a", 0, 500)
		s.fault(history.KillAll, 100, 1000, 2000)
		s.fault(history.PauseLeader, 1100, 9000, 9000)
		s.arrive("a", 9100, 500, 1)
	}, ""},
	{"nothing is overdue", limited(FirstFire), func(s *story) {
		s.schedule("a", 0, 5000)
		s.fault(history.KillAll, 100, 1000, 2000)
	}, ""},

	{"refused and never seen", Honest, func(s *story) {
		s.schedule("a", 0, 100)
		s.scheduleAs("a", 10, 12, 100, history.Failed)
		s.arrive("a", 101, 100, 1)
	}, ""},
	{"refused and arrived", Honest, func(s *story) {
		s.scheduleAs("a", 10, 12, 100, history.Failed).Answer.Status = 503
		s.arrive("a", 101, 100, 1)
	}, "failed until then, and its payload arrived"},
	{"refused and read", Honest, func(s *story) {
		s.scheduleAs("a", 10, 12, 100, history.Failed).Answer.Status = 412
		s.get("a", 20, "scheduled", 3, 1)
	}, "failed until then, and its payload was read"},
	{"refused once, and then done", Honest, func(s *story) {
		c := s.scheduleAs("a", 10, 12, 100, history.Failed)
		s.call(history.Call{Op: c.Op, Kind: c.Kind, ID: c.ID, Ask: c.Ask}, 20, 22, history.OK, history.Answer{})
		s.arrive("a", 101, 100, 1)
	}, ""},
	{"refused, arrived, and then done", Honest, func(s *story) {
		c := s.scheduleAs("a", 10, 12, 100, history.Failed)
		s.arrive("a", 101, 100, 1)
		s.call(history.Call{Op: c.Op, Kind: c.Kind, ID: c.ID, Ask: c.Ask}, 120, 122, history.OK, history.Answer{})
	}, "failed until then"},
	{"misjudged by the client", Honest, func(s *story) {
		s.scheduleAs("a", 10, 12, 100, history.Unknown).Answer.Misjudged = true
	}, "the client called it not done"},
	{"cancel refused and done", Honest, func(s *story) {
		s.schedule("a", 0, 100)
		c := s.cancel("a", 10, "")
		c.Outcome, c.Answer.Status = history.Failed, 503
		s.get("a", 20, "cancelled", 3, 0)
	}, "no cancel may have succeeded"},
	{"cancel unanswered and done", Honest, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 10, "").Outcome = history.Unknown
		s.get("a", 20, "cancelled", 3, 0)
	}, ""},
}

// delayed adds a schedule with a delay, answered with the given status.
func (s *story) delayed(node string, start int64, status int) {
	c := history.Call{Kind: history.Schedule, ID: "a", Node: node, Ask: history.Ask{Delay: time.Minute, Body: body(s.op + 1)}}
	if status == created {
		s.call(c, start, start+5, history.OK, history.Answer{Revision: uint64(start) + 1, Wrote: s.op + 1})
		return
	}
	s.call(c, start, start+5, history.Failed, history.Answer{Status: status})
}

// refusedFor adds a schedule with a delay every 100 ms, all answered 503.
func (s *story) refusedFor(node string, from, to int64) {
	for at := from; at <= to; at += 100 {
		s.delayed(node, at, unavailable)
	}
}

var gossipCases = []example{
	{"refused for as long as a failover takes", limited(Hints), func(s *story) {
		s.fault(history.ForgedGossip, 0, 5000, 5000)
		s.refusedFor("node-1", 1000, 2400)
		s.delayed("node-1", 2500, created)
		s.refusedFor("node-1", 2600, 4000)
	}, ""},
	{"refused for longer than a failover takes", limited(Hints), func(s *story) {
		s.fault(history.ForgedGossip, 0, 5000, 5000)
		s.refusedFor("node-1", 1000, 2600)
	}, "node-1 has taken no calls about shard 0 (schedule, with a delay: true) for 1.6s"},
	{"refused by one node, though the others do not", limited(Hints), func(s *story) {
		s.fault(history.SilentGossip, 0, 5000, 5000)
		for at := int64(1000); at <= 3000; at += 100 {
			s.delayed("node-1", at, unavailable)
			s.delayed("node-2", at, created)
		}
	}, "node-1 has taken no calls"},
	{"refused calls with a delay, though others are taken", limited(Hints), func(s *story) {
		s.fault(history.SilentGossip, 0, 5000, 5000)
		for at := int64(1000); at <= 3000; at += 100 {
			s.delayed("node-1", at, unavailable)
			s.schedule("a", at, 90000)
		}
	}, "with a delay: true"},
	{"unanswered for longer than a failover takes", limited(Hints), func(s *story) {
		s.fault(history.SilentGossip, 0, 5000, 5000)
		for at := int64(1000); at <= 2600; at += 100 {
			s.delayed("node-1", at, 0)
		}
	}, "node-1 has taken no calls"},
	{"refused for a reason of its own", limited(Hints), func(s *story) {
		s.fault(history.SilentGossip, 0, 5000, 5000)
		for at := int64(1000); at <= 2600; at += 100 {
			s.delayed("node-1", at, conflict)
		}
	}, ""},
	{"refused long after gossip was whole again", limited(Hints), func(s *story) {
		s.fault(history.ForgedGossip, 0, 1000, 1000)
		s.refusedFor("node-1", 60000, 61700)
	}, "node-1 has taken no calls"},
	{"refused while more was broken", limited(Hints), func(s *story) {
		s.fault(history.ForgedGossip, 0, 5000, 5000)
		s.fault(history.PauseLeader, 900, 2700, 2700)
		s.refusedFor("node-1", 1000, 2600)
	}, ""},
	{"refused before gossip was broken", limited(Hints), func(s *story) {
		s.fault(history.ForgedGossip, 3000, 5000, 5000)
		s.refusedFor("node-1", 1000, 2600)
	}, ""},
}
