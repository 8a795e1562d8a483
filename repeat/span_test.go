package repeat_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/repeat"
)

func newRule(t interface {
	Helper()
	Fatal(args ...any)
}, spec repeat.Spec) *repeat.Rule {
	t.Helper()
	rule, err := repeat.New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

func TestSpans(t *testing.T) {
	const from = "2026-11-20T10:00:00Z"
	for _, row := range []struct {
		name    string
		spec    repeat.Spec
		through string
		most    int64
		want    string
	}{
		{"a month of every 100 ms", repeat.Spec{Every: 100 * time.Millisecond}, "2026-12-20T10:00:00Z", 1 << 40,
			"25920000: 11-20 10:00:00.1 to 12-20 10:00:00"},
		{"the first ones of them", repeat.Spec{Every: 100 * time.Millisecond}, "2026-12-20T10:00:00Z", 1000,
			"1000: 11-20 10:00:00.1 to 11-20 10:01:40"},
		{"an interval up to its end", repeat.Spec{Every: time.Hour, End: at("2026-11-20T12:30:00Z")}, "2026-12-20T10:00:00Z",
			100, "2: 11-20 11:00:00 to 11-20 12:00:00"},
		{"an interval from its start", repeat.Spec{Every: time.Hour, Start: at("2026-11-20T12:00:00Z")},
			"2026-11-20T13:00:00Z", 100, "2: 11-20 12:00:00 to 11-20 13:00:00"},
		{"an interval before its anchor", repeat.Spec{Every: time.Hour, Anchor: at("2026-11-20T12:30:00Z")},
			"2026-11-20T13:30:00Z", 100, "4: 11-20 10:30:00 to 11-20 13:30:00"},
		{"an interval, and none", repeat.Spec{Every: time.Hour}, "2026-11-20T10:59:59Z", 100, "0"},
		{"no instants are wanted", repeat.Spec{Every: time.Hour}, "2026-11-20T12:00:00Z", 0, "0"},
		{"an interval without a day", repeat.Spec{Every: time.Minute, Except: []string{"2026-11-21"}},
			"2026-11-22T00:00:00Z", 1 << 40, "840: 11-20 10:01:00 to 11-22 00:00:00"},
		{"expressions", repeat.Spec{Cron: []string{"0 9 * * *", "30 9 * * *"}, TimeZone: "Europe/Berlin"},
			"2026-11-23T08:00:00Z", 1 << 40, "5: 11-21 09:00:00 to 11-23 09:00:00"},
		{"two days of every second", repeat.Spec{Cron: []string{"* * * * * *"}}, "2026-11-22T10:00:00Z", 1 << 40,
			"10000: 11-20 10:00:01 to 11-20 12:46:40, and more"},
		{"as many seconds as one call counts", repeat.Spec{Cron: []string{"* * * * * *"}}, "2026-11-22T10:00:00Z", 10_000,
			"10000: 11-20 10:00:01 to 11-20 12:46:40"},
		{"nights of a dense interval", repeat.Spec{Every: 100 * time.Millisecond, Except: []string{"2-59 10 * * *", "* 11-19 * * *"}},
			"2026-11-20T20:00:01Z", 1 << 40, "1210: 11-20 10:00:00.1 to 11-20 20:00:01"},
	} {
		s, err := newRule(t, row.spec).Span(at(from), at(row.through), row.most)
		got := fmt.Sprint(s.Count)
		if s.Count > 0 {
			got += fmt.Sprintf(": %s to %s", s.First.Format("01-02 15:04:05.999"), s.Last.Format("01-02 15:04:05.999"))
		}
		if s.Partial {
			got += ", and more"
		}
		if got != row.want || err != nil {
			t.Errorf("%s:\n got %s, %v\nwant %s", row.name, got, err, row.want)
		}
	}
}

// threeDays excludes each second of the first three days of December by itself, and has as many exclusions as a rule may
// have.
func threeDays() []string {
	excepts := []string{"0-29 * * 1-3 12 *", "30-59 * * 1-3 12 *"}
	for i := range repeat.MaxExcepts - len(excepts) {
		excepts = append(excepts, fmt.Sprintf("%d %d 29 2 *", i%60, i%24))
	}
	return excepts
}

// A search ends among exclusions after a bounded effort, and tells the instant up to which there is nothing.
func TestSearchEndsAmongExclusions(t *testing.T) {
	rule := newRule(t, repeat.Spec{Every: time.Second, Except: threeDays()})
	through := at("2027-02-01T00:00:00Z")
	s := rule.Search().Span(at("2026-11-30T23:50:00Z"), through, 1<<40)
	if s.Count != 599 || !s.Partial || !s.Through.After(s.Last) || s.Through.After(at("2026-12-01T01:00:00Z")) {
		t.Errorf("%+v", s)
	}
	_, err := rule.Span(s.Last, through, 1)
	if err == nil || !strings.Contains(err.Error(), "exclusions take away all instants up to 2026-12-01T00:33:1") {
		t.Errorf("no occurrence, and the error %v", err)
	}
	searches := 0
	for after := s.Through; ; searches++ {
		s = rule.Search().Span(after, through, 1)
		if after = s.Through; !s.Partial {
			break
		}
	}
	if first := at("2026-12-04T00:00:00Z"); !s.First.Equal(first) || searches != (3*86400-1401)/2000 {
		t.Errorf("%v after %d searches, want %v", s.First, searches, first)
	}
}

// The calls of one search share its effort.
func TestSearchHasOneEffort(t *testing.T) {
	search := newRule(t, repeat.Spec{Cron: []string{"* * * * * *"}}).Search()
	for after, n := at("2026-11-20T10:00:00Z"), 0; ; n++ {
		s := search.Span(after, after.Add(time.Hour), 1)
		if s.Partial {
			if n != 10_000 || s.Count != 0 || !s.Through.Equal(after) {
				t.Errorf("%+v after %d calls", s, n)
			}
			return
		}
		after = s.Last
	}
}

// Span agrees with repeated calls of Next.
func TestSpanAgreesWithNext(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := at("2026-10-24T00:00:00Z")
		minutes := func(name string) time.Time {
			return from.Add(time.Duration(rapid.Int64Range(0, 4*1440*60_000).Draw(t, name)) * time.Millisecond)
		}
		spec := repeat.Spec{TimeZone: "Europe/Berlin"}
		if rapid.Bool().Draw(t, "interval") {
			spec.Every = time.Duration(rapid.Int64Range(60_000, 40_000_000).Draw(t, "every")) * time.Millisecond
			spec.Anchor = minutes("anchor")
		} else {
			spec.Cron = rapid.SliceOfN(rapid.SampledFrom([]string{"30 2 * * *", "*/20 * * * *", "0 9 * * MON-FRI"}), 1, 2).
				Draw(t, "cron")
		}
		if rapid.Bool().Draw(t, "bounded") {
			spec.Start = minutes("start")
			spec.End = spec.Start.Add(time.Duration(rapid.Int64Range(0, 90).Draw(t, "hours")) * time.Hour)
		}
		spec.Except = rapid.SliceOfN(rapid.SampledFrom([]string{"2026-10-25", "* 9-12 * * *", "* * * * MON"}), 0, 2).
			Draw(t, "except")
		after, through, most := minutes("after"), minutes("through"), rapid.Int64Range(0, 300).Draw(t, "most")
		rule := newRule(t, spec)
		var want repeat.Span
		for last := after; want.Count < most; last = want.Last {
			o, ok := rule.Next(last)
			if !ok || o.At.After(through) {
				break
			}
			if want.Count++; want.Count == 1 {
				want.First = o.At
			}
			want.Last = o.At
		}
		got, err := rule.Span(after, through, most)
		if err != nil || got.Count != want.Count || !got.First.Equal(want.First) || !got.Last.Equal(want.Last) {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	})
}
