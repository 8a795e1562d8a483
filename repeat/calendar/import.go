package calendar

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	ics "github.com/arran4/golang-ical"
	"github.com/teambition/rrule-go"
)

// The limits of an import.
const (
	ImportYears    = 10  // for which recurrences are written out
	maxRecurrences = 100 // that are written out
	maxDays        = 366 // of one event
)

// earliest is the first instant at which a recurrence may begin.
var earliest = time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC)

const icalDate = "20060102"

// Import reads the events of an iCalendar file (RFC 5545) as closed dates. Recurrences without an end are written out
// until the date that it returns, from the year before now on; the date is empty if there is none. The error names the
// event that is no closed date.
func Import(text []byte, now time.Time) (spec Spec, knownUntil string, err error) {
	file, err := ics.ParseCalendar(bytes.NewReader(text))
	if err != nil {
		return Spec{}, "", fmt.Errorf("is no iCalendar file: %w", err)
	}
	i := &importer{now: now.UTC()}
	for _, event := range file.Events() {
		if err := i.add(event); err != nil {
			return Spec{}, "", fmt.Errorf("has the event %q, which %w", nameOf(event), err)
		}
		if len(i.closed) > MaxClosed {
			return Spec{}, "", fmt.Errorf("closes too many dates (limit %d)", MaxClosed)
		}
	}
	slices.Sort(i.closed)
	spec.Closed = slices.Compact(i.closed)
	if i.recurrences > 0 {
		knownUntil = i.horizon().Format(time.DateOnly)
	}
	return spec, knownUntil, nil
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
	now         time.Time
	closed      []string
	recurrences int // written out
}

// horizon is the end of the recurrences that have none.
func (i *importer) horizon() time.Time {
	return time.Date(i.now.Year()+ImportYears, 12, 31, 0, 0, 0, 0, time.UTC)
}

func (i *importer) add(event *ics.VEvent) error {
	if strings.EqualFold(text(event, ics.ComponentPropertyStatus), string(ics.ObjectStatusCancelled)) {
		return nil
	}
	for _, property := range []ics.ComponentProperty{ics.ComponentPropertyRdate, ics.ComponentPropertyRecurrenceId} {
		if event.GetProperty(property) != nil {
			return fmt.Errorf("has the property %s: give its dates by themselves", property)
		}
	}
	first, days, err := lengthOf(event)
	if err != nil {
		return err
	}
	rule := text(event, ics.ComponentPropertyRrule)
	except := event.GetProperties(ics.ComponentPropertyExdate)
	switch {
	case rule == "":
		i.close(first, days)
	case strings.EqualFold(rule, "FREQ=YEARLY") && len(except) == 0 && !first.After(i.now):
		i.closeYearly(first, days)
	default:
		return i.closeAll(first, days, rule, except)
	}
	return nil
}

// lengthOf returns the first day of an event and the number of its days.
func lengthOf(event *ics.VEvent) (first time.Time, days int, err error) {
	first, err = dateOf(event.GetProperty(ics.ComponentPropertyDtStart))
	if err != nil {
		return first, 0, err
	}
	end := event.GetProperty(ics.ComponentPropertyDtEnd)
	switch duration := text(event, ics.ComponentPropertyDuration); {
	case end != nil:
		behind, err := dateOf(end)
		if err != nil {
			return first, 0, err
		}
		days = max(int(behind.Sub(first)/(24*time.Hour)), 1)
	case duration == "":
		days = 1
	default:
		var unit string
		if n, _ := fmt.Sscanf(duration, "P%d%s", &days, &unit); n != 2 || unit != "D" {
			return first, 0, fmt.Errorf("lasts %q: write days, like P1D", duration)
		}
	}
	if days < 1 || days > maxDays {
		return first, 0, fmt.Errorf("lasts %d days (limit %d)", days, maxDays)
	}
	return first, days, nil
}

// dateOf returns the date of a property. A time is an error.
func dateOf(p *ics.IANAProperty) (time.Time, error) {
	if p == nil {
		return time.Time{}, fmt.Errorf("has no date")
	}
	date, err := time.Parse(icalDate, p.Value)
	switch {
	case err != nil:
		return date, fmt.Errorf("begins or ends at the time %q: only whole days close a calendar, like 20261225", p.Value)
	case date.Before(earliest):
		return date, fmt.Errorf("is at %q, before 1970", p.Value)
	}
	return date, nil
}

func (i *importer) close(first time.Time, days int) {
	text := first.Format(time.DateOnly)
	if days > 1 {
		text += "/" + first.AddDate(0, 0, days-1).Format(time.DateOnly)
	}
	i.closed = append(i.closed, text)
}

func (i *importer) closeYearly(first time.Time, days int) {
	for day := range days {
		i.closed = append(i.closed, first.AddDate(0, 0, day).Format("--01-02"))
	}
}

// closeAll closes the occurrences of a recurring event, up to its end or the horizon.
func (i *importer) closeAll(first time.Time, days int, text string, except []*ics.IANAProperty) error {
	if i.recurrences++; i.recurrences > maxRecurrences {
		return fmt.Errorf("is one recurrence too many (limit %d)", maxRecurrences)
	}
	options, err := rrule.StrToROption(text)
	if err != nil {
		return fmt.Errorf("recurs by the rule %q: %w", text, err)
	}
	if options.Freq > rrule.DAILY || len(options.Byhour)+len(options.Byminute)+len(options.Bysecond) > 0 {
		return fmt.Errorf("recurs by the rule %q, several times a day", text)
	}
	options.Dtstart = first
	if options.Until.IsZero() || options.Until.After(i.horizon()) {
		options.Until = i.horizon()
	}
	rule, err := rrule.NewRRule(*options)
	if err != nil {
		return fmt.Errorf("recurs by the rule %q: %w", text, err)
	}
	skipped, err := exceptions(except)
	if err != nil {
		return err
	}
	i.closeFrom(time.Date(i.now.Year()-1, 1, 1, 0, 0, 0, 0, time.UTC), rule.Iterator(), days, skipped)
	return nil
}

// closeFrom closes the occurrences from an instant on, except for the skipped ones.
func (i *importer) closeFrom(from time.Time, next rrule.Next, days int, skipped map[time.Time]bool) {
	for date, ok := next(); ok && len(i.closed) <= MaxClosed; date, ok = next() {
		if !date.Before(from) && !skipped[date] {
			i.close(date, days)
		}
	}
}

// exceptions returns the dates that a recurring event leaves out.
func exceptions(properties []*ics.IANAProperty) (map[time.Time]bool, error) {
	skipped := map[time.Time]bool{}
	for _, p := range properties {
		for _, value := range strings.Split(p.Value, ",") {
			date, err := time.Parse(icalDate, value)
			if err != nil {
				return nil, fmt.Errorf("leaves out the time %q: only whole days can be", value)
			}
			skipped[date] = true
		}
	}
	return skipped, nil
}
