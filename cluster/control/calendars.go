package control

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// MaxCalendars is the number of calendars in a cluster. A change of the number changes the meaning of logs, and so
// needs another Version.
const MaxCalendars = 1024

// prepareSetCalendar checks where a calendar is to be. The asking node has checked its fields.
func prepareSetCalendar(r *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	calendar, state := c.Entry.GetSetCalendar().GetCalendar(), r.group.State()
	if calendar == nil {
		return nil, incomplete("a calendar")
	}
	calendar.Namespace = cmp.Or(calendar.Namespace, task.DefaultNamespace)
	calendar.Version = 0 // applying the entry sets it
	if err := checkActive(state, "namespace", calendar.Namespace); err != nil {
		return nil, err
	}
	return nil, checkCalendarShare(state, calendar)
}

func prepareDeleteCalendar(_ *reconciler, c *clusterpb.ControlChange) (*clusterpb.ControlChanged, error) {
	del := c.Entry.GetDeleteCalendar()
	del.Namespace = cmp.Or(del.Namespace, task.DefaultNamespace)
	return nil, nil
}

// checkCalendarShare returns an error for a new calendar beyond the share of its namespace: see share.
func checkCalendarShare(s *clusterpb.ControlState, c *fsmpb.Calendar) error {
	share := share(s, MaxCalendars)
	if share == MaxCalendars || len(Calendars(s, c.Namespace)) < share || Calendar(s, c.Namespace, c.Name) != nil {
		return nil
	}
	return tooManyCalendars(fmt.Sprintf("%d of one namespace", share))
}

func tooManyCalendars(limit string) error {
	return &task.FieldError{Field: "name", Detail: "would be one calendar too many", Limit: limit}
}

func applySetCalendar(s *clusterpb.ControlState, set *clusterpb.SetCalendar) error {
	calendar := set.GetCalendar()
	if calendar.GetNamespace() == "" || calendar.GetName() == "" {
		return &task.FieldError{Field: "name", Detail: "is empty"}
	}
	at, found := findCalendar(s, calendar.Namespace, calendar.Name)
	if found {
		calendar.Version = s.Calendars[at].Version
		if proto.Equal(s.Calendars[at], calendar) {
			return nil
		}
	} else if len(s.Calendars) >= MaxCalendars {
		return tooManyCalendars(fmt.Sprint(MaxCalendars))
	}
	s.QueuesVersion++
	calendar.Version = s.QueuesVersion
	s.Calendars = slices.Clone(s.Calendars)
	if found {
		s.Calendars[at] = calendar
	} else {
		s.Calendars = slices.Insert(s.Calendars, at, calendar)
	}
	return nil
}

func applyDeleteCalendar(s *clusterpb.ControlState, del *clusterpb.DeleteCalendar) error {
	if at, found := findCalendar(s, del.GetNamespace(), del.GetName()); found {
		s.QueuesVersion++
		s.Calendars = slices.Delete(slices.Clone(s.Calendars), at, at+1)
	}
	return nil
}

func answerSetCalendar(
	c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, set *clusterpb.SetCalendar,
) {
	_, c.Existed = findCalendar(before, set.GetCalendar().GetNamespace(), set.GetCalendar().GetName())
	c.QueuesVersion = after.QueuesVersion
}

func answerDeleteCalendar(
	c *clusterpb.ControlChanged, before, after *clusterpb.ControlState, del *clusterpb.DeleteCalendar,
) {
	_, c.Existed = findCalendar(before, del.GetNamespace(), del.GetName())
	c.QueuesVersion = after.QueuesVersion
}

func findCalendar(s *clusterpb.ControlState, namespace, name string) (at int, found bool) {
	return slices.BinarySearchFunc(s.Calendars, namespace, func(c *fsmpb.Calendar, _ string) int {
		return cmp.Or(cmp.Compare(c.Namespace, namespace), cmp.Compare(c.Name, name))
	})
}

// Calendar returns a calendar, or nil if there is none. The caller must not change it.
func Calendar(s *clusterpb.ControlState, namespace, name string) *fsmpb.Calendar {
	if at, found := findCalendar(s, cmp.Or(namespace, task.DefaultNamespace), name); found {
		return s.Calendars[at]
	}
	return nil
}

// Calendars returns the calendars of one namespace, sorted by name. The caller must not change them.
func Calendars(s *clusterpb.ControlState, namespace string) []*fsmpb.Calendar {
	namespace = cmp.Or(namespace, task.DefaultNamespace)
	first, _ := findCalendar(s, namespace, "")
	end, _ := findCalendar(s, namespace+"\x00", "") // the next possible namespace
	return s.Calendars[first:end:end]
}
