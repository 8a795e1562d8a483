package linear

import (
	"testing"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// rule is a rule of the model, with a history that keeps it, and a similar history that breaks it.
type rule struct {
	name      string
	good, bad func(s *story)
}

func TestRules(t *testing.T) {
	for _, r := range append(append(readRules(), changeRules()...), append(attemptRules(), repeatRules()...)...) {
		t.Run(r.name, func(t *testing.T) {
			if f := find(r.good); f != "" {
				t.Errorf("the good one: %s", f)
			}
			if f := find(r.bad); f == "" {
				t.Error("the bad one is found linearizable")
			}
		})
	}
}

// find returns the first breach of a story with its history. It returns an empty string if the story is linearizable.
func find(tell func(s *story)) string {
	var s story
	tell(&s)
	r := Check(&s.h, tight())
	if r.Undecided > 0 {
		return "not decided"
	}
	if !r.Finding.Broken() {
		return ""
	}
	return r.Finding.Breaches[0].What + "\n" + describeAll(&s.h)
}

func readRules() []rule {
	return []rule{
		{"a read shows the last change",
			func(s *story) { s.schedule(0, 1, 900); s.patch(10, 2, 800, 1); s.get(20, task(2, 800, 1)) },
			func(s *story) { s.schedule(0, 1, 900); s.patch(10, 2, 800, 1); s.get(20, task(1, 900, 1)) },
		},
		{"of two that overlap either may be first",
			func(s *story) { s.schedule(0, 1, 900); until(s.patch(10, 2, 800, 1), 30); s.get(20, task(1, 900, 1)) },
			func(s *story) {
				s.schedule(0, 1, 900)
				until(s.patch(10, 2, 800, 1), 30)
				s.get(20, task(2, 800, 1))
				s.get(25, task(1, 900, 1))
			}},
		{"what is shown together belongs together", func(s *story) {
			s.schedule(0, 1, 900)
			s.schedule(10, 2, 800).Answer.Previous = "scheduled"
			s.get(20, task(2, 800, 2))
		}, func(s *story) {
			s.schedule(0, 1, 900)
			s.schedule(10, 2, 800).Answer.Previous = "scheduled"
			s.get(20, task(2, 800, 1))
		}},
		{"the due time is the last one set",
			func(s *story) { s.schedule(0, 1, 900); s.get(10, task(1, 900, 1)) },
			func(s *story) { s.schedule(0, 1, 900); s.get(10, task(1, 901, 1)) },
		},
		{"a delay counts from receipt", func(s *story) {
			s.call(5, history.Touch, history.Ask{Delay: 100 * time.Millisecond, OrSchedule: true, Body: body(1)}, history.OK, task(1, 106, 1))
		}, func(s *story) {
			s.call(5, history.Touch, history.Ask{Delay: 100 * time.Millisecond, OrSchedule: true, Body: body(1)}, history.OK, task(1, 140, 1))
		}},
		{"a payload is shown as it was sent",
			func(s *story) { s.schedule(0, 1, 900); s.get(10, task(1, 900, 1)) },
			func(s *story) { s.schedule(0, 1, 900); s.get(10, task(1, 900, 1)).Answer.Body++ },
		},
		{"a finished task shows no payload", func(s *story) {
			s.schedule(0, 1, 900)
			s.cancel(10, "cancelled")
			s.get(20, ending("cancelled", in("cancelled", 0, task(2, 900, 1))))
		}, func(s *story) {
			s.schedule(0, 1, 900)
			s.cancel(10, "cancelled")
			s.get(20, ending("cancelled", in("cancelled", 0, task(2, 900, 1)))).Answer.Wrote = 1
		}},
		{"what was acknowledged is found", func(s *story) {
			s.refused(0, history.Get, history.Ask{}, 404, history.Answer{})
			s.schedule(10, 1, 900)
		}, func(s *story) {
			s.schedule(0, 1, 900)
			s.refused(10, history.Get, history.Ask{}, 404, history.Answer{})
		}},
		{"a tombstone stays for ten minutes", func(s *story) {
			s.schedule(0, 1, 900)
			s.cancel(10, "cancelled")
			s.refused(11*60_000, history.Get, history.Ask{}, 404, history.Answer{})
		}, func(s *story) {
			s.schedule(0, 1, 900)
			s.cancel(10, "cancelled")
			s.refused(9*60_000, history.Get, history.Ask{}, 404, history.Answer{})
		}},
		{"nothing is due before its time",
			func(s *story) { s.schedule(0, 1, 900); s.get(860, in("firing", 1, task(5, 900, 1))) },
			func(s *story) { s.schedule(0, 1, 900); s.get(840, in("firing", 1, task(5, 900, 1))) },
		},
		{"time does not run back", func(s *story) {
			s.schedule(0, 1, 900)
			until(s.get(100, in("firing", 1, task(5, 900, 1))), 950)
			s.get(860, task(1, 900, 1))
		}, func(s *story) {
			s.schedule(0, 1, 900)
			until(s.get(100, in("firing", 1, task(5, 900, 1))), 950)
			s.get(700, in("firing", 1, task(5, 900, 1)))
		}},
		{"there is no other state",
			func(s *story) { s.schedule(0, 1, 900); s.get(990, in("dead", 2, task(9, 900, 1))) },
			func(s *story) { s.schedule(0, 1, 900); s.get(990, in("lost", 2, task(9, 900, 1))) },
		},
	}
}

func changeRules() []rule {
	conflict := history.Answer{State: "firing", Attempts: 1}
	return []rule{
		{"a schedule tells what it replaced",
			func(s *story) { s.schedule(0, 1, 900); s.schedule(10, 2, 800).Answer.Previous = "scheduled" },
			func(s *story) { s.schedule(0, 1, 900); s.schedule(10, 2, 800) },
		},
		{"a batch tells what it made", func(s *story) {
			s.call(0, history.Schedule, s.due(900), history.OK, history.Answer{Status: 201, Revision: 1})
			s.call(10, history.Schedule, s.due(900), history.OK, history.Answer{Status: 200, Revision: 2})
		}, func(s *story) {
			s.call(0, history.Schedule, s.due(900), history.OK, history.Answer{Status: 201, Revision: 1})
			s.call(10, history.Schedule, s.due(900), history.OK, history.Answer{Status: 201, Revision: 2})
		}},
		{"changes are in the order of their numbers",
			func(s *story) { s.schedule(0, 1, 900); s.patch(10, 2, 800, 1); s.patch(20, 3, 700, 1) },
			func(s *story) { s.schedule(0, 1, 900); s.patch(10, 3, 800, 1); s.patch(20, 2, 700, 1) },
		},
		{"a condition holds: revision", func(s *story) {
			s.schedule(0, 1, 900)
			s.schedule(10, 2, 800).Answer.Previous = "scheduled"
			s.h.Calls[1].Ask.IfRevision = 1
		}, func(s *story) {
			s.schedule(0, 1, 900)
			s.schedule(10, 3, 800).Answer.Previous = "scheduled"
			s.h.Calls[1].Ask.IfRevision = 2
		}},
		{"a condition fails for a reason: revision", func(s *story) {
			s.schedule(0, 1, 900)
			s.refused(10, history.Schedule, history.Ask{IfRevision: 2}, 412, history.Answer{})
		}, func(s *story) {
			s.schedule(0, 1, 900)
			s.refused(10, history.Schedule, history.Ask{IfRevision: 1}, 412, history.Answer{})
		}},
		{"a condition holds: absent", func(s *story) { s.schedule(0, 1, 900).Ask.IfAbsent = true }, func(s *story) {
			s.schedule(0, 1, 900)
			s.schedule(10, 2, 900).Ask.IfAbsent = true
			s.h.Calls[1].Answer.Previous = "scheduled"
		}},
		{"a condition fails for a reason: absent", func(s *story) {
			s.schedule(0, 1, 900)
			s.refused(10, history.Schedule, history.Ask{IfAbsent: true}, 412, history.Answer{})
		}, func(s *story) { s.refused(10, history.Schedule, history.Ask{IfAbsent: true}, 412, history.Answer{}) },
		},
		{"no patch once an attempt began", func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(95, 4, 1, 90, 1)
			s.refused(100, history.Patch, history.Ask{}, 409, conflict)
		}, func(s *story) { s.schedule(0, 1, 90); s.arrive(95, 4, 1, 90, 1); s.patch(100, 9, 500, 1) },
		},
		{"a patch until an attempt began",
			func(s *story) { s.schedule(0, 1, 900); s.patch(10, 2, 500, 1) },
			func(s *story) { s.schedule(0, 1, 900); s.refused(10, history.Patch, history.Ask{}, 409, conflict) },
		},
		{"a conflict tells the attempts", func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(95, 4, 2, 90, 1)
			s.refused(100, history.Patch, history.Ask{}, 409, history.Answer{State: "firing", Attempts: 2})
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(95, 4, 2, 90, 1)
			s.refused(100, history.Patch, history.Ask{}, 409, conflict)
		}},
		{"a touch schedules where there is nothing to touch", func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(95, 4, 1, 90, 1)
			s.call(100, history.Touch, history.Ask{FireAt: ms(300), OrSchedule: true, Body: body(2)}, history.OK, task(9, 300, 2))
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.call(10, history.Touch, history.Ask{FireAt: ms(300), OrSchedule: true, Body: body(2)}, history.OK, task(9, 300, 2))
		}},
		{"fire now is now", func(s *story) {
			s.schedule(0, 1, 900)
			s.call(10, history.Fire, history.Ask{}, history.OK, task(2, 11, 1))
		}, func(s *story) {
			s.schedule(0, 1, 900)
			s.call(10, history.Fire, history.Ask{}, history.OK, task(2, 900, 1))
		}},
		{"a cancel means never",
			func(s *story) { s.schedule(0, 1, 90); s.cancel(92, "stopped"); s.arrive(95, 4, 1, 90, 1) },
			func(s *story) { s.schedule(0, 1, 90); s.cancel(92, "cancelled"); s.arrive(95, 4, 1, 90, 1) },
		},
		{"a cancel comes in time or too late", func(s *story) {
			s.schedule(0, 1, 90)
			s.get(100, in("delivered", 1, task(5, 90, 1)))
			s.cancel(110, "already_fired")
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.get(100, in("delivered", 1, task(5, 90, 1)))
			s.cancel(110, "stopped")
		}},
		{"a cancel is answered once",
			func(s *story) { s.schedule(0, 1, 90); s.cancel(80, "stopped"); s.cancel(300, "stopped") },
			func(s *story) { s.schedule(0, 1, 90); s.cancel(80, "stopped"); s.cancel(300, "already_fired") },
		},
		{"a task is shown cancelled as its cancel was answered", func(s *story) {
			s.schedule(0, 1, 90)
			s.cancel(10, "cancelled")
			s.get(20, ending("cancelled", in("cancelled", 0, task(2, 90, 1))))
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.cancel(10, "cancelled")
			s.get(20, ending("stopped", in("cancelled", 0, task(2, 90, 1))))
		}},
		{"nothing ends a task but a cancel, or its attempts",
			func(s *story) { s.schedule(0, 1, 90); s.get(200, in("dead", 1, task(9, 90, 1))) },
			func(s *story) { s.schedule(0, 1, 90); s.get(200, in("cancelled", 1, task(9, 90, 1))) },
		},
	}
}
