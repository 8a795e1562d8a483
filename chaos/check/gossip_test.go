package check

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// delayed adds a schedule with a delay, answered with the given status.
func (s *story) delayed(node string, start int64, status int) {
	c := history.Call{Kind: history.Schedule, ID: "a", Node: node, Ask: history.Ask{Delay: time.Minute, Body: body(s.op + 1)}}
	if status == created {
		s.call(c, start, start+5, history.OK, history.Answer{Revision: uint64(start) + 1, Wrote: s.op + 1})
		return
	}
	s.call(c, start, start+5, history.Failed, history.Answer{Status: status})
}

// refusedFor adds a schedule with a delay every 100 ms, all answered 503.
func (s *story) refusedFor(node string, from, to int64) {
	for at := from; at <= to; at += 100 {
		s.delayed(node, at, unavailable)
	}
}

var gossipCases = []example{
	{"refused for as long as a failover takes", limited(Hints), func(s *story) {
		s.fault(history.ForgedGossip, 0, 5000, 5000)
		s.refusedFor("node-1", 1000, 2400)
		s.delayed("node-1", 2500, created)
		s.refusedFor("node-1", 2600, 4000)
	}, ""},
	{"refused for longer than a failover takes", limited(Hints), func(s *story) {
		s.fault(history.ForgedGossip, 0, 5000, 5000)
		s.refusedFor("node-1", 1000, 2600)
	}, "node-1 has taken no calls about shard 0 (schedule, with a delay: true) for 1.6s"},
	{"refused by one node, though the others do not", limited(Hints), func(s *story) {
		s.fault(history.SilentGossip, 0, 5000, 5000)
		for at := int64(1000); at <= 3000; at += 100 {
			s.delayed("node-1", at, unavailable)
			s.delayed("node-2", at, created)
		}
	}, "node-1 has taken no calls"},
	{"refused calls with a delay, though others are taken", limited(Hints), func(s *story) {
		s.fault(history.SilentGossip, 0, 5000, 5000)
		for at := int64(1000); at <= 3000; at += 100 {
			s.delayed("node-1", at, unavailable)
			s.schedule("a", at, 90000)
		}
	}, "with a delay: true"},
	{"unanswered for longer than a failover takes", limited(Hints), func(s *story) {
		s.fault(history.SilentGossip, 0, 5000, 5000)
		for at := int64(1000); at <= 2600; at += 100 {
			s.delayed("node-1", at, 0)
		}
	}, "node-1 has taken no calls"},
	{"refused for a reason of its own", limited(Hints), func(s *story) {
		s.fault(history.SilentGossip, 0, 5000, 5000)
		for at := int64(1000); at <= 2600; at += 100 {
			s.delayed("node-1", at, conflict)
		}
	}, ""},
	{"refused long after gossip was whole again", limited(Hints), func(s *story) {
		s.fault(history.ForgedGossip, 0, 1000, 1000)
		s.refusedFor("node-1", 60000, 61700)
	}, "node-1 has taken no calls"},
	{"refused while more was broken", limited(Hints), func(s *story) {
		s.fault(history.ForgedGossip, 0, 5000, 5000)
		s.fault(history.PauseLeader, 900, 2700, 2700)
		s.refusedFor("node-1", 1000, 2600)
	}, ""},
	{"refused before gossip was broken", limited(Hints), func(s *story) {
		s.fault(history.ForgedGossip, 3000, 5000, 5000)
		s.refusedFor("node-1", 1000, 2600)
	}, ""},
}
