package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/repeat/cron"
)

// A refusal names the field, the text and the limit.
func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"":                             `"" has 0 fields (5 or 6 fields)`,
		"* * * *":                      `has 4 fields`,
		"0 0 12 * * ? 2026":            "has 7 fields: the year is no field, start and end bound a rule",
		"60 * * * *":                   `minute: "60" is outside of this field (0-59)`,
		"* 24 * * *":                   `hour: "24" is outside of this field (0-23)`,
		"* * 0 * *":                    `day of month: "0" is outside of this field (1-31)`,
		"* * * 13 *":                   `month: "13" is outside of this field (1-12 or JAN-DEC)`,
		"* * * * 8":                    `day of week: "8" is outside of this field (0-7 or SUN-SAT)`,
		"* * * * MONDAY":               `day of week: "MONDAY" is no value of this field`,
		"* * * UNJ *":                  `month: "UNJ" is no value of this field`,
		"*/60 * * * *":                 `minute: "*/60" has a step that this field cannot take (1-59)`,
		"*/0 * * * *":                  `minute: "*/0" has a step`,
		"1- * * * *":                   `minute: "1-" lacks a value`,
		"1,, * * * *":                  `minute: "" lacks a value`,
		"1-2-3 * * * *":                `minute: "1-2-3" is no value`,
		"-1 * * * *":                   `minute: "-1" lacks a value`,
		"? * * * *":                    `minute: "?" is no value`,
		"+5 * * * *":                   `minute: "+5" is no value`,
		"* * 32W * *":                  `day of month: "32W" is no weekday nearest to one day`,
		"0 0 1-5W * *":                 `day of month: "1-5W" is no weekday nearest to one day (1W to 31W, LW)`,
		"0 0 L-31 * *":                 `day of month: "L-31" is no day before the last (L, LW, L-1 to L-30)`,
		"0 0 L3 * *":                   `day of month: "L3" is no day before the last`,
		"0 0 * * L":                    `day of week: "L" names no day of the week, as FRIL does`,
		"0 0 * * FRI#6":                `day of week: "FRI#6" counts weeks that a month has not (#1 to #5)`,
		"0 0 * * 5#0":                  `day of week: "5#0" counts weeks`,
		"0 0 30 2 *":                   `"0 0 30 2 *" never fires`,
		"0 0 31 2,4,6,9,11 *":          `never fires`,
		"0 0 L-30 2,4 *":               `never fires`,
		"@every 5m":                    "an interval stands in every",
		"@reboot":                      "is no known name (@hourly, @daily",
		"TZ=UTC * * * * *":             "the zone stands in time_zone",
		"CRON_TZ=UTC * * * * *":        "the zone stands in time_zone",
		"H H * * *":                    `minute: "H" is no value`,
		strings.Repeat("* ", 200):      "has 400 bytes (256 bytes)",
		"0 0 * * \xff":                 `is no value of this field`,
		"99999999999999999999 * * * *": "is no value of this field",
	} {
		_, err := cron.Parse(text)
		var refusal *cron.Error
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestMacros(t *testing.T) {
	for text, want := range map[string]string{
		"@hourly": "11-20 11:00", "@daily": "11-21 00:00", "@midnight": "11-21 00:00", "@weekly": "11-22 00:00",
		"@monthly": "12-01 00:00", "@yearly": "01-01 00:00", " @Annually ": "01-01 00:00",
	} {
		f, _ := parse(t, text).Next(time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC), time.UTC)
		assert.Equal(t, f.At.Format("01-02 15:04"), want, "%s", text)
	}
}

// Rules that fire rarely fire when they should, also across 2100, which is no leap year.
func TestRareRules(t *testing.T) {
	for _, row := range []struct{ rule, after, want string }{
		{"0 0 29 2 *", "2096-03-01", "2104-02-29"},
		{"0 0 ? 2 1#5", "2072-03-01", "2112-02-29"},
		{"0 0 29W 2 *", "2026-01-01", "2028-02-29"},
		{"0 0 31 12 *", "2026-12-31", "2027-12-31"},
	} {
		from, err := time.Parse(time.DateOnly, row.after)
		assert.NoError(t, err)
		for _, name := range []string{"UTC", "Europe/Berlin"} {
			f, _ := parse(t, row.rule).Next(from, load(t, name))
			assert.Equal(t, f.Wall.Format(time.DateOnly), row.want, "%q after %s in %s", row.rule, row.after, name)
		}
	}
}

// Whatever the parser takes fires after any instant, at an instant that its text, parsed again, names too.
func FuzzParse(f *testing.F) {
	for _, rules := range [][]string{minuteRules, secondRules,
		{"@daily", "0 0 30 2 *", "* * * * * * *", "5#3 L-3W ? , -"}} {
		for _, rule := range rules {
			f.Add(rule, int64(1774746000))
		}
	}
	zone := load(f, "America/New_York")
	f.Fuzz(func(t *testing.T, text string, from int64) {
		e, err := cron.Parse(text)
		if err != nil {
			return
		}
		after := time.Unix(from%(1<<33), 0)
		first, ok := e.Next(after, zone)
		if !ok || !first.At.After(after) {
			t.Fatalf("%q after %s: %v %v", text, after, first, ok)
		}
		again, err := cron.Parse(e.String())
		assert.NoError(t, err)
		if second, _ := again.Next(after, zone); second != first {
			t.Fatalf("%q: %v, and its text %v", text, first, second)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	for _, rule := range []string{"0 9 * * *", "*/5 * * * *", "0 9 * * MON-FRI", "0 0 29 2 *", "0 9 L * *",
		"0 9 15W * *"} {
		for _, name := range []string{"UTC", "Europe/Berlin"} {
			b.Run(strings.ReplaceAll(rule, " ", "_")+"/"+name, func(b *testing.B) {
				e, zone, at := parse(b, rule), load(b, name), time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)
				b.ReportAllocs()
				for b.Loop() {
					f, _ := e.Next(at, zone)
					if at = f.At; at.Year() > 2060 {
						at = at.AddDate(-34, 0, 0)
					}
				}
			})
		}
	}
}

// TestCheckQuartz checks that numbers of days of the week are refused in the form of Quartz alone.
func TestCheckQuartz(t *testing.T) {
	for text, refused := range map[string]bool{
		"0 0 9 ? * 6L": true, "0 0 9 ? * 2-6": true, "0 0 9 ? * MON,6": true, "0 0 9 ? * 6#3": true, "0 0 9 ? 1-6 1/2": true,
		"0 0 9 ? * FRIL": false, "0 0 9 ? * MON-FRI": false, "0 0 9 ? * FRI#3": false, "0 0 9 ? * MON-FRI/2": false,
		"0 0 9 ? * *": false, "0 0 9 ? * */2": false, "0 0 9 * * 6L": false, "0 9 ? * 6L": false, "0 0 9 1 * ?": false,
		"@daily": false, "": false,
	} {
		err := cron.CheckQuartz(text)
		assert.Equal(t, err != nil, refused, "%s: %v", text, err)
		if _, wrong := cron.Parse(text); wrong != nil && refused {
			t.Errorf("%s: %v", text, wrong)
		}
	}
}
