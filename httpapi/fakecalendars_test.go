package httpapi

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/series"
)

func (f *fakeBackend) PutCalendar(_ context.Context, c *fsmpb.Calendar) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	place := placeOf(c.Namespace, c.Name)
	old, existed := f.calendars[place]
	if f.calendars == nil {
		f.calendars = map[string]*fsmpb.Calendar{}
	}
	f.calendars[place] = proto.CloneOf(c)
	f.calendars[place].Version = old.GetVersion() + 1
	return !existed, f.readErr
}

func (f *fakeBackend) DeleteCalendar(_ context.Context, namespace, name string) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, existed := f.calendars[placeOf(namespace, name)]
	delete(f.calendars, placeOf(namespace, name))
	return existed, f.readErr
}

func (f *fakeBackend) Calendars(namespace string) []*fsmpb.Calendar {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Collect(maps.Values(f.calendars))
	all = slices.DeleteFunc(all, func(c *fsmpb.Calendar) bool {
		return task.CanonicalNamespace(c.Namespace) != task.CanonicalNamespace(namespace)
	})
	slices.SortFunc(all, func(a, b *fsmpb.Calendar) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (f *fakeBackend) Calendar(namespace, name string) (*calendar.Calendar, uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	stored := f.calendars[placeOf(namespace, name)]
	if stored == nil {
		return nil, 0
	}
	c, err := calendar.New(series.CalendarOf(stored))
	if err != nil {
		panic(err) // the server has checked it
	}
	return c, stored.Version
}
