package linear

import (
	"net/http"

	"github.com/belfryhq/belfry/chaos/history"
)

func attemptRules() []rule {
	return []rule{
		{"attempts do not fall", func(s *story) {
			s.schedule(0, 1, 90)
			s.get(100, in("retrying", 2, task(8, 90, 1)))
			s.get(200, in("retrying", 3, task(12, 90, 1)))
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.get(100, in("retrying", 2, task(8, 90, 1)))
			s.get(200, in("retrying", 1, task(12, 90, 1)))
		}},
		{"only a grant that was not begun is given back", func(s *story) {
			s.schedule(0, 1, 90)
			s.get(100, in("firing", 1, task(4, 90, 1)))
			s.get(200, in("ready", 0, task(6, 90, 1)))
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(99, 4, 1, 90, 1).Answer = http.StatusOK
			s.get(100, in("firing", 1, task(4, 90, 1)))
			s.get(200, in("ready", 0, task(6, 90, 1)))
		}},
		{"the failed probe of a broken receiver does not count", func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(99, 4, 1, 90, 1).Answer = http.StatusBadGateway
			s.get(200, in("retrying", 0, task(5, 90, 1)))
			s.arrive(299, 8, 1, 90, 1).Answer = http.StatusBadGateway
			s.get(300, in("retrying", 1, task(9, 90, 1)))
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(99, 4, 1, 90, 1).Answer = http.StatusUnprocessableEntity
			s.get(200, in("retrying", 0, task(5, 90, 1)))
		}},
		{"no patch after a failed probe", func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(99, 4, 1, 90, 1).Answer = http.StatusBadGateway
			s.get(200, in("ready", 0, task(6, 90, 1)))
			s.refused(210, history.Patch, s.due(300), http.StatusConflict, in("ready", 0, history.Answer{}))
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(99, 4, 1, 90, 1).Answer = http.StatusBadGateway
			s.get(200, in("ready", 0, task(6, 90, 1)))
			s.call(210, history.Patch, history.Ask{FireAt: ms(300)}, history.OK, task(7, 300, 1))
		}},
		{"a task with an expiry may die after a failed probe", func(s *story) {
			s.schedule(0, 1, 90).Ask.Expires = true
			s.arrive(99, 4, 1, 90, 1).Answer = http.StatusBadGateway
			s.get(200, in("dead", 0, task(6, 90, 1)))
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(99, 4, 1, 90, 1).Answer = http.StatusBadGateway
			s.get(200, in("dead", 0, task(6, 90, 1)))
		}},
		{"only a task with an expiry dies without an attempt", func(s *story) {
			s.schedule(0, 1, 90).Ask.Expires = true
			s.get(100, in("dead", 0, task(4, 90, 1)))
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.get(100, in("dead", 0, task(4, 90, 1)))
		}},
		{"an arrival has its grant before it", func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(95, 4, 1, 90, 1)
			s.get(100, in("delivered", 1, task(6, 90, 1)))
		}, func(s *story) { s.schedule(0, 1, 90); s.arrive(95, 4, 1, 90, 1); s.get(100, task(1, 90, 1)) },
		},
		{"an arrival is of the last payload", func(s *story) {
			s.schedule(0, 1, 90)
			s.schedule(10, 2, 90).Answer.Previous = "scheduled"
			s.arrive(95, 4, 1, 90, 2)
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.schedule(10, 2, 90).Answer.Previous = "scheduled"
			s.arrive(95, 4, 1, 90, 1)
		}},
		{"an arrival is due when its task is",
			func(s *story) { s.schedule(0, 1, 90); s.arrive(95, 4, 1, 90, 1) },
			func(s *story) { s.schedule(0, 1, 90); s.arrive(95, 4, 1, 80, 1) },
		},
		{"attempts of an occurrence have one webhook-id",
			func(s *story) { s.schedule(0, 1, 90); s.arrive(95, 4, 1, 90, 1); s.arrive(99, 7, 1, 90, 1) },
			func(s *story) {
				s.schedule(0, 1, 90)
				s.arrive(95, 4, 1, 90, 1)
				s.arrive(99, 7, 1, 90, 1).WebhookID = "v"
			}},
		{"a renewed grant is the same attempt",
			func(s *story) { s.schedule(0, 1, 90); s.arrive(95, 4, 2, 90, 1); s.arrive(99, 7, 2, 90, 1) },
			func(s *story) { s.schedule(0, 1, 90); s.arrive(95, 4, 2, 90, 1); s.arrive(99, 7, 1, 90, 1) },
		},
		{"nothing is granted after a stop", func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(95, 4, 1, 90, 1)
			s.cancel(100, "stopped")
			s.get(110, ending("stopped", in("firing", 1, task(6, 90, 1))))
			s.arrive(120, 5, 1, 90, 1)
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.arrive(95, 4, 1, 90, 1)
			s.cancel(100, "stopped")
			s.get(110, ending("stopped", in("firing", 1, task(6, 90, 1))))
			s.arrive(120, 7, 1, 90, 1)
		}},
		{"a finished task stays finished", func(s *story) {
			s.schedule(0, 1, 90)
			s.get(100, in("dead", 2, task(8, 90, 1)))
			s.get(110, in("delivered", 2, task(9, 90, 1)))
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.get(100, in("delivered", 2, task(8, 90, 1)))
			s.get(110, in("firing", 3, task(9, 90, 1)))
		}},
		{"an ack is taken under the lease that there is", func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.settle(100, history.Ack, 4, 200)
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.lease(210, 7, 2, 90, 1, 300)
			s.settle(220, history.Ack, 4, 200)
		}},
		{"an ack is refused when the lease has ended", func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.settle(210, history.Ack, 4, 409)
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.settle(100, history.Ack, 4, 409)
		}},
		{"the same ack again is taken again", func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.settle(100, history.Ack, 4, 200)
			s.settle(110, history.Ack, 4, 200)
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.settle(100, history.Nack, 4, 200)
			s.settle(110, history.Nack, 4, 200)
		}},
		{"a settle of an occurrence that was replaced is told so", func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.schedule(100, 5, 900).Answer.Previous = "firing"
			s.replaced(110, history.Ack, 4)
			s.replaced(120, history.Nack, 4)
			s.get(130, task(5, 900, 2))
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.schedule(100, 5, 900).Answer.Previous = "firing"
			s.settle(110, history.Ack, 4, 409)
		}},
		{"a settle of the occurrence that there is is not told that it was replaced", func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.schedule(100, 5, 120).Answer.Previous = "firing"
			s.lease(130, 8, 1, 120, 2, 300)
			s.h.Arrivals[1].WebhookID = "v"
			s.replaced(140, history.Ack, 4)
			s.settle(150, history.Ack, 8, 200)
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.lease(210, 7, 2, 90, 1, 300)
			s.replaced(220, history.Ack, 4)
		}},
		{"an extend of an occurrence that was replaced is refused", func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.schedule(100, 5, 900).Answer.Previous = "firing"
			s.settle(110, history.Extend, 4, 409)
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.schedule(100, 5, 900).Answer.Previous = "firing"
			s.replaced(110, history.Extend, 4)
		}},
		{"two leases do not live at once",
			func(s *story) { s.schedule(0, 1, 90); s.lease(95, 4, 1, 90, 1, 200); s.lease(210, 7, 2, 90, 1, 300) },
			func(s *story) { s.schedule(0, 1, 90); s.lease(95, 4, 1, 90, 1, 200); s.lease(150, 7, 2, 90, 1, 300) },
		},
		{"an extension lets a lease live", func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.settle(150, history.Extend, 4, 200)
			s.settle(900, history.Ack, 4, 200)
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.settle(150, history.Extend, 4, 200)
			s.settle(900, history.Ack, 4, 409)
		}},
		{"a release is not counted", func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.settle(100, history.Release, 4, 200)
			s.lease(110, 7, 1, 90, 1, 200)
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.settle(100, history.Nack, 4, 200)
			s.lease(110, 7, 1, 90, 1, 200)
		}},
		{"a consumer's task is delivered by an ack alone", func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.call(100, history.Ack, history.Ask{Fence: 4}, history.Unknown, history.Answer{})
			s.get(300, in("delivered", 1, task(6, 90, 1)))
		}, func(s *story) {
			s.schedule(0, 1, 90)
			s.lease(95, 4, 1, 90, 1, 200)
			s.get(300, in("delivered", 1, task(6, 90, 1)))
		}},
	}
}

func repeatRules() []rule {
	unknown := func(s *story, op, at int64, due int64) *history.Call {
		return s.try(op, at, history.Schedule, history.Ask{FireAt: ms(due), Body: body(op)}, history.Unknown, history.Answer{})
	}
	return []rule{
		{"what was refused did not happen", func(s *story) { s.maybe(0, 900); s.get(10, task(3, 900, 1)) }, func(s *story) {
			s.maybe(0, 900).Outcome = history.Failed
			s.h.Calls[0].Answer.Status = 503
			s.get(10, task(3, 900, 1))
		}},
		{"what appeared does not disappear", func(s *story) {
			s.schedule(0, 1, 900)
			s.maybe(10, 800)
			s.get(20, task(1, 900, 1))
			s.get(30, task(3, 800, 2))
		}, func(s *story) {
			s.schedule(0, 1, 900)
			s.maybe(10, 800)
			s.get(20, task(3, 800, 2))
			s.get(30, task(1, 900, 1))
		}},
		{"nor under a new number", func(s *story) {
			s.schedule(0, 1, 900)
			s.maybe(10, 800)
			s.get(20, task(3, 800, 2))
			s.get(30, task(3, 800, 2))
		}, func(s *story) {
			s.schedule(0, 1, 900)
			s.maybe(10, 800)
			s.get(20, task(3, 800, 2))
			s.get(30, task(5, 900, 1))
		}},
		{"what may have happened happens once", func(s *story) {
			s.maybe(0, 900)
			s.get(10, task(1, 900, 1))
			s.schedule(20, 2, 800).Answer.Previous = "scheduled"
		}, func(s *story) {
			s.maybe(0, 900)
			s.get(10, task(1, 900, 1))
			s.schedule(20, 2, 800).Answer.Previous = "scheduled"
			s.get(30, task(4, 900, 1))
		}},
		{"not before it was asked for",
			func(s *story) { s.schedule(0, 1, 900); until(s.get(10, task(3, 800, 3)), 40); s.maybe(20, 800) },
			func(s *story) { s.schedule(0, 1, 900); until(s.get(10, task(3, 800, 3)), 15); s.maybe(20, 800) },
		},
		{"two tries are one", func(s *story) {
			unknown(s, 1, 0, 900)
			s.op = 1
			s.get(10, task(3, 900, 1))
			s.try(1, 20, history.Schedule, history.Ask{FireAt: ms(900), Body: body(1)}, history.OK, task(3, 900, 1))
		}, func(s *story) {
			unknown(s, 1, 0, 900)
			s.op = 1
			s.get(10, task(3, 900, 1))
			s.try(1, 20, history.Schedule, history.Ask{FireAt: ms(900), Body: body(1)}, history.OK, over("scheduled", task(5, 900, 1)))
		}},
		{"two keys are remembered", func(s *story) { // the lost try happens after two other calls
			unknown(s, 1, 0, 900)
			s.try(1, 5, history.Schedule, history.Ask{FireAt: ms(900), Body: body(1)}, history.OK, task(1, 900, 1))
			s.op = 1
			s.patch(10, 2, 700, 1)
			s.patch(20, 3, 600, 1)
			s.get(30, task(5, 900, 1))
		}, func(s *story) { // the lost try happens after one other call
			unknown(s, 1, 0, 900)
			s.try(1, 5, history.Schedule, history.Ask{FireAt: ms(900), Body: body(1)}, history.OK, task(1, 900, 1))
			s.op = 1
			s.patch(10, 2, 700, 1)
			s.get(30, task(5, 900, 1))
		}},
		{"a call that had happened is not refused", func(s *story) {
			s.call(0, history.Cancel, history.Ask{}, history.Unknown, history.Answer{})
			s.try(1, 10, history.Cancel, history.Ask{}, history.Failed, history.Answer{Status: 404})
			s.schedule(20, 3, 900)
			s.get(30, ending("cancelled", in("cancelled", 0, task(5, 900, 1))))
		}, func(s *story) {
			s.schedule(0, 1, 900)
			s.call(10, history.Patch, history.Ask{FireAt: ms(20)}, history.Unknown, history.Answer{})
			s.get(15, task(2, 20, 1))
			s.try(2, 80, history.Patch, history.Ask{FireAt: ms(20)}, history.Failed, history.Answer{Status: 409, State: "firing", Attempts: 1})
		}},
		{"no key is of two calls",
			func(s *story) { s.schedule(0, 1, 900) },
			func(s *story) { s.refused(0, history.Schedule, s.due(900), 422, history.Answer{}) },
		},
	}
}
