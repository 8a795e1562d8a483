package check

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/belfryhq/belfry/chaos/history"
)

// schedule holds the records of one schedule.
type schedule struct {
	id    string
	calls []*history.ScheduleCall // by start
	tally *history.Tally          // the last one; nil: the schedule was not read
	ran   map[uint64]*task        // the occurrences that arrived, by number
}

// addSchedules sorts the records of schedules. The tasks of occurrences get arrivals, and no calls.
func (x *Index) addSchedules() {
	byID := map[string]*schedule{}
	of := func(id string) *schedule {
		if byID[id] == nil {
			byID[id] = &schedule{id: id, ran: map[uint64]*task{}}
			x.schedules = append(x.schedules, byID[id])
		}
		return byID[id]
	}
	for i := range x.h.ScheduleCalls {
		c := &x.h.ScheduleCalls[i]
		x.first = min(x.first, c.Start)
		s := of(c.ID)
		s.calls = append(s.calls, c)
	}
	for i := range x.h.Tallies {
		of(x.h.Tallies[i].ID).tally = &x.h.Tallies[i]
	}
	for i := range x.h.Occurrences {
		a := &x.h.Occurrences[i]
		id, _ := history.ScheduleOf(a.ID)
		t := x.occurrence(of(id), a.ID)
		t.arrivals = append(t.arrivals, &arrival{Arrival: a})
	}
	for _, s := range x.schedules {
		slices.SortStableFunc(s.calls, func(a, b *history.ScheduleCall) int { return cmp.Compare(a.Start, b.Start) })
	}
}

// occurrence returns the task of an occurrence. An id without a number has the number 0.
func (x *Index) occurrence(s *schedule, id string) *task {
	if t := x.tasks[id]; t != nil {
		return t
	}
	t := &task{id: id, slot: history.SlotIn(x.h.Namespace, id)}
	x.tasks[id] = t
	x.occurrences = append(x.occurrences, t)
	number, err := strconv.ParseUint(strings.TrimPrefix(id, s.id+"@"), 10, 64)
	if err != nil {
		number = 0
	}
	s.ran[number] = t
	return t
}

// attempted returns all tasks that may have been attempted, occurrences of schedules included.
func (x *Index) attempted() []*task { return slices.Concat(x.order, x.occurrences) }

// numbers returns the numbers of the occurrences that arrived, in rising order.
func (s *schedule) numbers() []uint64 {
	var all []uint64
	for n := range s.ran {
		all = append(all, n)
	}
	slices.Sort(all)
	return all
}

// due returns the instant of the rule for an occurrence that arrived. A missed occurrence comes due later.
func (s *schedule) due(number uint64) history.Instant {
	first := s.ran[number].arrivals[0]
	return cmp.Or(first.Scheduled, first.Due)
}

// may returns the calls of some kinds that happened, or may have happened.
func (s *schedule) may(kinds ...string) (calls []*history.ScheduleCall) {
	for _, c := range s.calls {
		if c.Outcome != history.Failed && slices.Contains(kinds, c.Kind) {
			calls = append(calls, c)
		}
	}
	return calls
}

// steady reports whether the numbers of the schedule's occurrences are those of its interval's instants: the interval
// was given once, and all occurrences are the rule's.
func (s *schedule) steady() bool {
	puts := s.may(history.PutSchedule)
	return len(puts) == 1 && puts[0].Outcome == history.OK && puts[0].Every > 0 &&
		len(s.may(history.ResumeSchedule, history.FireSchedule, history.BackfillPast)) == 0
}

// allows reports whether the schedule's occurrences always ran beside each other.
func (s *schedule) allows() bool {
	return !slices.ContainsFunc(s.may(history.PutSchedule), func(c *history.ScheduleCall) bool {
		return c.Overlap != history.OverlapAllow
	})
}

// runsAll reports whether even the missed occurrences of the schedule run.
func (s *schedule) runsAll() bool {
	const most = 1000 // missed occurrences that run; the service publishes it
	return s.tally.Last <= most && !slices.ContainsFunc(s.may(history.PutSchedule), func(c *history.ScheduleCall) bool {
		return c.Misfire != history.MisfireAll
	})
}

// isRenewed reports whether the schedule may have been made anew after its deletion, with the same numbers. A try of
// the put may have come late.
func (s *schedule) isRenewed() bool {
	puts := s.may(history.PutSchedule)
	return len(s.may(history.DeleteSchedule)) > 0 &&
		(len(puts) != 1 || puts[0].Outcome != history.OK || puts[0].Tries > 1)
}
