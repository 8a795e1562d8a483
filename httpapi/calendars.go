package httpapi

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/repeating"
	"github.com/belfryhq/belfry/repeat/calendar"
)

// Calendars gives access to the calendars of namespaces.
type Calendars interface {
	knownCalendars

	// PutCalendar makes or replaces a calendar. It returns once every reachable leader goes by it, or after a second.
	PutCalendar(ctx context.Context, c *fsmpb.Calendar) (created bool, err error)
	DeleteCalendar(ctx context.Context, namespace, name string) (existed bool, err error)
	// Calendars returns the calendars of a namespace that this node knows, by name. The caller must not change them.
	Calendars(namespace string) []*fsmpb.Calendar
}

// calendarService answers the calls about calendars.
type calendarService struct {
	*core
	backend Calendars
	queues  Queues
}

// calendarType is the media type of iCalendar files.
const calendarType = "text/calendar"

func viewOfCalendar(c *fsmpb.Calendar) view.Calendar {
	v := view.Calendar{
		Name: c.Name, TimeZone: c.TimeZone, Closed: c.Closed, KnownUntil: c.KnownUntil, Revision: c.Version,
	}
	for _, h := range c.Hours {
		v.Hours = append(v.Hours, view.CalendarHours{Days: h.Days, Daily: h.Daily})
	}
	return v
}

// put makes or replaces a calendar, given as JSON or as an iCalendar file.
func (s *calendarService) put(c echo.Context) error {
	cl := callOf(c)
	if err := cl.checkWhole(); err != nil {
		return err
	}
	body, err := bind(c, s.bounds.BodyBytes, jsonType, calendarType)
	defer body.release()
	if err != nil {
		return err
	}
	read, imported, err := s.read(cl, body.data)
	if err != nil {
		return err
	}
	read.Namespace, read.Name = cl.namespace, c.Param("calendar")
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	created, err := s.backend.PutCalendar(ctx, read)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	if known := s.find(cl.namespace, read.Name); known != nil {
		read = known // with its revision
	}
	v := viewOfCalendar(read)
	v.Skipped, v.Why = imported.Skipped, imported.Why
	return writeValue(c, status, v)
}

// read reads a calendar in JSON, or in an iCalendar file, of which it also returns the report.
func (s *calendarService) read(c *call, data []byte) (read *fsmpb.Calendar, imported calendar.Imported, err error) {
	s.work.Enter(c.namespace, len(data))
	defer s.work.Leave(c.namespace)
	if media, _, err := mime.ParseMediaType(c.Request().Header.Get("Content-Type")); err == nil && media == calendarType {
		now, _ := s.now()
		return repeating.ImportCalendar(data, now)
	}
	read, err = repeating.ReadCalendar(data)
	return read, imported, err
}

// find returns a calendar that this node knows, or nil.
func (s *calendarService) find(namespace, name string) *fsmpb.Calendar {
	for _, c := range s.backend.Calendars(namespace) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (s *calendarService) get(c echo.Context) error {
	known := s.find(callOf(c).namespace, c.Param("calendar"))
	if known == nil {
		return noSuchCalendar()
	}
	return writeValue(c, http.StatusOK, viewOfCalendar(known))
}

func noSuchCalendar() error { return &problem{kind: calendarNotFound} }

// list answers with the calendars of a namespace. There are at most some hundreds.
func (s *calendarService) list(c echo.Context) error {
	views := []view.Calendar{}
	for _, known := range s.backend.Calendars(callOf(c).namespace) {
		views = append(views, viewOfCalendar(known))
	}
	return writeValue(c, http.StatusOK, map[string]any{"calendars": views})
}

// remove removes a calendar that neither a schedule nor the window of a queue uses. A schedule that names the
// calendar meanwhile has no occurrences until there is one again, and says so. A window that names it is closed.
func (s *calendarService) remove(c echo.Context) error {
	cl, name := callOf(c), c.Param("calendar")
	if err := cl.checkWhole(); err != nil {
		return err
	}
	if err := s.emptyBody(c); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	known := s.find(cl.namespace, name)
	if err := s.checkUnused(ctx, cl.namespace, name); err != nil {
		return err
	}
	existed, err := s.backend.DeleteCalendar(ctx, cl.namespace, name)
	switch {
	case err != nil:
		return err
	case !existed || known == nil:
		return noSuchCalendar()
	}
	return writeValue(c, http.StatusOK, viewOfCalendar(known))
}

// checkUnused refuses the deletion of a calendar in use.
func (s *calendarService) checkUnused(ctx context.Context, namespace, name string) error {
	for _, kind := range []struct {
		name  string
		users func(ctx context.Context, namespace, calendar string) ([]string, error)
	}{{"schedules", s.usersOf}, {"windows of queues", s.queuesWith}} {
		users, err := kind.users(ctx, namespace, name)
		switch {
		case err != nil:
			return s.readFailed(err)
		case len(users) > 0:
			return &problem{kind: calendarInUse, detail: kind.name + " use it: " + strings.Join(users, ", ")}
		}
	}
	return nil
}

// userPage is the number of schedules that are read at a time.
const userPage = 500

// mostUsers is the number of users of a calendar that a refusal names.
const mostUsers = 5

// usersOf returns the ids of some schedules of a namespace whose rules name a calendar.
func (s *calendarService) usersOf(ctx context.Context, namespace, name string) (users []string, err error) {
	q := &fsmpb.ListQuery{
		Namespace: namespace, States: []fsmpb.State{fsmpb.State_STATE_REPEATING}, Limit: userPage,
	}
	for {
		page, err := s.tasks.List(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, t := range page.Tasks {
			if id, _ := task.SplitSeries(t.Id); t.GetSeries().GetRepeat().GetCalendar() == name {
				users = append(users, id)
			}
			if len(users) == mostUsers {
				return users, nil
			}
		}
		if !page.More {
			return users, nil
		}
		q.Slot, q.AfterId = page.Slot, page.AfterId
	}
}

// queuesWith returns the names of some queues of a namespace whose windows name a calendar.
func (s *calendarService) queuesWith(ctx context.Context, namespace, name string) (users []string, err error) {
	queues, err := s.queues.Queues(ctx, namespace)
	for _, q := range queues {
		if q.Policy.GetWindow().GetCalendar() == name && len(users) < mostUsers {
			users = append(users, queueName(q))
		}
	}
	return users, err
}

// checkWhole refuses a call about a whole namespace by a caller whose grants reach only some of its queues or ids.
func (c *call) checkWhole() error {
	if !c.limited {
		return nil
	}
	return &problem{kind: forbidden, detail: fmt.Sprintf("the call needs the role %s in the namespace %s, without a "+
		"limit to some queues or ids", c.need.role, c.namespace)}
}
