package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/cli"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newCalendar() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "calendar",
		Short: "Set the holidays and business hours that schedules go by",
		Example: `  belfry calendar put holidays-de holidays.ics
  belfry schedule put report --cron "0 9 * * *" --calendar holidays-de`,
	}, newCalendarPut(), newCalendarGet(), newCalendarList(), newCalendarDelete())
}

func newCalendarPut() *cobra.Command {
	return cli.Verb(&cobra.Command{
		Use:   "put NAME [FILE]",
		Short: "Make or replace a calendar, given as JSON or as iCalendar",
		Example: `  belfry calendar put holidays-de holidays.ics
  echo '{"closed": ["--12-25"]}' | belfry calendar put company
  belfry calendar put office <<< '{"hours": [{"daily": ["09:00-17:00"]}]}'`,
	}, func(c *cli.Call) (*client.Calendar, error) {
		in, err := input(c, strings.Join(c.Args[1:], ""))
		if err != nil {
			return nil, err
		}
		defer func() { _ = in.Close() }() // the file was only read
		text, err := io.ReadAll(in)
		if err != nil {
			return nil, err
		}
		return putCalendar(c, c.Args[0], text)
	}, fillCalendar)
}

// putCalendar stores a calendar in one of the two forms. An iCalendar file begins with its own name.
func putCalendar(c *cli.Call, name string, text []byte) (*client.Calendar, error) {
	if bytes.HasPrefix(bytes.ToUpper(bytes.TrimSpace(text)), []byte("BEGIN:VCALENDAR")) {
		return c.Client.ImportCalendar(c.Context(), name, text)
	}
	var calendar client.Calendar
	lines := json.NewDecoder(bytes.NewReader(text))
	lines.DisallowUnknownFields()
	if err := lines.Decode(&calendar); err != nil {
		return nil, fmt.Errorf("the calendar is neither JSON nor an iCalendar file: %w", err)
	}
	calendar.Name = name
	return c.Client.PutCalendar(c.Context(), calendar)
}

func newCalendarGet() *cobra.Command {
	return cli.Verb(&cobra.Command{
		Use:     "get NAME",
		Short:   "Show a calendar",
		Example: `  belfry calendar get holidays-de`,
	}, func(c *cli.Call) (*client.Calendar, error) {
		return c.Client.Calendar(c.Context(), c.Args[0])
	}, fillCalendar)
}

func newCalendarDelete() *cobra.Command {
	return cli.Asking(cli.Verb(&cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a calendar, and show it; refused while a schedule uses it",
		Example: `  belfry calendar delete holidays-de
  belfry calendar delete holidays-de --yes`,
	}, func(c *cli.Call) (*client.Calendar, error) {
		if err := cli.AskAbout(c, c.Client.Calendar, calendarQuestion); err != nil {
			return nil, err
		}
		return c.Client.DeleteCalendar(c.Context(), c.Args[0])
	}, fillCalendar))
}

// calendarQuestion asks about the end of a calendar, with the number of its entries.
func calendarQuestion(c *client.Calendar) cli.Question {
	return cli.Question{
		Effect: fmt.Sprintf("deletes calendar %s with %s", c.Name, output.Many(len(c.Closed), "closed day")),
		Kind:   "calendar", Name: c.Name,
	}
}

func newCalendarList() *cobra.Command {
	return cli.ListVerb(&cobra.Command{
		Use:     "list",
		Short:   "List the calendars",
		Example: `  belfry calendar list`,
	}, func(c *cli.Call) ([]client.Calendar, error) {
		return c.Client.Calendars(c.Context())
	}, func(t *output.Table, list []client.Calendar) {
		t.Columns("CALENDAR", "TIME ZONE", "HOURS", "CLOSED", "KNOWN UNTIL").Wide("REVISION").Add()
		for _, c := range list {
			t.Cells(c.Name, c.TimeZone, hoursText(c.Hours), len(c.Closed), c.KnownUntil, c.Revision)
		}
	})
}

func fillCalendar(t *output.Table, c *client.Calendar) {
	t.Field("calendar", c.Name)
	t.Field("time zone", c.TimeZone)
	t.Field("hours", hoursText(c.Hours))
	t.Field("closed", strings.Join(c.Closed, ", "))
	t.Field("known until", c.KnownUntil)
	t.Field("skipped", strings.Join(c.Why, "; "))
}

// hoursText describes open hours: "MON-FRI 09:00-17:00; SAT 10:00-12:00".
func hoursText(all []client.CalendarHours) string {
	return strings.Join(texts(all, func(h client.CalendarHours) string {
		return strings.TrimSpace(h.Days + " " + strings.Join(h.Daily, ", "))
	}), "; ")
}
