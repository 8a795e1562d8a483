package recur_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/repeat"
	"github.com/belfryhq/belfry/repeat/series"
	"github.com/belfryhq/belfry/shard/recur"
)

// Whatever the rule, the policy and the absences of a leader: the numbers of a schedule's occurrences are those of the
// rule's instants, without gap or repeat.
func TestEachInstantHasOneNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := at(rapid.SampledFrom([]string{"2026-03-28T20:00:00Z", "2026-10-24T20:00:00Z"}).Draw(t, "begin"))
		s := drawSeries(t, begin)
		m := &machine{series: s, rule: newRule(t, s.Repeat), now: begin, last: begin}
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			m.pass(t, drawPause(t))
			if rapid.IntRange(0, 3).Draw(t, "leader") > 0 {
				m.extend(t, random.Int64N)
			}
		}
		for range 3 { // a leader stays until nothing is left to do at this instant
			m.settle(t, random.Int64N)
			m.pass(t, time.Millisecond)
		}
		if s.Misfire == fsmpb.Misfire_MISFIRE_SKIP && m.late > 0 {
			t.Fatalf("%d occurrences ran late", m.late)
		}
		rest := m.count(m.now.Add(-task.MissedAfter-time.Duration(s.Repeat.JitterMs)*time.Millisecond), m.left())
		if rest.Count > 0 {
			t.Fatalf("%d instants have no number, the first is %v", rest.Count, rest.First)
		}
		if s.Complete && len(s.Next) == 0 {
			if end := m.count(at("2200-01-01T00:00:00Z"), min(1, m.left())); end.Count > 0 {
				t.Fatalf("the schedule is complete before %v", end.First)
			}
		}
	})
}

func drawSeries(t *rapid.T, begin time.Time) *fsmpb.Series {
	offset := func(name string) *int64 {
		return proto.Int64(begin.UnixMilli() + rapid.Int64Range(-5000, 30*3600_000).Draw(t, name))
	}
	r := &fsmpb.Repeat{TimeZone: rapid.SampledFrom([]string{"", "Europe/Berlin"}).Draw(t, "zone")}
	if rapid.Bool().Draw(t, "interval") {
		r.EveryMs = rapid.SampledFrom([]int64{100, 1000, 7777, 60_000, 3600_000}).Draw(t, "every")
		r.AnchorMs = offset("anchor")
	} else {
		r.Cron = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"30 2 * * *", "*/20 * * * *", "* * * * * *", "0 1 * * *"}),
			1, 2, func(s string) string { return s }).Draw(t, "cron")
	}
	r.Except = rapid.SampledFrom([][]string{
		nil, {"2026-10-25"}, {"* 3-4 * * *"}, {"0-29 * 1-6 * * *", "30-59 * 1-6 * * *"}, // the last ones take many searches
	}).Draw(t, "except")
	switch rapid.IntRange(0, 2).Draw(t, "bound") {
	case 1:
		r.Count = rapid.Int64Range(1, 3000).Draw(t, "count")
	case 2:
		r.StartMs = offset("start")
		r.EndMs = proto.Int64(*r.StartMs + rapid.Int64Range(0, 20*3600_000).Draw(t, "length"))
	}
	r.JitterMs = rapid.SampledFrom([]int64{0, 0, 500, 60_000}).Draw(t, "jitter")
	return &fsmpb.Series{
		Repeat: r, Version: 1, AfterMs: begin.UnixMilli(),
		Misfire:         fsmpb.Misfire(rapid.IntRange(0, 2).Draw(t, "misfire")),
		MisfireWindowMs: rapid.SampledFrom([]int64{0, 0, 1000, 60_000, 3600_000}).Draw(t, "window"),
	}
}

func drawPause(t *rapid.T) time.Duration {
	most := rapid.SampledFrom([]int64{100, 1500, 5500, 90_000, 5 * 3600_000}).Draw(t, "scale")
	return time.Duration(rapid.Int64Range(1, most).Draw(t, "pause")) * time.Millisecond
}

func newRule(t *rapid.T, r *fsmpb.Repeat) *repeat.Rule {
	rule, err := series.RuleOf(r, nil)
	assert.NoError(t, err)
	return rule
}

// machine is a model of the state machine with one schedule. It checks that its occurrences are the rule's.
type machine struct {
	series *fsmpb.Series
	rule   *repeat.Rule
	now    time.Time
	last   time.Time // instant of the last occurrence
	ended  int64     // number of occurrences
	late   int       // occurrences that ran though they were missed
}

// pass lets time pass, and takes the occurrences that are due. It drops the coming ones when it meets one that was
// missed and not judged.
func (m *machine) pass(t *rapid.T, d time.Duration) {
	m.now = m.now.Add(d)
	limit := task.MissedAfter.Milliseconds()
	for s := m.series; len(s.Next) > 0 && s.Next[0].FireMs <= m.now.UnixMilli(); {
		first := s.Next[0]
		missed := first.FireMs < m.now.UnixMilli()-limit
		if missed && first.FireMs >= s.JudgedMs-limit {
			s.Next, s.Complete = nil, false
			return
		}
		if missed && first.FireMs < s.JudgedMs-limit {
			m.late++
		}
		m.take(t, 1, first.ScheduledMs)
		s.Next, s.AfterMs = s.Next[1:], first.ScheduledMs
		s.Ruled++
	}
}

// take gives numbers to consecutive occurrences.
func (m *machine) take(t *rapid.T, n, first int64) {
	span := m.count(time.UnixMilli(1<<53), n)
	if span.Count != n || span.First.UnixMilli() != first {
		t.Fatalf("%d occurrences from %v follow %v, want %+v", n, time.UnixMilli(first).UTC(), m.last, span)
	}
	m.last, m.ended = span.Last, m.ended+n
	if c := m.rule.Count(); c > 0 && m.ended > c {
		t.Fatalf("%d occurrences of %d", m.ended, c)
	}
}

// count counts the rule's instants behind the last occurrence, in as many searches as it takes.
func (m *machine) count(through time.Time, most int64) repeat.Span {
	all := m.rule.Search().Span(m.last, through, most)
	for all.Partial {
		more := m.rule.Search().Span(all.Through, through, most-all.Count)
		if all.Count == 0 {
			all.First = more.First
		}
		if more.Count > 0 {
			all.Last = more.Last
		}
		all.Count, all.Partial, all.Through = all.Count+more.Count, more.Partial, more.Through
	}
	return all
}

func (m *machine) left() int64 {
	if m.rule.Count() == 0 {
		return 1 << 50
	}
	return m.rule.Count() - m.ended
}

// extend applies one command of a leader, if the leader has one.
func (m *machine) extend(t *rapid.T, random func(int64) int64) bool {
	s := m.series
	x, err := recur.Extension(s, recur.Calendar{}, m.now, random)
	assert.NoError(t, err)
	if x == nil {
		return false
	}
	if len(x.Passed)+len(x.Next) == 0 && !x.Complete {
		if len(s.Next) > 0 || x.PassedToMs <= s.AfterMs {
			t.Fatal("a command has no effect")
		}
		s.AfterMs = x.PassedToMs
	}
	if len(x.Passed) > 0 && len(s.Next) > 0 {
		t.Fatal("occurrences are passed behind those that come")
	}
	for _, p := range x.Passed {
		m.take(t, int64(p.Count), p.ScheduledMs)
		s.Ruled += p.Count
		s.AfterMs = x.PassedToMs
	}
	if s.AfterMs != m.last.UnixMilli() && len(x.Passed) > 0 {
		t.Fatalf("passed to %d, and the last one is %v", x.PassedToMs, m.last)
	}
	s.Next = append(s.Next, x.Next...)
	s.Complete, s.JudgedMs = x.Complete, m.now.UnixMilli()
	m.checkNext(t)
	return true
}

func (m *machine) checkNext(t *rapid.T) {
	next := m.series.Next
	if len(next) > recur.MaxNext {
		t.Fatalf("%d coming occurrences", len(next))
	}
	for i, n := range next {
		if i > 0 && (n.ScheduledMs <= next[i-1].ScheduledMs || n.FireMs < next[i-1].FireMs) || n.FireMs < n.ScheduledMs ||
			n.FireMs > n.ScheduledMs+m.series.Repeat.JitterMs {
			t.Fatalf("coming occurrence %d is %v, after %v", i, n, next[:i])
		}
	}
}

// settle alternates between the leader's commands and due occurrences until there are no more.
func (m *machine) settle(t *rapid.T, random func(int64) int64) {
	const rounds = 10_000
	for range rounds {
		before, ended := len(m.series.Next), m.ended
		extended := m.extend(t, random)
		m.pass(t, 0)
		if !extended && before == len(m.series.Next) && ended == m.ended {
			return
		}
		if last := m.series.Next; len(last) > 0 && last[len(last)-1].FireMs > m.now.Add(time.Minute).UnixMilli() {
			return
		}
	}
	t.Fatalf("no end after %d rounds", rounds)
}
