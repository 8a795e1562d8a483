package calendar

import (
	"fmt"
	"strings"
	"time"
)

const secondsOfDay = 24 * 60 * 60

// dayOf returns the number of days since 1970 of the date that an instant shows.
func dayOf(t time.Time) int {
	year, month, day := t.Date()
	return int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Unix() / secondsOfDay)
}

// parseDates returns the days of a date or of a range of dates.
func parseDates(text string) (first, last int, err error) {
	from, to, ranged := strings.Cut(text, "/")
	if !ranged {
		to = from
	}
	begin, wrongBegin := time.Parse(time.DateOnly, from)
	end, wrongEnd := time.Parse(time.DateOnly, to)
	switch {
	case wrongBegin != nil || wrongEnd != nil:
		return 0, 0, fmt.Errorf("is wrong: %q must be a date like 2026-12-25, a range like 2026-12-24/2027-01-01 or a "+
			"yearly date like --12-25", text)
	case end.Before(begin):
		return 0, 0, fmt.Errorf("is wrong: %q ends before it begins", text)
	}
	return dayOf(begin), dayOf(end), nil
}

// beginOf returns the first instant of a day. A day without a midnight begins at the end of the gap, and a day that a
// zone has skipped at the begin of the next one.
func beginOf(day int, location *time.Location) time.Time {
	date := time.Unix(int64(day)*secondsOfDay, 0).UTC()
	begin := time.Date(date.Year(), date.Month(), date.Day(), 0, 0, 0, 0, location)
	if dayOf(begin) < day { // time.Date may take a skipped midnight for an hour before the gap
		if _, end := begin.ZoneBounds(); !end.IsZero() {
			return end
		}
	}
	return begin
}
