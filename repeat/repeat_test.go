package repeat_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/cron"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

// list returns up to n occurrences after an instant.
func list(t *testing.T, spec repeat.Spec, after string, n int) string {
	t.Helper()
	rule, err := repeat.New(spec)
	assert.NoError(t, err)
	var texts []string
	last := at(after)
	for range n {
		o, ok := rule.Next(last)
		for _, x := range o.Excluded {
			texts = append(texts, fmt.Sprintf("(%s by %s)", x.At.Format("01-02 15:04"), x.By))
		}
		if !ok {
			texts = append(texts, "none")
			break
		}
		text := strings.TrimSuffix(o.At.Format("01-02 15:04:05.000Z07:00"), "Z")
		text = strings.Replace(strings.Replace(text, ".000", "", 1), ":00+", "+", 1)
		texts = append(texts, strings.TrimSpace(text+" "+string(o.Change)))
		last = o.At
	}
	return strings.Join(texts, ", ")
}

func TestRules(t *testing.T) {
	for _, row := range []struct {
		name  string
		spec  repeat.Spec
		after string
		want  string
	}{
		{"several expressions, and an instant of two of them",
			repeat.Spec{Cron: []string{"0 9 * * *", "30 17 * * *", "0 */9 * * *"}}, "2026-11-20T01:00:00Z",
			"11-20 09:00:00, 11-20 17:30:00, 11-20 18:00:00, 11-21 00:00:00"},
		{"an expression that a gap moves onto another's instant is one occurrence without an effect",
			repeat.Spec{Cron: []string{"30 2 * * *", "0 3 * * *"}, TimeZone: "Europe/Berlin"}, "2026-03-28T12:00:00Z",
			"03-29 03:00+02:00, 03-30 02:30+02:00, 03-30 03:00+02:00"},
		{"start and end belong to the rule",
			repeat.Spec{Cron: []string{"0 * * * *"}, Start: at("2026-11-20T10:00:00Z"), End: at("2026-11-20T11:00:00Z")},
			"2026-01-01T00:00:00Z", "11-20 10:00:00, 11-20 11:00:00, none"},
		{"an interval from its anchor",
			repeat.Spec{Every: 15 * time.Minute, Anchor: at("2026-11-20T10:05:00Z")}, "2026-11-20T11:00:00Z",
			"11-20 11:05:00, 11-20 11:20:00"},
		{"an interval of 100 ms",
			repeat.Spec{Every: 100 * time.Millisecond, Anchor: at("2026-11-20T10:00:00Z")}, "2026-11-20T09:59:59.95Z",
			"11-20 10:00:00, 11-20 10:00:00.100, 11-20 10:00:00.200"},
		{"an interval is elapsed time",
			repeat.Spec{Every: 24 * time.Hour, Anchor: at("2026-03-28T08:00:00Z"), TimeZone: "Europe/Berlin"},
			"2026-03-28T07:00:00Z", "03-28 09:00+01:00, 03-29 10:00+02:00"},
		{"a date, in the zone",
			repeat.Spec{Cron: []string{"0 23 * * *"}, TimeZone: "America/New_York", Except: []string{"2026-07-04"}},
			"2026-07-04T00:00:00Z", "07-03 23:00:00-04:00, (07-04 23:00 by 2026-07-04), 07-05 23:00:00-04:00"},
		{"a range of dates ends an hourly rule's day at once",
			repeat.Spec{Cron: []string{"0 * * * *"}, Except: []string{"2026-12-24/2026-12-26"}}, "2026-12-23T22:30:00Z",
			"12-23 23:00:00, (12-24 00:00 by 2026-12-24/2026-12-26), 12-27 00:00:00"},
		{"an instant", repeat.Spec{Cron: []string{"0 * * * *"}, Except: []string{"2026-11-20T12:00:00+01:00"}},
			"2026-11-20T10:30:00Z", "(11-20 11:00 by 2026-11-20T12:00:00+01:00), 11-20 12:00:00"},
		{"an expression takes whole minutes",
			repeat.Spec{Cron: []string{"*/20 * * * * *"}, Except: []string{"1 * * * *"}}, "2026-11-20T10:00:30Z",
			"11-20 10:00:40, (11-20 10:01 by 1 * * * *), 11-20 10:02:00"},
		{"an expression takes whole seconds from an interval",
			repeat.Spec{Every: 100 * time.Millisecond, Except: []string{"1 * * * * *"}}, "2026-11-20T10:00:00.9Z",
			"(11-20 10:00 by 1 * * * * *), 11-20 10:00:02"},
		{"nights take an exclusion an hour",
			repeat.Spec{Every: time.Second, Except: []string{"* 22-23 * * *", "* 0-5 * * *"}}, "2026-11-20T21:59:59Z",
			"(11-20 22:00 by * 22-23 * * *), (11-20 23:00 by * 22-23 * * *), (11-21 00:00 by * 0-5 * * *), " +
				"(11-21 01:00 by * 0-5 * * *), (11-21 02:00 by * 0-5 * * *), (11-21 03:00 by * 0-5 * * *), " +
				"(11-21 04:00 by * 0-5 * * *), (11-21 05:00 by * 0-5 * * *), 11-21 06:00:00"},
		{"an hour that comes twice is excluded twice",
			repeat.Spec{Cron: []string{"*/30 * * * *"}, TimeZone: "Europe/Berlin", Except: []string{"* 2 * * *"}},
			"2026-10-24T23:30:00Z", "(10-25 02:00 by * 2 * * *), (10-25 02:00 by * 2 * * *), 10-25 03:00+01:00"},
		{"a clock change back to the day before ends an excluded day",
			repeat.Spec{Cron: []string{"0,30 * * * * *"}, TimeZone: "America/St_Johns",
				Except: []string{"2010-11-07"}}, "2010-11-07T02:29:30Z",
			"(11-07 00:00 by 2010-11-07), 11-06 23:01:00-03:30 second, 11-06 23:01:30-03:30 second"},
		{"a clock change within the excluded hour ends it", // from 00:01 back to 23:01
			repeat.Spec{Cron: []string{"0,30 * * * * *"}, TimeZone: "America/St_Johns",
				Except: []string{"* 0 7 11 *"}}, "2010-11-07T02:29:30Z",
			"(11-07 00:00 by * 0 7 11 *), 11-06 23:01:00-03:30 second, 11-06 23:01:30-03:30 second"},
		{"Friday the thirteenth",
			repeat.Spec{Cron: []string{"0 0 13 * *"}, Except: []string{"* * * * SAT-THU"}}, "2026-08-01T00:00:00Z",
			"(08-13 00:00 by * * * * SAT-THU), (09-13 00:00 by * * * * SAT-THU), (10-13 00:00 by * * * * SAT-THU), " +
				"11-13 00:00:00"},
		{"a day without midnight", repeat.Spec{Cron: []string{"@hourly"}, TimeZone: "America/Havana",
			Except: []string{"2026-03-07"}}, "2026-03-07T04:30:00Z",
			"(03-07 00:00 by 2026-03-07), 03-08 01:00:00-04:00 gap, 03-08 02:00:00-04:00"},
	} {
		n := strings.Count(row.want, ",") + 1 - strings.Count(row.want, "by")
		assert.Equal(t, list(t, row.spec, row.after, n), row.want, "%s:\n got", row.name)
	}
}

// Exclusions take the instants that their expressions name, in every zone and clock change, and no others. The oracle
// asks about each instant by itself.
func TestExclusionsAgreeWithOracle(t *testing.T) {
	starts := map[string]string{
		"Europe/Berlin": "2026-10-24T21:00:00Z", "Australia/Lord_Howe": "2026-04-04T12:00:00Z",
		"America/St_Johns": "2010-11-06T23:00:00Z", "America/Havana": "2026-03-08T03:00:00Z", "UTC": "2028-12-30T20:00:00Z",
	}
	excepts := []string{
		"* 2 * * *", "* 0-1,23 * * *", "*/7 * * * *", "0 * * * *", "* * 25 10 *", "* 1 * * SUN", "30-45 2 * * *",
		"*/20 * * * * *", "* 5 * * * *", "* * 3 * * *", "* * * * * SUN", "* 3 L * *", "* * * * SAT",
	}
	rapid.Check(t, func(t *rapid.T) {
		spec := repeat.Spec{TimeZone: rapid.SampledFrom(slices.Sorted(maps.Keys(starts))).Draw(t, "zone")}
		begin := at(starts[spec.TimeZone])
		if rapid.Bool().Draw(t, "interval") {
			spec.Every = time.Duration(rapid.Int64Range(5000, 900_000).Draw(t, "every")) * time.Millisecond
			spec.Anchor = begin
		} else {
			spec.Cron = []string{rapid.SampledFrom([]string{"* * * * *", "*/7 * * * * *", "30 2 * * *"}).Draw(t, "cron")}
		}
		all, end := newRule(t, spec), begin.Add(12*time.Hour)
		spec.Except = rapid.SliceOfN(rapid.SampledFrom(excepts), 1, 3).Draw(t, "except")
		rule, last := newRule(t, spec), begin
		next, ok := rule.Next(last)
		for o, some := all.Next(begin); some && o.At.Before(end); o, some = all.Next(o.At) {
			excluded := slices.ContainsFunc(spec.Except, func(text string) bool { return names(t, text, o.At) })
			listed := slices.ContainsFunc(next.Excluded, func(x repeat.Exclusion) bool {
				return o.At.Equal(x.At) || o.At.After(x.At) && o.At.Before(x.Until)
			})
			if taken := !ok || !next.At.Equal(o.At); taken != excluded || listed != excluded {
				t.Fatalf("%v: excluded %v, listed %v, want %v", o.At, taken, listed, excluded)
			}
			if !excluded {
				next, ok = rule.Next(o.At)
			}
		}
	})
}

// names reports whether an exclusion names the wall-clock time at an instant.
func names(t *rapid.T, text string, at time.Time) bool {
	e, err := cron.Parse(text)
	assert.NoError(t, err)
	second := at.Second()
	if !e.HasSeconds() {
		second = 0
	}
	wall := time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), second, 0, time.UTC)
	f, ok := e.Next(wall.Add(-time.Second), time.UTC)
	return ok && f.At.Equal(wall)
}

// A rule whose exclusions take everything ends, and soon.
func TestEverythingIsExcluded(t *testing.T) {
	rule, err := repeat.New(repeat.Spec{Cron: []string{"* * * * * *"}, Except: []string{"*/2 * * * *", "1-59/2 * * * *"}})
	assert.NoError(t, err)
	if o, ok := rule.Next(at("2026-11-20T10:00:00Z")); ok || len(o.Excluded) != repeat.MaxExcluded {
		t.Errorf("%v after %d exclusions", o.At, len(o.Excluded))
	}
}

// An interval has instants before its anchor, and start bounds it.
func TestIntervalReachesBeforeItsAnchor(t *testing.T) {
	for _, row := range []struct {
		spec  repeat.Spec
		after string
		want  string
	}{
		{repeat.Spec{Every: time.Hour, Anchor: at("2026-11-20T12:30:00Z")}, "2026-11-20T10:00:00Z",
			"11-20 10:30:00, 11-20 11:30:00, 11-20 12:30:00, 11-20 13:30:00"},
		{repeat.Spec{Every: time.Hour, Anchor: at("2026-11-20T12:30:00Z")}, "2026-11-20T10:30:00Z",
			"11-20 11:30:00, 11-20 12:30:00, 11-20 13:30:00, 11-20 14:30:00"},
		{repeat.Spec{Every: time.Hour, Anchor: at("2026-11-20T12:30:00Z"), Start: at("2026-11-20T11:30:00Z")},
			"2026-11-01T00:00:00Z", "11-20 11:30:00, 11-20 12:30:00, 11-20 13:30:00, 11-20 14:30:00"},
		{repeat.Spec{Every: 7 * 24 * time.Hour, Anchor: at("2126-11-20T12:30:00Z")}, "1969-12-24T00:00:00Z",
			"12-24 12:30:00, 12-31 12:30:00, 01-07 12:30:00, 01-14 12:30:00"},
	} {
		assert.Equal(t, list(t, row.spec, row.after, 4), row.want, "%+v after %s", row.spec, row.after)
	}
}

// closedForGood is a calendar that never opens again after an instant.
type closedForGood struct{ last time.Time }

func (c closedForGood) Opens(t time.Time) (time.Time, bool) { return t, !t.After(c.last) }

// A rule whose calendar is closed for good has no further occurrence, and not one in a hundred years.
func TestCalendarClosedForGood(t *testing.T) {
	spec := repeat.Spec{Calendar: repeat.Calendar{Name: "c", Opening: closedForGood{at("2026-11-21T09:00:00Z")}}}
	for _, spec.Cron = range [][]string{{"0 9 * * *"}, nil} {
		if spec.Cron == nil {
			spec.Every, spec.Anchor = 24*time.Hour, at("2026-11-01T09:00:00Z")
		}
		const want = "11-20 09:00:00, 11-21 09:00:00, (11-22 09:00 by calendar c), none"
		assert.Equal(t, list(t, spec, "2026-11-20T00:00:00Z", 9), want, "%+v", spec)
		rule, err := repeat.New(spec)
		assert.NoError(t, err)
		if span, err := rule.Span(at("2026-11-20T00:00:00Z"), at("2226-11-20T00:00:00Z"), 100); err != nil || span.Count != 2 || span.Partial {
			t.Errorf("%+v: %+v, %v", spec, span, err)
		}
	}
}

func TestRefusals(t *testing.T) {
	for want, spec := range map[string]repeat.Spec{
		"cron is absent, and so is every":                {},
		"every and cron are both given":                  {Cron: []string{"@daily"}, Every: time.Hour},
		"every is out of range (limit 100ms":             {Every: 99 * time.Millisecond},
		"anchor belongs to every":                        {Cron: []string{"@daily"}, Anchor: at("2026-11-20T10:00:00Z")},
		`cron[1] is wrong in the hour: "25" is outside`:  {Cron: []string{"@daily", "0 25 * * *"}},
		"cron has too many expressions (limit 16)":       {Cron: make([]string, 17)},
		`cron[0] is wrong: "" has 0 fields`:              {Cron: []string{""}},
		`time_zone is wrong: "europe/berlin" is no time`: {Cron: []string{"@daily"}, TimeZone: "europe/berlin"},
		"(did you mean Europe/Berlin?)":                  {Cron: []string{"@daily"}, TimeZone: "europe/berlin"},
		"end is before start": {Cron: []string{"@daily"}, Start: at("2026-11-20T10:00:00Z"),
			End: at("2026-11-20T09:00:00Z")},
		"count is out of range (limit 1 to 1000000000)": {Cron: []string{"@daily"}, Count: -1},
		"except has too many elements (limit 100)":      {Cron: []string{"@daily"}, Except: make([]string, 101)},
		`except[1] is no exclusion: it must be a date`: {Cron: []string{"@daily"},
			Except: []string{"2026-12-25", "2026-13-25"}},
		`except[0] ends before it begins`: {Cron: []string{"@daily"},
			Except: []string{"2026-12-25/2026-12-24"}},
		`except[0] is wrong in the minute: "x" is no val`: {Cron: []string{"@daily"}, Except: []string{"x * * * *"}},
	} {
		_, err := repeat.New(spec)
		var field *repeat.FieldError
		if !errors.As(err, &field) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
