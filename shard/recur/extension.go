package recur

import (
	"math"
	"slices"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/series"
)

// The coming occurrences of a schedule: after an Extension there are at least fewest, and those of the time ahead, but
// at most MaxNext.
const (
	MaxNext = 64
	fewest  = 2
	ahead   = 10 * time.Second
)

// The numbers of missed occurrences that the policies let run.
const (
	latestRun = 1
	allRun    = 1000
)

// horizonDays is the time without an occurrence after which a rule counts as ended. It is longer than the longest
// interval, which is 100 years.
const horizonDays = 100 * 366

// Extension returns the next command for a schedule: at least one coming occurrence, or occurrences that are passed, or
// the end of the rule, or the instant up to which exclusions take everything away. After a change of its calendar it
// computes the coming occurrences anew, or drops them if the calendar is gone. random returns a random number from
// 0 to below n. The command is nil if the schedule must change first: it is paused or complete, has MaxNext, has
// occurrences that the next Advance takes, or has coming ones and no further one is found yet. The error reports a rule
// that cannot be read. The effort is bounded, whatever the rule.
func Extension(
	s *fsmpb.Series, by Calendar, now time.Time, random func(n int64) int64,
) (*fsmpb.ExtendSeries, error) {
	redone := isOutdated(s, by)
	if s.Paused || hasMissed(s, now) || !redone && (s.Complete || len(s.Next) >= MaxNext) {
		return nil, nil
	}
	rule, err := series.RuleOf(s.Repeat, by.Calendar)
	switch {
	case err != nil && redone && by.Version == 0:
		return withdrawal(s, now), nil
	case err != nil:
		return nil, err
	}
	out := &fsmpb.ExtendSeries{Version: s.Version, FromMs: cursor(s), CalendarVersion: by.Version}
	if redone {
		s = redo(s, out, now)
	}
	x := newExtension(s, rule, now, random, out)
	x.compute()
	found := len(x.out.Next)+len(x.out.Passed) > 0 || x.out.Complete
	if !found && len(s.Next) == 0 && !x.emptyTo.IsZero() {
		x.out.PassedToMs, found = x.emptyTo.UnixMilli(), true
	}
	if !found && !redone {
		return nil, nil
	}
	return x.out, nil
}

// hasMissed reports whether a coming occurrence of the schedule has been missed since the last ExtendSeries. The next
// Advance drops it. Another ExtendSeries before that would let it run.
func hasMissed(s *fsmpb.Series, now time.Time) bool {
	limit := task.MissedAfter.Milliseconds()
	return slices.ContainsFunc(s.Next, func(i *fsmpb.Instant) bool {
		return i.FireMs < now.UnixMilli()-limit && i.FireMs >= s.JudgedMs-limit
	})
}

// extension is an Extension under way.
type extension struct {
	series *fsmpb.Series
	rule   *repeat.Rule
	now    time.Time
	random func(n int64) int64

	after time.Time // the rule continues after this instant
	left  int64     // occurrences that the rule may still have
	fire  int64     // instant at which the last coming occurrence fires
	last  time.Time // the rule ends if it names nothing for the horizon behind this instant
	// emptyTo is the end of a search without an occurrence, which exclusions made too long. Zero: there was none.
	emptyTo time.Time
	out     *fsmpb.ExtendSeries
}

func newExtension(
	s *fsmpb.Series, rule *repeat.Rule, now time.Time, random func(n int64) int64, out *fsmpb.ExtendSeries,
) *extension {
	x := &extension{series: s, rule: rule, now: now, random: random, left: math.MaxInt64, out: out}
	if n := len(s.Next); n > 0 {
		x.fire = s.Next[n-1].FireMs
	}
	if rule.Count() > 0 {
		x.left = max(0, rule.Count()-int64(s.Ruled)-int64(len(s.Next)))
	}
	x.after = time.UnixMilli(cursor(s))
	x.last = time.UnixMilli(max(now.UnixMilli(), x.fire, s.Repeat.GetStartMs()))
	return x
}

func (x *extension) compute() {
	if len(x.series.Next) > 0 {
		span := x.rule.Search().Span(x.after, x.lastMissed(), min(x.left, 1))
		if span.Count > 0 || span.Partial { // the policy decides on the missed ones together, once Next is empty
			return
		}
	} else if !x.passMissed() {
		return
	}
	x.addComing()
}

// passMissed passes the missed occurrences that do not run. It reports false if it has not come to all missed ones.
func (x *extension) passMissed() (all bool) {
	missed := x.lastMissed()
	if window := time.Duration(x.series.MisfireWindowMs) * time.Millisecond; window > 0 {
		outside := x.before(max(window, task.MissedAfter) + x.jitter())
		if !x.pass(outside, 0, fsmpb.Passed_PASSED_MISSED) {
			return false
		}
	}
	switch x.series.Misfire {
	case fsmpb.Misfire_MISFIRE_SKIP:
		return x.pass(missed, 0, fsmpb.Passed_PASSED_MISSED)
	case fsmpb.Misfire_MISFIRE_ALL:
		return x.pass(missed, allRun, fsmpb.Passed_PASSED_MISSED)
	default:
		return x.pass(missed, latestRun, fsmpb.Passed_PASSED_COALESCED)
	}
}

// lastMissed returns the last instant whose occurrence counts as missed.
func (x *extension) lastMissed() time.Time { return x.before(task.MissedAfter + x.jitter()) }

// before returns the last instant that is more than age ago.
func (x *extension) before(age time.Duration) time.Time {
	return time.UnixMilli(x.now.UnixMilli() - 1).Add(-age)
}

func (x *extension) jitter() time.Duration {
	return time.Duration(x.series.Repeat.JitterMs) * time.Millisecond
}

// pass passes the occurrences up to an instant, except for the last ones, which run. It reports false if the search
// ended before the instant and the next command must pass further ones. If the search has found no more occurrences
// than may run, they run: what follows them is too far to tell.
func (x *extension) pass(through time.Time, run int64, reason fsmpb.Passed) (all bool) {
	counted := x.rule.Search().Span(x.after, through, x.left)
	if n := counted.Count - run; n > 0 {
		x.passFirst(n, counted, reason)
		return !counted.Partial
	}
	if counted.Partial && counted.Count == 0 {
		x.emptyTo = counted.Through
		return false
	}
	return true
}

// passFirst passes the first n of counted occurrences.
func (x *extension) passFirst(n int64, counted repeat.Span, reason fsmpb.Passed) {
	if n < counted.Count {
		counted = x.rule.Search().Span(x.after, counted.Last, n)
	}
	x.out.Passed = append(x.out.Passed, &fsmpb.Occurrence{
		Count: uint64(n), ScheduledMs: counted.First.UnixMilli(), Passed: reason,
	})
	x.out.PassedToMs = counted.Last.UnixMilli()
	x.after, x.left = counted.Last, x.left-n
}

// addComing adds coming occurrences until there are enough.
func (x *extension) addComing() {
	for search := x.rule.Search(); ; {
		span := search.Span(x.after, x.last.AddDate(0, 0, horizonDays), min(x.left, 1))
		switch {
		case span.Count == 0 && span.Partial:
			x.emptyTo = span.Through
			return
		case span.Count == 0:
			x.out.Complete = true
			return
		case x.hasEnough():
			return
		}
		x.add(span.First)
	}
}

func (x *extension) hasEnough() bool {
	added, n := len(x.out.Next), len(x.series.Next)+len(x.out.Next)
	covered := x.fire >= x.now.Add(ahead).UnixMilli()
	return n >= MaxNext || added > 0 && n >= fewest && covered
}

// add adds an occurrence, with its jitter.
func (x *extension) add(at time.Time) {
	latest := at.Add(x.jitter()).UnixMilli()
	earliest := min(max(at.UnixMilli(), x.now.UnixMilli()), latest)
	x.fire = max(x.fire, earliest+x.random(latest-earliest+1))
	x.out.Next = append(x.out.Next, &fsmpb.Instant{ScheduledMs: at.UnixMilli(), FireMs: x.fire})
	x.after, x.left = at, x.left-1
	if at.After(x.last) {
		x.last = at
	}
}
