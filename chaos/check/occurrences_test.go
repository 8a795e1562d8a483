package check

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// every is the interval of the stories' schedules in milliseconds. Their anchor is 0.
const every = 1000

// put adds a call that makes the schedule "s" at 0, with an overlap policy.
func (s *story) put(overlap string) {
	s.about(history.PutSchedule, 0, 5)
	c := &s.h.ScheduleCalls[len(s.h.ScheduleCalls)-1]
	c.Every, c.Overlap, c.Body = every*time.Millisecond, overlap, body(c.Op)
}

// about adds an acknowledged call about the schedule.
func (s *story) about(kind string, start, end int64) *history.ScheduleCall {
	s.op++
	s.h.ScheduleCalls = append(s.h.ScheduleCalls, history.ScheduleCall{
		Op: s.op, Kind: kind, ID: "s", Start: ms(start), End: ms(end), Outcome: history.OK, Tries: 1,
	})
	return &s.h.ScheduleCalls[len(s.h.ScheduleCalls)-1]
}

// occur adds an arrival of an occurrence, 1 ms after it was due.
func (s *story) occur(number, due int64) *history.Arrival {
	s.h.Occurrences = append(s.h.Occurrences, history.Arrival{
		At: ms(due + 1), ID: fmt.Sprintf("s@%d", number), WebhookID: fmt.Sprintf("w%d", number), Attempt: 1,
		Fence: uint64(due + 1), Due: ms(due), Wrote: 1, Body: body(1), Answer: 200,
	})
	return &s.h.Occurrences[len(s.h.Occurrences)-1]
}

// count adds the schedule as a read at the end shows it.
func (s *story) count(last, started, passed uint64) *history.Tally {
	s.h.Tallies = append(s.h.Tallies, history.Tally{
		At: ms(60_000), ID: "s", Every: every * time.Millisecond, Anchor: ms(0), Last: last, Started: started, Passed: passed,
	})
	return &s.h.Tallies[len(s.h.Tallies)-1]
}

// steadily adds a schedule with eight occurrences, of which a fault made 3 to 5 pass, and a pause at the end.
func (s *story) steadily() {
	s.put(history.OverlapAllow)
	for _, n := range []int64{1, 2, 6, 7, 8} {
		s.occur(n, n*every)
	}
	s.fault(history.KillAll, 2500, 9000, 9000)
	s.occur(10, 10*every)
	s.about(history.PauseSchedule, 10_500, 10_510)
	s.count(10, 7, 3).Found = []uint64{9}
}

// counted returns a story of a schedule with a count, which has had n occurrences.
func counted(count, n int64) func(s *story) {
	return func(s *story) {
		s.put(history.OverlapAllow)
		s.h.ScheduleCalls[0].Count = count
		for i := range n {
			s.occur(i+1, (i+1)*every)
		}
		s.count(uint64(n), uint64(n), 0)
	}
}

// alter adds steadily, and changes it.
func alter(change func(s *story)) func(s *story) {
	return func(s *story) {
		s.steadily()
		change(s)
	}
}

// tallied adds steadily, and changes the read at the end.
func tallied(change func(t *history.Tally)) func(s *story) {
	return alter(func(s *story) { change(&s.h.Tallies[0]) })
}

var occurrences = limited(Occurrences)

var scheduleCases = []example{
	{"runs, and passes amid a fault", occurrences, (*story).steadily, ""},
	{"repeated by a failover", occurrences, alter(func(s *story) { s.occur(2, 2000).At = ms(9100) }), ""},
	{"repeated under another webhook-id", occurrences, alter(func(s *story) {
		s.occur(2, 2000).WebhookID = "another"
	}), "came under the webhook-ids w2 and another"},
	{"two occurrences share a webhook-id", occurrences, alter(func(s *story) {
		s.h.Occurrences[1].WebhookID = "w1"
	}), "webhook-id w1 came for s@1, too"},
	{"a body that no call gave", occurrences, alter(func(s *story) { s.h.Occurrences[0].Body++ }), "no call had given"},
	{"early", occurrences, alter(func(s *story) { s.h.Occurrences[0].At = ms(900) }), "arrived 100ms before"},
	{"early by a clock that was ahead", occurrences, alter(func(s *story) {
		s.h.Occurrences[0].At = ms(900)
		s.clock(200, 500, 1500)
	}), ""},
	{"repeated as due at another instant", occurrences, alter(func(s *story) {
		s.occur(2, 2100).WebhookID = "w2"
	}), "came as due at"},
	{"an instant with two numbers", occurrences, alter(func(s *story) {
		s.occur(9, 8000)
	}), "occurrences [8 9] are all due at"},
	{"missed ones that come due together", occurrences, alter(func(s *story) {
		s.h.Occurrences[3].Due, s.h.Occurrences[3].Scheduled = ms(7500), ms(7000)
		s.h.Occurrences[4].Due, s.h.Occurrences[4].Scheduled = ms(7500), ms(8000)
		s.h.Occurrences[3].At, s.h.Occurrences[4].At = ms(7501), ms(7501)
	}), ""},
	{"numbers ahead of the rule", occurrences, alter(func(s *story) {
		s.h.Occurrences[2].ID, s.h.Occurrences[2].Due = "s@3", ms(6000)
	}), "instant 3 of the rule is"},
	{"an instant without a number", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.occur(1, 1000)
		s.occur(2, 3000)
		s.count(2, 2, 0)
	}, "instant 2 of the rule is"},
	{"an instant without a number, of a schedule that is gone", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.occur(1, 1000)
		s.occur(2, 3000)
		s.about(history.DeleteSchedule, 3500, 3510)
	}, "instant 2 of the rule is"},
	{"more than the last", occurrences, tallied(func(t *history.Tally) {
		t.Last, t.Passed = 9, 2
	}), "occurrence 10 became a task, and the last one is 9"},
	{"a task that is not counted", occurrences, tallied(func(t *history.Tally) { t.Started = 6 }), "counts 6"},
	{"a number without an account", occurrences, tallied(func(t *history.Tally) {
		t.Last++
	}), "of 11 occurrences 7 became tasks, 0 wait and 3 were passed"},
	{"one runs and one waits", occurrences, tallied(func(t *history.Tally) {
		t.Last, t.Started, t.Running, t.Waiting = 12, 8, []uint64{11}, []uint64{12}
	}), ""},
	{"passed without a fault", occurrences, alter(func(s *story) {
		s.h.Faults = nil
	}), "occurrence 3, due at 3.0000, did not run"},
	{"passed amid a fault, though all missed ones run", occurrences, alter(func(s *story) {
		s.h.ScheduleCalls[0].Misfire = history.MisfireAll
	}), "occurrence 3, due at 3.0000, did not run"},
	{"passed long before a fault", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.occur(1, 1000)
		s.occur(3, 3000)
		s.fault(history.KillAll, 7500, 9000, 9000)
		s.count(3, 2, 1)
	}, "occurrence 2, due at"},
	{"passed by a lone clock that was ahead", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.occur(1, 1000)
		s.clock(60_000, 1500, 1600)
		s.h.Faults[0].Alone = true
		s.occur(40, 40_000).At = ms(1550)
		s.about(history.PauseSchedule, 30_000, 30_010)
		s.count(40, 2, 38)
	}, ""},
	{"skipped by a call", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.occur(1, 1000)
		s.about(history.SkipNext, 1500, 1510)
		s.occur(3, 3000)
		s.count(3, 2, 1)
	}, ""},
	{"one skipped by a call, and one more", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.about(history.SkipNext, 1500, 1510)
		s.occur(3, 3000)
		s.count(3, 1, 2)
	}, "occurrence 2, due at"},
	{"passed by its overlap policy", occurrences, func(s *story) {
		s.put("skip")
		s.occur(1, 1000)
		s.count(2, 1, 1)
	}, ""},
	{"passed while its slot moved", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		for shard := uint32(1); shard <= 2; shard++ {
			s.h.Owners = append(s.h.Owners, history.Owner{Shard: shard, End: history.Slots})
		}
		s.occur(2, 2000)
		s.count(2, 1, 1)
	}, ""},
	{"begun by a caller", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.occur(1, 1000)
		s.about(history.FireSchedule, 1490, 1510)
		s.occur(2, 1500)
		s.occur(3, 2000)
		s.count(3, 3, 0)
	}, ""},
	{"as many as its count", occurrences, counted(4, 4), ""},
	{"more than its count", occurrences, counted(3, 4), "has had 4 occurrences, and its count is 3"},
	{"fewer than its count", occurrences, counted(5, 4), "has had 4 occurrences, and its count is 5"},
	{"fewer than its count, and a pause", occurrences, func(s *story) {
		counted(5, 4)(s)
		s.about(history.PauseSchedule, 4500, 4510)
	}, ""},
	{"fewer than its count, amid a fault", occurrences, func(s *story) {
		counted(5, 4)(s)
		s.fault(history.KillAll, 4500, 59_000, 59_000)
	}, ""},
	{"two begun by one call", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.about(history.FireSchedule, 490, 510)
		for n := range int64(3) {
			s.occur(n+1, 500)
		}
	}, "occurrences [1 2 3] are all due at 0.5000"},
	{"the past filled in", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.occur(1, 1000)
		s.occur(2, 2000)
		c := s.about(history.BackfillPast, 2500, 2510)
		c.From, c.To = ms(1000), ms(2000)
		s.occur(3, 1000).At = ms(2506)
		s.occur(4, 2000).At = ms(2507)
		s.count(4, 4, 0)
	}, ""},
	{"due in a pause", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.about(history.PauseSchedule, 1200, 1210)
		s.occur(1, 2000)
		s.about(history.ResumeSchedule, 3200, 3210)
	}, "was due at 2.0000, after the pause had been acknowledged at 1.2100"},
	{"due after a pause", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.about(history.PauseSchedule, 1200, 1210)
		s.about(history.ResumeSchedule, 3200, 3210)
		s.occur(1, 4000)
	}, ""},
	{"due after the deletion", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.occur(1, 1000)
		s.about(history.DeleteSchedule, 1500, 1510)
		s.occur(2, 2000)
	}, "after the delete had been acknowledged"},
	{"perhaps made anew after the deletion", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.h.ScheduleCalls[0].Tries = 2
		s.occur(1, 1000)
		s.about(history.DeleteSchedule, 1500, 1510)
		s.occur(1, 9000).WebhookID = "another"
	}, ""},
	{"acknowledged and gone", occurrences, tallied(func(t *history.Tally) {
		*t = history.Tally{ID: "s", Absent: true}
	}), "is gone"},
	{"deleted and gone", occurrences, func(s *story) {
		s.put(history.OverlapAllow)
		s.about(history.DeleteSchedule, 1500, 1510)
		s.count(0, 0, 0).Absent = true
	}, ""},
	{"repeated without a failover", limited(Repeats), func(s *story) {
		s.put(history.OverlapAllow)
		s.occur(1, 1000)
		s.occur(1, 1000).At = ms(1500)
	}, "came again"},
	{"one grant twice", limited(Fences), func(s *story) {
		s.put(history.OverlapAllow)
		s.occur(1, 1000)
		s.occur(1, 1000)
	}, "fence 1001 came twice"},
	{"an occurrence shows another namespace", apartOf, func(s *story) {
		s.put(history.OverlapAllow)
		s.h.ScheduleCalls[0].Namespace = other
		s.occur(1, 1000)
	}, `shows the payload of operation 1 in namespace "other"`},
}

// Each number that is taken from a good record, or comes twice, makes the check fail.
func TestEachOccurrenceCounts(t *testing.T) {
	s := &story{}
	s.steadily()
	whole := s.h.Occurrences
	for i := range whole {
		s.h.Occurrences = slices.Delete(slices.Clone(whole), i, i+1)
		if f := Occurrences(NewIndex(&s.h), limits); !f.Broken() {
			t.Errorf("without %s: %s", whole[i].ID, f.Outcome())
		}
		twice := whole[i]
		twice.ID, twice.WebhookID = "s@11", "w11"
		s.h.Occurrences = append(slices.Clone(whole), twice)
		if f := Occurrences(NewIndex(&s.h), limits); !f.Broken() {
			t.Errorf("with %s under a second number: %s", whole[i].ID, f.Outcome())
		}
	}
}
