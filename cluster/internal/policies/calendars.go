package policies

import (
	"context"
	"sync"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/control"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/series"
)

// PutCalendar makes or replaces a calendar, whose fields the caller has checked; see Put. The error is a
// *task.FieldError if it would be one too many.
func (p *Policies) PutCalendar(ctx context.Context, c *fsmpb.Calendar) (created bool, err error) {
	changed, err := p.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_SetCalendar{SetCalendar: &clusterpb.SetCalendar{Calendar: c}},
	})
	return err == nil && !changed.Existed, err
}

// DeleteCalendar removes a calendar; see Put.
func (p *Policies) DeleteCalendar(ctx context.Context, namespace, name string) (existed bool, err error) {
	del := &clusterpb.DeleteCalendar{Namespace: namespace, Name: name}
	changed, err := p.change(ctx, &clusterpb.ControlEntry{
		Op: &clusterpb.ControlEntry_DeleteCalendar{DeleteCalendar: del},
	})
	return changed.GetExisted(), err
}

// Calendar returns a calendar as this node knows it, with its version. The version is 0 if there is none.
func (p *Policies) Calendar(namespace, name string) (*calendar.Calendar, uint64) {
	stored := control.Calendar(p.cfg.Control.State(), namespace, name)
	if stored == nil {
		return nil, 0
	}
	c, err := p.calendars.read(stored)
	if err != nil {
		p.cfg.Logger.Error("a calendar cannot be read: its schedules have no occurrences",
			"namespace", stored.Namespace, "calendar", stored.Name, "err", err)
		return nil, 0
	}
	return c, stored.Version
}

// CalendarVersion returns the version of a calendar, and 0 if there is none.
func (p *Policies) CalendarVersion(namespace, name string) uint64 {
	return control.Calendar(p.cfg.Control.State(), namespace, name).GetVersion()
}

// readCalendars keeps calendars that were read, since leaders ask for them again and again.
type readCalendars struct {
	mu sync.Mutex
	by map[calendarName]readCalendar
}

type calendarName struct{ namespace, name string }

type readCalendar struct {
	stored *fsmpb.Calendar
	read   *calendar.Calendar
}

func (r *readCalendars) read(stored *fsmpb.Calendar) (*calendar.Calendar, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := calendarName{stored.Namespace, stored.Name}
	if known := r.by[name]; known.stored == stored {
		return known.read, nil
	}
	c, err := calendar.New(series.CalendarOf(stored))
	if err != nil {
		return nil, err
	}
	if r.by == nil || len(r.by) >= control.MaxCalendars { // some of them are gone
		r.by = map[calendarName]readCalendar{}
	}
	r.by[name] = readCalendar{stored, c}
	return c, nil
}
