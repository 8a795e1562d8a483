package recur_test

import (
	"testing"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/shard/recur"
)

func closedOn(t *testing.T, version uint64, dates ...string) recur.Calendar {
	t.Helper()
	c, err := calendar.New(calendar.Spec{Closed: dates})
	assert.NoError(t, err)
	return recur.Calendar{Calendar: c, Version: version}
}

const never = 1<<64 - 1 // the version of a calendar that is missing

func TestCalendarChanges(t *testing.T) {
	const now = "2026-11-20T10:00:00Z"
	daily := func(version uint64, next ...string) *fsmpb.Series {
		return &fsmpb.Series{Repeat: &fsmpb.Repeat{Cron: []string{"0 9 * * *"}, Calendar: "c"}, Next: instants(next...),
			CalendarVersion: version, AfterMs: ms("2026-11-20T09:00:00Z")}
	}
	for _, row := range []struct {
		name   string
		series *fsmpb.Series
		by     recur.Calendar
		want   string
		redo   string // instant behind which the coming occurrences are dropped; empty: none is
	}{
		{"new", daily(0), closedOn(t, 7, "2026-11-21"), "11-22 09:00, 11-23 09:00", ""},
		{"unchanged", daily(7, "2026-11-22T09:00:00Z", "2026-11-23T09:00:00Z"), closedOn(t, 7, "2026-11-21"), "11-24 09:00", ""},
		{"another holiday", daily(6, "2026-11-21T09:00:00Z", "2026-11-22T09:00:00Z"), closedOn(t, 7, "2026-11-21"),
			"11-22 09:00, 11-23 09:00", "2026-11-20T10:00:01Z"},
		{"no holiday any more", daily(6, "2026-11-22T09:00:00Z"), closedOn(t, 7, "2000-01-01"),
			"11-21 09:00, 11-22 09:00", "2026-11-20T10:00:01Z"},
		{"one comes due at once", daily(6, "2026-11-20T10:00:00.9Z", "2026-11-21T09:00:00Z"), closedOn(t, 7, "2026-11-20/2026-11-21"),
			"11-22 09:00", "2026-11-20T10:00:01Z"},
		{"closed for good", daily(6, "2026-11-21T09:00:00Z"), closedOn(t, 7, "2026-11-20/2226-11-20"), "complete",
			"2026-11-20T10:00:01Z"},
		{"gone", daily(6, "2026-11-21T09:00:00Z"), recur.Calendar{}, "", "2026-11-20T10:00:01Z"},
		{"back", daily(never), closedOn(t, 7, "2026-11-22"), "11-21 09:00, 11-23 09:00", "2026-11-20T10:00:01Z"},
	} {
		x, err := recur.Extension(row.series, row.by, at(now), least)
		if err != nil {
			t.Errorf("%s: %v", row.name, err)
			continue
		}
		redo := ""
		if x.RedoAfterMs != nil {
			redo = time.UnixMilli(*x.RedoAfterMs).UTC().Format(time.RFC3339)
		}
		if got := text(x, "01-02 15:04"); got != row.want || redo != row.redo {
			t.Errorf("%s: %s behind %q, want %s behind %q", row.name, got, redo, row.want, row.redo)
		}
		if want := row.by.Version; x.CalendarVersion != want && (want != 0 || x.CalendarVersion != never) {
			t.Errorf("%s: by version %d", row.name, x.CalendarVersion)
		}
	}
	for _, s := range []*fsmpb.Series{daily(0), daily(never)} {
		x, err := recur.Extension(s, recur.Calendar{}, at(now), least)
		assert.Error(t, err, "without its calendar: %v", x)
	}
}
