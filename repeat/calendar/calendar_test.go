package calendar

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/repeat/zone"
)

func load(t testing.TB, name string) *time.Location {
	t.Helper()
	l, err := zone.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func mustNew(t testing.TB, spec Spec) *Calendar {
	t.Helper()
	c, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestOpens(t *testing.T) {
	const layout = "2006-01-02 15:04:05 -0700"
	business := []Hours{{Days: "MON-FRI", Daily: []string{"09:00-17:00"}}}
	for _, c := range []struct {
		name, zone  string
		spec        Spec
		after, want string
	}{
		{"open", "UTC", Spec{Closed: []string{"2026-12-25"}}, "2026-12-24 12:00:00 +0000", "2026-12-24 12:00:00 +0000"},
		{"a date", "UTC", Spec{Closed: []string{"2026-12-25"}}, "2026-12-25 12:00:00 +0000", "2026-12-26 00:00:00 +0000"},
		{"a range", "UTC", Spec{Closed: []string{"2026-12-24/2027-01-01"}}, "2026-12-24 00:00:00 +0000", "2027-01-02 00:00:00 +0000"},
		{"dates that touch", "UTC", Spec{Closed: []string{"2026-12-26", "2026-12-25", "2026-12-25/2026-12-25"}},
			"2026-12-25 12:00:00 +0000", "2026-12-27 00:00:00 +0000"},
		{"yearly", "UTC", Spec{Closed: []string{"--12-31", "--01-01"}}, "2030-12-31 12:00:00 +0000", "2031-01-02 00:00:00 +0000"},
		{"a leap day", "UTC", Spec{Closed: []string{"--02-29"}}, "2028-02-29 12:00:00 +0000", "2028-03-01 00:00:00 +0000"},
		{"hours", "UTC", Spec{Hours: business}, "2026-11-20 17:00:00 +0000", "2026-11-23 09:00:00 +0000"},
		{"hours and a holiday", "UTC", Spec{Hours: business, Closed: []string{"2026-11-23"}},
			"2026-11-20 17:00:00 +0000", "2026-11-24 09:00:00 +0000"},
		{"a holiday ends hours of the night before", "UTC",
			Spec{Hours: []Hours{{Daily: []string{"22:00-06:00"}}}, Closed: []string{"2026-12-25"}},
			"2026-12-25 01:00:00 +0000", "2026-12-26 00:00:00 +0000"},
		{"a zone of its own", "UTC", Spec{TimeZone: "Asia/Tokyo", Closed: []string{"2026-12-25"}},
			"2026-12-24 15:00:00 +0000", "2026-12-25 15:00:00 +0000"},
		{"the zone of the instant", "America/New_York", Spec{Closed: []string{"2026-12-25"}},
			"2026-12-25 05:00:00 +0000", "2026-12-26 00:00:00 -0500"},
		{"behind a skipped midnight", "Africa/Cairo", Spec{Closed: []string{"2026-04-23"}},
			"2026-04-23 12:00:00 +0200", "2026-04-24 01:00:00 +0300"},
		{"a closed day is skipped", "Pacific/Apia", Spec{Closed: []string{"2011-12-30"}},
			"2011-12-29 23:59:59 -1000", "2011-12-29 23:59:59 -1000"},
	} {
		after, err := time.Parse(layout, c.after)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := mustNew(t, c.spec).Opens(after.In(load(t, c.zone))); !ok || got.Format(layout) != c.want {
			t.Errorf("%s: %s, %v", c.name, got.Format(layout), ok)
		}
	}
	if opens, ok := (*Calendar)(nil).Opens(time.Unix(7, 0)); !ok || opens.Unix() != 7 {
		t.Error("no calendar is not open")
	}
}

func TestAlwaysClosed(t *testing.T) {
	var days []string
	for month := range 12 {
		for day := range 31 {
			if date := time.Date(2000, time.Month(month+1), day+1, 0, 0, 0, 0, time.UTC); date.Day() == day+1 {
				days = append(days, date.Format("--01-02"))
			}
		}
	}
	for name, spec := range map[string]Spec{
		"a century": {Closed: []string{"2026-01-01/2126-01-01"}}, "each day of the year": {Closed: days},
		"a closed weekday": {Hours: []Hours{{Days: "FRI", Daily: []string{"09:00-10:00"}}}, Closed: days},
	} {
		if opens, ok := mustNew(t, spec).Opens(time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)); ok {
			t.Errorf("%s: opens at %v", name, opens)
		}
	}
}

// TestOpensBesideMinutes compares Opens with a second implementation that walks over all minutes.
func TestOpensBesideMinutes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, name := range []string{"UTC", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo", "Pacific/Apia"} {
		location := load(t, name)
		for range 25 {
			first := time.Date(2026, 3, 20+rng.IntN(14), 0, 0, 0, 0, time.UTC)
			closed := first.Format(time.DateOnly) + "/" + first.AddDate(0, 0, rng.IntN(3)).Format(time.DateOnly)
			spec := Spec{Closed: []string{closed, "--04-0" + string(rune('1'+rng.IntN(9)))}}
			if rng.IntN(2) > 0 {
				spec.Hours = []Hours{{Daily: []string{"22:30-02:15", "12:00-12:01"}}, {Days: "SUN", Daily: []string{"01:00-03:30"}}}
			}
			at := time.Date(2026, 3, 18+rng.IntN(20), rng.IntN(24), rng.IntN(60), 0, 0, location)
			walk(t, spec, at)
		}
	}
}

// walk wants Opens to be the first open minute.
func walk(t *testing.T, spec Spec, from time.Time) {
	t.Helper()
	c := mustNew(t, spec)
	got, ok := c.Opens(from)
	for at := from; ; at = at.Add(time.Minute) {
		date := at.Format(time.DateOnly)
		first, last, _ := strings.Cut(spec.Closed[0], "/")
		if first <= date && date <= last || at.Format("--01-02") == spec.Closed[1] || c.week != nil && !c.week.Open(at) {
			continue
		}
		if !ok || !got.Equal(at) {
			t.Errorf("%v of %+v: %v (%v), want %v", from, spec, got, ok, at)
		}
		return
	}
}

func TestNewErrors(t *testing.T) {
	for want, spec := range map[string]Spec{
		"closed is absent, and so is hours: a calendar needs one of them": {},
		`closed[1] is wrong: "25.12." must be a date like 2026-12-25, a range like 2026-12-24/2027-01-01 or a yearly date like --12-25`: {
			Closed: []string{"2026-12-25", "25.12."}},
		`closed[0] is wrong: "--02-30" must be a yearly date like --12-25`:           {Closed: []string{"--02-30"}},
		`closed[0] is wrong: "2026-12-25/2026-12-24" ends before it begins`:          {Closed: []string{"2026-12-25/2026-12-24"}},
		`closed has too many dates (limit 4096)`:                                     {Closed: make([]string, 4097)},
		`hours has too many elements (limit 16)`:                                     {Hours: make([]Hours, 17)},
		`hours[0].daily[0] is wrong: "9-17" must be like 09:00-17:30 or 22:00-06:00`: {Hours: []Hours{{Daily: []string{"9-17"}}}},
		`time_zone is wrong: "Europe/Atlantis" is no time zone of the IANA database`: {TimeZone: "Europe/Atlantis", Closed: []string{"--12-25"}},
	} {
		if _, err := New(spec); err == nil || !strings.HasPrefix(err.Error(), want) { // the version of the zones follows
			t.Errorf("%v, want %s", err, want)
		}
	}
}

const holidays = `BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//example//EN
BEGIN:VEVENT
UID:1@example
SUMMARY:Christmas
DTSTART;VALUE=DATE:20201225
DTEND;VALUE=DATE:20201227
RRULE:FREQ=YEARLY
TRANSP:TRANSPARENT
END:VEVENT
BEGIN:VEVENT
UID:2@example
SUMMARY:Easter Monday
DTSTART;VALUE=DATE:20270329
END:VEVENT
BEGIN:VEVENT
UID:3@example
SUMMARY:Memorial Day
DTSTART;VALUE=DATE:20200525
RRULE:FREQ=YEARLY;BYMONTH=5;BYDAY=-1MO
EXDATE;VALUE=DATE:20280529
END:VEVENT
BEGIN:VEVENT
UID:4@example
SUMMARY:Off
STATUS:CANCELLED
DTSTART:20270329T100000Z
END:VEVENT
BEGIN:VEVENT
UID:5@example
SUMMARY:Company holidays
DTSTART;VALUE=DATE:20270801
DURATION:P14D
END:VEVENT
END:VCALENDAR
`

var imported = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func TestImport(t *testing.T) {
	spec, until, err := Import([]byte(strings.ReplaceAll(holidays, "\n", "\r\n")), imported)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"--12-25", "--12-26", "2025-05-26", "2026-05-25", "2027-03-29", "2027-05-31", "2027-08-01/2027-08-14",
		"2029-05-28", "2030-05-27", "2031-05-26", "2032-05-31", "2033-05-30", "2034-05-29", "2035-05-28", "2036-05-26"}
	if !slices.Equal(spec.Closed, want) || until != "2036-12-31" {
		t.Errorf("until %s: %q", until, spec.Closed)
	}
	if _, err := New(spec); err != nil {
		t.Error(err)
	}
}

func TestImportErrors(t *testing.T) {
	event := func(lines ...string) string {
		return "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:Fair\n" + strings.Join(lines, "\n") + "\nEND:VEVENT\nEND:VCALENDAR\n"
	}
	const day = "DTSTART;VALUE=DATE:20270101"
	for want, text := range map[string]string{
		`is no iCalendar file`: "hello",
		`has the event "Fair", which begins or ends at the time "20270101T100000Z"`: event("DTSTART:20270101T100000Z"),
		`has the event "Fair", which has no date`:                                   event("UID:1"),
		`has the event "Fair", which lasts "PT1H"`:                                  event(day, "DURATION:PT1H"),
		`has the event "Fair", which lasts 400 days (limit 366)`:                    event(day, "DURATION:P400D"),
		`has the event "Fair", which is at "19691231", before 1970`:                 event("DTSTART;VALUE=DATE:19691231"),
		`has the event "Fair", which recurs by the rule "FREQ=HOURLY", several`:     event(day, "RRULE:FREQ=HOURLY"),
		`has the event "Fair", which recurs by the rule "FREQ=NEVER"`:               event(day, "RRULE:FREQ=NEVER"),
		`has the event "Fair", which has the property RDATE`:                        event(day, "RDATE;VALUE=DATE:20280101"),
		`has the event "Fair", which leaves out the time "20280101T000000"`:         event(day, "RRULE:FREQ=YEARLY", "EXDATE:20280101T000000"),
		`closes too many dates (limit 4096)`:                                        event(day, "RRULE:FREQ=DAILY") + "",
	} {
		spec, _, err := Import([]byte(text), imported)
		if want == `closes too many dates (limit 4096)` { // ten years of days are 3,653
			if err != nil || len(spec.Closed) != 3653 {
				t.Errorf("each day: %d, %v", len(spec.Closed), err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func FuzzImport(f *testing.F) {
	f.Add([]byte(holidays))
	f.Add([]byte("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20270101\nRRULE:FREQ=MONTHLY;BYDAY=2TU;COUNT=5\nEND:VEVENT\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		spec, _, err := Import(text, imported)
		if err != nil || len(spec.Closed) == 0 {
			return
		}
		if _, err := New(spec); err != nil {
			t.Errorf("%q: %v", spec.Closed, err)
		}
	})
}

func FuzzNew(f *testing.F) {
	f.Add("Europe/Berlin", "MON-FRI", "09:00-17:00", "2026-12-25")
	f.Add("", "", "", "--12-25")
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, zone, days, daily, closed string) {
		spec := Spec{TimeZone: zone, Closed: strings.Split(closed, ",")}
		if daily != "" {
			spec.Hours = []Hours{{Days: days, Daily: strings.Split(daily, ",")}}
		}
		c, err := New(spec)
		if err != nil {
			return
		}
		opens, ok := c.Opens(at)
		if again, still := c.Opens(opens); ok && (!still || !again.Equal(opens)) {
			t.Errorf("%+v: opens at %v, and then at %v", spec, opens, again)
		}
	})
}
