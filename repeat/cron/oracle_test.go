package cron_test

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/gated"
)

// oracle is a second implementation, slow and plain: it walks all seconds or minutes of a zone and asks of each whether
// the rule names it. It shares no code with the package.
type oracle struct {
	fields   [6]string // second first
	clock    [3][60]bool
	interval bool
	known    map[int64]bool // by day number
}

func newOracle(text string) *oracle {
	o := &oracle{known: map[int64]bool{}}
	list := strings.Fields(text)
	if len(list) == 5 {
		list = append([]string{"0"}, list...)
	}
	copy(o.fields[:], list)
	for i, top := range []int{59, 59, 23} {
		for v := range top + 1 {
			o.clock[i][v] = names(list[i], v, 0, top, "")
		}
		o.interval = o.interval || strings.ContainsAny(list[i], "*-/")
	}
	return o
}

// names reports whether a field names a value.
func names(field string, v, low, high int, words string) bool {
	if field == "*" || field == "?" {
		return true
	}
	number := func(text string) int {
		if at := strings.Index(words, text); len(text) == 3 && at >= 0 {
			return low + at/3
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			panic(field)
		}
		return n
	}
	return slices.ContainsFunc(strings.Split(field, ","), func(part string) bool {
		from, to, by := low, high, 1
		if before, step, ok := strings.Cut(part, "/"); ok {
			part, by = before, number(step)
			if part != "*" && !strings.Contains(part, "-") {
				from = number(part)
			}
		} else if part != "*" && !strings.Contains(part, "-") {
			return number(part) == v || words == weekdayNames && number(part) == v+7
		}
		if before, end, ok := strings.Cut(part, "-"); ok {
			from, to = number(before), number(end)
		}
		for n := from; ; n += by {
			for to < from {
				to += high - low + 1
			}
			if n > to {
				return false
			}
			if (n-low)%(high-low+1) == v-low {
				return true
			}
		}
	})
}

const (
	monthNames   = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"
	weekdayNames = "SUNMONTUEWEDTHUFRISAT"
)

// matches reports whether the rule names a wall-clock second, given as if the clock were UTC's.
func (o *oracle) matches(wall int64) bool {
	s := wall % 86400
	return o.clock[2][s/3600] && o.clock[1][s/60%60] && o.clock[0][s%60] && o.onDay(wall/86400)
}

func (o *oracle) onDay(number int64) bool {
	known, ok := o.known[number]
	if !ok {
		known = o.day(time.Unix(number*86400, 0).UTC())
		o.known[number] = known
	}
	return known
}

func (o *oracle) day(t time.Time) bool {
	if !names(o.fields[4], int(t.Month()), 1, 12, monthNames) {
		return false
	}
	dom := slices.ContainsFunc(strings.Split(o.fields[3], ","), func(part string) bool { return domNames(part, t) })
	dow := slices.ContainsFunc(strings.Split(o.fields[5], ","), func(part string) bool { return dowNames(part, t) })
	if strings.ContainsAny(o.fields[3][:1]+o.fields[5][:1], "*?") {
		return dom && dow
	}
	return dom || dow
}

// domNames walks the month for the rules with L and W.
func domNames(part string, t time.Time) bool {
	lastDay := time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	rest, nearest := strings.CutSuffix(part, "W")
	wanted := 0
	switch {
	case rest == "L":
		wanted = lastDay
	case strings.HasPrefix(rest, "L-"):
		n, _ := strconv.Atoi(rest[2:])
		wanted = lastDay - n
	case nearest:
		wanted, _ = strconv.Atoi(rest)
	default:
		return names(part, t.Day(), 1, 31, "")
	}
	if !nearest {
		return t.Day() == wanted
	}
	if wanted < 1 || wanted > lastDay {
		return false
	}
	for _, away := range []int{0, -1, 1, -2, 2} {
		day := time.Date(t.Year(), t.Month(), wanted+away, 0, 0, 0, 0, time.UTC)
		if day.Month() == t.Month() && day.Weekday() != time.Saturday && day.Weekday() != time.Sunday {
			return t.Day() == day.Day()
		}
	}
	panic("a month without weekdays")
}

func dowNames(part string, t time.Time) bool {
	if name, nth, ok := strings.Cut(part, "#"); ok {
		n, _ := strconv.Atoi(nth)
		return names(name, int(t.Weekday()), 0, 6, weekdayNames) && (t.Day()+6)/7 == n
	}
	if name, last := strings.CutSuffix(part, "L"); last {
		return names(name, int(t.Weekday()), 0, 6, weekdayNames) && t.AddDate(0, 0, 7).Month() != t.Month()
	}
	return names(part, int(t.Weekday()), 0, 6, weekdayNames)
}

// firings walks a zone from an instant to another in steps of so many seconds, and lists for each rule the instants at
// which it fires.
func firings(rules []*oracle, zone *time.Location, from, to time.Time, step int64) [][]int64 {
	lists := make([][]int64, len(rules))
	shown := int64(-1) // the latest wall-clock second so far
	for at := from.Unix(); at < to.Unix(); at += step {
		_, offset := time.Unix(at, 0).In(zone).Zone()
		wall := at + int64(offset)
		for i, rule := range rules {
			fires := rule.matches(wall) && (wall > shown || rule.interval)
			for skipped := shown + step; shown >= 0 && skipped < wall && !fires; skipped += step {
				fires = rule.matches(skipped)
			}
			if fires {
				lists[i] = append(lists[i], at)
			}
		}
		shown = max(shown, wall)
	}
	return lists
}

// own lists the instants of this package in the same span.
func own(t *testing.T, rule string, zone *time.Location, from, to time.Time) (list []int64) {
	e := parse(t, rule)
	for at := from.Add(-time.Second); ; {
		f, ok := e.Next(at, zone)
		if !ok || !f.At.Before(to) {
			return list
		}
		list, at = append(list, f.At.Unix()), f.At
	}
}

var minuteRules = []string{
	"* * * * *", "*/5 * * * *", "0 * * * *", "30 * * * *", "*/40 * * * *", "7-53/9 * * * *", "30 2 * * *", "30 1 * * *",
	"0 0 * * *", "0,30 0-4 * * *", "15,45 1,2,3 * * *", "59 23 * * *", "0 22-2 * * *", "5/20 2 * * *", "30 2 29 2 *",
	"0 9 * * MON-FRI", "0 9 * * 1-5", "0 9 * * 7", "0 9 * * FRI-MON", "0 9 1,15 * *", "0 9 31 * *", "0 9 25-3 * *",
	"0 9 13 * FRI", "0 9 */2 * MON", "0 9 13 * */2", "0 9 L * *", "0 9 L-3 * ?", "0 9 LW * *", "0 9 L-2W * *",
	"0 9 1W * *", "0 9 15W * *", "0 9 31W * *", "0 9 15,L * *", "0 9 ? * 5L", "0 9 ? * MON#1", "0 9 ? * 5#5",
	"0 9 ? * 0#2,WEDL", "0 9 1 JAN,JUL *", "0 9 * NOV-FEB SUN", "0 9 1W * FRI#2", "0 2 * 3,10 SUN", "*/7 */3 */9 */2 *",
}

var secondRules = []string{
	"* * * * * *", "*/30 * * * * *", "0 30 2 * * *", "30 59 1 * * *", "15,45 0 3 * * *", "10-50/20 */10 1-3 * * SUN",
}

// zones are those of the usual rules of clock changes, and of all unusual ones.
var zones = []string{
	"UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Casablanca", "Antarctica/Troll",
	"America/Havana", "Asia/Beirut", "Pacific/Apia", "Europe/London", "Europe/Dublin", "Europe/Moscow", "Europe/Istanbul",
	"Europe/Chisinau", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Tokyo", "Asia/Shanghai", "Asia/Tehran", "Asia/Amman",
	"Asia/Gaza", "Asia/Jerusalem", "Asia/Pyongyang", "Africa/Cairo", "Africa/El_Aaiun", "Africa/Juba", "America/Sao_Paulo",
	"America/Santiago", "America/Asuncion", "America/Caracas", "America/Chicago", "America/Denver", "America/Los_Angeles",
	"America/St_Johns", "America/Nuuk", "America/Scoresbysund", "America/Cancun", "Atlantic/Azores", "Australia/Sydney",
	"Antarctica/Casey", "Pacific/Auckland", "Pacific/Chatham", "Pacific/Easter", "Pacific/Norfolk", "Pacific/Tongatapu",
}

// TestAgreesWithOracle checks ten years in all zones: the rules of minutes throughout, those of seconds around the clock
// changes. The short form takes only the days around the clock changes of a few zones.
func TestAgreesWithOracle(t *testing.T) {
	from, to := time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC)
	if gated.Has(gated.Long) {
		for _, name := range zones {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				compare(t, minuteRules, load(t, name), from, to, 60)
				for _, change := range changes(load(t, name), from, to) {
					compare(t, secondRules, load(t, name), change.Add(-25*time.Hour), change.Add(3*time.Hour), 1)
				}
			})
		}
		return
	}
	for _, name := range zones[:9] {
		zone := load(t, name)
		for _, change := range append(changes(zone, from, from.AddDate(1, 6, 0)), // and the missing day of Apia
			changes(zone, from.AddDate(-8, 11, 0), from.AddDate(-7, 0, 0))...) {
			compare(t, minuteRules, zone, change.AddDate(0, 0, -2), change.AddDate(0, 0, 2), 60)
			compare(t, secondRules, zone, change.Add(-2*time.Hour), change.Add(2*time.Hour), 1)
		}
	}
	compare(t, minuteRules, time.UTC, from, from.AddDate(0, 3, 0), 60)
}

func compare(t *testing.T, rules []string, zone *time.Location, from, to time.Time, step int64) {
	t.Helper()
	var oracles []*oracle
	for _, rule := range rules {
		oracles = append(oracles, newOracle(rule))
	}
	// The oracle begins a day earlier, to know which hours are repeated.
	for i, want := range firings(oracles, zone, from.AddDate(0, 0, -1), to, step) {
		for len(want) > 0 && want[0] < from.Unix() {
			want = want[1:]
		}
		got := own(t, rules[i], zone, from, to)
		if at, differ := difference(got, want); differ {
			t.Errorf("%q in %s: the first difference is at %s (%d firings, the oracle has %d)", rules[i], zone,
				time.Unix(at, 0).In(zone), len(got), len(want))
		}
	}
}

// difference returns the first instant that only one list has.
func difference(a, b []int64) (int64, bool) {
	for i := range max(len(a), len(b)) {
		switch {
		case i >= len(a):
			return b[i], true
		case i >= len(b):
			return a[i], true
		case a[i] != b[i]:
			return min(a[i], b[i]), true
		}
	}
	return 0, false
}

// changes lists the instants at which the offset of a zone changes, found by looking at every quarter of an hour.
func changes(zone *time.Location, from, to time.Time) (list []time.Time) {
	_, last := from.In(zone).Zone()
	for at := from; at.Before(to); at = at.Add(15 * time.Minute) {
		if _, offset := at.In(zone).Zone(); offset != last {
			list, last = append(list, at.In(zone)), offset
		}
	}
	return list
}

// The rule of repeated hours looks back over one change of the clock. So no zone may change its clock twice within two
// days.
func TestChangesAreDaysApart(t *testing.T) {
	years := 3
	if gated.Has(gated.Long) {
		years = 140
	}
	for _, name := range zones {
		begin := time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)
		list := changes(load(t, name), begin, begin.AddDate(years, 0, 0))
		for i := 1; i < len(list); i++ {
			if list[i].Sub(list[i-1]) < 48*time.Hour {
				t.Errorf("%s changes its clock at %s and %s", name, list[i-1], list[i])
			}
		}
	}
}

// The last day of a leap year fires, in a zone whose changes follow a rule: ZoneBounds reports a bound in the past
// then.
func TestLastDayOfLeapYear(t *testing.T) {
	for _, name := range []string{"America/New_York", "Europe/Berlin", "Pacific/Auckland", "Africa/Casablanca"} {
		if got, want := after(t, "30 */8 * * *", name, "2028-12-30 17:00:00", 7), "12-31 00:30, 12-31 08:30, 12-31 16:30, "+
			"01-01 00:30, 01-01 08:30, 01-01 16:30, 01-02 00:30"; offsets.ReplaceAllString(got, "") != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

var offsets = regexp.MustCompile(`[+-]\d\d:\d\d`)
