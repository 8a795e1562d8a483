package instant

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
)

func zoneOf(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	assert.NoError(t, err)
	return zone
}

// saturday returns noon of Saturday, 2026-11-28 in Berlin, an hour ahead of UTC.
func saturday(t testing.TB) time.Time {
	return time.Date(2026, 11, 28, 12, 0, 0, 0, zoneOf(t, "Europe/Berlin"))
}

func TestForms(t *testing.T) {
	now := saturday(t)
	for text, want := range map[string]string{
		"2026-12-01T09:00:00Z":           "2026-12-01T09:00:00Z",
		"2026-12-01T09:00:00+05:00":      "2026-12-01T04:00:00Z",
		"2026-12-01 09:00":               "2026-12-01T08:00:00Z",
		"2026-12-01 9:00":                "2026-12-01T08:00:00Z",
		"2026-12-01T09:00":               "2026-12-01T08:00:00Z",
		"2026-12-01 09:00:07":            "2026-12-01T08:00:07Z",
		"2026-07-01 09:00":               "2026-07-01T07:00:00Z", // summer time
		"2026-12-01 09:00 UTC":           "2026-12-01T09:00:00Z",
		"2026-12-01 09:00 Asia/Tokyo":    "2026-12-01T00:00:00Z",
		"today 18:30":                    "2026-11-28T17:30:00Z",
		"today 9:00":                     "2026-11-28T08:00:00Z", // the past is a range's
		"tomorrow 9:00":                  "2026-11-29T08:00:00Z",
		"Tomorrow  9:00":                 "2026-11-29T08:00:00Z",
		"tomorrow 9:00 America/New_York": "2026-11-29T14:00:00Z",
		"yesterday 9:00":                 "2026-11-27T08:00:00Z",
		"monday 9:00":                    "2026-11-30T08:00:00Z",
		"MON 9:00":                       "2026-11-30T08:00:00Z",
		"friday 23:59:59":                "2026-12-04T22:59:59Z",
		"saturday 9:00":                  "2026-12-05T08:00:00Z", // 9:00 of today is over
		"9:00":                           "2026-11-29T08:00:00Z", // over for today
		"12:00":                          "2026-11-29T11:00:00Z", // now is not the next
		"12:01":                          "2026-11-28T11:01:00Z",
		"00:00":                          "2026-11-28T23:00:00Z",
		"9:00 Asia/Tokyo":                "2026-11-29T00:00:00Z",
		"in 2h":                          "2026-11-28T13:00:00Z",
		"in 1.5d":                        "2026-11-29T23:00:00Z",
		"in PT30M":                       "2026-11-28T11:30:00Z",
		"2h ago":                         "2026-11-28T09:00:00Z",
		"now":                            "2026-11-28T11:00:00Z",
	} {
		at, err := Parse(text, now, now.Location())
		if err != nil || at.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v; want %s", text, at.UTC(), err, want)
		}
	}
}

// A text that is not understood in whole, or that has two meanings, is refused.
func TestRefusals(t *testing.T) {
	now := saturday(t)
	for text, want := range map[string]string{
		"":                            "is no instant",
		"soon":                        "no time of day",
		"tomorrow":                    "no time of day",
		"9":                           "no time of day",
		"9am":                         "no time of day",
		"tomorow 9:00":                `has the day "tomorow"`,
		"tomorrow 24:00":              "no time of day",
		"tomorrow 25:00":              "no time of day",
		"tomorrow 9:60":               "no time of day",
		"tomorrow 9":                  "no time of day",
		"tomorrow 9:00 pm":            "is no instant",
		"tomorrow at 9:00":            "is no instant",
		"next monday 9:00":            "is no instant",
		"tomorrow 9:00 or later":      "is no instant",
		"saturday 18:00":              "may mean today or a week from now: give today 18:00, or a date",
		"2026-12-01":                  "no time of day",
		"2026-02-30 09:00":            "no date of the calendar",
		"2026-13-01 09:00":            "no date of the calendar",
		"01/02/2026 9:00":             `has the day "01/02/2026"`,
		"1.2.2026 9:00":               `has the day "1.2.2026"`,
		"2026-12-01 09:00 CET":        "is no instant",
		"2026-12-01 09:00 Mars/North": `the time zone "Mars/North", which is unknown`,
		"2026-12-01 09:00 ../etc":     "which is unknown",
		"in":                          "no time of day",
		"in soon":                     "must be a duration",
		"in -2h":                      "negative",
		"in 2 hours":                  "is no instant",
		"2h":                          "no time of day",
		"-2h ago":                     "negative",
	} {
		at, err := Parse(text, now, now.Location())
		var refusal *Error
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", text, at, err, want)
		}
	}
}

// A time that the clocks skip or show twice is refused, with the instants that it may mean. Times beside it are read.
func TestClockChanges(t *testing.T) {
	for _, tt := range []struct{ zone, text, want string }{
		{"Europe/Berlin", "2026-03-29 01:59:59", "2026-03-29T00:59:59Z"},
		{"Europe/Berlin", "2026-03-29 02:00", "which the clocks of Europe/Berlin skip"},
		{"Europe/Berlin", "2026-03-29 02:30", "which the clocks of Europe/Berlin skip"},
		{"Europe/Berlin", "2026-03-29 03:00", "2026-03-29T01:00:00Z"},
		{"Europe/Berlin", "2026-10-25 01:59:59", "2026-10-24T23:59:59Z"},
		{"Europe/Berlin", "2026-10-25 02:00", "show twice: give 2026-10-25T02:00:00+02:00 or 2026-10-25T02:00:00+01:00"},
		{"Europe/Berlin", "2026-10-25 02:59:59", "show twice"},
		{"Europe/Berlin", "2026-10-25 03:00", "2026-10-25T02:00:00Z"},
		{"America/New_York", "2026-11-01 01:30", "show twice: give 2026-11-01T01:30:00-04:00 or 2026-11-01T01:30:00-05:00"},
		{"America/New_York", "2026-03-08 02:30", "skip"},
		{"Australia/Lord_Howe", "2026-04-05 01:45", "show twice"}, // by half an hour
		{"Australia/Lord_Howe", "2026-10-04 02:15", "skip"},
		{"Africa/Casablanca", "2026-02-15 02:30", "show twice"}, // the month of fasting
		{"Pacific/Apia", "2011-12-30 09:00", "skip"},            // a whole day
		{"Asia/Kolkata", "2026-03-29 02:30", "2026-03-28T21:00:00Z"},
		{"UTC", "2026-03-29 02:30", "2026-03-29T02:30:00Z"},
	} {
		at, err := Parse(tt.text, saturday(t), zoneOf(t, tt.zone))
		got := at.UTC().Format(time.RFC3339)
		if err != nil {
			got = err.Error()
		}
		assert.Contains(t, got, tt.want, "%s in %s", tt.text, tt.zone)
	}
}

// A relative day is refused like a date if the clocks skip its time.
func TestRelativeDaysAtClockChanges(t *testing.T) {
	berlin := zoneOf(t, "Europe/Berlin")
	before := time.Date(2026, 3, 28, 12, 0, 0, 0, berlin)
	for _, text := range []string{"tomorrow 2:30", "sunday 2:30", "2:30"} {
		at, err := Parse(text, before, berlin)
		assert.Error(t, err, "%s is %v", text, at)
	}
	if at, err := Parse("tomorrow 9:00", before, berlin); err != nil || at.Sub(before) != 20*time.Hour {
		t.Errorf("%v after now, %v", at.Sub(before), err)
	}
}

func TestDescribe(t *testing.T) {
	now := saturday(t)
	for want, d := range map[string]time.Duration{
		"2026-11-29 06:04:00 CET, in 18h4m":  18*time.Hour + 4*time.Minute,
		"2026-11-28 12:00:30 CET, in 30s":    30 * time.Second,
		"2026-11-28 12:01:30 CET, in 1m30s":  90 * time.Second,
		"2026-12-01 13:00:00 CET, in 3d1h":   73 * time.Hour,
		"2026-12-03 12:00:10 CET, in 5d":     5*24*time.Hour + 10*time.Second,
		"2020-01-01 12:00:00 CET, 2523d ago": -2523 * 24 * time.Hour,
		"2026-11-28 10:00:00 CET, 2h ago":    -2 * time.Hour,
		"2026-11-28 12:00:00 CET, now":       0,
	} {
		assert.Equal(t, Describe(now.Add(d), now, now.Location()), want, "%v", d)
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{"tomorrow 9:00", "in 2h", "2026-10-25 02:30", "monday 9:00 Europe/Berlin", "9:00 UTC", "ago"} {
		f.Add(text)
	}
	now, zone := saturday(f), zoneOf(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, text string) {
		at, err := Parse(text, now, zone)
		if err != nil && !at.IsZero() {
			t.Errorf("%q: %v, %v", text, at, err)
		}
	})
}
