package check

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

var taskCases = []example{
	{"delivered", Lost, func(s *story) { s.schedule("a", 0, 100); s.arrive("a", 101, 100, 1) }, ""},
	{"never came", Lost, func(s *story) { s.schedule("a", 0, 100) }, "nothing came of it"},
	{"never came, and was not acknowledged", Lost, func(s *story) {
		s.scheduleAs("a", 0, 0, 100, history.Unknown)
		s.scheduleAs("b", 0, 5, 100, history.Failed)
	}, ""},
	{"came, but only to fail", Lost, func(s *story) {
		s.arrived().Answer = 500
	}, "nothing came of it"},
	{"dead letter", Lost, func(s *story) { s.schedule("a", 0, 100); s.get("a", 500, "dead", 9, 1) }, ""},
	{"still waiting", Lost, func(s *story) { s.schedule("a", 0, 100); s.get("a", 500, "ready", 9, 1) }, ""},
	{"still waiting with another's payload", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.get("a", 500, "ready", 9, 77)
	}, "nothing came of it"},
	{"called delivered, and never came", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.get("a", 500, "delivered", 9, 0)
	}, "nothing came of it"},
	{"cancelled", Lost, func(s *story) { s.schedule("a", 0, 100); s.cancel("a", 10, "cancelled") }, ""},
	{"cancelled before it was scheduled", Lost, func(s *story) {
		s.cancel("a", 0, "cancelled")
		s.schedule("a", 10, 100)
	}, "nothing came of it"},
	{"cancelled too late", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 200, "already_fired")
	}, "nothing came of it"},
	{"replaced", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.schedule("a", 10, 200)
		s.arrive("a", 201, 200, 2)
	}, ""},
	{"replaced by what is lost", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.schedule("a", 50, 200)
		s.arrive("a", 101, 100, 1)
	}, "operation 2"},
	{"of two at once, revisions tell which was last", Lost, func(s *story) {
		s.schedule("a", 0, 100).Answer.Revision = 8
		s.schedule("a", 1, 200).Answer.Revision = 7
		s.arrive("a", 201, 200, 2)
	}, "operation 1"},
	{"perhaps cancelled", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 10, "").Outcome = history.Unknown
	}, ""},
	{"patched with another payload", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		c := history.Call{Kind: history.Patch, ID: "a", Ask: history.Ask{Delay: time.Millisecond, Body: body(2)}}
		s.call(c, 10, 12, history.OK, history.Answer{})
		s.arrive("a", 101, 100, 2)
	}, ""},
	{"touched, and a task made", Lost, func(s *story) {
		c := history.Call{Kind: history.Touch, ID: "a", Ask: history.Ask{OrSchedule: true, Body: body(1)}}
		s.call(c, 10, 12, history.OK, history.Answer{Wrote: 1})
	}, "operation 1"},
	{"touched, and no task made", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		c := history.Call{Kind: history.Touch, ID: "a", Ask: history.Ask{OrSchedule: true, Body: body(2)}}
		s.call(c, 10, 12, history.OK, history.Answer{Wrote: 1})
	}, "operation 1"},
	{"not found", Lost, func(s *story) {
		s.schedule("a", 0, 100)
		s.absent("a", 50)
		s.arrive("a", 101, 100, 1)
	}, "found no task"},
	{"not found before it was there", Lost, func(s *story) {
		s.absent("a", 0)
		s.schedule("a", 1, 100)
		s.arrive("a", 101, 100, 2)
	}, ""},

	{"on time", Early, func(s *story) { s.schedule("a", 0, 100); s.arrive("a", 100, 100, 1) }, ""},
	{"a millisecond early", Early, func(s *story) { s.schedule("a", 0, 100); s.arrive("a", 99, 100, 1) }, "before it was due"},
	{"as due at another instant", Early, func(s *story) {
		s.schedule("a", 0, 100)
		s.arrive("a", 99, 98, 1)
	}, "no call had asked"},
	{"as due at what was refused", Early, func(s *story) {
		s.schedule("a", 0, 100)
		s.scheduleAs("a", 10, 12, 50, history.Failed)
		s.arrive("a", 51, 50, 1)
	}, "no call had asked"},
	{"after a delay", Early, func(s *story) {
		s.schedule("a", 0, 0).Ask = history.Ask{Delay: 100 * time.Millisecond, Body: body(1)}
		s.arrive("a", 104, 103, 1)
	}, ""},
	{"after less than the delay", Early, func(s *story) {
		s.schedule("a", 10, 0).Ask = history.Ask{Delay: 100 * time.Millisecond, Body: body(1)}
		s.arrive("a", 110, 109, 1)
	}, "no call had asked"},
	{"due later than the delay", Early, func(s *story) {
		s.schedule("a", 0, 0).Ask = history.Ask{Delay: 100 * time.Millisecond, Body: body(1)}
		s.arrive("a", 120, 120, 1)
	}, "no call had asked"},
	{"fired now", Early, func(s *story) {
		s.schedule("a", 0, 100)
		s.call(history.Call{Kind: history.Fire, ID: "a"}, 50, 52, history.OK, history.Answer{})
		s.arrive("a", 53, 51, 1)
	}, ""},
	{"early by no more than a clock was off", Early, func(s *story) {
		s.clock(-100, 50, 90)
		s.schedule("a", 0, 200)
		s.arrive("a", 110, 200, 1)
	}, ""},
	{"early by more than a clock was off", Early, func(s *story) {
		s.clock(-100, 50, 90)
		s.schedule("a", 0, 200)
		s.arrive("a", 99, 200, 1)
	}, "before it was due"},
	{"early by more than a clock may be off", Early, func(s *story) {
		s.clock(10_000, 50, 90)
		s.schedule("a", 0, 500)
		s.arrive("a", 100, 500, 1)
	}, "before it was due"},
	{"early after a clock was set right", Early, func(s *story) {
		s.clock(-100, 50, 90)
		s.schedule("a", 0, 2000)
		s.arrive("a", 1910, 2000, 1)
	}, "before it was due"},
	{"after a delay by a clock that was off", Early, func(s *story) {
		s.clock(100, 0, 90)
		s.schedule("a", 10, 0).Ask = history.Ask{Delay: 200 * time.Millisecond, Body: body(1)}
		s.arrive("a", 310, 310, 1)
	}, ""},
	{"after a delay by a clock that was off by more than it may", Early, func(s *story) {
		s.clock(10_000, 0, 90)
		s.schedule("a", 10, 0).Ask = history.Ask{Delay: 200 * time.Millisecond, Body: body(1)}
		s.arrive("a", 10_210, 10_210, 1)
	}, "no call had asked"},

	{"cancelled", Cancelled, func(s *story) { s.schedule("a", 0, 100); s.cancel("a", 10, "cancelled") }, ""},
	{"cancelled and came after", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 10, "cancelled")
		s.arrive("a", 101, 100, 1)
	}, "an attempt arrived"},
	{"cancelled and came before", Cancelled, func(s *story) {
		s.arrived()
		s.cancel("a", 110, "cancelled")
	}, "an attempt arrived"},
	{"stopped and came", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 99, "stopped")
		s.arrive("a", 105, 100, 1).Fence = 98
	}, ""},
	{"stopped and granted after that", Cancelled, func(s *story) {
		s.arrived().Answer = 500
		s.cancel("a", 110, "stopped")
		s.arrive("a", 305, 100, 1).Attempt = 2
	}, "stopped at revision 111, and an attempt was granted at 305"},
	{"stopped, scheduled anew, and granted", Cancelled, func(s *story) {
		s.arrived().Answer = 500
		s.cancel("a", 110, "stopped")
		s.schedule("a", 120, 200)
		s.arrive("a", 305, 200, 3)
	}, ""},
	{"stopped, and not said when", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 110, "stopped").Answer.Revision = 0
	}, "without the revision"},
	{"cancelled, and scheduled anew", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 10, "cancelled")
		s.schedule("a", 20, 100)
		s.arrive("a", 101, 100, 3)
	}, ""},
	{"cancelled after it was replaced", Cancelled, func(s *story) {
		s.arrived()
		s.schedule("a", 110, 200)
		s.cancel("a", 120, "cancelled")
	}, ""},
	{"patched, cancelled, and came", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.patch("a", 10, 2)
		s.cancel("a", 20, "cancelled")
		s.arrive("a", 101, 100, 2)
	}, "an attempt arrived"},
	{"two answers", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 10, "cancelled")
		s.cancel("a", 20, "stopped")
	}, "answered cancelled and stopped"},

	{"two attempts", OneBody, func(s *story) {
		s.arrived()
		s.arrive("a", 201, 100, 1).Attempt = 2
	}, ""},
	{"another webhook-id", OneBody, func(s *story) {
		s.arrived()
		s.arrive("a", 201, 100, 1).WebhookID = "w9"
	}, "webhook-ids w1 and w9"},
	{"no webhook-id", OneBody, func(s *story) {
		s.arrived().WebhookID = ""
	}, "no webhook-id"},
	{"one webhook-id for two", OneBody, func(s *story) {
		s.schedule("a", 0, 100)
		s.schedule("b", 0, 100)
		s.arrive("a", 101, 100, 1)
		s.arrive("b", 101, 100, 2).WebhookID = "w1"
	}, "webhook-id w1 came for"},
	{"given back, patched, and came", OneBody, func(s *story) {
		s.schedule("a", 0, 100)
		s.settle(history.Release, "a", s.lease("a", 101, 300, 1).Fence, 110, 200)
		s.patch("a", 120, 3)
		s.lease("a", 131, 300, 3).WebhookID = "w1"
	}, ""},
	{"patched and came, and never given back", OneBody, func(s *story) {
		s.schedule("a", 0, 100)
		s.lease("a", 101, 300, 1)
		s.patch("a", 120, 2)
		s.lease("a", 131, 300, 2).WebhookID = "w1"
	}, "webhook-id w1 came for"},
	{"altered", OneBody, func(s *story) { s.schedule("a", 0, 100); s.arrive("a", 101, 100, 1).Body++ }, "altered"},
	{"made up", OneBody, func(s *story) { s.schedule("a", 0, 100); s.arrive("a", 101, 100, 5) }, "no call had sent"},
}
