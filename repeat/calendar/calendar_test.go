package calendar

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/repeat/zone"
)

func load(t testing.TB, name string) *time.Location {
	t.Helper()
	l, err := zone.Load(name)
	assert.NoError(t, err)
	return l
}

func mustNew(t testing.TB, spec Spec) *Calendar {
	t.Helper()
	c, err := New(spec)
	assert.NoError(t, err)
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
		assert.NoError(t, err)
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
	in, err := Import([]byte(strings.ReplaceAll(holidays, "\n", "\r\n")), imported)
	assert.NoError(t, err)
	want := []string{"--12-25", "--12-26", "2025-05-26", "2026-05-25", "2027-03-29", "2027-05-31", "2027-08-01/2027-08-14",
		"2029-05-28", "2030-05-27", "2031-05-26", "2032-05-31", "2033-05-30", "2034-05-29", "2035-05-28", "2036-05-26"}
	if !slices.Equal(in.Spec.Closed, want) || in.KnownUntil != "2036-12-31" || in.Skipped != 0 || len(in.Why) != 0 {
		t.Errorf("%+v", in)
	}
	if _, err := New(in.Spec); err != nil {
		t.Error(err)
	}
}

// vevents returns a file of events, each given as lines that are separated by spaces.
func vevents(events ...string) string {
	text := "BEGIN:VCALENDAR\n"
	for _, e := range events {
		text += "BEGIN:VEVENT\nSUMMARY:Fair\n" + strings.Join(strings.Fields(e), "\n") + "\nEND:VEVENT\n"
	}
	return text + "END:VCALENDAR\n"
}

// TestImportedEvents checks the closed dates of single events and of recurring events with their overrides.
func TestImportedEvents(t *testing.T) {
	const weekly = "UID:w DTSTART;VALUE=DATE:20270104 RRULE:FREQ=WEEKLY;COUNT=3"
	for _, c := range []struct {
		name    string
		events  []string
		closed  string
		skipped int
	}{
		{"an overridden date", []string{weekly, "UID:w RECURRENCE-ID;VALUE=DATE:20270111 DTSTART;VALUE=DATE:20270112"},
			"2027-01-04 2027-01-12 2027-01-18", 0},
		{"an override comes first", []string{"UID:w RECURRENCE-ID;VALUE=DATE:20270111 DTSTART;VALUE=DATE:20270112", weekly},
			"2027-01-04 2027-01-12 2027-01-18", 0},
		{"the newest override counts", []string{weekly,
			"UID:w RECURRENCE-ID;VALUE=DATE:20270111 DTSTART;VALUE=DATE:20270113 SEQUENCE:2",
			"UID:w RECURRENCE-ID;VALUE=DATE:20270111 DTSTART;VALUE=DATE:20270112 SEQUENCE:1"}, "2027-01-04 2027-01-13 2027-01-18", 0},
		{"a cancelled date", []string{weekly, "UID:w RECURRENCE-ID;VALUE=DATE:20270111 DTSTART;VALUE=DATE:20270111 STATUS:CANCELLED"},
			"2027-01-04 2027-01-18", 0},
		{"an override of hours", []string{weekly, "UID:w RECURRENCE-ID;VALUE=DATE:20270111 DTSTART:20270111T100000Z DTEND:20270111T120000Z"},
			"2027-01-04 2027-01-18", 1},
		{"an override of another event", []string{weekly, "UID:x RECURRENCE-ID;VALUE=DATE:20270111 DTSTART;VALUE=DATE:20270112"},
			"2027-01-04 2027-01-11 2027-01-12 2027-01-18", 0},
		{"an override of a yearly event", []string{"UID:y DTSTART;VALUE=DATE:20261101 RRULE:FREQ=YEARLY;UNTIL=20281101",
			"UID:y RECURRENCE-ID:20271101T000000 DTSTART;VALUE=DATE:20271103 DTEND;VALUE=DATE:20271105"},
			"2026-11-01 2027-11-03/2027-11-04 2028-11-01", 0},
		{"added dates", []string{"DTSTART;VALUE=DATE:20270104 RDATE;VALUE=DATE:20270205,20270306 EXDATE;VALUE=DATE:20270205",
			"DTSTART;VALUE=DATE:20280104 DTEND;VALUE=DATE:20280106 RDATE;VALUE=DATE:20280205"},
			"2027-01-04 2027-03-06 2028-01-04/2028-01-05 2028-02-05/2028-02-06", 0},
		{"added dates beside a rule", []string{weekly + " RDATE;VALUE=DATE:20270205"}, "2027-01-04 2027-01-11 2027-01-18 2027-02-05", 0},
		{"added times", []string{"DTSTART;VALUE=DATE:20270104 RDATE:20270205T100000Z"}, "2027-01-04", 1},
		{"dates that are left out as times", []string{weekly + " EXDATE:20270111T000000"}, "2027-01-04 2027-01-18", 0},
		{"several rules", []string{"DTSTART;VALUE=DATE:20270104 RRULE:FREQ=WEEKLY;COUNT=2 RRULE:FREQ=MONTHLY;COUNT=2"},
			"2027-01-04 2027-01-11 2027-02-04", 0},
		{"events within a day", []string{"DTSTART:20270101T100000Z", "DTSTART;VALUE=DATE:20270102 DURATION:PT1H",
			"DTSTART;TZID=X:20270103T000000 DTEND;TZID=X:20270103T120000", "DTSTART:20270103T000000", "DTSTART;VALUE=DATE:20270105"},
			"2027-01-05", 4},
		{"whole days in other forms", []string{"DTSTART:20270101T000000 DTEND:20270102T000000", "DTSTART;TZID=X:20270103T000000 DURATION:P1W",
			"DTSTART;VALUE=DATE:20270201 DURATION:PT48H", "DTSTART;VALUE=DATE:20270301 DTEND;VALUE=DATE:20270301"},
			"2027-01-01 2027-01-03/2027-01-09 2027-02-01/2027-02-02 2027-03-01", 0},
		{"events that are over", []string{"DTSTART;VALUE=DATE:20241231", "DTSTART;VALUE=DATE:19010101", "DTSTART;VALUE=DATE:20241231 DURATION:P2D",
			"DTSTART;VALUE=DATE:20200101 RRULE:FREQ=DAILY;COUNT=9"}, "2024-12-31/2025-01-01", 3},
		{"a yearly event since 1776", []string{"DTSTART;VALUE=DATE:17760704 RRULE:FREQ=YEARLY;INTERVAL=1"}, "--07-04", 0},
		{"a rule since 1601", []string{"DTSTART;VALUE=DATE:16010101 RRULE:FREQ=YEARLY;BYMONTH=1;BYDAY=1MO;UNTIL=20270601"},
			"2025-01-06 2026-01-05 2027-01-04", 0},
		{"a file of past years", []string{"DTSTART;VALUE=DATE:20110103", "DTSTART;VALUE=DATE:20110102 DURATION:P2D", "DTSTART:20110103T100000Z"},
			"2011-01-02/2011-01-03 2011-01-03", 1},
		{"an empty rule", []string{"DTSTART;VALUE=DATE:20270104 RRULE:"}, "2027-01-04", 0},
		{"a cancelled event", []string{"DTSTART;VALUE=DATE:20270101 STATUS:CANCELLED", "DTSTART;VALUE=DATE:20270102"}, "2027-01-02", 0},
	} {
		in, err := Import([]byte(vevents(c.events...)), imported)
		if got := strings.Join(in.Spec.Closed, " "); err != nil || got != c.closed || in.Skipped != c.skipped || (len(in.Why) > 0) != (c.skipped > 0) {
			t.Errorf("%s: %s, %d skipped, %q, %v; want %s", c.name, got, in.Skipped, in.Why, err, c.closed)
		}
	}
	in, err := Import([]byte(vevents("DTSTART:20270101T100000Z", "DTSTART;VALUE=DATE:20270102", "DTSTART;VALUE=DATE:20240102")), imported)
	want := []string{`events that begin or end within a day: 1, such as "Fair"`, `events before 2025-01-01: 1, such as "Fair"`}
	if err != nil || !slices.Equal(in.Why, want) {
		t.Errorf("%q, %v", in.Why, err)
	}
}

func TestImportErrors(t *testing.T) {
	const day = "DTSTART;VALUE=DATE:20270101"
	for want, text := range map[string]string{
		`is no iCalendar file`: "hello",
		`closes no day; events that begin or end within a day: 2, such as "Fair"`: vevents("DTSTART:20270101T100000Z", "DTSTART:20270102T100000Z"),
		`closes no day`: "BEGIN:VCALENDAR\nEND:VCALENDAR\n",
		`has the event "Fair", which has no date`:                                       vevents("UID:1"),
		`has the event "Fair", which is at "soon", which is no date`:                    vevents("DTSTART:soon"),
		`has the event "Fair", which lasts "P1X", which is no duration`:                 vevents(day + " DURATION:P1X"),
		`has the event "Fair", which lasts 400 days (limit 366)`:                        vevents(day + " DURATION:P400D"),
		`has the event "Fair", which recurs by the rule "FREQ=HOURLY", several`:         vevents(day + " RRULE:FREQ=HOURLY"),
		`has the event "Fair", which recurs by the rule "FREQ=NEVER"`:                   vevents(day + " RRULE:FREQ=NEVER"),
		`has the event "Fair", which recurs by the rule "FREQ=DAILY;INTERVAL=0", with`:  vevents(day + " RRULE:FREQ=DAILY;INTERVAL=0"),
		`has the event "Fair", which recurs by the rule "FREQ=DAILY;COUNT=0", with`:     vevents(day + " RRULE:FREQ=DAILY;COUNT=0"),
		`has the event "Fair", which recurs by the rule "FREQ=DAILY;INTERVAL=-1", with`: vevents(day + " RRULE:FREQ=DAILY;INTERVAL=-1"),
		`has the event "Fair", which recurs by the rule "FREQ=DAILY;COUNT=-2", with`:    vevents(day + " RRULE:FREQ=DAILY;COUNT=-2"),
		`has the event "Fair", which recurs by the rule "FREQ=YEARLY;BYDAY=MO,+0TU"`:    vevents(day + " RRULE:FREQ=YEARLY;BYDAY=MO,+0TU"),
		`has the event "Fair", which recurs since 1599-12-31, before 1600`:              vevents("DTSTART;VALUE=DATE:15991231 RRULE:FREQ=YEARLY;BYDAY=1MO"),
		`has the event "Fair", which leaves out "soon", which is no date`:               vevents(day + " RRULE:FREQ=YEARLY EXDATE:soon"),
		`has the event "Fair", which changes all later occurrences of another one, too`: vevents(day + " RECURRENCE-ID;RANGE=THISANDFUTURE:20270101"),
		`closes too many dates (limit 4096)`:                                            vevents(day+" RRULE:FREQ=DAILY", day+" DURATION:P2D RRULE:FREQ=DAILY"),
	} {
		if _, err := Import([]byte(text), imported); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if in, err := Import([]byte(vevents(day+" RRULE:FREQ=DAILY")), imported); err != nil || len(in.Spec.Closed) != 3653 {
		t.Errorf("each day: %d, %v", len(in.Spec.Closed), err)
	}
}

func FuzzImport(f *testing.F) {
	f.Add([]byte(holidays))
	f.Add([]byte("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20270101\nRRULE:FREQ=MONTHLY;BYDAY=2TU;COUNT=5\nEND:VEVENT\n"))
	f.Add([]byte(vevents("UID:w DTSTART;VALUE=DATE:20270104 RRULE:FREQ=WEEKLY;COUNT=3 RDATE;VALUE=DATE:20280101 EXDATE:20270111T000000",
		"UID:w RECURRENCE-ID;VALUE=DATE:20270111 DTSTART:20270112T000000 DURATION:P1W SEQUENCE:1")))
	f.Fuzz(func(t *testing.T, text []byte) {
		in, err := Import(text, imported)
		if err != nil {
			return
		}
		if _, err := New(in.Spec); err != nil {
			t.Errorf("%q: %v", in.Spec.Closed, err)
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
