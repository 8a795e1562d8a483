package repeating

import (
	"fmt"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/zone"
)

func noCalendar(*fsmpb.Repeat) *calendar.Calendar { return nil }

func TestPreviews(t *testing.T) {
	for body, want := range map[string]string{
		`{"cron": ["30 2 * * *"], "time_zone": "Europe/Berlin", "start": "2027-03-27T12:00:00Z"}, "next": 2`: `
			2027-03-28T01:00:00.000Z 2027-03-28T03:00:00.000+02:00 gap 2027-03-28T02:30:00
			2027-03-29T00:30:00.000Z 2027-03-29T02:30:00.000+02:00
			Europe/Berlin, more`,
		`{"every": "15m"}, "next": 1`: `
			2026-11-20T10:15:00.000Z 2026-11-20T10:15:00.000+00:00
			UTC, more`,
		`{"every": "15m", "start": "2026-11-20T12:00:00Z", "count": 2}`: `
			2026-11-20T12:00:00.000Z 2026-11-20T12:00:00.000+00:00
			2026-11-20T12:15:00.000Z 2026-11-20T12:15:00.000+00:00
			UTC, ended`,
		`{"every": "1h", "anchor": "1970-01-01T00:30:00Z", "end": "2026-11-20T10:30:00Z"}, "next": 5`: `
			2026-11-20T10:30:00.000Z 2026-11-20T10:30:00.000+00:00
			UTC, ended`,
		`{"cron": ["@daily"], "except": ["2026-11-21"], "end": "2026-11-21T12:00:00Z"}`: `
			UTC, ended
			without 2026-11-21T00:00:00.000Z 2026-11-21T00:00:00.000+00:00 by 2026-11-21`,
		`{"cron": ["0 0 1 * *"], "count": 1}`: `
			2026-12-01T00:00:00.000Z 2026-12-01T00:00:00.000+00:00
			UTC, ended`,
	} {
		a, err := NextOf([]byte(`{"repeat": `+body+"}"), now, noCalendar)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		got := ""
		for _, o := range a.Occurrences {
			got += strings.TrimRight(fmt.Sprintf("\n%s %s %s %s", o.At, o.Local, o.Change, o.Wall), " ")
		}
		got += fmt.Sprintf("\n%s, %s", a.TimeZone, map[bool]string{true: "ended", false: "more"}[a.Ended])
		for _, x := range a.Excluded {
			got += fmt.Sprintf("\nwithout %s %s by %s", x.At, x.Local, x.Except)
		}
		if want = strings.ReplaceAll(want, "\t", ""); got != want || a.TZData != zone.Version {
			t.Errorf("%s\n got %s\nwant %s (%s)", body, got, want, a.TZData)
		}
	}
}

func TestPreviewRefusals(t *testing.T) {
	for _, row := range [][2]string{
		{``, "the body is empty"},
		{`[]`, "must be a JSON object"},
		{`{}`, "repeat is absent"},
		{`{"repeat": null}`, "repeat must be an object"},
		{`{"repeat": {"cron": ["@daily"]}, "next": 0}`, "next is 0 (limit 1 to 1000)"},
		{`{"repeat": {"cron": ["@daily"]}, "next": 1001}`, "next is 1001 (limit 1 to 1000)"},
		{`{"repeat": {"cron": ["@daily"]}, "last": 3}`, "last is not a field that is known"},
		{`{"repeat": {"cron": ["@daily"], "calendar": "x"}}`, `repeat.calendar is wrong: "x" does not exist`},
		{`{"repeat": {"cron": ["@daily"]}, "repeat": {}}`, "repeat is given twice"},
		{`{"repeat": {"cron": ["@daily"], "cron": []}}`, "repeat.cron is given twice"},
		{`{"repeat": {}}`, "repeat.cron is absent, and so is every"},
		{`{"repeat": {"cron": "@daily"}}`, "repeat.cron must be an array"},
		{`{"repeat": {"cron": []}}`, "repeat.cron is empty"},
		{`{"repeat": {"cron": ["@daily", 7]}}`, "repeat.cron[1] must be a string"},
		{`{"repeat": {"cron": ["@daily", "0 25 * * *"]}}`, `repeat.cron[1] is wrong in the hour: "25"`},
		{`{"repeat": {"cron": ["@daily"], "time_zone": ""}}`, "repeat.time_zone is empty"},
		{`{"repeat": {"cron": ["@daily"], "time_zone": "X/Y"}}`, `repeat.time_zone is wrong: "X/Y" is no time zone`},
		{`{"repeat": {"every": "99ms"}}`, "repeat.every is too short (limit 100ms"},
		{`{"repeat": {"every": "0s"}}`, "repeat.every is too short"},
		{`{"repeat": {"every": "soon"}}`, "repeat.every"},
		{`{"repeat": {"every": "1h", "start": "today"}}`, "repeat.start must be an instant"},
		{`{"repeat": {"every": "1h", "start": "1969-12-31T00:00:00Z"}}`, "repeat.start is out of range"},
		{`{"repeat": {"every": "1h", "end": "2200-01-01T00:00:00Z"}}`, "repeat.end is out of range"},
		{`{"repeat": {"every": "1h", "count": 0}}`, "repeat.count is 0"},
		{`{"repeat": {"cron": ["* * * * * *"], "except": ["* * * * *"]}}`, "repeat has too many exclusions"},
		{fmt.Sprintf(`{"repeat": {"cron": [%s"@daily"]}}`, strings.Repeat(`"@daily",`, 16)),
			"repeat.cron has too many (limit 16)"},
		{`{"repeat": {"cron": ["@daily"]}} {}`, "something follows"},
	} {
		body, want := row[0], row[1]
		_, err := NextOf([]byte(body), now, noCalendar)
		if err == nil || !strings.Contains(strings.Replace(err.Error(), ": ", " ", 1), want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
