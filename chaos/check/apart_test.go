package check

import (
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

const other = "other"

func apartOf(x *Index) Finding { return Apart(x.h, limits) }

// key adds an entry of an API key that was made, and perhaps ended. The call that ended it began 20 ms before.
func (s *story) key(id string, made, ended int64) {
	e := history.Entry{Kind: history.OfKeys, ID: id, Namespace: other, Role: "read", Made: ms(made)}
	if ended > 0 {
		e.Ending, e.Ended = ms(ended-20), ms(ended)
	}
	s.h.Entries = append(s.h.Entries, e)
}

// try adds a call with the text of the entry that was added last.
func (s *story) try(ask string, at int64, status int) {
	entry := len(s.h.Entries) - 1
	if ask == history.AskNothing {
		entry = history.NoEntry
	}
	s.h.Trials = append(s.h.Trials, history.Trial{
		Ask: ask, Entry: entry, Node: "node-1", Status: status, Start: ms(at), End: ms(at + 2),
	})
}

func (s *story) list(kind string, at int64, ids ...string) {
	s.h.Rolls = append(s.h.Rolls, history.Roll{Kind: kind, Node: "node-1", IDs: ids, Start: ms(at), End: ms(at + 2)})
}

// everything adds each kind of case that invariant 15 needs, without a breach.
func (s *story) everything() {
	c := s.schedule("a", 0, 100)
	c.Namespace = other
	s.arrive("a", 101, 100, c.Op).Namespace = other
	s.h.Rolls = append(s.h.Rolls, history.Roll{Kind: history.OfTasks, Namespace: other, Wrote: []int64{c.Op}})
	s.key("k1", 0, 0)
	s.fault(history.KillLeader, 50, 60, 70)
	s.list(history.OfKeys, 20_000, "k1")
	s.try(history.AskOwn, 20_000, 200)
	s.key("k2", 0, 20_000)
	s.try(history.AskOwn, 21_500, 401)
	s.try(history.AskNothing, 60, 401)
	s.try(history.AskForeign, 60, 404)
	s.try(history.AskBeyond, 60, 403)
}

var apartCases = []example{
	{"everything is refused that must be", apartOf, (*story).everything, ""},
	{"no answer says nothing", apartOf, func(s *story) {
		for _, ask := range []string{history.AskNothing, history.AskForeign, history.AskBeyond} {
			s.key("k", 0, 0)
			for _, status := range []int{0, 401, 429, 503, 504} {
				s.try(ask, 60, status)
			}
		}
	}, ""},
	{"an answer shows a task of another namespace", apartOf, func(s *story) {
		c := s.schedule("a", 0, 100)
		c.Namespace = other
		s.get("a", 20, "scheduled", 1, c.Op)
	}, `an answer in namespace "" shows the payload of operation 1 in namespace "other"`},
	{"an arrival shows a task of another namespace", apartOf, func(s *story) {
		c := s.schedule("a", 0, 100)
		s.arrive("a", 101, 100, c.Op).Namespace = other
	}, `an arrival in namespace "other"`},
	{"a list shows a task of another namespace", apartOf, func(s *story) {
		c := s.schedule("a", 0, 100)
		s.h.Rolls = append(s.h.Rolls, history.Roll{Kind: history.OfTasks, Node: "node-2", Namespace: other, Wrote: []int64{c.Op}})
	}, `a list of node-2 in namespace "other"`},
	{"a call without a key passes amid faults", apartOf, func(s *story) {
		s.fault(history.KillAll, 50, 60, 70)
		s.try(history.AskNothing, 80, 200)
	}, `asks for "nothing" with 200`},
	{"a key reaches another namespace", apartOf, func(s *story) {
		s.key("k", 0, 0)
		s.try(history.AskForeign, 60, 200)
	}, `asks for "foreign" with 200`},
	{"an answer tells that another namespace exists", apartOf, func(s *story) {
		s.key("k", 0, 0)
		s.try(history.AskForeign, 60, 403)
	}, `asks for "foreign" with 403`},
	{"a key does more than its role", apartOf, func(s *story) {
		s.key("k", 0, 0)
		s.try(history.AskBeyond, 60, 201)
	}, `asks for "beyond" with 201`},
	{"a revoked key is let in within a second", apartOf, func(s *story) {
		s.key("k", 0, 20_000)
		s.try(history.AskOwn, 20_990, 200)
	}, ""},
	{"a revoked key is let in after a second", apartOf, func(s *story) {
		s.key("k", 0, 20_000)
		s.try(history.AskOwn, 21_010, 200)
	}, "node-1 let key k in, 1.01s after it had ended"},
	{"a revoked key is let in by a node that a fault struck", apartOf, func(s *story) {
		s.key("k", 0, 20_000)
		s.fault(history.PauseLeader, 20_100, 21_200, 21_200)
		s.try(history.AskOwn, 21_210, 200)
		s.try(history.AskOwn, 26_900, 200)
	}, ""},
	{"a revoked key is let in long after a fault", apartOf, func(s *story) {
		s.key("k", 0, 20_000)
		s.fault(history.PauseLeader, 20_100, 21_200, 21_200)
		s.try(history.AskOwn, 27_300, 200)
	}, "let key k in"},
	{"a key is refused while it is revoked", apartOf, func(s *story) {
		s.key("k", 0, 20_000)
		s.try(history.AskOwn, 19_990, 401)
	}, ""},
	{"a live key is refused", apartOf, func(s *story) {
		s.key("k", 0, 0)
		s.try(history.AskOwn, 1010, 401)
	}, "node-1 refused key k with 401"},
	{"a live key is not known yet", apartOf, func(s *story) {
		s.key("k", 0, 0)
		s.try(history.AskOwn, 900, 401)
	}, ""},
	{"an acknowledged key is lost", apartOf, func(s *story) {
		s.key("k", 0, 0)
		s.fault(history.KillAll, 50, 60, 70)
		s.list(history.OfKeys, 20_000)
	}, "lists the keys without k"},
	{"an acknowledged namespace is lost", apartOf, func(s *story) {
		s.h.Entries = append(s.h.Entries, history.Entry{Kind: history.OfNamespaces, ID: "n", Made: ms(0)})
		s.list(history.OfNamespaces, 20_000, "default")
	}, "lists the namespaces without n"},
	{"a revoked key is listed", apartOf, func(s *story) {
		s.key("k", 0, 10_000)
		s.list(history.OfKeys, 20_000, "k")
	}, "lists k among the keys, which had ended"},
	{"a rotated key is listed", apartOf, func(s *story) {
		s.key("k", 0, 10_000)
		s.h.Entries[0].Rotated = true
		s.key("k", 10_000, 0)
		s.list(history.OfKeys, 20_000, "k")
	}, ""},
}

// The check holds only if it saw each kind of case.
func TestApartMustBeExercised(t *testing.T) {
	s := &story{}
	if f := Apart(&s.h, limits); f.Outcome() != NotExercised || len(f.Missing()) != 7 {
		t.Errorf("an empty history: %s, without %q", f.Outcome(), f.Missing())
	}
	s.everything()
	if f := Apart(&s.h, limits); f.Outcome() != Held {
		t.Errorf("%s, without %q: %v", f.Outcome(), f.Missing(), f.Breaches)
	}
}

// An invariant holds beside another namespace only if both put it to the test.
func TestFindingsBesideEachOther(t *testing.T) {
	seen, idle := Finding{Invariant: "1"}, Finding{Invariant: "1"}
	seen.Observe(3, "cases")
	idle.Observe(0, "cases")
	for _, pair := range [][2]Finding{{seen, idle}, {idle, seen}} {
		if got := pair[0].Beside(pair[1]); got.Outcome() != NotExercised {
			t.Errorf("one without cases: %s", got.Outcome())
		}
	}
	if got := seen.Beside(seen); got.Outcome() != Held || got.Observed[0].Count != 6 {
		t.Errorf("both with cases: %+v", got)
	}
	broken := seen
	broken.breach(1, "a", "it is gone")
	if got := seen.Beside(broken.In(other)); got.Outcome() != Breached || got.Breaches[0].Namespace != other {
		t.Errorf("%+v", got)
	}
}

// A spell has the calls that began in it and the first attempts that were due in it.
func TestSpell(t *testing.T) {
	s := &story{}
	s.schedule("before", 0, 900)
	s.arrive("before", 950, 900, 1)
	c := s.schedule("in", 1000, 1100)
	s.arrive("in", 1103, 1100, c.Op)
	s.arrive("in", 1500, 1100, c.Op) // again
	s.batched("line", 1200, 9000)
	s.scheduleAs("not", 1300, 1400, 9000, history.Unknown)
	got := SpellOf(&s.h, ms(1000), ms(2000))
	if got.Scheduled != 2 || got.Calls.Count != 1 || got.Failed != 1 || got.Late.Count != 1 ||
		got.Late.Max != 3*time.Millisecond || got.PerSecond() != 2 {
		t.Errorf("%+v", got)
	}
}
