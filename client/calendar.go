package client

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/belfryhq/belfry/client/view"
)

// Calendar tells on which days, and at which hours of them, work may be done.
type Calendar = view.Calendar

// CalendarHours is the open hours on some days of the week.
type CalendarHours = view.CalendarHours

// PutCalendar makes or replaces the calendar with this name, and returns the stored one.
func (c *Client) PutCalendar(ctx context.Context, calendar Calendar) (*Calendar, error) {
	name := calendar.Name
	calendar.Name, calendar.KnownUntil, calendar.Revision, calendar.Skipped, calendar.Why = "", "", 0, 0, nil
	body, err := json.Marshal(struct {
		Calendar
		Name string `json:"name,omitempty"` // the path has it
	}{Calendar: calendar})
	if err != nil {
		return nil, err
	}
	return c.putCalendar(ctx, name, body, jsonType)
}

// ImportCalendar makes or replaces a calendar from an iCalendar file, whose events close their days, and returns the
// stored one. The service refuses a file with an event that it cannot carry out.
func (c *Client) ImportCalendar(ctx context.Context, name string, file []byte) (*Calendar, error) {
	return c.putCalendar(ctx, name, file, "text/calendar")
}

func (c *Client) putCalendar(ctx context.Context, name string, body []byte, contentType string) (*Calendar, error) {
	return fetch[Calendar](ctx, c.conn, call{method: http.MethodPut, path: c.conn.path("calendars", name), body: body,
		contentType: contentType, header: c.conn.header(&options{})})
}

// Calendar reads a calendar.
func (c *Client) Calendar(ctx context.Context, name string) (*Calendar, error) {
	return fetch[Calendar](ctx, c.conn, call{method: http.MethodGet, path: c.conn.path("calendars", name)})
}

// DeleteCalendar removes a calendar, and returns it. It returns ErrConflict if a schedule uses the calendar.
func (c *Client) DeleteCalendar(ctx context.Context, name string) (*Calendar, error) {
	return fetch[Calendar](ctx, c.conn, call{method: http.MethodDelete, path: c.conn.path("calendars", name),
		header: c.conn.header(&options{})})
}

// Calendars returns the calendars of the namespace, sorted by name.
func (c *Client) Calendars(ctx context.Context) ([]Calendar, error) {
	var answer struct{ Calendars []Calendar }
	call := call{method: http.MethodGet, path: c.conn.root + "/calendars"}
	if err := c.conn.do(ctx, call, readJSON(&answer)); err != nil {
		return nil, err
	}
	return answer.Calendars, nil
}
