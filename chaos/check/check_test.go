package check

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/belfryhq/belfry/chaos/history"
)

var limits = DefaultLimits()

func limited(f func(*Index, Limits) Finding) func(*Index) Finding {
	return func(x *Index) Finding { return f(x, limits) }
}

// example is a history that keeps an invariant, or breaks it with a breach that contains want.
type example struct {
	name  string
	check func(*Index) Finding
	tell  func(s *story)
	want  string // empty: the history is good
}

// cases are the examples of all checks, good and bad histories of each.
var cases = slices.Concat(taskCases, faultCases, leaseCases, clockCases, gossipCases, shapeCases, apartCases,
	scheduleCases, groupCases, pathCases, attackCases, followedCases)

func TestChecks(t *testing.T) {
	for _, tt := range cases {
		s := &story{}
		tt.tell(s)
		f := tt.check(NewIndex(&s.h))
		t.Run(f.Invariant+" "+tt.name, func(t *testing.T) {
			var breaches []string
			for _, b := range f.Breaches {
				breaches = append(breaches, b.What)
			}
			switch all := strings.Join(breaches, "; "); {
			case tt.want == "" && all != "":
				t.Errorf("refused: %s", all)
			case !strings.Contains(all, tt.want):
				t.Errorf("said %q, want %q", all, tt.want)
			}
		})
	}
}

// TestEveryCheckIsShownBoth checks that the examples hold a good and a bad history for every invariant.
func TestEveryCheckIsShownBoth(t *testing.T) {
	type coverage struct{ green, red bool }
	examples := map[string]coverage{}
	for _, tt := range cases {
		s := &story{}
		f := tt.check(NewIndex(&s.h))
		b := examples[f.Invariant]
		b.green, b.red = b.green || tt.want == "", b.red || tt.want != ""
		examples[f.Invariant] = b
	}
	for _, f := range All(NewIndex(&history.History{}), limits) {
		if b := examples[f.Invariant]; !b.green || !b.red {
			t.Errorf("invariant %s is not shown both a good and a bad history", f.Invariant)
		}
	}
}

// A try without an answer may happen again at any time once the task may have forgotten its key.
func TestForgottenKey(t *testing.T) {
	s := &story{}
	first := *s.scheduleAs("a", 0, 3, 100, history.Unknown)
	again := history.Call{Op: first.Op, Kind: first.Kind, ID: "a", Ask: first.Ask}
	s.call(again, 4, 6, history.OK, history.Answer{Revision: 5, Wrote: 1})
	s.cancel("a", 10, "cancelled")
	s.arrive("a", 101, 100, 1)
	if f := Cancelled(NewIndex(&s.h)); !f.Broken() {
		t.Error("a call whose key is remembered cannot happen twice")
	}
	s.schedule("a", 20, 5000)
	s.cancel("a", 30, "cancelled")
	if f := Cancelled(NewIndex(&s.h)); f.Broken() {
		t.Errorf("a call whose key may be forgotten may happen twice: %v", f.Breaches)
	}
}

// The calls of one batch all happen, and a retry of the first one happens again after the others took its key's place.
func TestForgottenKeyOfABatch(t *testing.T) {
	s := &story{}
	first := *s.scheduleAs("a", 0, 3, 100, history.Unknown)
	fire := history.Call{Kind: history.Fire, ID: "a"}
	fires := []history.Call{*s.call(fire, 0, 3, history.Unknown, history.Answer{}),
		*s.call(fire, 0, 3, history.Unknown, history.Answer{})}
	s.arrive("a", 101, 100, 1)
	again := history.Call{Op: first.Op, Kind: first.Kind, ID: "a", Ask: first.Ask}
	s.call(again, 200, 201, history.OK, history.Answer{Revision: 50, Wrote: 1})
	s.arrive("a", 202, 100, 1).WebhookID = "another"
	for i, f := range fires {
		s.call(history.Call{Op: f.Op, Kind: f.Kind, ID: "a"}, 210, 211, history.OK, history.Answer{Revision: uint64(20 + i)})
	}
	if f := OneBody(NewIndex(&s.h)); f.Broken() {
		t.Errorf("%v", f.Breaches)
	}
}

// An operation whose tries were all unanswered may also have happened twice.
func TestForgottenKeyOfUnansweredTries(t *testing.T) {
	for others := range 3 {
		s := &story{}
		first := *s.scheduleAs("a", 0, 3, 100, history.Unknown)
		for i := range others {
			s.call(history.Call{Kind: history.Cancel, ID: "a"}, 1+int64(i), 3, history.Unknown, history.Answer{})
		}
		again := history.Call{Op: first.Op, Kind: first.Kind, ID: "a", Ask: first.Ask}
		s.call(again, 50, 53, history.Unknown, history.Answer{})
		s.arrive("a", 101, 100, 1)
		s.arrive("a", 202, 100, 1).WebhookID = "another"
		if f := OneBody(NewIndex(&s.h)); f.Broken() == (others >= remembered) {
			t.Errorf("beside %d others: %v", others, f.Breaches)
		}
	}
}

func TestLateness(t *testing.T) {
	s := &story{}
	for i := range int64(100) {
		c := s.schedule("a", i, 1000)
		s.arrive("a", 1000+i, 1000, c.Op)
	}
	c := s.schedule("b", 1500, 100) // due before its schedule was answered
	s.arrive("b", 1507, 100, c.Op)
	s.fault(history.KillAll, 2000, 3000, 4000)
	c = s.schedule("c", 1600, 2500)
	s.arrive("c", 4500, 2500, c.Op)
	want := map[string]string{
		history.KillAll + ", pushed": "1, p50 2s, p99 2s, max 2s",
		Calm + ", pushed":            "101, p50 49.3ms, p99 98.6ms, max 99ms",
		Calm + ", calls":             "102, p50 5ms, p99 5ms, max 5ms",
	}
	got := map[string]string{}
	for _, toll := range Tolls(NewIndex(&s.h)) {
		for name, spread := range map[string]Spread{"pushed": toll.Late, "pulled": toll.Pulled, "calls": toll.Calls} {
			if spread.Count > 0 {
				got[toll.Kind+", "+name] = spread.String()
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTimeline(t *testing.T) {
	s := &story{}
	s.schedule("a", 0, 100)
	s.schedule("b", 0, 100)
	s.fault(history.KillLeader, 50, 60, 70)
	s.arrive("a", 101, 100, 1)
	x := NewIndex(&s.h)
	all := x.Timeline("a", ms(50), 10)
	if len(all) != 3 || !strings.HasPrefix(all[0], "0.0000  operation 1: schedule via node-1") ||
		!strings.Contains(all[1], "FAULT") || !strings.Contains(all[2], "ARRIVED w1") {
		t.Errorf("%q", all)
	}
	if cut := x.Timeline("a", ms(101), 1); len(cut) != 1 || !strings.Contains(cut[0], "ARRIVED") {
		t.Errorf("%q", cut)
	}
	if none := x.Timeline("", 0, 5); len(none) != 0 {
		t.Errorf("%q", none)
	}
}

// TestPlannedMovesAreToldApart checks that arrivals and schedule calls during planned changes count apart, and those
// beside another fault do not.
func TestPlannedMovesAreToldApart(t *testing.T) {
	s := &story{}
	c := s.schedule("a", 10_000, 1000)
	s.arrive("a", 11_050, 11_000, c.Op)
	c = s.schedule("b", 50_000, 1000)
	s.arrive("b", 51_300, 51_000, c.Op)
	s.fault("node joins", 9_900, 12_000, 12_000)
	s.fault("node joins", 49_900, 52_000, 52_000)
	for i := range s.h.Faults {
		s.h.Faults[i].Planned = true
	}
	s.fault(history.KillLeader, 50_900, 51_500, 51_500)
	late := map[string]int{}
	for _, toll := range Tolls(NewIndex(&s.h)) {
		late[toll.Kind] = toll.Late.Count
		if toll.Kind == PlannedAlone && toll.Calls.Count != 2 {
			t.Errorf("%+v", toll)
		}
	}
	if want := map[string]int{PlannedAlone: 1, "node joins": 2, history.KillLeader: 1}; !maps.Equal(late, want) {
		t.Errorf("late arrivals %v, want %v", late, want)
	}
}

// onePath adds a path that fails from 1 s to 13 s, an attempt at it, and a task due at another path.
func (s *story) onePath(due, arrives int64) {
	s.schedule("bad", 0, 100)
	s.arrive("bad", 2_000, 100, 1).Path = "/1"
	s.schedule("good", 10, due)
	s.arrive("good", arrives, due, 2).Path = "/2"
	s.fault(history.OnePath, 1_000, 13_000, 13_010)
	s.h.Faults[len(s.h.Faults)-1].Path = "/1"
}

var pathCases = []example{
	{"on time", limited(Paths), func(s *story) { s.onePath(8_000, 8_900) }, ""},
	{"late", limited(Paths), func(s *story) { s.onePath(8_000, 9_100) }, "at /2 came 1.1s late"},
	{"late until the path was mended", limited(Paths), func(s *story) { s.onePath(12_000, 14_000) }, "2s late"},
	{"due in the first seconds", limited(Paths), func(s *story) { s.onePath(5_900, 7_500) }, ""},
	{"due after the path was mended", limited(Paths), func(s *story) { s.onePath(13_500, 15_000) }, ""},
	{"late beside a fault that came after", limited(Paths), func(s *story) {
		s.onePath(12_500, 16_000)
		s.fault("slow disk", 13_500, 15_000, 15_010)
	}, ""},
	{"late beside another fault", limited(Paths), func(s *story) {
		s.onePath(8_000, 12_000)
		s.fault("slow disk", 1_500, 13_000, 13_010)
	}, ""},
}
