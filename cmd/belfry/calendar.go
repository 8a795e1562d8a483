package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/belfryhq/belfry/client"
	"github.com/belfryhq/belfry/cmd/belfry/internal/confirm"
	"github.com/belfryhq/belfry/cmd/belfry/internal/output"
)

func newCalendar() *cobra.Command {
	return group(&cobra.Command{
		Use:   "calendar",
		Short: "Set the holidays and business hours that schedules go by",
		Example: `  belfry calendar put holidays-de holidays.ics
  belfry schedule put report --cron "0 9 * * *" --calendar holidays-de`,
	}, newCalendarPut(), newCalendarGet(), newCalendarList(), newCalendarDelete())
}

func newCalendarPut() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:   "put NAME [FILE]",
		Short: "Make or replace a calendar, given as JSON or as iCalendar",
		Example: `  belfry calendar put holidays-de holidays.ics
  echo '{"closed": ["--12-25"]}' | belfry calendar put company
  belfry calendar put office <<< '{"hours": [{"daily": ["09:00-17:00"]}]}'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readInput(cmd, strings.Join(args[1:], ""))
			if err != nil {
				return err
			}
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			stored, err := putCalendar(cmd, conn, args[0], text)
			if err != nil {
				return err
			}
			return caller.show(cmd, stored, func(t *output.Table) { fillCalendar(t, stored) })
		},
	}
	caller.addFlags(cmd)
	return cmd
}

// readInput reads a file whole; an empty name and - mean the standard input.
func readInput(cmd *cobra.Command, name string) ([]byte, error) {
	in, err := input(cmd, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // the file was only read
	return io.ReadAll(in)
}

// putCalendar stores a calendar in one of the two forms. An iCalendar file begins with its own name.
func putCalendar(cmd *cobra.Command, conn *client.Client, name string, text []byte) (*client.Calendar, error) {
	if bytes.HasPrefix(bytes.ToUpper(bytes.TrimSpace(text)), []byte("BEGIN:VCALENDAR")) {
		return conn.ImportCalendar(cmd.Context(), name, text)
	}
	var c client.Calendar
	lines := json.NewDecoder(bytes.NewReader(text))
	lines.DisallowUnknownFields()
	if err := lines.Decode(&c); err != nil {
		return nil, fmt.Errorf("the calendar is neither JSON nor an iCalendar file: %w", err)
	}
	c.Name = name
	return conn.PutCalendar(cmd.Context(), c)
}

func newCalendarGet() *cobra.Command {
	return newCalendarCall(&cobra.Command{
		Use:     "get NAME",
		Short:   "Show a calendar",
		Example: `  belfry calendar get holidays-de`,
	}, func(cmd *cobra.Command, conn *client.Client, name string) (*client.Calendar, error) {
		return conn.Calendar(cmd.Context(), name)
	})
}

func newCalendarDelete() *cobra.Command {
	var asking asking
	cmd := newCalendarCall(&cobra.Command{
		Use:   "delete NAME",
		Short: "Delete a calendar, and show it; refused while a schedule uses it",
		Example: `  belfry calendar delete holidays-de
  belfry calendar delete holidays-de --yes`,
	}, func(cmd *cobra.Command, conn *client.Client, name string) (*client.Calendar, error) {
		err := askAbout(&asking, cmd, name, conn.Calendar, calendarQuestion)
		if err != nil {
			return nil, err
		}
		return conn.DeleteCalendar(cmd.Context(), name)
	})
	asking.addFlags(cmd)
	return cmd
}

// calendarQuestion asks about the end of a calendar, with the number of its entries.
func calendarQuestion(c *client.Calendar) confirm.Question {
	return confirm.Question{
		Effect: fmt.Sprintf("deletes calendar %s with %s", c.Name, numberOfThings(int64(len(c.Closed)), "closed day")),
		Kind:   "calendar", Name: c.Name,
	}
}

// newCalendarCall makes a command about one calendar that prints the answer.
func newCalendarCall(
	cmd *cobra.Command, do func(*cobra.Command, *client.Client, string) (*client.Calendar, error),
) *cobra.Command {
	var caller caller
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		conn, err := caller.connect()
		if err != nil {
			return err
		}
		c, err := do(cmd, conn, args[0])
		if err != nil {
			return err
		}
		return caller.show(cmd, c, func(t *output.Table) { fillCalendar(t, c) })
	}
	caller.addFlags(cmd)
	return cmd
}

func newCalendarList() *cobra.Command {
	var caller caller
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the calendars",
		Example: `  belfry calendar list`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := caller.connect()
			if err != nil {
				return err
			}
			all, err := conn.Calendars(cmd.Context())
			if err != nil {
				return err
			}
			return output.ShowEach(cmd.OutOrStdout(), &caller.output, all, func(t *output.Table) {
				t.Columns("CALENDAR", "TIME ZONE", "HOURS", "CLOSED", "KNOWN UNTIL").Wide("REVISION").Add()
				for _, c := range all {
					t.Cells(c.Name, c.TimeZone, hoursText(c.Hours), len(c.Closed), c.KnownUntil, c.Revision)
				}
			})
		},
	}
	caller.addFlags(cmd)
	return cmd
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
	parts := make([]string, len(all))
	for i, h := range all {
		parts[i] = strings.TrimSpace(h.Days + " " + strings.Join(h.Daily, ", "))
	}
	return strings.Join(parts, "; ")
}
