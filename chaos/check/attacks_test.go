package check

import (
	"testing"

	"github.com/belfryhq/belfry/chaos/history"
)

func attacksOn(x *Index) Finding { return Attacks(x.h, limits) }

// attack adds a trial of an attack.
func (s *story) attack(ask string, at int64, status int, text string) {
	s.h.Trials = append(s.h.Trials, history.Trial{
		Ask: ask, Entry: history.NoEntry, Node: "node-1", Status: status, Text: text, Start: ms(at), End: ms(at + 2),
	})
}

// withstood adds each kind of attack, without a breach.
func (s *story) withstood() {
	s.attack(history.AskForged, 10, 404, "")
	s.attack(history.AskForged, 20, 403, "")
	s.fault(history.HalfSent, 30, 50, 50)
	s.attack(history.AskBeside, 40, 200, "")
	s.attack(history.AskAside, 60, 200, "")
	s.attack(history.AskMinority, 70, 503, "")
	s.attack(history.AskNever, 75, 200, "")
	s.attack(history.AskPrinted, 80, 0, "id      a\nlabels  note=a\\x1b[2J state  forged\n")
}

var attackCases = []example{
	{"each attack is withstood", attacksOn, (*story).withstood, ""},
	{"attacks are no calls with a key", apartOf, (*story).withstood, ""},
	{"no answer says nothing", attacksOn, func(s *story) {
		for _, status := range []int{0, 400, 429, 503, 504} {
			s.attack(history.AskForged, 10, status, "")
		}
		s.attack(history.AskMinority, 20, 0, "")
		s.attack(history.AskNever, 20, 503, "")
		s.attack(history.AskPrinted, 30, 0, "no node answers\n")
	}, ""},
	{"a forged receipt settles a lease amid faults", attacksOn, func(s *story) {
		s.fault(history.KillAll, 5, 20, 20)
		s.attack(history.AskForged, 10, 200, "")
	}, `the attack "forged" with 200`},
	{"an answer tells whether the forged lease lives", attacksOn, func(s *story) {
		s.attack(history.AskForged, 10, 409, "")
	}, `"forged" with 409`},
	{"half-sent requests keep a node from its callers", attacksOn, func(s *story) {
		s.fault(history.HalfSent, 30, 50, 50)
		s.attack(history.AskBeside, 40, 0, "")
	}, `"beside" with 0`},
	{"another fault keeps a node from its callers", attacksOn, func(s *story) {
		s.fault(history.HalfSent, 30, 50, 50)
		s.fault("partition", 35, 45, 45)
		s.attack(history.AskBeside, 40, 0, "")
	}, ""},
	{"a damaged file stays", attacksOn, func(s *story) { s.attack(history.AskAside, 10, 404, "") }, `"aside" with 404`},
	{"a node without a majority is ready", attacksOn, func(s *story) {
		s.attack(history.AskMinority, 10, 200, "")
	}, `"minority" with 200`},
	{"a closed calendar opens after a century", attacksOn, func(s *story) {
		s.attack(history.AskNever, 10, 200, "2126-11-30T00:00:00Z")
	}, `"never" with 200 2126-11-30`},
	{"a raw escape is printed", attacksOn, func(s *story) {
		s.attack(history.AskPrinted, 10, 0, "labels  note=a\x1b[2J")
	}, `the attack "printed"`},
	{"a label begins a line", attacksOn, func(s *story) {
		s.attack(history.AskPrinted, 10, 0, "labels  note=a\nstate  forged\n")
	}, `the attack "printed"`},
}

// The check holds only if it saw each kind of attack.
func TestAttacksMustBeSeen(t *testing.T) {
	s := &story{}
	if f := Attacks(&s.h, limits); f.Outcome() != NotExercised || len(f.Missing()) != 6 {
		t.Errorf("an empty history: %s, without %q", f.Outcome(), f.Missing())
	}
	s.withstood()
	if f := Attacks(&s.h, limits); f.Outcome() != Held {
		t.Errorf("%s, without %q: %v", f.Outcome(), f.Missing(), f.Breaches)
	}
}
