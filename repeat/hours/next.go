package hours

import "time"

// Open reports whether the wall clock of an instant, in its own location, is within the hours.
func (w *Week) Open(t time.Time) bool {
	minute := t.Hour()*60 + t.Minute()
	for _, s := range w.spansOn(t) {
		if s.from <= minute && minute < s.to {
			return true
		}
	}
	return false
}

// Next returns the first instant at or after t that is within the hours, in the location of t. It reports false for
// hours that are never open.
func (w *Week) Next(t time.Time) (opens time.Time, ok bool) {
	for ends := t.AddDate(0, 0, 15); !t.After(ends); {
		if w.Open(t) {
			return t, true
		}
		_, change := t.ZoneBounds()
		begin, found := w.begin(t)
		switch {
		case found && (change.IsZero() || begin.Before(change)):
			t = begin
		case !change.IsZero():
			t = change
		default:
			return time.Time{}, false
		}
	}
	return time.Time{}, false
}

// begin returns the next begin of a span after t, as if no clock changed before it.
func (w *Week) begin(t time.Time) (time.Time, bool) {
	midnight := -time.Duration(t.Hour())*time.Hour - time.Duration(t.Minute())*time.Minute -
		time.Duration(t.Second())*time.Second - time.Duration(t.Nanosecond())
	minute := t.Hour()*60 + t.Minute()
	for day := range 8 {
		for _, s := range w.days[(int(t.Weekday())+day)%7] {
			if day > 0 || s.from > minute {
				return t.Add(midnight + time.Duration(day*dayMinutes+s.from)*time.Minute), true
			}
		}
	}
	return time.Time{}, false
}
