package hours

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxRanges is the largest number of daily ranges of a Week.
const MaxRanges = 16

const dayMinutes = 24 * 60

// Week is the hours of each day of the week. It never changes.
type Week struct {
	days [7][]span // by time.Weekday, sorted, apart from each other
}

// span is a part of a day in minutes of the wall clock: [from, to).
type span struct{ from, to int }

// FieldError reports a wrong field of a Week.
type FieldError struct {
	Field  string // "days" or "daily[1]"
	Detail string // continues a sentence that begins with the field
	Limit  string // empty: none
}

func (e *FieldError) Error() string {
	if e.Limit != "" {
		return fmt.Sprintf("%s %s (limit %s)", e.Field, e.Detail, e.Limit)
	}
	return e.Field + " " + e.Detail
}

// Parse returns the hours on the given days: names and ranges of names such as "MON-FRI,SUN", every day if days is
// empty. Each daily range is "HH:MM-HH:MM"; its end may be 24:00, or before its begin for a range over midnight. The
// error is a *FieldError.
func Parse(days string, daily []string) (*Week, error) {
	on, err := parseDays(days)
	switch {
	case err != nil:
		return nil, err
	case len(daily) == 0:
		return nil, &FieldError{Field: "daily", Detail: "is empty", Limit: fmt.Sprintf("1 to %d ranges", MaxRanges)}
	case len(daily) > MaxRanges:
		return nil, &FieldError{Field: "daily", Detail: "has too many ranges", Limit: fmt.Sprint(MaxRanges)}
	}
	w := &Week{}
	for i, text := range daily {
		from, to, err := parseRange(text)
		if err != nil {
			return nil, &FieldError{Field: fmt.Sprintf("daily[%d]", i), Detail: err.Error()}
		}
		w.add(on, from, to)
	}
	w.unite()
	return w, nil
}

// Union returns the hours of all weeks together. It returns nil for none.
func Union(weeks ...*Week) *Week {
	if len(weeks) == 0 {
		return nil
	}
	all := &Week{}
	for _, w := range weeks {
		for day, spans := range w.days {
			all.days[day] = append(all.days[day], spans...)
		}
	}
	all.unite()
	return all
}

// add adds a range to each of the days. The part behind midnight goes to the next day.
func (w *Week) add(on [7]bool, from, to int) {
	for day := range on {
		switch next := (day + 1) % 7; {
		case !on[day]:
		case from < to:
			w.days[day] = append(w.days[day], span{from, to})
		default:
			w.days[day] = append(w.days[day], span{from, dayMinutes})
			w.days[next] = append(w.days[next], span{0, to})
		}
	}
}

// unite sorts the spans of each day, joins those that touch, and drops empty ones.
func (w *Week) unite() {
	for day, spans := range w.days {
		slices.SortFunc(spans, func(a, b span) int { return a.from - b.from })
		var apart []span
		for _, s := range spans {
			switch n := len(apart); {
			case s.from == s.to:
			case n > 0 && s.from <= apart[n-1].to:
				apart[n-1].to = max(apart[n-1].to, s.to)
			default:
				apart = append(apart, s)
			}
		}
		w.days[day] = apart
	}
}

var dayNames = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

// parseDays returns the days of a list of names and ranges of names. A range may go over the end of the week.
func parseDays(text string) (on [7]bool, err error) {
	if text == "" {
		return [7]bool{true, true, true, true, true, true, true}, nil
	}
	for _, part := range strings.Split(text, ",") {
		first, last, ranged := strings.Cut(strings.ToUpper(strings.TrimSpace(part)), "-")
		if !ranged {
			last = first
		}
		from, to := slices.Index(dayNames, first), slices.Index(dayNames, last)
		if from < 0 || to < 0 {
			return on, &FieldError{Field: "days", Detail: fmt.Sprintf("has %q, which is neither a day nor a range of days: "+
				"write them like MON, MON-FRI or MON-FRI,SUN", part)}
		}
		for day := from; ; day = (day + 1) % 7 {
			on[day] = true
			if day == to {
				break
			}
		}
	}
	return on, nil
}

// parseRange returns the minutes of a daily range.
func parseRange(text string) (from, to int, err error) {
	first, last, ok := strings.Cut(text, "-")
	if from, ok = minutesOf(first, ok); ok {
		to, ok = minutesOf(last, ok)
	}
	switch {
	case !ok || from == dayMinutes:
		return 0, 0, fmt.Errorf("is wrong: %q must be like 09:00-17:30 or 22:00-06:00", text)
	case from == to:
		return 0, 0, fmt.Errorf("is wrong: %q is empty; a whole day is 00:00-24:00", text)
	}
	return from, to, nil
}

// minutesOf returns the minutes since midnight of "HH:MM". It reports false if ok is unset, or for another text.
func minutesOf(text string, ok bool) (int, bool) {
	if !ok || len(text) != 5 || text[2] != ':' {
		return 0, false
	}
	hour, wrongHour := strconv.ParseUint(text[:2], 10, 8)
	minute, wrongMinute := strconv.ParseUint(text[3:], 10, 8)
	total := int(hour)*60 + int(minute)
	return total, wrongHour == nil && wrongMinute == nil && minute < 60 && total <= dayMinutes
}

// spansOn returns the spans of the day that an instant shows.
func (w *Week) spansOn(t time.Time) []span { return w.days[t.Weekday()] }
