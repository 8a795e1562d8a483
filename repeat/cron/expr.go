package cron

import (
	"math/bits"
	"time"
)

// Expr is a parsed expression. It never changes after Parse.
type Expr struct {
	text    string
	seconds bool // six fields

	// A bit for each value. Sunday is bit 0.
	second, minute, hour, dayOfMonth, month, dayOfWeek uint64

	days     []day        // elements of the day of month with L or W
	weekdays []nthWeekday // elements of the day of week with # or L
	either   bool         // neither field of days begins with * or ?: a day matches if either does
	interval bool         // second, minute or hour has a *, a range or a step
}

// day is a day of the month that depends on the month.
type day struct {
	n       int  // the day, or the days before the last one
	fromEnd bool // n counts from the last day
	weekday bool // the nearest day from Monday to Friday of the same month
}

// nthWeekday is a day of the week in one week of the month.
type nthWeekday struct{ weekday, n int } // n: 1 to 5; 0: the last

// String returns the expression as it was given, with single spaces.
func (e *Expr) String() string { return e.text }

// HasSeconds reports whether the expression has six fields.
func (e *Expr) HasSeconds() bool { return e.seconds }

// Interval reports whether the second, minute or hour has a *, a range or a step. Such a rule fires in both passes of a
// repeated hour, any other only in the first.
func (e *Expr) Interval() bool { return e.interval }

const (
	daySeconds = 86400
	// repeatsAfter is the time in days after which the Gregorian calendar, weekdays included, repeats.
	repeatsAfter = 146097
)

// nextWall returns the first matching wall-clock second at or after wall, and within the given number of days.
// Wall-clock seconds count from 1970-01-01T00:00:00 as if each day had 86400 seconds.
func (e *Expr) nextWall(wall int64, withinDays int64) (int64, bool) {
	begin := floorDiv(wall, daySeconds)
	clock := int(wall - begin*daySeconds)
	year, m, dom := time.Unix(wall, 0).UTC().Date()
	first := begin - int64(dom-1) // day number of the month's first day
	for first <= begin+withinDays {
		n := daysIn(year, m)
		if e.month&(1<<m) != 0 {
			if found, ok := e.inMonth(year, m, first, begin, clock, n); ok {
				return found, found <= wall+withinDays*daySeconds
			}
		}
		first += int64(n)
		if m++; m > time.December {
			year, m = year+1, time.January
		}
	}
	return 0, false
}

// inMonth returns the first match in the month with n days that begins on day first, at or after clock on day begin.
func (e *Expr) inMonth(year int, m time.Month, first, begin int64, clock, n int) (int64, bool) {
	days := e.daysOf(weekdayOf(first), n)
	if begin >= first {
		dom := int(begin-first) + 1
		if days&(1<<dom) != 0 {
			if at, ok := e.nextClock(clock); ok {
				return begin*daySeconds + int64(at), true
			}
		}
		days &^= 1<<(dom+1) - 1
	}
	if days == 0 {
		return 0, false
	}
	at, ok := e.nextClock(0)
	return (first+int64(bits.TrailingZeros64(days))-1)*daySeconds + int64(at), ok
}

// nextClock returns the first matching second of a day at or after from.
func (e *Expr) nextClock(from int) (int, bool) {
	h, m, s := from/3600, from/60%60, from%60
	if e.hour&(1<<h) != 0 {
		if e.minute&(1<<m) != 0 {
			if next := e.second >> s << s; next != 0 {
				return h*3600 + m*60 + bits.TrailingZeros64(next), true
			}
		}
		if next := e.minute >> (m + 1) << (m + 1); next != 0 {
			return h*3600 + bits.TrailingZeros64(next)*60 + bits.TrailingZeros64(e.second), true
		}
	}
	if next := e.hour >> (h + 1) << (h + 1); next != 0 {
		return bits.TrailingZeros64(next)*3600 + bits.TrailingZeros64(e.minute)*60 + bits.TrailingZeros64(e.second), true
	}
	return 0, false
}

// daysOf returns a bit for each matching day of a month with n days whose first day is the given weekday.
func (e *Expr) daysOf(first time.Weekday, n int) uint64 {
	month := e.dayOfMonth
	for _, d := range e.days {
		month |= d.of(first, n)
	}
	var week uint64
	for d := 1; d <= n; d++ {
		week |= e.dayOfWeek >> ((int(first) + d - 1) % 7) & 1 << d
	}
	for _, w := range e.weekdays {
		week |= w.of(first, n)
	}
	all := uint64(1)<<(n+1) - 2 // bits 1 to n
	if e.either {
		return (month | week) & all
	}
	return month & week & all
}

// of returns the bit of the day in a month with n days, or 0 if the month does not have the day.
func (d day) of(first time.Weekday, n int) uint64 {
	dom := d.n
	if d.fromEnd {
		dom = n - d.n
	}
	if dom < 1 || dom > n {
		return 0
	}
	if d.weekday {
		dom = nearestWeekday(dom, first, n)
	}
	return 1 << dom
}

// nearestWeekday returns the day from Monday to Friday that is nearest to a day of a month, in the same month.
func nearestWeekday(dom int, first time.Weekday, n int) int {
	switch time.Weekday((int(first) + dom - 1) % 7) {
	case time.Saturday:
		if dom == 1 {
			return 3
		}
		return dom - 1
	case time.Sunday:
		if dom == n {
			return dom - 2
		}
		return dom + 1
	}
	return dom
}

func (w nthWeekday) of(first time.Weekday, n int) uint64 {
	dom := 1 + (w.weekday-int(first)+7)%7 // the first such day of the month
	if w.n > 0 {
		dom += 7 * (w.n - 1)
	} else {
		dom += (n - dom) / 7 * 7
	}
	if dom > n {
		return 0
	}
	return 1 << dom
}

// weekdayOf returns the weekday of a day number. Day 0, 1970-01-01, was a Thursday.
func weekdayOf(dayNumber int64) time.Weekday {
	return time.Weekday(((dayNumber+4)%7 + 7) % 7)
}

func daysIn(year int, m time.Month) int {
	switch m {
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	case time.April, time.June, time.September, time.November:
		return 30
	}
	return 31
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// Day is the unit of an exclusion that names each time of a day.
const Day = 24 * time.Hour

// Wall is a wall-clock time, split for comparisons with many exclusions.
type Wall struct {
	month                time.Month
	day, days            int          // of the month, which has this many days
	first                time.Weekday // of the month's first day
	hour, minute, second int
}

// WallOf returns the wall-clock time at an instant, in the instant's zone.
func WallOf(at time.Time) Wall {
	year, month, day := at.Date()
	w := Wall{month: month, day: day, days: daysIn(year, month)}
	w.hour, w.minute, w.second = at.Clock()
	w.first = time.Weekday(((int(at.Weekday())-day+1)%7 + 7) % 7)
	return w
}

// Excepts returns the largest unit around a wall-clock time of which the expression, as an exclusion, names each time:
// Day, time.Hour, time.Minute or time.Second. The unit is 0 if the expression does not name the time. An expression of
// five fields names whole minutes.
func (e *Expr) Excepts(at Wall) (unit time.Duration) {
	const sixty, hours = 1<<60 - 1, 1<<24 - 1
	switch {
	case e.month>>at.month&1 == 0 || e.hour>>at.hour&1 == 0 || e.minute>>at.minute&1 == 0,
		e.seconds && e.second>>at.second&1 == 0,
		e.daysOf(at.first, at.days)>>at.day&1 == 0:
		return 0
	case e.seconds && e.second != sixty:
		return time.Second
	case e.minute != sixty:
		return time.Minute
	case e.hour != hours:
		return time.Hour
	}
	return Day
}
