package check

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// missedAfter is how late an occurrence may begin and still run under any policy. The service publishes it.
const missedAfter = 5 * time.Second

// Occurrences checks invariant 10: each occurrence of a schedule runs once, or is passed by policy.
//
//   - The numbers up to the last one are those of the occurrences that became a task, wait, or were passed. The
//     schedule's own counts agree.
//   - All attempts of an occurrence carry one webhook-id and the body that the schedule had been given.
//   - No two occurrences have the same instant, unless a caller began one of them.
//   - The numbers of a steady schedule follow its rule: occurrence n is due at the n-th instant of the interval.
//   - A steady schedule with a count has that many occurrences, and no more.
//   - A steady schedule that allows overlaps passes an occurrence only if a caller skipped it, or if a fault, a clock
//     that was ahead or a move of its slot may have kept it from beginning in time. With the policy that all missed
//     occurrences run, only a caller's skip is a reason.
//   - No occurrence is early, and none is due in a pause or after the deletion.
//
// Repeats and Fences judge the attempts of occurrences, too.
func Occurrences(x *Index, limits Limits) Finding {
	c := recurrence{x: x, limits: limits, owner: map[string]string{}}
	c.Invariant, c.Promise = "10", "repeating tasks neither skip nor double"
	for _, s := range x.schedules {
		c.attempts(s)
		c.instants(s)
		c.ends(s)
		c.numbers(s)
		c.counts(s)
		c.limit(s)
		if x.outlasted(s) {
			c.outlasted++
		}
	}
	c.Observe(len(x.occurrences), "occurrences that arrived")
	c.Observe(c.counted, "schedules whose numbers were all accounted for")
	c.Observe(c.outlasted, "schedules with occurrences before and after a fault")
	c.Observe(c.ended, "schedules that ended by their count")
	c.figures("%d schedules, %d of them steady; %d occurrences arrived; of %d counted ones %d became tasks, %d wait and "+
		"%d were passed; %v early at most, by a clock that was off", len(x.schedules), c.steady, len(x.occurrences), c.last,
		c.started, c.waiting, c.passed, c.earliest)
	return c.Finding
}

// recurrence is the check under way.
type recurrence struct {
	Finding

	x      *Index
	limits Limits
	owner  map[string]string // occurrence of each webhook-id

	steady, counted                int
	outlasted, ended               int
	last, started, waiting, passed int
	earliest                       time.Duration
}

// attempts checks the webhook-id, the body and the time of each attempt.
func (c *recurrence) attempts(s *schedule) {
	for _, n := range s.numbers() {
		t := s.ran[n]
		first := t.arrivals[0]
		for _, a := range t.arrivals {
			early := a.Due.Sub(a.At)
			c.earliest = max(c.earliest, early)
			if _, ahead := c.x.clocks.Off(a.At, a.At); early > ahead {
				c.breach(a.At, t.id, "arrived %v before it was due", early)
			}
			if !s.wasGiven(a) {
				c.breach(a.At, t.id, "an attempt carried a body that no call had given the schedule")
			}
			switch owner, known := c.owner[a.WebhookID]; {
			case a.WebhookID == "":
				c.breach(a.At, t.id, "an attempt had no webhook-id")
			case known && owner != t.id:
				c.breach(a.At, t.id, "webhook-id %s came for %s, too", a.WebhookID, owner)
			case s.isRenewed():
			case first.WebhookID != a.WebhookID:
				c.breach(a.At, t.id, "came under the webhook-ids %s and %s", first.WebhookID, a.WebhookID)
			case first.Due != a.Due:
				c.breach(a.At, t.id, "came as due at %s, and at %s", c.x.clock(first.Due), c.x.clock(a.Due))
			}
			c.owner[a.WebhookID] = t.id
		}
	}
}

// wasGiven reports whether a call may have given a schedule the body of an attempt.
func (s *schedule) wasGiven(a *arrival) bool {
	return slices.ContainsFunc(s.may(history.PutSchedule), func(put *history.ScheduleCall) bool {
		return put.Op == a.Wrote && put.Body == a.Body && put.Start <= a.At
	})
}

// instants finds occurrences that share an instant, more than callers can have begun.
func (c *recurrence) instants(s *schedule) {
	if s.isRenewed() {
		return
	}
	at := map[history.Instant][]uint64{}
	for _, n := range s.numbers() {
		due := s.due(n)
		at[due] = append(at[due], n)
		if all := at[due]; len(all) > 1+c.called(s, due) {
			c.breach(s.ran[n].arrivals[0].At, s.ran[n].id, "occurrences %v are all due at %s", all, c.x.clock(due))
		}
	}
}

// called returns how many occurrences at an instant callers may have begun.
func (c *recurrence) called(s *schedule, due history.Instant) (n int) {
	for _, call := range s.may(history.FireSchedule, history.BackfillPast) {
		from, to := call.From, call.To
		if call.Kind == history.FireSchedule {
			from, to = c.taken(call)
		}
		if from <= due && due <= to {
			n++
		}
	}
	return n
}

// ahead is how far the service may be ahead of the instants at which something is due.
const ahead = 100 * time.Millisecond

// taken returns the instants between which a call took effect by the deciding clock.
func (c *recurrence) taken(call *history.ScheduleCall) (from, to history.Instant) {
	behind, fast := c.x.clocks.Off(call.Start, call.End)
	from, to = call.Start.Add(-behind-ahead), call.End.Add(fast+ahead)
	if call.Outcome != history.OK {
		to = history.Forever
	}
	return from, to
}

// ends finds occurrences of the rule that were due in a pause or after the deletion.
func (c *recurrence) ends(s *schedule) {
	for _, call := range s.may(history.PauseSchedule, history.DeleteSchedule) {
		if call.Outcome != history.OK || call.Kind == history.DeleteSchedule && s.isRenewed() {
			continue
		}
		_, from := c.taken(call)
		to := c.resumed(s, call)
		for _, n := range s.numbers() {
			if due := s.due(n); from < c.x.clocks.Earliest(due) && due < to && c.called(s, due) == 0 {
				c.breach(s.ran[n].arrivals[0].At, s.ran[n].id, "was due at %s, after the %s had been acknowledged at %s",
					c.x.clock(due), call.Kind, c.x.clock(call.End))
			}
		}
	}
}

// resumed returns the first instant at which the rule may go on after a pause or a deletion: the pause's start if that
// is uncertain.
func (c *recurrence) resumed(s *schedule, ended *history.ScheduleCall) history.Instant {
	first := history.Forever
	for _, call := range s.may(history.ResumeSchedule, history.PutSchedule) {
		from, to := c.taken(call)
		if to >= ended.Start {
			first = min(first, max(from, ended.Start))
		}
	}
	return first
}

// numbers checks that the numbers of a steady schedule follow its rule.
func (c *recurrence) numbers(s *schedule) {
	if !s.steady() || s.isRenewed() {
		return
	}
	c.steady++
	every := s.may(history.PutSchedule)[0].Every
	base, known := s.base(every)
	for _, n := range s.numbers() {
		want := base.Add(time.Duration(n) * every)
		if due := s.due(n); known && due != want {
			c.breach(s.ran[n].arrivals[0].At, s.ran[n].id, "is due at %s, and instant %d of the rule is %s",
				c.x.clock(due), n, c.x.clock(want))
			return // the later ones are off by as much
		}
	}
}

// base returns the instant from which the numbers of a steady schedule count: its anchor, or one that the first
// occurrence to arrive gives.
func (s *schedule) base(every time.Duration) (base history.Instant, known bool) {
	if s.tally != nil && s.tally.Anchor != 0 {
		return s.tally.Anchor, true
	}
	numbers := s.numbers()
	if len(numbers) == 0 {
		return 0, false
	}
	return s.due(numbers[0]).Add(-time.Duration(numbers[0]) * every), true
}

// counts holds the numbers of a schedule against the counts that it shows at the end.
func (c *recurrence) counts(s *schedule) {
	t := s.tally
	switch {
	case t == nil:
		return
	case t.Absent:
		if len(s.may(history.DeleteSchedule)) == 0 && slices.ContainsFunc(s.may(history.PutSchedule), isOK) {
			c.breach(t.At, s.id, "the schedule was acknowledged, and is gone")
		}
		return
	case s.isRenewed():
		return
	}
	c.counted++
	tasks, waiting := s.became(), len(t.Waiting)
	c.last, c.started = c.last+int(t.Last), c.started+len(tasks)
	c.waiting, c.passed = c.waiting+waiting, c.passed+int(t.Passed)
	if n := slices.Max(append(tasks, 0)); n > t.Last {
		c.breach(t.At, s.id, "occurrence %d became a task, and the last one is %d", n, t.Last)
	}
	if uint64(len(tasks)) != t.Started {
		c.breach(t.At, s.id, "%d occurrences became tasks, and the schedule counts %d", len(tasks), t.Started)
	}
	if uint64(len(tasks)+waiting)+t.Passed != t.Last {
		c.breach(t.At, s.id, "of %d occurrences %d became tasks, %d wait and %d were passed",
			t.Last, len(tasks), waiting, t.Passed)
	}
	c.passes(s, tasks)
}

// limit holds a steady schedule against its count. Once the last of the counted instants has passed and nothing has
// kept the schedule from it, all of them have had their occurrence.
func (c *recurrence) limit(s *schedule) {
	if s.tally == nil || s.tally.Anchor == 0 || !s.steady() || s.isRenewed() {
		return
	}
	most := uint64(s.may(history.PutSchedule)[0].Count)
	switch last := s.tally.Anchor.Add(time.Duration(most) * s.tally.Every); {
	case most == 0:
	case s.tally.Last == most:
		c.ended++
	case s.tally.Last > most, c.x.calmFrom(last, c.limits.Recover, missedAfter).Add(missedAfter) < s.rested():
		c.breach(s.tally.At, s.id, "has had %d occurrences, and its count is %d", s.tally.Last, most)
	}
}

// rested returns the instant from which on the schedule may have been at rest by a call.
func (s *schedule) rested() history.Instant {
	at := s.tally.At
	for _, c := range s.may(history.PauseSchedule, history.DeleteSchedule) {
		at = min(at, c.Start)
	}
	return at
}

func isOK(c *history.ScheduleCall) bool { return c.Outcome == history.OK }

// became returns the numbers of the occurrences that became a task, in rising order.
func (s *schedule) became() []uint64 {
	all := slices.Concat(s.numbers(), s.tally.Found, s.tally.Running)
	slices.Sort(all)
	return slices.Compact(all)
}

// passes finds occurrences of a steady schedule that were passed without a reason.
func (c *recurrence) passes(s *schedule, tasks []uint64) {
	every := s.tally.Every
	if !s.steady() || !s.allows() || s.tally.Anchor == 0 {
		return
	}
	skips := len(s.may(history.SkipNext))
	for n := uint64(1); n <= s.tally.Last; n++ {
		if _, found := slices.BinarySearch(tasks, n); found || slices.Contains(s.tally.Waiting, n) {
			continue
		}
		due := s.tally.Anchor.Add(time.Duration(n) * every)
		if c.mayMiss(s, due) {
			continue
		}
		if skips--; skips < 0 {
			c.breach(due, s.id, "occurrence %d, due at %s, did not run, and nothing is a reason", n, c.x.clock(due))
		}
	}
}

// mayMiss reports whether the schedule may have missed an instant and passed its occurrence: amid a fault, by a clock
// that was ahead, or while its slot moved to another shard.
func (c *recurrence) mayMiss(s *schedule, due history.Instant) bool {
	moved := len(c.x.owners[history.SlotIn(c.x.h.Namespace, s.id)]) > 1
	broken := c.x.calmFrom(due, c.limits.Recover, missedAfter) != due
	return !s.runsAll() && (moved || broken || c.x.clocks.Earliest(due) != due)
}

// outlasted reports whether a fault struck after an occurrence of the schedule arrived, and another one arrived after
// the mending.
func (x *Index) outlasted(s *schedule) bool {
	first, last := history.Forever, history.Instant(0)
	for _, t := range s.ran {
		for _, a := range t.arrivals {
			first, last = min(first, a.At), max(last, a.At)
		}
	}
	return slices.ContainsFunc(x.h.Faults, func(f history.Fault) bool { return first < f.Struck && healed(&f) < last })
}

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
	scheduleOf := func(id string) *schedule {
		if byID[id] == nil {
			byID[id] = &schedule{id: id, ran: map[uint64]*task{}}
			x.schedules = append(x.schedules, byID[id])
		}
		return byID[id]
	}
	for i := range x.h.ScheduleCalls {
		c := &x.h.ScheduleCalls[i]
		x.first = min(x.first, c.Start)
		s := scheduleOf(c.ID)
		s.calls = append(s.calls, c)
	}
	for i := range x.h.Tallies {
		scheduleOf(x.h.Tallies[i].ID).tally = &x.h.Tallies[i]
	}
	for i := range x.h.Occurrences {
		a := &x.h.Occurrences[i]
		id, _ := history.ScheduleOf(a.ID)
		t := x.occurrence(scheduleOf(id), a.ID)
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
