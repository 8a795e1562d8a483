package recur_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/shard/recur"
)

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

func ms(text string) int64 { return at(text).UnixMilli() }

// least is a randomness that always returns the least number.
func least(int64) int64 { return 0 }

// most is a randomness that always returns the greatest number.
func most(n int64) int64 { return n - 1 }

// text writes a command as "passed …; next …; complete". layout is that of the instants.
func text(x *fsmpb.ExtendSeries, layout string) string {
	if x == nil {
		return "none"
	}
	show := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(layout) }
	var parts []string
	for _, p := range x.Passed {
		reason := strings.ToLower(strings.TrimPrefix(p.Passed.String(), "PASSED_"))
		parts = append(parts, fmt.Sprintf("%d %s from %s", p.Count, reason, show(p.ScheduledMs)))
	}
	if x.PassedToMs != 0 {
		parts = append(parts, "to "+show(x.PassedToMs))
	}
	for i, n := range x.Next {
		if i == 3 && len(x.Next) > 8 {
			parts = append(parts, fmt.Sprintf("%d in all", len(x.Next)))
			break
		}
		one := show(n.ScheduledMs)
		if n.FireMs != n.ScheduledMs {
			one += " fires " + show(n.FireMs)
		}
		parts = append(parts, one)
	}
	if x.Complete {
		parts = append(parts, "complete")
	}
	return strings.Join(parts, ", ")
}

func extend(t *testing.T, s *fsmpb.Series, now time.Time, random func(int64) int64) *fsmpb.ExtendSeries {
	t.Helper()
	x, err := recur.Extension(s, recur.Calendar{}, now, random)
	assert.NoError(t, err)
	return x
}

func every(d time.Duration) *fsmpb.Repeat {
	return &fsmpb.Repeat{EveryMs: d.Milliseconds(), AnchorMs: proto.Int64(0)}
}

// instants returns coming occurrences without jitter.
func instants(texts ...string) (list []*fsmpb.Instant) {
	for _, text := range texts {
		list = append(list, &fsmpb.Instant{ScheduledMs: ms(text), FireMs: ms(text)})
	}
	return list
}

func TestComing(t *testing.T) {
	const now = "2026-11-20T10:00:00Z"
	after := ms(now)
	counted := func(r *fsmpb.Repeat, n int64) *fsmpb.Repeat {
		r.Count = n
		return r
	}
	for _, row := range []struct {
		name   string
		series *fsmpb.Series
		want   string
	}{
		{"the first two", &fsmpb.Series{Repeat: every(time.Hour), AfterMs: after}, "11:00:00, 12:00:00"},
		{"one more", &fsmpb.Series{Repeat: every(time.Hour), Next: instants("2026-11-20T11:00:00Z")}, "12:00:00"},
		{"at least one more", &fsmpb.Series{Repeat: every(time.Hour),
			Next: instants("2026-11-20T11:00:00Z", "2026-11-20T12:00:00Z")}, "13:00:00"},
		{"ten seconds", &fsmpb.Series{Repeat: every(time.Second), AfterMs: after}, "10:00:01, 10:00:02, 10:00:03, 10 in all"},
		{"at most 64", &fsmpb.Series{Repeat: every(100 * time.Millisecond), AfterMs: after},
			"10:00:00.1, 10:00:00.2, 10:00:00.3, 64 in all"},
		{"an anchor that is not at the hour",
			&fsmpb.Series{Repeat: &fsmpb.Repeat{EveryMs: 60_000, AnchorMs: proto.Int64(after + 30_000)}, AfterMs: after},
			"10:00:30, 10:01:30"},
		{"the end of the rule", &fsmpb.Series{Repeat: &fsmpb.Repeat{Cron: []string{"0 * * * *"},
			EndMs: proto.Int64(ms("2026-11-20T11:59:59Z"))}, AfterMs: after}, "11:00:00, complete"},
		{"the rule has ended", &fsmpb.Series{Repeat: &fsmpb.Repeat{Cron: []string{"0 * * * *"}, EndMs: &after},
			AfterMs: after}, "complete"},
		{"the last two of the count", &fsmpb.Series{Repeat: counted(every(time.Hour), 9), Ruled: 7, AfterMs: after},
			"11:00:00, 12:00:00, complete"},
		{"the coming ones belong to the count", &fsmpb.Series{Repeat: counted(every(time.Hour), 9), Ruled: 7,
			Next: instants("2026-11-20T11:00:00Z")}, "12:00:00, complete"},
		{"a count that was made smaller", &fsmpb.Series{Repeat: counted(every(time.Hour), 5), Ruled: 7, AfterMs: after},
			"complete"},
		{"a time zone", &fsmpb.Series{Repeat: &fsmpb.Repeat{Cron: []string{"0 18 * * *"}, TimeZone: "Asia/Tokyo"},
			AfterMs: ms("2026-11-20T08:00:00Z")}, "09:00:00, 09:00:00"},
		{"a start", &fsmpb.Series{Repeat: &fsmpb.Repeat{Cron: []string{"30 * * * *"},
			StartMs: proto.Int64(ms("2026-11-20T12:00:00Z"))}, AfterMs: after}, "12:30:00, 13:30:00"},
		{"an exclusion", &fsmpb.Series{Repeat: &fsmpb.Repeat{Cron: []string{"0 * * * *"}, Except: []string{"* 12 * * *"}},
			AfterMs: after}, "11:00:00, 13:00:00"},
		{"paused", &fsmpb.Series{Repeat: every(time.Hour), AfterMs: after, Paused: true}, "none"},
		{"complete", &fsmpb.Series{Repeat: every(time.Hour), AfterMs: after, Complete: true}, "none"},
	} {
		assert.Equal(t, text(extend(t, row.series, at(now), least), "15:04:05.999"), row.want, "%s:\n got", row.name)
	}
}

// A command names the settings and the occurrence that it goes on from.
func TestCommandNamesItsBasis(t *testing.T) {
	now := ms("2026-11-20T10:00:00Z")
	s := &fsmpb.Series{Repeat: every(time.Hour), Version: 77, AfterMs: now - 1000}
	if x := extend(t, s, time.UnixMilli(now), least); x.Version != 77 || x.FromMs != now-1000 {
		t.Errorf("version %d from %d", x.Version, x.FromMs)
	}
	s.Next = instants("2026-11-20T11:00:00Z")
	x := extend(t, s, time.UnixMilli(now), least)
	assert.Equal(t, x.FromMs, ms("2026-11-20T11:00:00Z"), "with a coming occurrence: from")
}

func TestClockChanges(t *testing.T) {
	for _, row := range []struct{ cron, after, want string }{
		{"30 2 * * *", "2026-03-28T00:00:00Z", "03-28 01:30, 03-29 01:00"},
		{"30 2 * * *", "2026-10-24T12:00:00Z", "10-25 00:30, 10-26 01:30"},
		{"0 * * * *", "2026-10-24T23:30:00Z", "10-25 00:00, 10-25 01:00"},
	} {
		s := &fsmpb.Series{Repeat: &fsmpb.Repeat{Cron: []string{row.cron}, TimeZone: "Europe/Berlin"}, AfterMs: ms(row.after)}
		assert.Equal(t, text(extend(t, s, at(row.after), least), "01-02 15:04"), row.want, "%s after %s", row.cron, row.after)
	}
}

func TestJitter(t *testing.T) {
	now := "2026-11-20T10:00:00Z"
	repeat := every(time.Hour)
	repeat.JitterMs = (2 * time.Hour).Milliseconds()
	draws := []int64{7_200_000, 60_000}
	scripted := func(n int64) int64 {
		if n != 7_200_001 {
			t.Errorf("a number below %d is drawn", n)
		}
		next := draws[0]
		draws = draws[1:]
		return next
	}
	s := &fsmpb.Series{Repeat: repeat, AfterMs: ms(now)}
	const want = "11:00:00 fires 13:00:00, 12:00:00 fires 13:00:00"
	if got := text(extend(t, s, at(now), scripted), "15:04:05"); got != want {
		t.Errorf("no occurrence fires before its predecessor:\n got %s\nwant %s", got, want)
	}
	s.Next = []*fsmpb.Instant{{ScheduledMs: ms("2026-11-20T11:00:00Z"), FireMs: ms("2026-11-20T12:30:00Z")}}
	if got := text(extend(t, s, at(now), least), "15:04:05"); got != "12:00:00 fires 12:30:00" {
		t.Errorf("an added occurrence is before the present last one: %s", got)
	}
	s = &fsmpb.Series{Repeat: repeat, AfterMs: ms("2026-11-20T08:30:00Z")}
	if got := text(extend(t, s, at("2026-11-20T10:50:00Z"), least), "15:04:05"); got !=
		"09:00:00 fires 10:50:00, 10:00:00 fires 10:50:00, 11:00:00" {
		t.Errorf("an occurrence within its jitter is not missed: %s", got)
	}
	if got := text(extend(t, s, at("2026-11-20T11:00:06Z"), most), "15:04:05"); got !=
		"09:00:00 fires 11:00:00, 10:00:00 fires 12:00:00" {
		t.Errorf("one past its jitter is missed, and due at the end of it: %s", got)
	}
}

func TestMissed(t *testing.T) {
	const now = "2026-11-20T10:00:00Z"
	const (
		latest = fsmpb.Misfire_MISFIRE_LATEST
		all    = fsmpb.Misfire_MISFIRE_ALL
		skip   = fsmpb.Misfire_MISFIRE_SKIP
	)
	for _, row := range []struct {
		name    string
		misfire fsmpb.Misfire
		window  time.Duration
		every   time.Duration
		after   string
		count   int64
		want    string
	}{
		{"latest", latest, 0, 7 * time.Minute, "2026-11-20T09:20:00Z", 0,
			"4 coalesced from 09:27:00, to 09:48:00, 09:55:00, 10:02:00"},
		{"latest, one missed", latest, 0, time.Hour, "2026-11-20T08:59:00Z", 0,
			"09:00:00, 10:00:00, 11:00:00"},
		{"exactly as late as may be", latest, 0, 5 * time.Second, "2026-11-20T09:59:45Z", 0,
			"09:59:50, 09:59:55, 10:00:00, 10:00:05, 10:00:10"},
		{"all", all, 0, 7 * time.Minute, "2026-11-20T09:20:00Z", 0,
			"09:27:00, 09:34:00, 09:41:00, 09:48:00, 09:55:00, 10:02:00"},
		{"the last thousand, of which 64 at once", all, 0, time.Second, "2026-11-20T09:30:00Z", 0,
			"794 missed from 09:30:01, to 09:43:14, 09:43:15, 09:43:16, 09:43:17, 64 in all"},
		{"skip", skip, 0, 7 * time.Minute, "2026-11-20T09:20:00Z", 0,
			"5 missed from 09:27:00, to 09:55:00, 10:02:00, 10:09:00"},
		{"latest in a window", latest, 20 * time.Minute, 7 * time.Minute, "2026-11-20T09:20:00Z", 0,
			"2 missed from 09:27:00, 2 coalesced from 09:41:00, to 09:48:00, 09:55:00, 10:02:00"},
		{"all in a window", all, 20 * time.Minute, 7 * time.Minute, "2026-11-20T09:20:00Z", 0,
			"2 missed from 09:27:00, to 09:34:00, 09:41:00, 09:48:00, 09:55:00, 10:02:00"},
		{"all outside of a window", latest, time.Second, 7 * time.Minute, "2026-11-20T09:20:00Z", 0,
			"5 missed from 09:27:00, to 09:55:00, 10:02:00, 10:09:00"},
		{"a count that ends among the missed ones", latest, 0, 7 * time.Minute, "2026-11-20T09:20:00Z", 3,
			"2 coalesced from 09:27:00, to 09:34:00, 09:41:00, complete"},
		{"a count that is skipped to its end", skip, 0, 7 * time.Minute, "2026-11-20T09:20:00Z", 3,
			"3 missed from 09:27:00, to 09:41:00, complete"},
		{"a month of every 100 ms, latest", latest, 0, 100 * time.Millisecond, "2026-10-21T10:00:00Z", 0,
			"25919948 coalesced from 10:00:00.1, to 09:59:54.8, 09:59:54.9, 09:59:55, 09:59:55.1, 64 in all"},
		{"a month of every 100 ms, all", all, 0, 100 * time.Millisecond, "2026-10-21T10:00:00Z", 0,
			"25918949 missed from 10:00:00.1, to 09:58:14.9, 09:58:15, 09:58:15.1, 09:58:15.2, 64 in all"},
		{"a month of every 100 ms, skip", skip, 0, 100 * time.Millisecond, "2026-10-21T10:00:00Z", 0,
			"25919949 missed from 10:00:00.1, to 09:59:54.9, 09:59:55, 09:59:55.1, 09:59:55.2, 64 in all"},
	} {
		repeat := &fsmpb.Repeat{EveryMs: row.every.Milliseconds(), AnchorMs: proto.Int64(ms(row.after)), Count: row.count}
		if row.every >= time.Hour {
			repeat.AnchorMs = proto.Int64(0)
		}
		s := &fsmpb.Series{Repeat: repeat, Misfire: row.misfire, MisfireWindowMs: row.window.Milliseconds(),
			AfterMs: ms(row.after)}
		assert.Equal(t, text(extend(t, s, at(now), least), "15:04:05.999"), row.want, "%s:\n got", row.name)
	}
}

// The missed occurrences of an expression are counted one by one, and each command passes some of them.
func TestDenseExpression(t *testing.T) {
	const latest, all, skip = fsmpb.Misfire_MISFIRE_LATEST, fsmpb.Misfire_MISFIRE_ALL, fsmpb.Misfire_MISFIRE_SKIP
	for _, row := range []struct {
		misfire   fsmpb.Misfire
		now, want string
	}{
		{latest, "2026-11-22T10:00:00Z", "9999 coalesced from 10:00:01, to 12:46:39"},
		{all, "2026-11-22T10:00:00Z", "9000 missed from 10:00:01, to 12:30:00"},
		{skip, "2026-11-22T10:00:00Z", "10000 missed from 10:00:01, to 12:46:40"},
		{latest, "2026-11-20T12:46:45Z", "9998 coalesced from 10:00:01, to 12:46:38, 12:46:39, 12:46:40, 12:46:41, 17 in all"},
		{all, "2026-11-20T12:30:06Z", "8000 missed from 10:00:01, to 12:13:20, 12:13:21, 12:13:22, 12:13:23, 64 in all"},
	} {
		s := &fsmpb.Series{Repeat: &fsmpb.Repeat{Cron: []string{"* * * * * *"}}, Misfire: row.misfire,
			AfterMs: ms("2026-11-20T10:00:00Z")}
		assert.Equal(t, text(extend(t, s, at(row.now), least), "15:04:05"), row.want, "%v at %s:\n got", row.misfire, row.now)
	}
}

// sparse returns a rule of every second whose exclusions take each second of some days of December away by itself. A
// search of it examines 2,000 seconds.
func sparse(days string) *fsmpb.Repeat {
	r := every(time.Second)
	r.Except = []string{"0-29 * * " + days + " 12 *", "30-59 * * " + days + " 12 *"}
	for i := range 98 {
		r.Except = append(r.Except, fmt.Sprintf("%d %d 29 2 *", i%60, i%24))
	}
	return r
}

// apply changes a schedule as the state machine does.
func apply(s *fsmpb.Series, x *fsmpb.ExtendSeries) {
	if x.PassedToMs != 0 {
		s.AfterMs = x.PassedToMs
	}
	for _, p := range x.Passed {
		s.Ruled += p.Count
	}
	s.Next, s.Complete = append(s.Next, x.Next...), x.Complete
}

// Commands without occurrences go through a long time that exclusions take away, and find what follows it.
func TestLongExclusions(t *testing.T) {
	for _, misfire := range []fsmpb.Misfire{
		fsmpb.Misfire_MISFIRE_LATEST, fsmpb.Misfire_MISFIRE_ALL, fsmpb.Misfire_MISFIRE_SKIP,
	} {
		for _, now := range []string{"2026-12-01T00:00:01Z", "2026-12-04T00:00:01Z"} {
			s := &fsmpb.Series{Repeat: sparse("1-3"), AfterMs: ms("2026-11-30T23:59:59Z"), Misfire: misfire}
			commands := 0
			for ; len(s.Next) == 0; commands++ {
				x := extend(t, s, at(now), least)
				if len(x.Next) == 0 && x.PassedToMs <= s.AfterMs || x.Complete || len(x.Passed) > 0 {
					t.Fatalf("%v at %s: command %v after %d", misfire, now, x, s.AfterMs)
				}
				apply(s, x)
			}
			if s.Next[0].ScheduledMs != ms("2026-12-04T00:00:00Z") || commands != 3*86400/2000+1 {
				t.Errorf("%v at %s: next %v after %d commands", misfire, now, s.Next[0], commands)
			}
		}
	}
}

// A schedule whose coming occurrences precede a long exclusion waits until they are over: a command would have no effect.
func TestComingOnesPrecedeLongExclusions(t *testing.T) {
	s := &fsmpb.Series{Repeat: sparse("1"), AfterMs: ms("2026-11-30T23:59:57Z")}
	now := at("2026-11-30T23:59:57Z")
	x := extend(t, s, now, least)
	assert.MustEqual(t, text(x, "15:04:05"), "23:59:58, 23:59:59")
	apply(s, x)
	if x := extend(t, s, now, least); x != nil {
		t.Errorf("behind the coming ones: %v", x)
	}
	s.Next, s.AfterMs = nil, s.Next[1].ScheduledMs
	if x := extend(t, s, now, least); text(x, "01-02 15:04:05") != "to 12-01 00:33:19" {
		t.Errorf("after them: %v", text(x, "01-02 15:04:05"))
	}
}

// Missed occurrences before a long exclusion run as if they were the last ones, since a search does not reach those
// behind it.
func TestMissedOnesPrecedeLongExclusions(t *testing.T) {
	s := &fsmpb.Series{Repeat: sparse("1"), AfterMs: ms("2026-11-30T23:59:49Z")}
	now := at("2026-12-02T00:00:10Z")
	assert.Equal(t, text(extend(t, s, now, least), "15:04:05"), "9 coalesced from 23:59:50, to 23:59:58")
	s.AfterMs = ms("2026-11-30T23:59:58Z")
	assert.Equal(t, text(extend(t, s, now, least), "15:04:05"), "23:59:59")
}

// A rule whose exclusions take everything away for 100 years has ended. Each command goes on for many years.
func TestNothingForAHundredYears(t *testing.T) {
	now := at("2026-11-20T10:00:00Z")
	s := &fsmpb.Series{Repeat: every(100 * time.Millisecond), AfterMs: now.UnixMilli()}
	s.Repeat.Except = []string{"* 0-11 * * *", "* 12-23 * * *"}
	commands := 0
	for ; !s.Complete && commands < 1000; commands++ {
		apply(s, extend(t, s, now, least))
	}
	if limit := at("2127-03-01T00:00:00Z"); !s.Complete || commands > 110 || s.AfterMs > limit.UnixMilli() {
		t.Errorf("complete %v after %d commands, up to %v", s.Complete, commands, time.UnixMilli(s.AfterMs))
	}
}

// The horizon of 100 years begins at the start, or at the last coming occurrence. An interval reaches before its anchor.
func TestDistantOccurrences(t *testing.T) {
	start := ms("2190-01-01T00:00:00Z")
	year := 365 * 24 * time.Hour
	for _, row := range []struct {
		repeat *fsmpb.Repeat
		want   string
	}{
		{&fsmpb.Repeat{Cron: []string{"@daily"}, StartMs: &start}, "2190-01-01, 2190-01-02"},
		{&fsmpb.Repeat{EveryMs: year.Milliseconds(), AnchorMs: &start}, "2027-02-10, 2028-02-10"},
		{every(100 * year), "2069-12-07, 2169-11-13"},
	} {
		s := &fsmpb.Series{Repeat: row.repeat, AfterMs: ms("2026-11-20T10:00:00Z")}
		assert.Equal(t, text(extend(t, s, at("2026-11-20T10:00:00Z"), least), time.DateOnly), row.want)
	}
}

// An ExtendSeries makes the state machine run what it has not dropped yet. So the leader waits for the next Advance.
func TestMissedOnesAreDroppedFirst(t *testing.T) {
	now := at("2026-11-20T10:00:00Z")
	limit := task.MissedAfter.Milliseconds()
	s := &fsmpb.Series{Repeat: every(time.Hour), Next: instants("2026-11-20T09:00:00Z")}
	if x := extend(t, s, now, least); x != nil {
		t.Errorf("a missed occurrence is not dropped: %v", x)
	}
	s.JudgedMs = s.Next[0].FireMs + limit
	if x := extend(t, s, now, least); x != nil {
		t.Errorf("an occurrence was given in time, and is missed now: %v", x)
	}
	s.JudgedMs++
	x := extend(t, s, now, least)
	assert.Equal(t, text(x, "15:04"), "10:00, 11:00", "an occurrence runs late by the policy, and the next ones")
	s.Repeat = every(time.Minute)
	if x := extend(t, s, now, least); x != nil {
		t.Errorf("missed occurrences are added without a look at the policy: %v", x)
	}
}

func TestErrors(t *testing.T) {
	now := at("2026-11-20T10:00:00Z")
	s := &fsmpb.Series{Repeat: &fsmpb.Repeat{Cron: []string{"@daily"}, TimeZone: "Mars/Olympus"}, AfterMs: now.UnixMilli()}
	x, err := recur.Extension(s, recur.Calendar{}, now, least)
	if x != nil || err == nil || !strings.HasPrefix(err.Error(), "time_zone is wrong") {
		t.Errorf("got %v, %v", x, err)
	}
}

func BenchmarkExtension(b *testing.B) {
	now := at("2026-11-20T10:00:00Z")
	for name, repeat := range map[string]*fsmpb.Repeat{
		"every":  every(time.Hour),
		"cron":   {Cron: []string{"30 2 * * *"}, TimeZone: "Europe/Berlin"},
		"dense":  {Cron: []string{"* * * * * *"}, TimeZone: "Europe/Berlin"},
		"sparse": sparse("1-31"),
	} {
		s := &fsmpb.Series{Repeat: repeat, AfterMs: now.UnixMilli()}
		switch name {
		case "dense":
			s.AfterMs = ms("2026-10-20T10:00:00Z")
		case "sparse":
			s.AfterMs = ms("2026-11-30T23:59:59Z")
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := recur.Extension(s, recur.Calendar{}, now, least)
				assert.NoError(b, err)
			}
		})
	}
}
