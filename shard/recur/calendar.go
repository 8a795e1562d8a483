package recur

import (
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/repeat/calendar"
)

// Calendar is the calendar of a schedule's rule, with its version. The zero Calendar stands for none, and for one that
// does not exist.
type Calendar struct {
	Calendar *calendar.Calendar
	Version  uint64
}

// missing stands for the version of a calendar that does not exist, in a schedule whose occurrences were withdrawn.
const missing = math.MaxUint64

// of returns the version of the calendar for a schedule.
func (c Calendar) of(s *fsmpb.Series) uint64 {
	if c.Version == 0 && s.Repeat.GetCalendar() != "" {
		return missing
	}
	return c.Version
}

// redoMargin is the time from now on in which coming occurrences stay as they are after a change of the calendar. They
// may come due before the command is applied.
const redoMargin = time.Second

// isOutdated reports whether the coming occurrences, or the end of the rule, were computed by another version of the
// calendar, or withdrawn for want of one.
func isOutdated(s *fsmpb.Series, by Calendar) bool {
	computed := len(s.Next) > 0 || s.Complete || s.CalendarVersion == missing
	return s.Repeat.GetCalendar() != "" && s.CalendarVersion != by.of(s) && computed
}

// redo makes out drop the occurrences behind the margin, and returns the schedule as it will be then. The occurrences
// that the old calendar took away before that are not made up for.
func redo(s *fsmpb.Series, out *fsmpb.ExtendSeries, now time.Time) *fsmpb.Series {
	after := max(now.Add(redoMargin).UnixMilli(), s.AfterMs)
	out.RedoAfterMs = &after
	s = proto.CloneOf(s)
	s.Next = slices.DeleteFunc(s.Next, func(i *fsmpb.Instant) bool { return i.ScheduledMs > after })
	if len(s.Next) == 0 {
		s.AfterMs = after
	}
	s.Complete = false
	return s
}

// withdrawal returns the command that drops the coming occurrences of a schedule whose calendar is gone.
func withdrawal(s *fsmpb.Series, now time.Time) *fsmpb.ExtendSeries {
	out := &fsmpb.ExtendSeries{Version: s.Version, FromMs: cursor(s), CalendarVersion: missing}
	redo(s, out, now)
	return out
}

// cursor returns the instant after which the rule of a schedule continues.
func cursor(s *fsmpb.Series) int64 {
	if n := len(s.Next); n > 0 {
		return s.Next[n-1].ScheduledMs
	}
	return s.AfterMs
}
