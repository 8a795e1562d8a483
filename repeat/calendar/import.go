package calendar

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	ics "github.com/arran4/golang-ical"
	"github.com/teambition/rrule-go"
)

// The limits of an import.
const (
	ImportYears    = 10  // for which recurrences are written out
	maxRecurrences = 200 // that are written out
	maxWritten     = 1e6 // occurrences of them, past ones included
	maxDays        = 366 // of one event
)

// earliest is the first instant at which a recurrence may begin.
var earliest = time.Date(1600, 1, 1, 0, 0, 0, 0, time.UTC)

const icalDate = "20060102"

// Imported is the content of an iCalendar file.
type Imported struct {
	Spec Spec
	// KnownUntil is the last date for which recurrences without an end are written out; empty: there are none.
	KnownUntil string
	// Skipped is the number of events that close no day: those within a day, and those that were over before the last
	// year. Why has a line for each reason, with an example.
	Skipped int
	Why     []string
}

// Import reads the events of an iCalendar file (RFC 5545) as closed dates, from the year before now on; of a file of
// past years, all dates. Recurrences without an end are written out for ImportYears. The error names the event that
// cannot be represented.
func Import(text []byte, now time.Time) (Imported, error) {
	file, err := ics.ParseCalendar(bytes.NewReader(text))
	if err != nil {
		return Imported{}, fmt.Errorf("is no iCalendar file: %w", err)
	}
	i := &importer{
		now: now.UTC(), from: time.Date(now.UTC().Year()-1, 1, 1, 0, 0, 0, 0, time.UTC),
		moved: map[string]map[time.Time]int{},
	}
	events := file.Events()
	for _, event := range events {
		if err := i.noteOverride(event); err != nil {
			return Imported{}, wrongEvent(event, err)
		}
	}
	for _, event := range events {
		if err := i.add(event); err != nil {
			return Imported{}, wrongEvent(event, err)
		}
	}
	return i.imported()
}

func wrongEvent(event *ics.VEvent, err error) error {
	if errors.Is(err, errTooManyDates) {
		return err
	}
	return fmt.Errorf("has the event %q, which %w", nameOf(event), err)
}

// nameOf returns the name of an event for people, cut to 80 bytes.
func nameOf(event *ics.VEvent) string {
	name := text(event, ics.ComponentPropertySummary)
	if name == "" {
		name = text(event, ics.ComponentPropertyUniqueId)
	}
	return strings.ToValidUTF8(name[:min(len(name), 80)], "")
}

func text(event *ics.VEvent, property ics.ComponentProperty) string {
	if p := event.GetProperty(property); p != nil {
		return p.Value
	}
	return ""
}

// importer collects the closed dates of a file.
type importer struct {
	now, from   time.Time // from: earlier days are left out
	closed      []string
	past        []string // closed dates before from, of single events
	recurrences int      // written out
	written     int      // occurrences of them

	// moved has the occurrences of recurring events that another event overrides, by the UID of both, with the newest
	// revision among the overriding events.
	moved map[string]map[time.Time]int

	within, over skipped
}

// skipped counts the events that were skipped for one reason.
type skipped struct {
	events  int
	example string
}

func (s *skipped) add(event *ics.VEvent) {
	if s.events++; s.events == 1 {
		s.example = nameOf(event)
	}
}

func (i *importer) imported() (Imported, error) {
	if len(i.closed) == 0 && len(i.past) > 0 { // a file of past years
		i.closed, i.over = i.past, skipped{}
	}
	if err := i.compact(); err != nil {
		return Imported{}, err
	}
	in := Imported{Spec: Spec{Closed: i.closed}, Skipped: i.within.events + i.over.events}
	for _, s := range []struct {
		what string
		skipped
	}{{"events that begin or end within a day", i.within}, {"events before " + i.from.Format(time.DateOnly), i.over}} {
		if s.events > 0 {
			in.Why = append(in.Why, fmt.Sprintf("%s: %d, such as %q", s.what, s.events, s.example))
		}
	}
	if i.recurrences > 0 {
		in.KnownUntil = i.horizon().Format(time.DateOnly)
	}
	if len(i.closed) == 0 {
		return Imported{}, errors.New(strings.Join(append([]string{"closes no day"}, in.Why...), "; "))
	}
	return in, nil
}

var errTooManyDates = fmt.Errorf("closes too many dates (limit %d)", MaxClosed)

// compact sorts the closed dates, and removes repeated ones.
func (i *importer) compact() error {
	slices.Sort(i.closed)
	if i.closed = slices.Compact(i.closed); len(i.closed) > MaxClosed {
		return errTooManyDates
	}
	return nil
}

// horizon is the end of the recurrences that have none.
func (i *importer) horizon() time.Time {
	return time.Date(i.now.Year()+ImportYears, 12, 31, 0, 0, 0, 0, time.UTC)
}

// noteOverride notes an event that takes the place of one occurrence of a recurring event.
func (i *importer) noteOverride(event *ics.VEvent) error {
	p := event.GetProperty(ics.ComponentPropertyRecurrenceId)
	if p == nil {
		return nil
	}
	if len(p.ICalParameters["RANGE"]) > 0 {
		return errors.New("changes all later occurrences of another one, too: give its dates by themselves")
	}
	date, _, err := dateOf(p)
	if err != nil {
		return err
	}
	uid := text(event, ics.ComponentPropertyUniqueId)
	if i.moved[uid] == nil {
		i.moved[uid] = map[time.Time]int{}
	}
	i.moved[uid][date] = max(i.moved[uid][date], revisionOf(event))
	return nil
}

// revisionOf returns the number of changes of an event.
func revisionOf(event *ics.VEvent) int {
	n, err := strconv.Atoi(text(event, ics.ComponentPropertySequence))
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// add closes the days of an event.
func (i *importer) add(event *ics.VEvent) error {
	if strings.EqualFold(text(event, ics.ComponentPropertyStatus), string(ics.ObjectStatusCancelled)) {
		return nil
	}
	first, days, err := lengthOf(event)
	switch {
	case errors.Is(err, errWithinDay):
		i.within.add(event)
		return nil
	case err != nil:
		return err
	}
	if p := event.GetProperty(ics.ComponentPropertyRecurrenceId); p != nil {
		if of, _, _ := dateOf(p); revisionOf(event) == i.moved[text(event, ics.ComponentPropertyUniqueId)][of] {
			i.addOnce(event, first, days)
		}
		return nil
	}
	return i.addAll(event, first, days)
}

// addOnce closes the days of an event that does not recur.
func (i *importer) addOnce(event *ics.VEvent, first time.Time, days int) {
	if first.AddDate(0, 0, days).After(i.from) {
		i.close(first, days)
		return
	}
	i.over.add(event)
	if len(i.past) <= MaxClosed {
		i.past = append(i.past, datesOf(first, days))
	}
}

// addAll closes the days of all occurrences of an event: at its start, by its rules, and at its further dates, except
// for those that it leaves out and those that other events override.
func (i *importer) addAll(event *ics.VEvent, first time.Time, days int) error {
	rules, err := rulesOf(event, first)
	if err != nil {
		return err
	}
	left, err := i.leftOut(event)
	if err != nil {
		return err
	}
	further := i.furtherDates(event)
	if len(rules) == 0 && len(further) == 0 && len(left) == 0 {
		i.addOnce(event, first, days)
		return nil
	}
	if len(rules) == 1 && isYearly(rules[0]) && len(further) == 0 && len(left) == 0 && !first.After(i.now) {
		i.closeYearly(first, days)
		return nil
	}
	before := len(i.closed)
	add := func(date time.Time) error {
		if date.AddDate(0, 0, days).After(i.from) && !left[date] {
			i.close(date, days)
		}
		if len(i.closed) > 2*MaxClosed {
			return i.compact()
		}
		return nil
	}
	for _, date := range append(further, first) {
		if err := add(date); err != nil {
			return err
		}
	}
	for _, options := range rules {
		if err := i.write(options, add); err != nil {
			return err
		}
	}
	if len(i.closed) == before {
		i.over.add(event)
	}
	return nil
}

// write writes out the occurrences of a rule, up to its end or the horizon.
func (i *importer) write(options *rrule.ROption, add func(time.Time) error) error {
	if i.recurrences++; i.recurrences > maxRecurrences {
		return fmt.Errorf("is one recurrence too many (limit %d)", maxRecurrences)
	}
	if options.Until.IsZero() || options.Until.After(i.horizon()) {
		options.Until = i.horizon()
	}
	rule, err := rrule.NewRRule(*options)
	if err != nil {
		return fmt.Errorf("recurs by the rule %q: %w", options.RRuleString(), err)
	}
	next := rule.Iterator()
	for date, ok := next(); ok; date, ok = next() {
		if i.written++; i.written > maxWritten {
			return fmt.Errorf("recurs by the rule %q, too often for the file (limit %d)", options.RRuleString(), int(maxWritten))
		}
		if err := add(date); err != nil {
			return err
		}
	}
	return nil
}

// rulesOf returns the rules by which an event recurs.
func rulesOf(event *ics.VEvent, first time.Time) (rules []*rrule.ROption, err error) {
	for _, p := range event.GetProperties(ics.ComponentPropertyRrule) {
		if p.Value == "" { // as some programs write for none
			continue
		}
		options, err := rrule.StrToROption(p.Value)
		switch {
		case err != nil:
			return nil, fmt.Errorf("recurs by the rule %q: %w", p.Value, err)
		case !counted(p.Value):
			return nil, fmt.Errorf("recurs by the rule %q, with an interval, a count or a day below 1", p.Value)
		case options.Freq > rrule.DAILY || len(options.Byhour)+len(options.Byminute)+len(options.Bysecond) > 0:
			return nil, fmt.Errorf("recurs by the rule %q, several times a day", p.Value)
		case first.Before(earliest):
			return nil, fmt.Errorf("recurs since %s, before 1600", first.Format(time.DateOnly))
		}
		options.Dtstart = first
		rules = append(rules, options)
	}
	return rules, nil
}

// counted reports whether the interval and the count of a rule are 1 or more, and no day of the week is the 0th of its
// month. Package rrule takes others for absent ones.
func counted(rule string) bool {
	for part := range strings.SplitSeq(strings.ToUpper(rule), ";") {
		name, values, _ := strings.Cut(part, "=")
		for value := range strings.SplitSeq(values, ",") {
			n, err := strconv.Atoi(strings.TrimRight(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
			switch {
			case err != nil: // no number
			case (name == "INTERVAL" || name == "COUNT") && n < 1, name == "BYDAY" && n == 0:
				return false
			}
		}
	}
	return true
}

// isYearly reports whether a rule names the day and the month of its start in each year.
func isYearly(o *rrule.ROption) bool {
	parts := len(o.Bysetpos) + len(o.Bymonth) + len(o.Bymonthday) + len(o.Byyearday) + len(o.Byweekno) +
		len(o.Byweekday) + len(o.Byeaster)
	return o.Freq == rrule.YEARLY && o.Interval <= 1 && o.Count == 0 && o.Until.IsZero() && parts == 0
}

// furtherDates returns the dates that an event has beside its rules. Times among them close no day.
func (i *importer) furtherDates(event *ics.VEvent) (dates []time.Time) {
	within := false
	for _, p := range event.GetProperties(ics.ComponentPropertyRdate) {
		for value := range strings.SplitSeq(p.Value, ",") {
			if date, whole, err := parseDate(value); err == nil && whole {
				dates = append(dates, date)
			} else {
				within = true
			}
		}
	}
	if within {
		i.within.add(event)
	}
	return dates
}

// leftOut returns the occurrences that a recurring event leaves out, and those that other events override.
func (i *importer) leftOut(event *ics.VEvent) (map[time.Time]bool, error) {
	left := map[time.Time]bool{}
	for date := range i.moved[text(event, ics.ComponentPropertyUniqueId)] {
		left[date] = true
	}
	for _, p := range event.GetProperties(ics.ComponentPropertyExdate) {
		for value := range strings.SplitSeq(p.Value, ",") {
			date, _, err := parseDate(value)
			if err != nil {
				return nil, fmt.Errorf("leaves out %q, which is no date", value)
			}
			left[date] = true
		}
	}
	return left, nil
}

// errWithinDay is the error of an event that does not last whole days.
var errWithinDay = errors.New("begins or ends within a day")

// lengthOf returns the first day of an event and the number of its days.
func lengthOf(event *ics.VEvent) (first time.Time, days int, err error) {
	first, whole, err := dateOf(event.GetProperty(ics.ComponentPropertyDtStart))
	if err != nil {
		return first, 0, err
	}
	begin := text(event, ics.ComponentPropertyDtStart)
	end := event.GetProperty(ics.ComponentPropertyDtEnd)
	switch duration := text(event, ics.ComponentPropertyDuration); {
	case !whole:
		return first, 0, errWithinDay
	case end != nil:
		behind, whole, err := dateOf(end)
		if err != nil {
			return first, 0, err
		}
		days = int(behind.Sub(first) / (24 * time.Hour))
		if !whole || days < 1 && len(begin) > len(icalDate) {
			return first, 0, errWithinDay
		}
		days = max(days, 1)
	case duration != "":
		if days, err = daysOf(duration); err != nil {
			return first, 0, err
		}
	case len(begin) > len(icalDate):
		return first, 0, errWithinDay // an instant
	default:
		days = 1
	}
	if days > maxDays {
		return first, 0, fmt.Errorf("lasts %d days (limit %d)", days, maxDays)
	}
	return first, days, nil
}

// daysOf returns the days of a duration of whole days, such as P1W, P2D or PT24H.
func daysOf(duration string) (days int, err error) {
	text, found := strings.CutPrefix(strings.TrimPrefix(strings.ToUpper(duration), "+"), "P")
	hours, digits := 0, ""
	for _, c := range text {
		n, bad := strconv.Atoi(digits)
		switch {
		case '0' <= c && c <= '9' && len(digits) < 4:
			digits += string(c)
			continue
		case c == 'T' && digits == "":
			continue
		case bad != nil || !found:
			return 0, fmt.Errorf("lasts %q, which is no duration", duration)
		case c == 'W':
			hours += 7 * 24 * n
		case c == 'D':
			hours += 24 * n
		case c == 'H':
			hours += n
		case c != 'M' && c != 'S':
			return 0, fmt.Errorf("lasts %q, which is no duration", duration)
		case n != 0:
			return 0, errWithinDay
		}
		digits = ""
	}
	if hours == 0 || hours%24 != 0 {
		return 0, errWithinDay
	}
	return hours / 24, nil
}

// dateOf returns the date of a property, and whether it is a whole day: a date, or the midnight that begins it.
func dateOf(p *ics.IANAProperty) (date time.Time, whole bool, err error) {
	if p == nil {
		return time.Time{}, false, fmt.Errorf("has no date")
	}
	date, whole, err = parseDate(p.Value)
	if err != nil {
		return date, false, fmt.Errorf("is at %q, which is no date", p.Value)
	}
	return date, whole, nil
}

func parseDate(value string) (date time.Time, whole bool, err error) {
	day, clock, timed := strings.Cut(value, "T")
	date, err = time.Parse(icalDate, day)
	return date, !timed || strings.TrimSuffix(clock, "Z") == "000000", err
}

func (i *importer) close(first time.Time, days int) {
	i.closed = append(i.closed, datesOf(first, days))
}

// datesOf returns a date, or a range of dates, as a calendar has it.
func datesOf(first time.Time, days int) string {
	text := first.Format(time.DateOnly)
	if days > 1 {
		text += "/" + first.AddDate(0, 0, days-1).Format(time.DateOnly)
	}
	return text
}

func (i *importer) closeYearly(first time.Time, days int) {
	for day := range days {
		i.closed = append(i.closed, first.AddDate(0, 0, day).Format("--01-02"))
	}
}
