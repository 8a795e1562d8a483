package window_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/hours"
	"github.com/belfryhq/belfry/repeat/window"
)

func mustNew(t testing.TB, spec window.Spec, closed ...string) *window.Window {
	t.Helper()
	var c *calendar.Calendar
	if len(closed) > 0 {
		var err error
		c, err = calendar.New(calendar.Spec{Closed: closed})
		assert.NoError(t, err)
	}
	w, err := window.New(spec, c)
	assert.NoError(t, err)
	return w
}

func TestOpens(t *testing.T) {
	for _, c := range []struct{ name, zone, days, daily, closed, at, want string }{
		{"open", "Europe/Berlin", "MON-SAT", "09:00-20:00", "", "2026-11-26T10:30:15Z", "2026-11-26T10:30:15Z"},
		{"before the morning", "Europe/Berlin", "", "09:00-20:00", "", "2026-11-26T07:59:59Z", "2026-11-26T08:00:00Z"},
		{"its end is outside", "Europe/Berlin", "", "09:00-20:00", "", "2026-11-26T19:00:00Z", "2026-11-27T08:00:00Z"},
		{"over a Sunday", "Europe/Berlin", "MON-SAT", "09:00-20:00", "", "2026-11-28T20:00:00Z", "2026-11-30T08:00:00Z"},
		{"over a holiday", "Europe/Berlin", "", "09:00-20:00", "2026-11-27", "2026-11-26T19:00:00Z", "2026-11-28T08:00:00Z"},
		{"the holiday is that of the zone", "Asia/Tokyo", "", "00:00-24:00", "2026-11-27", "2026-11-26T15:00:00Z", "2026-11-27T15:00:00Z"},
		{"over midnight", "", "FRI", "22:00-06:00", "", "2026-11-28T05:00:00Z", "2026-11-28T05:00:00Z"},
		{"a skipped hour", "Europe/Berlin", "", "02:30-04:00", "", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, c.at)
		assert.NoError(t, err)
		w := mustNew(t, window.Spec{TimeZone: c.zone, Days: c.days, Daily: []string{c.daily}}, strings.Fields(c.closed)...)
		if got, ok := w.Opens(at); !ok || got.Format(time.RFC3339) != c.want {
			t.Errorf("%s: %s, %v, want %s", c.name, got.Format(time.RFC3339), ok, c.want)
		}
	}
}

// TestOpensBesideMinutes compares Opens with a walk over all minutes of a week.
func TestOpensBesideMinutes(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	berlin := mustNew(t, window.Spec{TimeZone: "Europe/Berlin", Days: "MON-FRI", Daily: []string{"09:00-12:00", "22:00-01:30"}},
		"2026-10-26", "2026-03-30")
	closed := map[string]bool{"2026-10-26": true, "2026-03-30": true}
	location, err := time.LoadLocation("Europe/Berlin")
	assert.NoError(t, err)
	week, err := hours.Parse("MON-FRI", []string{"09:00-12:00", "22:00-01:30"})
	assert.NoError(t, err)
	for range 200 {
		at := time.Date(2026, []time.Month{3, 10}[rng.IntN(2)], 22, 0, rng.IntN(10*24*60), 0, 0, location)
		want := at
		for !week.Open(want) || closed[want.Format(time.DateOnly)] {
			want = want.Add(time.Minute)
		}
		if got, ok := berlin.Opens(at); !ok || !got.Equal(want) {
			t.Fatalf("%v opens at %v (%v), want %v", at, got, ok, want)
		}
	}
}

func TestNeverOpen(t *testing.T) {
	w := mustNew(t, window.Spec{Days: "FRI", Daily: []string{"09:00-10:00"}}, "2020-01-01/2099-12-31")
	if opens, ok := w.Opens(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); ok {
		t.Errorf("it opens at %v", opens)
	}
}

func TestNewErrors(t *testing.T) {
	for want, spec := range map[string]window.Spec{
		"daily":     {},
		"days":      {Days: "MO", Daily: []string{"09:00-10:00"}},
		"time_zone": {TimeZone: "Mars/Olympus", Daily: []string{"09:00-10:00"}},
	} {
		var field *hours.FieldError
		if _, err := window.New(spec, nil); !errors.As(err, &field) || field.Field != want {
			t.Errorf("%+v: %v", spec, err)
		}
	}
}
