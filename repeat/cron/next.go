package cron

import "time"

// Change is the effect of a clock change on a firing.
type Change string

// The effects of clock changes.
const (
	// Gap means that the rule names a wall-clock time that the clock skips. The firing is at the end of the gap.
	Gap Change = "gap"
	// First means that the clock shows the firing's time twice, and this is the first.
	First Change = "first"
	// Second means that the clock shows the firing's time twice, and this is the second. Only interval rules fire then.
	Second Change = "second"
)

// Firing is an instant at which a rule fires.
type Firing struct {
	At     time.Time // in the zone of the call
	Change Change    // empty: none
	// Wall is the time that the rule names: the wall clock at At, or with Gap the first skipped time. It is in UTC,
	// whatever the zone.
	Wall time.Time
}

// horizon is the time that Next looks ahead: all combinations of a day of the month and of the week recur within 40
// years (29 February on a Monday, around 2100), and tasks are due within 100.
const horizon = 100 * 366 // days

// Next returns the first firing after an instant in a zone. It reports false if there is none within 100 years.
func (e *Expr) Next(after time.Time, zone *time.Location) (Firing, bool) {
	p := periodAt(after.Unix(), zone)
	from, limit := after.Unix()+p.offset+1, after.Unix()+horizon*daySeconds
	for p.begin < limit {
		if from = max(from, p.first()); !e.interval {
			from = max(from, p.shown)
		}
		wall, ok := e.nextWall(from, horizon)
		if !ok || wall >= p.last() && p.endless() {
			return Firing{}, false
		}
		next := p.next()
		if wall < p.last() {
			return p.firing(wall, next), true
		}
		if wall < next.first() {
			return Firing{At: time.Unix(next.begin, 0).In(zone), Change: Gap, Wall: time.Unix(wall, 0).UTC()}, true
		}
		switch {
		case from > next.first(): // the clock shows from again, and what was passed in this period may match
			from = next.first()
		case next.begin < wall-2*daySeconds: // no wall-clock time before wall matches
			next = periodAt(wall-2*daySeconds, zone)
		}
		p = next
	}
	return Firing{}, false
}

// period is a time in which a zone has one offset.
type period struct {
	zone       *time.Location
	begin, end int64 // Unix seconds; the end is not part of it
	offset     int64 // seconds east of UTC
	shown      int64 // the wall clock before begin had reached this second
}

// distant is an instant that no period reaches, far enough from overflow.
const distant = 1 << 60

// periodAt returns the period that holds a Unix second. A period may also begin or end in the midst of the time with
// its offset, since ZoneBounds splits such times at the ends of years.
func periodAt(at int64, zone *time.Location) period {
	begin, end := time.Unix(at, 0).In(zone).ZoneBounds()
	p := period{zone: zone, begin: -distant, end: distant, offset: offsetAt(at, zone), shown: -distant}
	if !begin.IsZero() {
		p.begin = begin.Unix()
		p.shown = p.begin + offsetAt(p.begin-1, zone)
	}
	if !end.IsZero() {
		if p.end = end.Unix(); p.end <= at {
			p.end = afterBounds(at, zone)
		}
	}
	return p
}

func offsetAt(at int64, zone *time.Location) int64 {
	_, offset := time.Unix(at, 0).In(zone).Zone()
	return int64(offset)
}

// afterBounds returns the end of the period that holds a Unix second, at most a day later. ZoneBounds reports an end in
// the past for the last day of a leap year, because it takes each year after a zone's last listed change to have 365
// days.
func afterBounds(at int64, zone *time.Location) int64 {
	offset, same, end := offsetAt(at, zone), at, at+daySeconds
	if offsetAt(end, zone) == offset {
		return end
	}
	for end-same > 1 {
		if middle := same + (end-same)/2; offsetAt(middle, zone) == offset {
			same = middle
		} else {
			end = middle
		}
	}
	return end
}

func (p period) endless() bool { return p.end == distant }

// next returns the following period, or p itself if p is endless.
func (p period) next() period {
	if p.endless() {
		return p
	}
	next := periodAt(p.end, p.zone)
	next.begin, next.shown = p.end, max(p.shown, p.last())
	return next
}

// first is the wall clock at the beginning of the period.
func (p period) first() int64 { return p.begin + p.offset }

// last is the wall clock at the end of the period, as the period would show it.
func (p period) last() int64 { return p.end + p.offset }

// firing returns the firing at a wall-clock second of the period.
func (p period) firing(wall int64, next period) Firing {
	f := Firing{At: time.Unix(wall-p.offset, 0).In(p.zone), Wall: time.Unix(wall, 0).UTC()}
	switch {
	case wall < p.shown:
		f.Change = Second
	case !p.endless() && wall >= next.first():
		f.Change = First
	}
	return f
}
