package check

import (
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

const (
	ack     = history.Ack
	nack    = history.Nack
	extend  = history.Extend
	release = history.Release
)

var leaseCases = []example{
	{"leased and acknowledged", Lost, func(s *story) {
		s.leased()
		s.settle(ack, "a", 101, 200, 200)
	}, ""},
	{"leased, and no more", Lost, func(s *story) {
		s.leased()
	}, "nothing came of it"},
	{"leased, and the ack refused", Lost, func(s *story) {
		s.leased()
		s.settle(ack, "a", 101, 2000, 409)
	}, "nothing came of it"},
	{"called delivered, and nobody had acknowledged it", Lost, func(s *story) {
		s.leased()
		s.settle(ack, "a", 101, 200, 503)
		s.get("a", 500, "delivered", 9, 0)
	}, "nothing came of it"},
	{"leased, and the ack never answered", Lost, func(s *story) {
		s.leased()
		s.unsettled(ack, "a", 101, 200)
		s.get("a", 500, "delivered", 9, 0)
	}, ""},
	{"of a batch, made by a touch", Lost, func(s *story) {
		c := history.Call{Kind: history.Touch, ID: "a", Ask: history.Ask{OrSchedule: true, Body: body(1)}, Batch: true}
		s.call(c, 10, 12, history.OK, history.Answer{Status: created})
	}, "operation 1"},

	{"leased before it is due", Early, func(s *story) {
		s.schedule("a", 0, 100)
		s.lease("a", 99, 1101, 1)
	}, "1ms before it was due"},

	{"leased, given back, and cancelled", Cancelled, func(s *story) {
		s.leased()
		s.settle(release, "a", 101, 200, 200)
		s.cancel("a", 300, "cancelled")
	}, ""},
	{"leased, refused, and cancelled", Cancelled, func(s *story) {
		s.leased()
		s.settle(nack, "a", 101, 200, 200)
		s.cancel("a", 300, "cancelled")
	}, "an attempt arrived"},
	{"cancelled and leased", Cancelled, func(s *story) {
		s.schedule("a", 0, 100)
		s.cancel("a", 50, "cancelled")
		s.lease("a", 101, 1101, 1)
		s.settle(release, "a", 101, 200, 200)
	}, "an attempt arrived"},

	{"leased again", limited(Repeats), func(s *story) {
		s.leased()
		s.lease("a", 1200, 2200, 1)
	}, ""},

	{"a late answer to a consumer", limited(Fences), func(s *story) {
		s.schedule("a", 0, 100)
		s.lease("a", 200, 1200, 1)
		late := s.lease("a", 210, 1200, 1)
		late.Asked, late.Fence = ms(101), 7
	}, ""},
	{"a lower fence for who asks later", limited(Fences), func(s *story) {
		s.schedule("a", 0, 100)
		s.fault(history.KillLeader, 100, 900, 901)
		s.lease("a", 200, 300, 1)
		s.lease("a", 2000, 3000, 1).Fence = 7
	}, "without a failover"},

	{"shown waiting after its ack", limited(Undead), func(s *story) {
		s.leased()
		s.settle(ack, "a", 101, 200, 200)
		s.get("a", 300, "ready", 9, 1)
	}, "shows it ready"},

	{"each in its time", limited(Leases), func(s *story) {
		s.leased()
		s.lease("a", 1101, 2101, 1)
		s.settle(ack, "a", 101, 1200, 409)
		s.settle(ack, "a", 1101, 1300, 200)
		s.settle(ack, "a", 1101, 5000, 200)
	}, ""},
	{"two at once", limited(Leases), func(s *story) {
		s.leased()
		s.lease("a", 1100, 2101, 1)
	}, "1ms before the lease under 101 ended"},
	{"two at once, by a clock that is ahead", limited(Leases), func(s *story) {
		s.schedule("a", 0, 100)
		s.clock(200, 50, 3000)
		s.lease("a", 101, 1101, 1)
		s.lease("a", 950, 2101, 1)
	}, ""},
	{"two at once, by more than a clock may be ahead", limited(Leases), func(s *story) {
		s.schedule("a", 0, 100)
		s.clock(5000, 50, 3000)
		s.lease("a", 101, 1101, 1)
		s.lease("a", 800, 2101, 1)
	}, "1ms before"},
	{"two at once, of an occurrence and the next", limited(Leases), func(s *story) {
		s.leased()
		s.schedule("a", 200, 300)
		s.lease("a", 301, 1301, 2)
		s.settle(ack, "a", 101, 400, 409)
	}, ""},
	{"again after a nack", limited(Leases), func(s *story) {
		s.leased()
		s.settle(nack, "a", 101, 200, 200)
		s.lease("a", 203, 1203, 1)
	}, ""},
	{"again after a nack that was refused", limited(Leases), func(s *story) {
		s.leased()
		s.settle(nack, "a", 101, 200, 503)
		s.lease("a", 203, 1203, 1)
	}, "before the lease under 101 ended"},
	{"again after a nack of unknown outcome", limited(Leases), func(s *story) {
		s.leased()
		s.unsettled(nack, "a", 101, 200)
		s.lease("a", 203, 1203, 1)
	}, ""},
	{"again before the delay of a nack is over", limited(Leases), func(s *story) {
		s.leased()
		s.settle(nack, "a", 101, 200, 200).Ask.Delay = 300 * time.Millisecond
		s.lease("a", 400, 1203, 1)
	}, "100ms before the delay"},
	{"again before the delay of a nack is over, and fired", limited(Leases), func(s *story) {
		s.leased()
		s.settle(nack, "a", 101, 200, 200).Ask.Delay = 300 * time.Millisecond
		s.call(history.Call{Kind: history.Fire, ID: "a"}, 300, 302, history.OK, history.Answer{})
		s.lease("a", 400, 1203, 1)
	}, ""},
	{"again after it was given back", limited(Leases), func(s *story) {
		s.leased()
		s.settle(release, "a", 101, 200, 200)
		s.lease("a", 203, 1203, 1)
	}, ""},
	{"again after its ack", limited(Leases), func(s *story) {
		s.leased()
		s.settle(ack, "a", 101, 200, 200)
		s.fault(history.KillAll, 300, 400, 500)
		s.lease("a", 1203, 2203, 1)
	}, "an ack under 101 was taken"},
	{"again within its extension", limited(Leases), func(s *story) {
		s.leased()
		s.settle(extend, "a", 101, 1000, 200).Ask.Delay = time.Second
		s.lease("a", 1500, 2500, 1)
	}, "500ms before the lease under 101 ended"},
	{"again after its extension", limited(Leases), func(s *story) {
		s.leased()
		s.settle(extend, "a", 101, 1000, 200).Ask.Delay = time.Second
		s.lease("a", 2000, 3000, 1)
	}, ""},
	{"again after an extension that may have made it shorter", limited(Leases), func(s *story) {
		s.leased()
		s.unsettled(extend, "a", 101, 200).Ask.Delay = 100 * time.Millisecond
		s.lease("a", 301, 3000, 1)
	}, ""},
	{"as long as it was asked for", limited(Leases), func(s *story) {
		s.schedule("a", 0, 100)
		s.lease("a", 101, 1150, 1).LeaseFor = time.Second
	}, ""},
	{"longer than it was asked for", limited(Leases), func(s *story) {
		s.schedule("a", 0, 100)
		s.lease("a", 101, 1153, 1).LeaseFor = time.Second
	}, "for 1s, and it lasts 1ms longer"},
	{"longer than it was asked for, by a clock that was ahead", limited(Leases), func(s *story) {
		s.clock(100, 50, 90)
		s.schedule("a", 0, 100)
		s.lease("a", 101, 1250, 1).LeaseFor = time.Second
	}, ""},
	{"as long as another one had asked for, before a failover", limited(Leases), func(s *story) {
		s.schedule("a", 0, 100)
		s.term(1, 0, 10)
		s.lease("a", 101, 3101, 1).LeaseFor = time.Second
		s.term(2, 110, 200)
	}, ""},
	{"granted before it was asked for", limited(Leases), func(s *story) {
		s.schedule("a", 0, 100)
		s.lease("a", 1000, 1600, 1).LeaseFor = time.Second
	}, ""},
	{"shorter than it was asked for", limited(Leases), func(s *story) {
		s.schedule("a", 0, 100)
		s.lease("a", 1000, 1400, 1).LeaseFor = time.Second
	}, "for 1s, and it ends 95ms too soon"},
	{"shorter than it was asked for, after a pause", limited(Leases), func(s *story) {
		s.schedule("a", 0, 100)
		s.fault(history.PauseLeader, 150, 900, 950)
		s.lease("a", 1000, 1400, 1).LeaseFor = time.Second
	}, ""},
	{"settled under an old lease", limited(Leases), func(s *story) {
		s.leased()
		s.lease("a", 1101, 2101, 1)
		s.settle(nack, "a", 101, 1200, 200)
	}, "nack under fence 101 was taken after the lease under 1101"},
	{"settled long after the end", limited(Leases), func(s *story) {
		s.leased()
		s.settle(ack, "a", 101, 2200, 200)
	}, "taken 1.099s after its lease had ended"},
	{"extended long after the end", limited(Leases), func(s *story) {
		s.leased()
		s.settle(extend, "a", 101, 2200, 200).Ask.Delay = time.Minute
	}, "taken 1.099s after its lease had ended"},
	{"settled long after the end, which no leader noticed", limited(Leases), func(s *story) {
		s.leased()
		s.fault(history.KillAll, 1000, 2000, 2100)
		s.settle(ack, "a", 101, 2200, 200)
	}, ""},
	{"settled twice", limited(Leases), func(s *story) {
		s.leased()
		s.settle(nack, "a", 101, 200, 200)
		s.settle(ack, "a", 101, 300, 200)
	}, "ack under fence 101 was taken, 95ms after a nack"},
	{"refused in its time", limited(Leases), func(s *story) {
		s.leased()
		s.settle(ack, "a", 101, 200, 409)
	}, "refused 896ms before its lease ended"},
	{"refused in its time, after a call that may have settled it", limited(Leases), func(s *story) {
		s.leased()
		s.unsettled(release, "a", 101, 150)
		s.settle(ack, "a", 101, 200, 409)
	}, ""},
	{"repeated ack refused", limited(Leases), func(s *story) {
		s.leased()
		s.settle(ack, "a", 101, 200, 200)
		s.settle(ack, "a", 101, 5000, 409)
	}, "refused when it was repeated"},
	{"told replaced, and it was", limited(Leases), func(s *story) {
		s.leased()
		s.schedule("a", 150, 9000)
		s.replaced(ack, "a", 101, 200)
		s.replaced(nack, "a", 101, 210)
	}, ""},
	{"told replaced, and it was not", limited(Leases), func(s *story) {
		s.leased()
		s.replaced(ack, "a", 101, 200)
	}, "no call did that"},
	{"told replaced, before it was", limited(Leases), func(s *story) {
		s.leased()
		s.replaced(ack, "a", 101, 200)
		s.schedule("a", 300, 9000)
	}, "no call did that"},
	{"an extend told replaced", limited(Leases), func(s *story) {
		s.leased()
		s.schedule("a", 150, 9000)
		s.replaced(extend, "a", 101, 200)
	}, "not refused"},
	{"an ack told replaced settles nothing", Lost, func(s *story) {
		s.leased()
		s.replaced(ack, "a", 101, 200)
	}, "nothing came of it"},
	{"repeated ack refused, of an occurrence that was replaced", limited(Leases), func(s *story) {
		s.leased()
		s.settle(ack, "a", 101, 200, 200)
		s.schedule("a", 300, 9000)
		s.settle(ack, "a", 101, 5000, 409)
	}, ""},
}
