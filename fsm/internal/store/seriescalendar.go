package store

import "github.com/belfryhq/belfry/fsm/fsmpb"

// calendarUse names the version of a calendar by which the coming instants of schedules were computed.
type calendarUse struct {
	namespace, calendar string
	version             uint64
}

// calendarUses finds the schedules of each version of a calendar. It is derived from the schedules, and takes about 150
// bytes for each one with a calendar.
type calendarUses struct {
	of        map[handle]calendarUse
	schedules map[calendarUse]map[handle]struct{}
}

func newCalendarUses() calendarUses {
	return calendarUses{map[handle]calendarUse{}, map[calendarUse]map[handle]struct{}{}}
}

// note records the calendar of a schedule that is new or has changed. A schedule without coming instants has none that
// could be outdated, and a paused one none at all.
func (u *calendarUses) note(h handle, namespace string, series *fsmpb.Series) {
	use := calendarUse{namespace, series.Repeat.GetCalendar(), series.CalendarVersion}
	if use.calendar == "" || series.Paused || len(series.Next) == 0 && !series.Complete {
		u.forget(h)
		return
	}
	if u.of[h] == use {
		return
	}
	u.forget(h)
	if u.schedules[use] == nil {
		u.schedules[use] = map[handle]struct{}{}
	}
	u.schedules[use][h] = struct{}{}
	u.of[h] = use
}

func (u *calendarUses) forget(h handle) {
	use, ok := u.of[h]
	if !ok {
		return
	}
	delete(u.of, h)
	if delete(u.schedules[use], h); len(u.schedules[use]) == 0 {
		delete(u.schedules, use)
	}
}

// Outdated returns at most limit schedules in open slots whose coming instants were computed by another version of
// their calendar than the current one, without payloads and in no order.
func (s *Store) Outdated(limit int, current func(namespace, calendar string) uint64) []*fsmpb.Task {
	var views []*fsmpb.Task
	for use, schedules := range s.calendars.schedules {
		if current(use.namespace, use.calendar) == use.version {
			continue
		}
		for h := range schedules {
			if len(views) == limit {
				return views
			}
			if s.Slots.IsOpen(s.slotOf(s.tasks.Read(h))) {
				views = append(views, Task{s, h}.View(false))
			}
		}
	}
	return views
}
