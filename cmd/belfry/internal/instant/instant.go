// Package instant reads instants as people write them, and refuses a text that has no meaning or several.
//
//	2026-12-01T09:00:00Z               RFC 3339, with any offset
//	2026-12-01 09:00                   a date and a time of day; also with seconds, or with T between them
//	today 9:00, tomorrow 9:00          a day from now; yesterday for the past
//	monday 9:00                        the next Monday; refused on a Monday before 9:00, which may mean two days
//	9:00                               the next time that the clock shows it
//	in 2h, 2h ago, now                 a duration from now, in the forms of the HTTP interface
//
// A time of day is of the zone that the caller gives, or of one behind it: "9:00 Europe/Berlin". A time that a change
// of the clock skips, or that comes twice, is refused with the instants that it may mean.
//
// # Why not a library?
//
// They guess. On Saturday, 2026-03-28 at 12:00 in Berlin, olebedev/when v1.1.0, tj/go-naturaldate v1.3.0 and
// markusmobius/go-dateparser v1.4.7 read:
//
//	text               when               naturaldate        dateparser
//	tomorrow 2:30      Sunday 3:30        Sunday 3:30        Sunday 3:30        the clock skips 2:30
//	tomorow 9:00       Saturday 9:00      Saturday 9:00      refused            a typing error
//	tomorrow 25:00     Sunday 13:00       Monday 1:00        Sunday 12:00       no time of day
//	9:00               Saturday 9:00      Saturday 9:00      Saturday 9:00      it is over
//	monday 9:00        Monday 30th        Monday 30th        Monday 23rd
//	in 2h              refused            Saturday 2:00      Saturday 14:00
//	2026-12-01 09:00   Saturday 12:01     refused            as written
//	soon               refused            Saturday 12:00     refused
package instant

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/belfryhq/belfry/client"
)

// forms are the accepted texts, for the end of a refusal.
const forms = `an instant is like 2026-12-01T09:00:00Z, "2026-12-01 09:00", "tomorrow 9:00", "monday 9:00", 9:00 ` +
	`or "in 2h"`

// Error is the refusal of a text.
type Error struct {
	Text, Reason string
	Read         bool // the text has one of the forms, and no meaning or several
}

func (e *Error) Error() string { return fmt.Sprintf("%q %s", e.Text, e.Reason) }

// refuse refuses a text that has none of the forms.
func refuse(text, format string, args ...any) error {
	return &Error{Text: text, Reason: fmt.Sprintf(format, args...)}
}

// refuseMeaning refuses a text that has one of the forms, and no meaning or several.
func refuseMeaning(text, format string, args ...any) error {
	return &Error{Text: text, Reason: fmt.Sprintf(format, args...), Read: true}
}

var (
	timeOfDay = regexp.MustCompile(`^([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?$`)
	fullDate  = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}$`)
	dateTime  = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2})[Tt](\d{1,2}:\d{2}(?::\d{2})?)$`)
)

// Parse reads an instant. Days and times of day are in the zone, unless the text ends with another zone.
func Parse(text string, now time.Time, zone *time.Location) (time.Time, error) {
	if at, err := client.ParseInstant(text); err == nil {
		return at, nil
	}
	words := strings.Fields(strings.ToLower(text))
	if at, ok, err := fromNow(text, words, now); ok {
		return at, err
	}
	words, zone, err := takeZone(text, words, zone)
	if err != nil {
		return time.Time{}, err
	}
	if len(words) == 1 {
		if m := dateTime.FindStringSubmatch(words[0]); m != nil {
			words = m[1:]
		}
	}
	switch len(words) {
	case 1:
		return nextTime(text, words[0], now.In(zone))
	case 2:
		return onDay(text, words[0], words[1], now.In(zone))
	}
	return time.Time{}, refuse(text, "is no instant: %s", forms)
}

// fromNow reads a text that needs no clock: now, in 2h, 2h ago. ok reports whether the text has such a form.
func fromNow(text string, words []string, now time.Time) (at time.Time, ok bool, err error) {
	var span string
	sign := time.Duration(1)
	switch {
	case len(words) == 1 && words[0] == "now":
		return now, true, nil
	case len(words) == 2 && words[0] == "in":
		span = words[1]
	case len(words) == 2 && words[1] == "ago":
		span, sign = words[0], -1
	default:
		return at, false, nil
	}
	if strings.HasPrefix(span, "p") { // a duration of ISO 8601
		span = strings.ToUpper(span)
	}
	d, err := client.ParseDuration(span)
	if err != nil {
		return at, true, refuse(text, "is no instant: %v", err)
	}
	if d < 0 {
		return at, true, refuseMeaning(text, "has a negative duration")
	}
	return now.Add(sign * d), true, nil
}

// takeZone removes a time zone from the end of the words: UTC, or a name of the tz database with a slash. Names are in
// the text as they are written.
func takeZone(text string, words []string, zone *time.Location) ([]string, *time.Location, error) {
	if len(words) < 2 {
		return words, zone, nil
	}
	original := strings.Fields(text)
	name := original[len(original)-1]
	if name != "UTC" && !strings.Contains(name, "/") {
		return words, zone, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		return nil, nil, refuseMeaning(text, "has the time zone %q, which is unknown", name)
	}
	return words[:len(words)-1], zone, nil
}

// clock is a time of day.
type clock struct{ hour, minute, second int }

func parseClock(text, word string) (c clock, err error) {
	m := timeOfDay.FindStringSubmatch(word)
	if m == nil {
		return c, refuse(text, "has no time of day like 9:00 or 21:30:15; %s", forms)
	}
	for i, part := range []*int{&c.hour, &c.minute, &c.second} {
		*part, _ = strconv.Atoi(m[i+1]) // two digits, or no seconds
	}
	return c, nil
}

// nextTime returns the next instant at which the clock shows a time of day.
func nextTime(text, word string, now time.Time) (time.Time, error) {
	c, err := parseClock(text, word)
	if err != nil {
		return time.Time{}, err
	}
	at, err := instantOn(text, now, 0, c)
	if err != nil || at.After(now) {
		return at, err
	}
	return instantOn(text, now, 1, c)
}

// onDay returns the instant of a time of day on a day.
func onDay(text, day, word string, now time.Time) (time.Time, error) {
	if fullDate.MatchString(day) {
		date, err := time.Parse(time.DateOnly, day) // not in the zone, whose clocks may skip midnight
		if err != nil {
			return time.Time{}, refuseMeaning(text, "has no date of the calendar")
		}
		c, err := parseClock(text, word)
		if err != nil {
			return time.Time{}, err
		}
		return resolve(text, date.Year(), date.Month(), date.Day(), c, now.Location())
	}
	days, weekday := 0, false
	switch day {
	case "today":
	case "tomorrow":
		days = 1
	case "yesterday":
		days = -1
	default:
		if days, weekday = daysUntil(day, now); !weekday {
			return time.Time{}, refuse(text, "has the day %q: give today, tomorrow, yesterday, a day of the week or a date "+
				"like 2026-12-01", day)
		}
	}
	c, err := parseClock(text, word)
	if err != nil {
		return time.Time{}, err
	}
	at, err := instantOn(text, now, days, c)
	if err != nil || !weekday || days > 0 {
		return at, err
	}
	if at.After(now) { // the day is today, and the time is to come
		return time.Time{}, refuseMeaning(text, "may mean today or a week from now: give today %s, or a date", word)
	}
	return instantOn(text, now, 7, c)
}

// daysUntil returns the number of days until a day of the week, 0 for today. ok is false for another word.
func daysUntil(word string, now time.Time) (days int, ok bool) {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if name := strings.ToLower(d.String()); word == name || word == name[:3] {
			return (int(d) - int(now.Weekday()) + 7) % 7, true
		}
	}
	return 0, false
}

// instantOn returns the instant of a time of day some days from today.
func instantOn(text string, now time.Time, days int, c clock) (time.Time, error) {
	year, month, day := time.Date(now.Year(), now.Month(), now.Day()+days, 0, 0, 0, 0, time.UTC).Date()
	return resolve(text, year, month, day, c, now.Location())
}

// resolve returns the only instant at which the clocks of a zone show a time. It refuses a time that they never show,
// or twice.
func resolve(text string, year int, month time.Month, day int, c clock, zone *time.Location) (time.Time, error) {
	wall := time.Date(year, month, day, c.hour, c.minute, c.second, 0, time.UTC)
	near := time.Date(year, month, day, c.hour, c.minute, c.second, 0, zone)
	start, end := near.ZoneBounds()
	var found []time.Time
	for _, at := range []time.Time{near, start.Add(-1), end} { // in the present offset, the one before, and the one after
		if at.IsZero() {
			continue
		}
		_, offset := at.Zone()
		candidate := wall.Add(-time.Duration(offset) * time.Second).In(zone)
		if sameWall(candidate, wall) && (len(found) == 0 || !found[0].Equal(candidate)) {
			found = append(found, candidate)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return time.Time{}, refuseMeaning(text, "means %s, which the clocks of %v skip: give another time",
			wall.Format(time.DateTime), zone)
	}
	if found[1].Before(found[0]) {
		found[0], found[1] = found[1], found[0]
	}
	return time.Time{}, refuseMeaning(text, "means %s, which the clocks of %v show twice: give %s or %s",
		wall.Format(time.DateTime), zone, found[0].Format(time.RFC3339), found[1].Format(time.RFC3339))
}

// sameWall reports whether the clocks at an instant show the date and the time that wall has in UTC.
func sameWall(at, wall time.Time) bool {
	return at.Format(time.DateTime) == wall.Format(time.DateTime)
}

// Stamp returns a time to the millisecond by the clocks of the machine's zone: "2026-11-29 09:00:00.000 CET".
func Stamp(at time.Time) string { return at.Local().Format("2006-01-02 15:04:05.000 MST") }

// Describe returns an instant by the clock of a zone, with its distance from now: "2026-11-29 09:00:00 CET, in 18h4m".
func Describe(at, now time.Time, zone *time.Location) string {
	text := at.In(zone).Format("2006-01-02 15:04:05 MST")
	switch distance := at.Sub(now).Round(time.Second); {
	case distance > 0:
		return text + ", in " + Span(distance)
	case distance < 0:
		return text + ", " + Span(-distance) + " ago"
	}
	return text + ", now"
}

// Span returns a duration in days, hours and minutes, and in seconds below an hour. It rounds long ones: to hours from
// two days on, and to days from 100 days on.
func Span(d time.Duration) string {
	switch day := 24 * time.Hour; {
	case d < 0:
		return "-" + Span(-d)
	case d < time.Minute: // also those with milliseconds
		return d.String()
	case d >= 100*day:
		d = d.Round(day)
	case d >= 2*day:
		d = d.Round(time.Hour)
	case d >= time.Hour:
		d = d.Round(time.Minute)
	}
	var text strings.Builder
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}} {
		if n := d / unit.size; n > 0 {
			fmt.Fprintf(&text, "%d%s", n, unit.name)
			d -= n * unit.size
		}
	}
	return text.String()
}
