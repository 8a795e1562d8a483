package check

import "github.com/belfryhq/belfry/chaos/history"

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
