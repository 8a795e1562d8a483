package hours

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/repeat/zone"
)

func load(t testing.TB, name string) *time.Location {
	t.Helper()
	l, err := zone.Load(name)
	assert.NoError(t, err)
	return l
}

func parse(t testing.TB, days string, daily ...string) *Week {
	t.Helper()
	w, err := Parse(days, daily)
	assert.NoError(t, err)
	return w
}

func TestNext(t *testing.T) {
	const layout = "2006-01-02 15:04:05 -0700"
	for _, c := range []struct {
		name, zone, days, daily, after, want string
	}{
		{"within", "UTC", "", "09:00-17:00", "2026-11-20 12:30:15 +0000", "2026-11-20 12:30:15 +0000"},
		{"the begin is within", "UTC", "", "09:00-17:00", "2026-11-20 09:00:00 +0000", "2026-11-20 09:00:00 +0000"},
		{"the end is not", "UTC", "", "09:00-17:00", "2026-11-20 17:00:00 +0000", "2026-11-21 09:00:00 +0000"},
		{"over a weekend", "UTC", "MON-FRI", "09:00-17:00", "2026-11-20 17:00:00 +0000", "2026-11-23 09:00:00 +0000"},
		{"once a week", "UTC", "FRI", "09:00-09:01", "2026-11-20 09:01:00 +0000", "2026-11-27 09:00:00 +0000"},
		{"over the end of a week", "UTC", "SAT-MON", "09:00-17:00", "2026-11-18 00:00:00 +0000", "2026-11-21 09:00:00 +0000"},
		{"a night of Friday, on Saturday", "UTC", "FRI", "22:00-06:00", "2026-11-21 05:59:59 +0000", "2026-11-21 05:59:59 +0000"},
		{"its end", "UTC", "FRI", "22:00-06:00", "2026-11-21 06:00:00 +0000", "2026-11-27 22:00:00 +0000"},
		{"to midnight", "UTC", "", "20:00-24:00", "2026-11-21 00:00:00 +0000", "2026-11-21 20:00:00 +0000"},
		{"several", "UTC", "", "09:00-10:00 14:00-15:00", "2026-11-20 10:00:00 +0000", "2026-11-20 14:00:00 +0000"},
		{"its begin is skipped", "Europe/Berlin", "", "02:30-04:00", "2026-03-29 01:00:00 +0100", "2026-03-29 03:00:00 +0200"},
		{"it is skipped", "Europe/Berlin", "", "02:30-02:45", "2026-03-29 01:00:00 +0100", "2026-03-30 02:30:00 +0200"},
		{"it comes twice", "Europe/Berlin", "", "02:30-02:45", "2026-10-25 02:45:00 +0200", "2026-10-25 02:30:00 +0100"},
		{"a skipped midnight", "Africa/Cairo", "FRI", "00:00-06:00", "2026-04-23 23:00:00 +0200", "2026-04-24 01:00:00 +0300"},
		{"a skipped day", "Pacific/Apia", "FRI", "09:00-17:00", "2011-12-29 12:00:00 -1000", "2012-01-06 09:00:00 +1400"},
	} {
		after, err := time.Parse(layout, c.after)
		assert.NoError(t, err)
		w := parse(t, c.days, strings.Fields(c.daily)...)
		if got, ok := w.Next(after.In(load(t, c.zone))); !ok || got.Format(layout) != c.want {
			t.Errorf("%s: %s, %v", c.name, got.Format(layout), ok)
		}
	}
}

// TestNextBesideMinutes compares Next with a walk over all minutes, around the clock changes of zones.
func TestNextBesideMinutes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	begins := []string{"2026-03-26T00:00:00Z", "2026-10-23T00:00:00Z", "2026-04-01T00:00:00Z", "2011-12-28T00:00:00Z"}
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo",
		"Pacific/Apia", "Asia/Kathmandu", "America/Sao_Paulo"} {
		location := load(t, name)
		for range 40 {
			from, to := rng.IntN(dayMinutes), rng.IntN(dayMinutes)
			if from == to {
				continue
			}
			w := &Week{}
			w.add([7]bool{rng.IntN(2) > 0, true, rng.IntN(2) > 0, rng.IntN(2) > 0, rng.IntN(2) > 0}, from, to)
			w.unite()
			t0, err := time.Parse(time.RFC3339, begins[rng.IntN(len(begins))])
			assert.NoError(t, err)
			compare(t, w, t0.Add(time.Duration(rng.IntN(5*dayMinutes))*time.Minute).In(location))
		}
	}
}

// compare wants Next to be the first open minute.
func compare(t *testing.T, w *Week, from time.Time) {
	t.Helper()
	got, ok := w.Next(from)
	for at := from; ; at = at.Add(time.Minute) {
		if w.Open(at) {
			if !ok || !got.Equal(at) {
				t.Errorf("%v of %+v: %v (%v), want %v", from, w.days, got, ok, at)
			}
			return
		}
	}
}

func TestParseErrors(t *testing.T) {
	for want, c := range map[string]struct{ days, daily string }{
		`days has "MO", which is neither a day nor a range of days: write them like MON, MON-FRI or MON-FRI,SUN`: {"MO", "09:00-17:00"},
		`daily is empty (limit 1 to 16 ranges)`:                                    {"", ""},
		`daily[0] is wrong: "9:00-17:00" must be like 09:00-17:30 or 22:00-06:00`:  {"", "9:00-17:00"},
		`daily[1] is wrong: "09:00" must be like 09:00-17:30 or 22:00-06:00`:       {"", "09:00-17:00 09:00"},
		`daily[0] is wrong: "24:00-06:00" must be like 09:00-17:30 or 22:00-06:00`: {"", "24:00-06:00"},
		`daily[0] is wrong: "09:60-10:00" must be like 09:00-17:30 or 22:00-06:00`: {"", "09:60-10:00"},
		`daily[0] is wrong: "09:00-24:01" must be like 09:00-17:30 or 22:00-06:00`: {"", "09:00-24:01"},
		`daily[0] is wrong: "09:00-09:00" is empty; a whole day is 00:00-24:00`:    {"", "09:00-09:00"},
		`daily has too many ranges (limit 16)`:                                     {"", strings.Repeat("09:00-17:00 ", 17)},
	} {
		if _, err := Parse(c.days, strings.Fields(c.daily)); err == nil || err.Error() != want {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func TestUnion(t *testing.T) {
	w := Union(parse(t, "MON-FRI", "09:00-17:00"), parse(t, "FRI-SAT", "12:00-20:00"))
	for at, want := range map[string]bool{
		"2026-11-19T18:00:00Z": false, "2026-11-20T18:00:00Z": true, "2026-11-20T10:00:00Z": true, "2026-11-21T10:00:00Z": false,
	} {
		instant, err := time.Parse(time.RFC3339, at)
		assert.NoError(t, err)
		if w.Open(instant) != want {
			t.Errorf("open at %s: %v", at, !want)
		}
	}
	if Union() != nil {
		t.Error("hours of no week")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("MON-FRI,SUN", "09:00-17:00")
	f.Add("", "22:00-06:00")
	at := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, days, daily string) {
		w, err := Parse(days, strings.Split(daily, " "))
		if err != nil {
			return
		}
		if opens, ok := w.Next(at); !ok || !w.Open(opens) || opens.Sub(at) > 7*24*time.Hour {
			t.Errorf("%q on %q: %v, %v", daily, days, opens, ok)
		}
	})
}
