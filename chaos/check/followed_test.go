package check

import "github.com/belfryhq/belfry/chaos/history"

// followed adds an acknowledged task with follow-ups, scheduled at 0, which is delivered at 1900 behind a fault.
func (s *story) followed(id string) {
	s.schedule(id, 0, 1000).Ask.Follow = true
	s.fault(history.KillLeader, 1200, 1500, 1700)
	s.arrive(id, 1900, 1000, s.op)
}

// follow adds an attempt of the follow-up of a task that operation op scheduled.
func (s *story) follow(id, end string, at, op int64) *history.Arrival {
	a := *s.arrive(id+"@"+end, at, at, op)
	s.h.Arrivals = s.h.Arrivals[:len(s.h.Arrivals)-1]
	s.h.FollowUps = append(s.h.FollowUps, a)
	return &s.h.FollowUps[len(s.h.FollowUps)-1]
}

var followedCases = []example{
	{"behind its task", Followed, func(s *story) {
		s.followed("a")
		s.follow("a", "delivered", 1910, 1)
	}, ""},
	{"in two attempts", Followed, func(s *story) {
		s.followed("a")
		s.follow("a", "delivered", 1910, 1)
		s.follow("a", "delivered", 2910, 1)
	}, ""},
	{"none", Followed, func(s *story) { s.followed("a") }, "no follow-up came"},
	{"of the other end", Followed, func(s *story) {
		s.followed("a")
		s.follow("a", "dead", 1910, 1)
	}, "no follow-up came"},
	{"twice", Followed, func(s *story) {
		s.followed("a")
		s.follow("a", "delivered", 1910, 1)
		s.follow("a", "delivered", 2910, 1).WebhookID = "msg_other"
	}, "webhook-ids"},
	{"of another task", Followed, func(s *story) {
		s.followed("a")
		s.follow("a", "delivered", 1910, 7)
	}, "payload of operation 7"},
	{"before its task", Followed, func(s *story) {
		s.followed("a")
		s.follow("a", "delivered", 1890, 1)
	}, "before the first accepted attempt"},
	{"none of a cancelled task", Followed, func(s *story) {
		s.followed("a")
		s.cancel("a", 1895, "stopped")
	}, ""},
}
