package check

import (
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

var limits = DefaultLimits()

func limited(f func(*Index, Limits) Finding) func(*Index) Finding {
	return func(x *Index) Finding { return f(x, limits) }
}

// Every check is shown histories that keep its promise and histories that break it. What a broken one must say stands
// in want; empty: the history is good.
var cases = []struct {
	name  string
	check func(*Index) Finding
	tell  func(s *story)
	want  string
}{
	{"delivered", Lost, func(s *story) { s.schedule("a", 0, 100); s.arrive("a", 101, 100, 1) }, ""},
	{"never came", Lost, func(s *story) { s.schedule("a", 0, 100) }, "nothing came of it"},
	{"never came, and was not acknowledged", Lost, func(s *story) {
		s.scheduleAs("a", 0, 0, 100, history.Unknown)
		s.scheduleAs("b", 0, 5, 100, history.Failed)
	}, ""},
	{"came, but only to fail", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1).Answer = 500
	}, "nothing came of it"},
	{"dead letter", Lost, func(s *story) { s.schedule("a", 0, 100); s.get("a", 500, "dead", 9, 1) }, ""},
	{"still waiting", Lost, func(s *story) { s.schedule("a", 0, 100); s.get("a", 500, "ready", 9, 1) }, ""},
	{"still waiting with another's payload", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.get("a", 500, "ready", 9, 77)
	}, "nothing came of it"},
	{"called delivered, and never came", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.get("a", 500, "delivered", 9, 0)
	}, "nothing came of it"},
	{"cancelled", Lost, func(s *story) { s.schedule("a", 0, 100); s.cancel("a", 10, "cancelled") }, ""},
	{"cancelled before it was scheduled", Lost, func(s *story) {
		s.cancel("a", 0, "cancelled")
		s.schedule("a", 10, 100)
	}, "nothing came of it"},
	{"cancelled too late", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 200, "already_fired")
	}, "nothing came of it"},
	{"replaced", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.schedule("a", 10, 200)
		s.arrive("a", 201, 200, 2)
	}, ""},
	{"replaced by what is lost", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.schedule("a", 50, 200)
		s.arrive("a", 101, 100, 1)
	}, "operation 2"},
	{"of two at once, revisions tell which was last", Lost, func(s *story) {
		s.schedule("a", 0, 100).Answer.Revision = 8
		s.schedule("a", 1, 200).Answer.Revision = 7
		s.arrive("a", 201, 200, 2)
	}, "operation 1"},
	{"perhaps cancelled", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 10, "").Outcome = history.Unknown
	}, ""},
	{"patched with another payload", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		c := history.Call{Kind: history.Patch, ID: "a", Ask: history.Ask{Delay: time.Millisecond, Body: body(2)}}
		s.call(c, 10, 12, history.OK, history.Answer{})
		s.arrive("a", 101, 100, 2)
	}, ""},
	{"touched, and a task made", Lost, func(s *story) {
		c := history.Call{Kind: history.Touch, ID: "a", Ask: history.Ask{OrSchedule: true, Body: body(1)}}
		s.call(c, 10, 12, history.OK, history.Answer{Wrote: 1})
	}, "operation 1"},
	{"touched, and no task made", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		c := history.Call{Kind: history.Touch, ID: "a", Ask: history.Ask{OrSchedule: true, Body: body(2)}}
		s.call(c, 10, 12, history.OK, history.Answer{Wrote: 1})
	}, "operation 1"},
	{"not found", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.absent("a", 50)
		s.arrive("a", 101, 100, 1)
	}, "found no task"},
	{"not found before it was there", Lost, func(s *story) {
		s.absent("a", 0)
		s.schedule("a", 1, 100)
		s.arrive("a", 101, 100, 2)
	}, ""},

	{"on time", Early, func(s *story) { s.schedule("a", 0, 100); s.arrive("a", 100, 100, 1) }, ""},
	{"a millisecond early", Early, func(s *story) { s.schedule("a", 0, 100); s.arrive("a", 99, 100, 1) }, "before it was due"},
	{"as due at another instant", Early, func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 99, 98, 1)
	}, "no call had asked"},
	{"as due at what was refused", Early, func(s *story) {
		s.schedule("a", 0, 100)
		s.scheduleAs("a", 10, 12, 50, history.Failed)
		s.arrive("a", 51, 50, 1)
	}, "no call had asked"},
	{"after a delay", Early, func(s *story) {
		s.schedule("a", 0, 0).Ask = history.Ask{Delay: 100 * time.Millisecond, Body: body(1)}
		s.arrive("a", 104, 103, 1)
	}, ""},
	{"after less than the delay", Early, func(s *story) {
		s.schedule("a", 10, 0).Ask = history.Ask{Delay: 100 * time.Millisecond, Body: body(1)}
		s.arrive("a", 110, 109, 1)
	}, "no call had asked"},
	{"due later than the delay", Early, func(s *story) {
		s.schedule("a", 0, 0).Ask = history.Ask{Delay: 100 * time.Millisecond, Body: body(1)}
		s.arrive("a", 120, 120, 1)
	}, "no call had asked"},
	{"fired now", Early, func(s *story) {
		s.schedule("a", 0, 100)
		s.call(history.Call{Kind: history.Fire, ID: "a"}, 50, 52, history.OK, history.Answer{})
		s.arrive("a", 53, 51, 1)
	}, ""},
	{"early by no more than a clock was off", Early, func(s *story) {
		s.clock(-100, 50, 90)
		s.schedule("a", 0, 200)
		s.arrive("a", 110, 200, 1)
	}, ""},
	{"early by more than a clock was off", Early, func(s *story) {
		s.clock(-100, 50, 90)
		s.schedule("a", 0, 200)
		s.arrive("a", 99, 200, 1)
	}, "before it was due"},
	{"early by more than a clock may be off", Early, func(s *story) {
		s.clock(10_000, 50, 90)
		s.schedule("a", 0, 500)
		s.arrive("a", 100, 500, 1)
	}, "before it was due"},
	{"early after a clock was set right", Early, func(s *story) {
		s.clock(-100, 50, 90)
		s.schedule("a", 0, 2000)
		s.arrive("a", 1910, 2000, 1)
	}, "before it was due"},
	{"after a delay by a clock that was off", Early, func(s *story) {
		s.clock(100, 0, 90)
		s.schedule("a", 10, 0).Ask = history.Ask{Delay: 200 * time.Millisecond, Body: body(1)}
		s.arrive("a", 310, 310, 1)
	}, ""},
	{"after a delay by a clock that was off by more than it may", Early, func(s *story) {
		s.clock(10_000, 0, 90)
		s.schedule("a", 10, 0).Ask = history.Ask{Delay: 200 * time.Millisecond, Body: body(1)}
		s.arrive("a", 10_210, 10_210, 1)
	}, "no call had asked"},

	{"cancelled", Cancelled, func(s *story) { s.schedule("a", 0, 100); s.cancel("a", 10, "cancelled") }, ""},
	{"cancelled and came after", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 10, "cancelled")
		s.arrive("a", 101, 100, 1)
	}, "an attempt arrived"},
	{"cancelled and came before", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.cancel("a", 110, "cancelled")
	}, "an attempt arrived"},
	{"stopped and came", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 99, "stopped")
		s.arrive("a", 105, 100, 1)
	}, ""},
	{"cancelled, and scheduled anew", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 10, "cancelled")
		s.schedule("a", 20, 100)
		s.arrive("a", 101, 100, 3)
	}, ""},
	{"cancelled after it was replaced", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.schedule("a", 110, 200)
		s.cancel("a", 120, "cancelled")
	}, ""},
	{"patched, cancelled, and came", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		c := history.Call{Kind: history.Patch, ID: "a", Ask: history.Ask{Delay: time.Millisecond, Body: body(2)}}
		s.call(c, 10, 12, history.OK, history.Answer{})
		s.cancel("a", 20, "cancelled")
		s.arrive("a", 101, 100, 2)
	}, "an attempt arrived"},
	{"two answers", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 10, "cancelled")
		s.cancel("a", 20, "stopped")
	}, "answered cancelled and stopped"},

	{"two attempts", OneBody, func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.arrive("a", 201, 100, 1).Attempt = 2
	}, ""},
	{"another webhook-id", OneBody, func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.arrive("a", 201, 100, 1).WebhookID = "w9"
	}, "webhook-ids w1 and w9"},
	{"no webhook-id", OneBody, func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1).WebhookID = ""
	}, "no webhook-id"},
	{"one webhook-id for two", OneBody, func(s *story) {
		s.schedule("a", 0, 100)
		s.schedule("b", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.arrive("b", 101, 100, 2).WebhookID = "w1"
	}, "webhook-id w1 came for"},
	{"altered", OneBody, func(s *story) { s.schedule("a", 0, 100); s.arrive("a", 101, 100, 1).Body++ }, "altered"},
	{"made up", OneBody, func(s *story) { s.schedule("a", 0, 100); s.arrive("a", 101, 100, 5) }, "no call had sent"},

	{"retried", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1).Answer = 500
		s.arrive("a", 201, 100, 1).Attempt = 2
	}, ""},
	{"repeated without a fault", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.arrive("a", 201, 100, 1)
	}, "came again"},
	{"tried again after success", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.arrive("a", 201, 100, 1).Attempt = 2
	}, "came again"},
	{"repeated by a failover", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 800, 100, 1)
	}, ""},
	{"repeated by the failover of another shard", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100).Answer.Shard = 2
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 800, 100, 1)
	}, "came again"},
	{"repeated twice by one failover", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 800, 100, 1)
		s.arrive("a", 810, 100, 1)
	}, "came again"},
	{"repeated twice by two failovers", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 800, 100, 1)
		s.fault(history.KillLeader, 1100, 1900, 2000)
		s.arrive("a", 1800, 100, 1)
	}, ""},
	{"repeated though it was long settled", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillLeader, 5000, 6000, 7000)
		s.arrive("a", 6000, 100, 1)
	}, "came again"},
	{"held by the receiver until the failover", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1).Held = 5 * time.Second
		s.fault(history.KillLeader, 5000, 6000, 7000)
		s.arrive("a", 6000, 100, 1)
	}, ""},
	{"repeated long after the failover", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillLeader, 150, 900, 1000)
		s.arrive("a", 30000, 100, 1)
	}, "came again"},
	{"tried again after a repeat that failed", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
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
	{"repeated by a change of leader of its own", limited(Repeats), func(s *story) {
		s.schedule("a", 0, 100)
		s.term(1, 0, 10)
		s.arrive("a", 101, 100, 1)
		s.term(2, 400, 700)
		s.arrive("a", 800, 100, 1)
	}, ""},

	{"rising", limited(Fences), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.arrive("a", 201, 100, 1)
	}, ""},
	{"falling", limited(Fences), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
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
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.arrive("a", 201, 100, 1).Fence = 101
	}, "came twice"},
	{"no fence", limited(Fences), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1).Fence = 0
	}, "no fence"},

	{"fresh reads", Revisions, func(s *story) { s.schedule("a", 10, 100); s.get("a", 20, "scheduled", 11, 1) }, ""},
	{"an old read", Revisions, func(s *story) {
		s.schedule("a", 10, 100)
		s.get("a", 20, "scheduled", 10, 1)
	}, "shows 10"},
	{"an old read beside the write", Revisions, func(s *story) {
		s.schedule("a", 10, 100)
		s.get("a", 12, "scheduled", 10, 1)
	}, ""},
	{"a write out of order", Revisions, func(s *story) {
		s.schedule("a", 10, 100)
		s.schedule("a", 20, 100).Answer.Revision = 3
	}, "shows 3"},

	{"finished for good", limited(Undead), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.fault(history.KillAll, 5000, 6000, 7000)
		s.get("a", 200, "delivered", 9, 0)
		s.get("a", 8000, "delivered", 9, 0)
	}, ""},
	{"delivered again after a restart", limited(Undead), func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, 1)
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
	{"behind", Replicas, func(s *story) { s.replica("node-1", 12, ""); s.replica("node-2", 11, "") }, "node-2 11"},
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

func TestChecks(t *testing.T) {
	for _, tt := range cases {
		s := &story{}
		tt.tell(s)
		f := tt.check(NewIndex(&s.h))
		t.Run(f.Invariant+" "+tt.name, func(t *testing.T) {
			var said []string
			for _, b := range f.Breaches {
				said = append(said, b.What)
			}
			switch all := strings.Join(said, "; "); {
			case tt.want == "" && all != "":
				t.Errorf("refused: %s", all)
			case !strings.Contains(all, tt.want):
				t.Errorf("said %q, want %q", all, tt.want)
			}
		})
	}
}

// Every check must be able to turn red, and to stay green.
func TestEveryCheckIsShownBoth(t *testing.T) {
	type both struct{ green, red bool }
	shown := map[string]both{}
	for _, tt := range cases {
		s := &story{}
		f := tt.check(NewIndex(&s.h))
		b := shown[f.Invariant]
		b.green, b.red = b.green || tt.want == "", b.red || tt.want != ""
		shown[f.Invariant] = b
	}
	for _, f := range All(NewIndex(&history.History{}), limits) {
		if b := shown[f.Invariant]; f.Invariant != "6" && (!b.green || !b.red) {
			t.Errorf("invariant %s is not shown both a good and a bad history", f.Invariant)
		}
	}
}

// A try that may still be under way counts as done at any time once its key may be forgotten.
func TestForgottenKey(t *testing.T) {
	s := &story{}
	first := *s.scheduleAs("a", 0, 3, 100, history.Unknown)
	again := history.Call{Op: first.Op, Kind: first.Kind, ID: "a", Ask: first.Ask}
	s.call(again, 4, 6, history.OK, history.Answer{Revision: 5, Wrote: 1})
	s.cancel("a", 10, "cancelled")
	s.arrive("a", 101, 100, 1)
	if f := Cancelled(NewIndex(&s.h)); f.OK() {
		t.Error("a call whose key is remembered cannot happen twice")
	}
	s.schedule("a", 20, 5000)
	s.cancel("a", 30, "cancelled")
	if f := Cancelled(NewIndex(&s.h)); !f.OK() {
		t.Errorf("a call whose key may be forgotten may happen twice: %v", f.Breaches)
	}
}

func TestLateness(t *testing.T) {
	s := &story{}
	for i := range int64(100) {
		c := s.schedule("a", i, 1000)
		s.arrive("a", 1000+i, 1000, c.Op)
	}
	c := s.schedule("b", 1500, 100) // due before it was acknowledged
	s.arrive("b", 1507, 100, c.Op)
	s.fault(history.KillAll, 2000, 3000, 4000)
	c = s.schedule("c", 1600, 2500)
	s.arrive("c", 4500, 2500, c.Op)
	f := Lateness(NewIndex(&s.h))
	want := "kill -9 of all nodes: 1, p50 2s, p99 2s, max 2s; no fault: 101, p50 49.3ms, p99 98.6ms, max 99ms"
	if f.Figures.String() != want {
		t.Errorf("%q, want %q", f.Figures, want)
	}
}

func TestTimeline(t *testing.T) {
	s := &story{}
	s.schedule("a", 0, 100)
	s.schedule("b", 0, 100)
	s.fault(history.KillLeader, 50, 60, 70)
	s.arrive("a", 101, 100, 1)
	x := NewIndex(&s.h)
	all := x.Timeline("a", ms(50), 10)
	if len(all) != 3 || !strings.HasPrefix(all[0], "0.0000  operation 1: schedule via node-1") ||
		!strings.Contains(all[1], "FAULT") || !strings.Contains(all[2], "ARRIVED w1") {
		t.Errorf("%q", all)
	}
	if cut := x.Timeline("a", ms(101), 1); len(cut) != 1 || !strings.Contains(cut[0], "ARRIVED") {
		t.Errorf("%q", cut)
	}
	if none := x.Timeline("", 0, 5); len(none) != 0 {
		t.Errorf("%q", none)
	}
}
