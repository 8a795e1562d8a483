package cron_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/repeat/cron"
	"github.com/belfryhq/belfry/repeat/zone"
)

func load(t testing.TB, name string) *time.Location {
	t.Helper()
	l, err := zone.Load(name)
	assert.NoError(t, err)
	return l
}

func parse(t testing.TB, text string) *cron.Expr {
	t.Helper()
	e, err := cron.Parse(text)
	assert.NoError(t, err)
	return e
}

// after returns the firings of a rule after a wall-clock time, each as the wall clock with offset and the effect of a
// clock change.
func after(t testing.TB, text, zoneName, from string, n int) string {
	t.Helper()
	l := load(t, zoneName)
	at, err := time.ParseInLocation("2006-01-02 15:04:05", from, l)
	assert.NoError(t, err)
	e := parse(t, text)
	var list []string
	for range n {
		f, ok := e.Next(at, l)
		if !ok {
			list = append(list, "none")
			break
		}
		one := f.At.Format("01-02 15:04:05-07:00")
		one = strings.Replace(one, ":00-", "-", 1)
		one = strings.Replace(one, ":00+", "+", 1)
		if f.Change != "" {
			one += fmt.Sprintf(" %s %s", f.Change, f.Wall.Format("15:04"))
		}
		list = append(list, one)
		at = f.At
	}
	return strings.Join(list, ", ")
}

// The table of clock changes: a gap fires once at its end, a repeated hour fires once for a point in time and goes on
// for an interval.
func TestClockChanges(t *testing.T) {
	for _, row := range []struct{ name, zone, rule, from, want string }{
		{"New York, forward 02:00 to 03:00, a point in time", "America/New_York", "30 2 * * *", "2026-03-07 12:00:00",
			"03-08 03:00-04:00 gap 02:30, 03-09 02:30-04:00"},
		{"New York, the gap and its end are one", "America/New_York", "0 2,3 * * *", "2026-03-07 12:00:00",
			"03-08 03:00-04:00 gap 02:00, 03-09 02:00-04:00"},
		{"New York, an interval", "America/New_York", "*/30 * * * *", "2026-03-08 01:00:00",
			"03-08 01:30-05:00, 03-08 03:00-04:00 gap 02:00, 03-08 03:30-04:00"},
		{"New York, an interval off the gap's end", "America/New_York", "45 * * * *", "2026-03-08 01:00:00",
			"03-08 01:45-05:00, 03-08 03:00-04:00 gap 02:45, 03-08 03:45-04:00"},
		{"New York, back 02:00 to 01:00, a point in time", "America/New_York", "30 1 * * *", "2026-10-31 12:00:00",
			"11-01 01:30-04:00 first 01:30, 11-02 01:30-05:00"},
		{"New York, an interval", "America/New_York", "*/30 * * * *", "2026-11-01 00:30:00",
			"11-01 01:00-04:00 first 01:00, 11-01 01:30-04:00 first 01:30, 11-01 01:00-05:00 second 01:00, " +
				"11-01 01:30-05:00 second 01:30, 11-01 02:00-05:00"},
		{"New York, points at the edges of the repeated hour", "America/New_York", "0 1,2 * * *", "2026-11-01 00:30:00",
			"11-01 01:00-04:00 first 01:00, 11-01 02:00-05:00"},
		{"Berlin, forward at 02:00", "Europe/Berlin", "30 2 * * *", "2026-03-28 12:00:00",
			"03-29 03:00+02:00 gap 02:30, 03-30 02:30+02:00"},
		{"Berlin, back at 03:00", "Europe/Berlin", "0 30 2 * * *", "2026-10-24 12:00:00",
			"10-25 02:30+02:00 first 02:30, 10-26 02:30+01:00"},
		{"Lord Howe, forward by 30 minutes", "Australia/Lord_Howe", "15 2 * * *", "2026-10-03 12:00:00",
			"10-04 02:30+11:00 gap 02:15, 10-05 02:15+11:00"},
		{"Lord Howe, back by 30 minutes", "Australia/Lord_Howe", "*/15 * * * *", "2026-04-05 01:15:00",
			"04-05 01:30+11:00 first 01:30, 04-05 01:45+11:00 first 01:45, 04-05 01:30+10:30 second 01:30, " +
				"04-05 01:45+10:30 second 01:45, 04-05 02:00+10:30"},
		{"Apia, no 30 December 2011", "Pacific/Apia", "0 9 * * *", "2011-12-29 00:00:00",
			"12-29 09:00-10:00, 12-31 00:00+14:00 gap 09:00, 12-31 09:00+14:00"},
		{"Apia, the date of the missing day", "Pacific/Apia", "0 9 30 12 *", "2011-12-29 12:00:00",
			"12-31 00:00+14:00 gap 09:00, 12-30 09:00+14:00"},
		{"Casablanca, back for Ramadan", "Africa/Casablanca", "30 2 * * *", "2026-02-14 12:00:00",
			"02-15 02:30+01:00 first 02:30, 02-16 02:30+00:00"},
		{"Casablanca, forward after it", "Africa/Casablanca", "30 2 * * *", "2026-03-21 12:00:00",
			"03-22 03:00+01:00 gap 02:30, 03-23 02:30+01:00"},
		{"Troll, forward by two hours", "Antarctica/Troll", "0,30 1,2 * * *", "2026-03-29 00:30:00",
			"03-29 03:00+02:00 gap 01:00, 03-30 01:00+02:00"},
		{"Troll, back by two hours", "Antarctica/Troll", "0 * * * *", "2026-10-25 00:30:00",
			"10-25 01:00+02:00 first 01:00, 10-25 02:00+02:00 first 02:00, 10-25 01:00+00:00 second 01:00, " +
				"10-25 02:00+00:00 second 02:00, 10-25 03:00+00:00"},
		{"Havana, no midnight", "America/Havana", "@daily", "2026-03-07 12:00:00",
			"03-08 01:00-04:00 gap 00:00, 03-09 00:00-04:00"},
		{"Havana, midnight twice", "America/Havana", "@daily", "2026-10-31 12:00:00",
			"11-01 00:00-04:00 first 00:00, 11-02 00:00-05:00"},
		{"Beirut, no midnight", "Asia/Beirut", "0 0 29 3 *", "2026-03-28 12:00:00",
			"03-29 01:00+03:00 gap 00:00, 03-29 00:00+03:00"},
		{"Beirut, back to the day before", "Asia/Beirut", "30 23 * * SAT", "2026-10-24 12:00:00",
			"10-24 23:30+03:00 first 23:30, 10-31 23:30+02:00"},
		{"UTC has no changes", "UTC", "30 2 * * *", "2026-03-28 12:00:00", "03-29 02:30+00:00, 03-30 02:30+00:00"},
	} {
		n := strings.Count(row.want, ",") + 1
		assert.Equal(t, after(t, row.rule, row.zone, row.from, n), row.want, "%s: %q\n got", row.name, row.rule)
	}
}

func TestExceptsUnits(t *testing.T) {
	for _, row := range []struct {
		text, at string
		want     time.Duration
	}{
		{"* * * * *", "2026-11-20 10:15:30", cron.Day},
		{"* * * * * *", "2026-11-20 10:15:30", cron.Day},
		{"* * * 11 FRI", "2026-11-20 10:15:30", cron.Day},
		{"* * * 11 SAT", "2026-11-20 10:15:30", 0},
		{"* * 13 * FRI", "2026-11-20 10:15:30", cron.Day}, // either field of days
		{"* * 19 11 *", "2026-11-20 10:15:30", 0},
		{"* 9-10 * * *", "2026-11-20 10:15:30", time.Hour},
		{"* * 9-10 * * *", "2026-11-20 10:15:30", time.Hour},
		{"* 11 * * *", "2026-11-20 10:15:30", 0},
		{"15 * * * *", "2026-11-20 10:15:30", time.Minute},
		{"* 15 * * * *", "2026-11-20 10:15:30", time.Minute},
		{"16 * * * *", "2026-11-20 10:15:30", 0},
		{"30 * * * * *", "2026-11-20 10:15:30", time.Second},
		{"0-29 * * * * *", "2026-11-20 10:15:30", 0},
		{"* * L * *", "2028-02-29 00:00:00", cron.Day},
		{"* * * * SUNL", "2026-11-29 23:59:59", cron.Day},
		{"* * * * SUN#4", "2026-11-29 23:59:59", 0},
	} {
		at, err := time.Parse(time.DateTime, row.at)
		assert.NoError(t, err)
		assert.Equal(t, parse(t, row.text).Excepts(cron.WallOf(at)), row.want, "%s at %s", row.text, row.at)
	}
}
