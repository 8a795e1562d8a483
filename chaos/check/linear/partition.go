package linear

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/belfryhq/belfry/chaos/history"
)

// partition holds the record of one id as steps, which have a place in the order, and events, which may have one.
type partition struct {
	id     string
	steps  []*step
	events []event

	clocks clocks
	pulled bool // all attempts of the task are leases
	long   bool // the history is long enough for tombstones to go
}

// life holds the calls and arrivals of one id.
type life struct {
	id       string
	calls    []*history.Call
	arrivals []*history.Arrival
}

// until returns the life up to an instant. Calls without an answer by then are open.
func (l *life) until(at history.Instant) *life {
	cut := &life{id: l.id}
	for _, c := range l.calls {
		if c.Start > at {
			continue
		}
		if c.End == 0 || c.End > at {
			open := *c
			open.End, open.Outcome, open.Answer = 0, history.Open, history.Answer{}
			c = &open
		}
		cut.calls = append(cut.calls, c)
	}
	for _, a := range l.arrivals {
		if a.At <= at {
			cut.arrivals = append(cut.arrivals, a)
		}
	}
	return cut
}

// newPartition turns a life into steps and events.
func newPartition(l *life, of clocks) *partition {
	p := &partition{id: l.id, clocks: of}
	p.addCalls(l)
	p.addGrants(l)
	p.number()
	p.long = l.last().Sub(l.first()) > keepDone-time.Second
	slices.SortStableFunc(p.steps, func(a, b *step) int { return cmp.Compare(a.start, b.start) })
	return p
}

// first returns the start of the first call.
func (l *life) first() history.Instant {
	first := history.Forever
	for _, c := range l.calls {
		first = min(first, c.Start)
	}
	return first
}

// last returns the last instant in the record of the id.
func (l *life) last() history.Instant {
	last := history.Instant(0)
	for _, c := range l.calls {
		last = max(last, c.Start, c.End)
	}
	for _, a := range l.arrivals {
		last = max(last, a.At)
	}
	return last
}

func (p *partition) addCalls(l *life) {
	tries := map[int64][]*history.Call{}
	var order []int64
	for _, c := range l.calls {
		switch c.Kind {
		case history.Stale:
		case history.Get:
			p.addRead(c, l)
		default:
			if tries[c.Op] == nil {
				order = append(order, c.Op)
			}
			tries[c.Op] = append(tries[c.Op], c)
		}
	}
	b := builder{partition: p, life: l, classes: map[class]int{}, ops: tries}
	for _, n := range order {
		b.add(tries[n])
	}
}

// addRead adds a read with an answer. It ignores other reads.
func (p *partition) addRead(c *history.Call, l *life) {
	x := &step{operation: operation{n: c.Op, kind: c.Kind}, read: true, call: c, once: -1, start: c.Start, end: c.End}
	switch {
	case c.Outcome == history.OK:
		x.number = c.Answer.Revision
		x.look(l, true)
	case c.Outcome == history.Failed && c.Answer.Status == http.StatusNotFound:
		x.answer = missing
	default:
		return
	}
	p.steps = append(p.steps, x)
}

// look takes the task that an answer shows into the step. It marks the step bad if no task can be like that.
func (x *step) look(l *life, payload bool) {
	a := &x.call.Answer
	seen, known := phaseOf(a.State)
	previous, knownToo := phaseOf(a.Previous)
	end, meant := outcomeOf(a.Cancel)
	switch {
	case !known || seen == absent:
		x.bad = fmt.Sprintf("there is no state %q", a.State)
	case !knownToo:
		x.bad = fmt.Sprintf("there is no state %q before", a.Previous)
	case !meant || end == tooLate:
		x.bad = fmt.Sprintf("no task shows the outcome %q", a.Cancel)
	case payload && !l.sent(a.Wrote, a.Body):
		x.bad = "such a payload was never sent"
	case x.to != 0 && a.FireAt > x.to:
		x.bad = "it is due later than its delay can mean"
	}
	x.sight = &sight{
		phase: seen, attempts: a.Attempts, fireAt: a.FireAt, outcome: end, wrote: a.Wrote, payload: payload,
		previous: previous, asReplaced: x.kind == history.Schedule,
	}
}

// sent reports whether a payload is one that an operation on this id sent, or none. A history may lack the payload's
// hash.
func (l *life) sent(by int64, body uint64) bool {
	if by == 0 {
		return body == 0
	}
	for _, c := range l.calls {
		if c.Op == by {
			return body == 0 || body == c.Ask.Body
		}
	}
	return false
}

// addGrants adds the arrivals as grants. Of two arrivals with one fence only the first counts: package check finds
// repeated fences.
func (p *partition) addGrants(l *life) {
	webhooks := map[string]int{}
	byFence := map[uint64]*step{}
	p.pulled = len(l.arrivals) > 0
	for _, a := range l.arrivals {
		if a.Fence == 0 {
			continue
		}
		p.pulled = p.pulled && a.Pulled
		if webhooks[a.WebhookID] == 0 {
			webhooks[a.WebhookID] = len(webhooks) + 1
		}
		if x := byFence[a.Fence]; x != nil {
			x.end = min(x.end, a.At)
			continue
		}
		x := &step{
			grant: &grant{arrival: a, webhook: webhooks[a.WebhookID], wrote: a.Wrote},
			start: l.startOf(a), end: a.At, number: a.Fence, changes: true, once: -1,
		}
		if !l.sent(a.Wrote, a.Body) {
			x.bad = "such a payload was never sent"
		}
		byFence[a.Fence] = x
		p.steps = append(p.steps, x)
	}
	for _, x := range p.steps {
		if lease := byFence[x.ask.Fence]; x.settles() && lease != nil {
			x.webhook = lease.grant.webhook
		}
	}
}

// startOf returns the earliest instant at which an arrival may have been granted: the first start of the operation that
// wrote its payload, or of any call if the arrival has no payload.
func (l *life) startOf(a *history.Arrival) history.Instant {
	start := a.At
	for _, c := range l.calls {
		if a.Wrote == 0 || c.Op == a.Wrote {
			start = min(start, c.Start)
		}
	}
	return start
}

// number gives each numbered step the next lower number, and notes whether a change owns the step's number.
func (p *partition) number() {
	var numbers []uint64
	own := map[uint64]bool{}
	for _, x := range p.steps {
		if x.number != 0 {
			numbers = append(numbers, x.number)
			own[x.number] = own[x.number] || x.changes
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	for _, x := range p.steps {
		if i, _ := slices.BinarySearch(numbers, x.number); x.number != 0 && i > 0 {
			x.before = numbers[i-1]
		}
		x.owned = own[x.number]
	}
}
