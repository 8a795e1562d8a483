package check

import (
	"slices"
	"testing"

	"github.com/belfryhq/belfry/chaos/history"
	"github.com/belfryhq/belfry/internal/assert"
)

// observation is a history that exercises an invariant, or one that lacks a case needed for that.
type observation struct {
	invariant, name string
	tell            func(s *story)
	want            Outcome
}

// failover adds the death of the shard's leader at an instant, and a new leader 700 ms later.
func (s *story) failover(at int64) {
	s.term(1, 0, 5)
	s.fault(history.KillLeader, at, at+800, at+900)
	s.h.Faults[len(s.h.Faults)-1].Restarted = true
	s.term(2, at-50, at+700)
}

// cancelled adds a task and its cancel with the given answer.
func (s *story) cancelled(id, answer string) {
	s.schedule(id, 0, 5000)
	s.cancel(id, 100, answer)
}

// positions adds the equal positions of two replicas of one shard.
func (s *story) positions() {
	s.replica("node-1", 7, "f")
	s.replica("node-2", 7, "f")
}

var observations = []observation{
	{"1", "found after a fault", func(s *story) {
		s.schedule("a", 0, 3000)
		s.failover(1000)
		s.arrive("a", 3001, 3000, 1)
	}, Held},
	{"1", "found before the only fault", func(s *story) {
		s.schedule("a", 0, 500)
		s.arrive("a", 501, 500, 1)
		s.failover(1000)
	}, NotExercised},

	{"2", "due while a clock was off", func(s *story) {
		s.clock(100, 50, 900)
		s.schedule("a", 0, 500)
		s.arrive("a", 501, 500, 1)
	}, Held},
	{"2", "all clocks were right", func(s *story) {
		s.schedule("a", 0, 500)
		s.arrive("a", 501, 500, 1)
	}, NotExercised},
	{"2", "due before it was acknowledged", func(s *story) {
		s.clock(100, 50, 900)
		s.schedule("a", 60, 50)
		s.arrive("a", 70, 50, 1)
	}, NotExercised},

	{"3", "every answer", func(s *story) {
		s.cancelled("a", "cancelled")
		s.cancelled("b", "stopped")
		s.cancelled("c", "already_fired")
	}, Held},
	{"3", "none was stopped", func(s *story) {
		s.cancelled("a", "cancelled")
		s.cancelled("c", "already_fired")
	}, NotExercised},
	{"3", "cancels of tasks that no call had scheduled", func(s *story) {
		s.cancel("a", 100, "cancelled")
		s.cancel("b", 100, "stopped")
		s.cancel("c", 100, "already_fired")
	}, NotExercised},

	{"4", "came twice", func(s *story) {
		s.arrived().Answer = 500
		s.arrive("a", 301, 100, 1).Attempt = 2
	}, Held},
	{"4", "came once each", func(s *story) {
		s.schedule("a", 0, 100)
		s.schedule("b", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.arrive("b", 101, 100, 2)
	}, NotExercised},

	{"5", "under way when the leader was killed", func(s *story) {
		s.schedule("a", 0, 900)
		s.arrive("a", 901, 900, 1).Held = 300e6
		s.failover(1000)
	}, Held},
	{"5", "answered when the leader was killed", func(s *story) {
		s.schedule("a", 0, 900)
		s.arrive("a", 901, 900, 1)
		s.failover(1000)
	}, NotExercised},
	{"5", "under way when a leader was struck that went on leading", func(s *story) {
		s.schedule("a", 0, 900)
		s.arrive("a", 901, 900, 1).Held = 300e6
		s.term(1, 0, 5)
		s.fault("short pause of a leader", 1000, 1100, 1100)
		s.lastSeen(1, 9000)
	}, NotExercised},

	{"6", "due while the leader was dead", func(s *story) {
		s.schedule("a", 0, 1200)
		s.failover(1000)
		s.arrive("a", 1750, 1200, 1)
	}, Held},
	{"6", "nothing was due while the leader was dead", func(s *story) {
		s.schedule("a", 0, 3000)
		s.failover(1000)
		s.arrive("a", 3001, 3000, 1)
	}, NotExercised},
	{"6", "something else was broken while the leader was dead", func(s *story) {
		s.schedule("a", 0, 1200)
		s.fault("slow fsync", 900, 2000, 2000)
		s.failover(1000)
		s.arrive("a", 1750, 1200, 1)
	}, NotExercised},
	{"6", "no leader died", func(s *story) {
		s.schedule("a", 0, 1200)
		s.arrive("a", 1201, 1200, 1)
	}, NotExercised},

	{"7", "attempts on both sides of a failover", func(s *story) {
		s.schedule("a", 0, 900)
		s.arrive("a", 901, 900, 1).Answer = 500
		s.failover(1000)
		s.arrive("a", 1750, 900, 1).Attempt = 2
	}, Held},
	{"7", "attempts on one side of a failover", func(s *story) {
		s.schedule("a", 0, 500)
		s.arrive("a", 501, 500, 1).Answer = 500
		s.arrive("a", 801, 500, 1).Attempt = 2
		s.failover(1000)
	}, NotExercised},

	{"9", "read after a restart", func(s *story) {
		s.schedule("a", 0, 100)
		s.get("a", 500, "delivered", 9, 1)
		s.failover(1000)
		s.get("a", 3000, "delivered", 9, 1)
	}, Held},
	{"9", "read after a fault that ended no process", func(s *story) {
		s.schedule("a", 0, 100)
		s.get("a", 500, "delivered", 9, 1)
		s.fault(history.PauseLeader, 1000, 1800, 1900)
		s.get("a", 3000, "delivered", 9, 1)
	}, NotExercised},
	{"9", "finished after the restart", func(s *story) {
		s.schedule("a", 0, 100)
		s.failover(1000)
		s.get("a", 2500, "delivered", 9, 1)
		s.get("a", 3000, "delivered", 9, 1)
	}, NotExercised},

	{"11", "reads and positions", func(s *story) {
		s.stale("a", "node-1", "delivered", 7)
		s.stale("a", "node-2", "delivered", 7)
		s.positions()
	}, Held},
	{"11", "one replica was read", func(s *story) {
		s.stale("a", "node-1", "delivered", 7)
		s.positions()
	}, NotExercised},
	{"11", "one replica told its position", func(s *story) {
		s.stale("a", "node-1", "delivered", 7)
		s.stale("a", "node-2", "delivered", 7)
		s.replica("node-1", 7, "f")
	}, NotExercised},

	{"12", "taken again, and settled too late", func(s *story) {
		s.leased()
		s.settle(ack, "a", 101, 1200, 409)
		s.lease("a", 1210, 2210, 1)
	}, Held},
	{"12", "nothing was settled too late", func(s *story) {
		s.leased()
		s.lease("a", 1210, 2210, 1)
	}, NotExercised},
	{"12", "taken again after it was given back", func(s *story) {
		s.leased()
		s.settle(release, "a", 101, 200, 200)
		s.lease("a", 1210, 2210, 1)
		s.settle(ack, "a", 1210, 2300, 409)
	}, NotExercised},

	{"13", "a write after the mending", func(s *story) {
		s.failover(1000)
		s.schedule("a", 2000, 90000)
	}, Held},
	{"13", "nothing was written after the mending", func(s *story) {
		s.schedule("a", 0, 90000)
		s.fault(history.PauseLeader, 1000, 1800, 1900)
		s.fault(history.PauseLeader, 2000, 2800, 2900)
		s.schedule("b", 9000, 90000)
		s.h.Calls[1].Answer.Shard, s.h.Calls[0].Answer.Shard = 0, 0
	}, NotExercised},

	{"13b", "overdue when all nodes started", func(s *story) {
		s.schedule("a", 0, 1500)
		s.fault(history.KillAll, 1000, 2000, 2100)
		s.arrive("a", 3000, 1500, 1)
	}, Held},
	{"13b", "nothing was overdue when all nodes started", func(s *story) {
		s.schedule("a", 0, 2500)
		s.fault(history.KillAll, 1000, 2000, 2100)
		s.arrive("a", 3000, 2500, 1)
	}, NotExercised},
	{"13b", "something else was broken when all nodes started", func(s *story) {
		s.schedule("a", 0, 1500)
		s.fault("slow fsync", 1900, 4000, 4000)
		s.fault(history.KillAll, 1000, 2000, 2100)
		s.arrive("a", 3000, 1500, 1)
	}, NotExercised},

	{"13e", "called while gossip was silent, and while it was forged", func(s *story) {
		s.fault(history.SilentGossip, 0, 1000, 1000)
		s.fault(history.ForgedGossip, 2000, 3000, 3000)
		s.schedule("a", 500, 9000)
		s.schedule("a", 2500, 9000)
	}, Held},
	{"13e", "nothing was called while gossip was forged", func(s *story) {
		s.fault(history.SilentGossip, 0, 1000, 1000)
		s.fault(history.ForgedGossip, 2000, 3000, 3000)
		s.schedule("a", 500, 9000)
		s.schedule("a", 3500, 9000)
	}, NotExercised},
	{"13e", "something else was broken whenever gossip was", func(s *story) {
		s.fault("slow fsync", 0, 4000, 4000)
		s.fault(history.SilentGossip, 0, 1000, 1000)
		s.fault(history.ForgedGossip, 2000, 3000, 3000)
		s.schedule("a", 500, 9000)
		s.schedule("a", 2500, 9000)
	}, NotExercised},

	{"13f", "a zone was killed, and a shard took a write", func(s *story) {
		s.survivable(0, 9000)
		s.schedule("a", 500, 9000)
	}, Held},
	{"13f", "a zone was killed while something else was broken", func(s *story) {
		s.fault("slow fsync", 0, 4000, 4000)
		s.survivable(100, 9000)
		s.schedule("a", 500, 9000)
	}, NotExercised},

	{"10", "a schedule ran across a fault, and had its count", func(s *story) {
		s.steadily()
		s.h.ScheduleCalls[0].Count = 10
	}, Held},
	{"10", "no schedule had a count", (*story).steadily, NotExercised},
	{"10", "a schedule ran without a fault", func(s *story) {
		s.put(history.OverlapAllow)
		s.occur(1, 1000)
		s.count(1, 1, 0)
	}, NotExercised},
	{"10", "a schedule was not read at the end", func(s *story) {
		s.steadily()
		s.h.Tallies = nil
	}, NotExercised},

	{"16", "a task waited for its group, amid a fault", func(s *story) {
		s.inTurn()
		s.turn("c", 1960, 1200, 3, 10)
	}, Held},
	{"16", "no fault struck a group", func(s *story) {
		s.inGroup("a", 1000)
		s.inGroup("b", 1100)
		s.turn("a", 1000, 1000, 1, 300)
		s.turn("b", 1310, 1100, 2, 10)
	}, NotExercised},
	{"6b", "due while another path failed", func(s *story) { s.onePath(8_000, 8_900) }, Held},
	{"6b", "due before the failing path was told apart", func(s *story) { s.onePath(5_900, 6_000) }, NotExercised},
	{"16", "no task waited for its group", func(s *story) {
		s.inGroup("a", 1000)
		s.inGroup("b", 1100)
		s.turn("a", 1000, 1000, 1, 10)
		s.fault(history.KillLeader, 1020, 1050, 1060)
		s.turn("b", 1110, 1100, 2, 10)
	}, NotExercised},

	{"18", "a task with a follow-up outlived a fault", func(s *story) {
		s.followed("a")
		s.follow("a", "delivered", 1910, 1)
	}, Held},
	{"18", "no task had a follow-up", func(s *story) {
		s.schedule("a", 0, 1000)
		s.fault(history.KillLeader, 1200, 1500, 1700)
		s.arrive("a", 1900, 1000, 1)
	}, NotExercised},

	{"14", "refused, and not committed", func(s *story) {
		s.scheduleAs("a", 0, 5, 100, history.Failed).Answer.Status = 412
		s.scheduleAs("b", 0, 5, 100, history.Failed).Answer.Status = 503
	}, Held},
	{"14", "nothing was answered as not committed", func(s *story) {
		s.scheduleAs("a", 0, 5, 100, history.Failed).Answer.Status = 412
	}, NotExercised},
}

// TestOutcomes checks that an invariant counts as held only by a history that exercises it.
func TestOutcomes(t *testing.T) {
	for _, tt := range observations {
		t.Run(tt.invariant+" "+tt.name, func(t *testing.T) {
			s := &story{}
			tt.tell(s)
			f := finding(t, &s.h, tt.invariant)
			if f.Outcome() != tt.want {
				t.Errorf("%s, want %s: observed %v, breaches %v", f.Outcome(), tt.want, f.Observed, f.Breaches)
			}
		})
	}
}

func finding(t *testing.T, h *history.History, invariant string) Finding {
	t.Helper()
	all := All(NewIndex(h), limits)
	i := slices.IndexFunc(all, func(f Finding) bool { return f.Invariant == invariant })
	if i < 0 {
		t.Fatalf("there is no invariant %q", invariant)
	}
	return all[i]
}

// No check holds by an empty history, and every check has histories that exercise it and histories that do not.
func TestEveryCheckSaysWhatItObserved(t *testing.T) {
	for _, f := range All(NewIndex(&history.History{}), limits) {
		if f.Outcome() != NotExercised || len(f.Missing()) == 0 {
			t.Errorf("invariant %s: by an empty history %s, without %q", f.Invariant, f.Outcome(), f.Missing())
		}
		for _, want := range []Outcome{Held, NotExercised} {
			if !slices.ContainsFunc(observations, func(o observation) bool {
				return o.invariant == f.Invariant && o.want == want
			}) {
				t.Errorf("invariant %s: no history by which it is %s", f.Invariant, want)
			}
		}
	}
}

// A breach counts even without observations. A check that names no observations is not exercised.
func TestOutcomeOfAFinding(t *testing.T) {
	var f Finding
	assert.Equal(t, f.Outcome(), NotExercised, "a check that observes nothing")
	f.Observe(0, "cases")
	f.breach(1, "a", "broken")
	assert.Equal(t, f.Outcome(), Breached, "a breach")
}

// Several runs together may exercise an invariant that each of them alone does not.
func TestFindingsAddUp(t *testing.T) {
	var f, g Finding
	f.Observe(2, "cases")
	f.Observe(0, "others")
	g.Observe(0, "cases")
	g.Observe(1, "others")
	sum := f.Plus(g)
	if f.Outcome() != NotExercised || g.Outcome() != NotExercised || sum.Outcome() != Held {
		t.Errorf("%s and %s make %s, of %v", f.Outcome(), g.Outcome(), sum.Outcome(), sum.Observed)
	}
	if len(f.Missing()) != 1 || f.Observed[1].Count != 0 {
		t.Errorf("the sum changed its part: %v", f.Observed)
	}
}
