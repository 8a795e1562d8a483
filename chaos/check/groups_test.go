package check

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// inGroup adds an acknowledged task of the group "g", scheduled at 0.
func (s *story) inGroup(id string, due int64) {
	s.schedule(id, 0, due).Ask.Group = "g"
}

// turn adds an attempt of the task that operation op scheduled. Its receiver held it for some time.
func (s *story) turn(id string, at, due, op, held int64) *history.Arrival {
	a := s.arrive(id, at, due, op)
	a.Group, a.Held = "g", time.Duration(held)*time.Millisecond
	return a
}

// inTurn adds three tasks of a group, of which the first two come one after the other. The second one needs two
// attempts, and a fault strikes between them.
func (s *story) inTurn() {
	s.inGroup("a", 1000)
	s.inGroup("b", 1100)
	s.inGroup("c", 1200)
	s.turn("a", 1000, 1000, 1, 300)
	s.turn("b", 1310, 1100, 2, 100).Answer = 500
	s.fault(history.KillLeader, 1450, 1500, 2000)
	s.turn("b", 1900, 1100, 2, 50).Attempt = 2
}

var groupCases = []example{
	{"one after the other", Groups, func(s *story) {
		s.inTurn()
		s.turn("c", 1960, 1200, 3, 10)
	}, ""},
	{"of a task that no recorded call scheduled", Groups, func(s *story) {
		s.turn("a", 1000, 1000, 9, 10)
	}, ""},
	{"amid an attempt", Groups, func(s *story) {
		s.inTurn()
		s.turn("c", 1940, 1200, 3, 10)
	}, "came 10ms before the end of b"},
	{"between two attempts", Groups, func(s *story) {
		s.inTurn()
		s.turn("c", 1500, 1200, 3, 10)
	}, "before the end of b"},
	{"of another group", Groups, func(s *story) {
		s.inTurn()
		s.schedule("d", 0, 1300).Ask.Group = "h"
		s.turn("d", 1320, 1300, 4, 10).Group = "h"
	}, ""},
	{"under a wrong name", Groups, func(s *story) {
		s.inTurn()
		s.turn("c", 1960, 1200, 3, 10).Group = ""
	}, `came in the group "", and was given "g"`},
	{"an earlier one last", Groups, func(s *story) {
		s.inGroup("a", 1000)
		s.inGroup("b", 900)
		s.turn("a", 1000, 1000, 1, 10)
		s.turn("b", 1020, 900, 2, 10)
	}, "came before b"},
	{"an earlier one that was scheduled late", Groups, func(s *story) {
		s.inGroup("a", 1000)
		s.schedule("b", 950, 990).Ask.Group = "g"
		s.turn("a", 1000, 1000, 1, 10)
		s.turn("b", 1020, 990, 2, 10)
	}, ""},
	{"again, after a change of leader", Groups, func(s *story) {
		s.inGroup("a", 1000)
		s.inGroup("b", 1100)
		s.turn("a", 1000, 1000, 1, 900)
		s.turn("a", 1300, 1000, 1, 10)
		s.turn("b", 1320, 1100, 2, 10)
	}, ""},
}
