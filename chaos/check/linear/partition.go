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
func newPartition(l *life, c clocks) *partition {
	p := &partition{id: l.id, clocks: c}
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
	previous, knownPrevious := phaseOf(a.Previous)
	end, valid := outcomeOf(a.Cancel)
	switch {
	case !known || seen == absent:
		x.bad = fmt.Sprintf("there is no state %q", a.State)
	case !knownPrevious:
		x.bad = fmt.Sprintf("there is no state %q before", a.Previous)
	case !valid || end == tooLate:
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

// builder turns the changing calls about a task into steps and events.
type builder struct {
	*partition
	life    *life
	ops     map[int64][]*history.Call // tries of each operation
	classes map[class]int             // index of each class in events
}

// class identifies operations that do the same, whenever they were asked for. An operation with a payload is a class of
// its own.
type class struct {
	kind history.Kind
	ask  history.Ask
	n    int64
}

// add adds an operation with all its tries. It ignores tries that failed for a passing reason, which certainly did not
// happen.
func (b *builder) add(tries []*history.Call) {
	var done, refused, open []*history.Call
	for _, c := range tries {
		switch {
		case c.Outcome == history.OK:
			done = append(done, c)
		case c.Outcome != history.Failed:
			open = append(open, c)
		case aboutState(c.Answer.Status), c.Answer.Replaced:
			refused = append(refused, c)
			if c.Answer.Resent { // only the last sending was refused
				open = append(open, c)
			}
		}
	}
	o := operation{n: tries[0].Op, kind: tries[0].Kind, ask: tries[0].Ask}
	if o.settles() {
		b.addSettles(o, slices.Concat(done, refused), open)
		return
	}
	again := len(open) > 0 && b.others(o.n, open[0].Start) >= keysRemembered
	b.addDone(o, done, open)
	once := -1
	switch {
	case again:
		b.addEvents(o, open, false)
	case len(done) == 0 && len(open) > 0: // the task remembers the first try that happens
		once = b.addEvents(o, open[:1], len(refused) > 0)
	}
	for _, c := range refused {
		b.addRefused(o, c, once)
	}
}

// keysRemembered is the number of calls that a task remembers by their keys.
const keysRemembered = 2

func (o *operation) settles() bool {
	switch o.kind {
	case history.Ack, history.Nack, history.Extend, history.Release:
		return true
	}
	return false
}

// aboutState reports whether a refusal's status depends on the task's state. Other refusals come from before the task
// is looked up.
func aboutState(status int) bool {
	switch status {
	case http.StatusNotFound, http.StatusConflict, http.StatusPreconditionFailed, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// others returns the number of other operations that may have happened after an instant, and so how many keys the task
// may have remembered since.
func (b *builder) others(n int64, since history.Instant) int {
	count := 0
	for other, tries := range b.ops {
		if other != n && slices.ContainsFunc(tries, func(c *history.Call) bool {
			return c.Outcome != history.Failed && (c.End == 0 || c.Outcome != history.OK || c.End >= since)
		}) {
			count++
		}
	}
	return count
}

// addDone adds the steps of an operation that was done, one for each revision answered. A step starts with the first
// try that may have done it, and ends with its first answer. Another revision means that the operation happened again.
func (b *builder) addDone(o operation, done, open []*history.Call) {
	begun := map[uint64]*step{}
	for _, c := range done {
		if x := begun[c.Answer.Revision]; x != nil {
			x.start, x.end = min(x.start, c.Start), min(x.end, c.End)
			continue
		}
		start := c.Start
		for _, earlier := range open {
			start = min(start, earlier.Start)
		}
		x := &step{
			operation: b.withDelay(o, start, c.End), call: c, start: start, end: c.End, once: -1, number: c.Answer.Revision,
		}
		if c.Answer.Status == http.StatusCreated {
			x.answer = created
		}
		b.takeAnswer(x, len(done)+len(open) > 1 || c.Answer.Resent)
		begun[x.number] = x
		b.steps = append(b.steps, x)
	}
}

// withDelay returns the operation with the bounds that its delay sets, given that it was asked for between these
// instants.
func (b *builder) withDelay(o operation, from, to history.Instant) operation {
	if o.ask.Delay != 0 {
		behind, _ := b.clocks.off(from, to)
		o.from = from.Add(o.ask.Delay - behind)
	}
	return o
}

// takeAnswer takes the contents of an answer into the step. The answer of a repeat shows the current payload, except
// that of a schedule, which shows its own.
func (b *builder) takeAnswer(x *step, repeated bool) {
	a := &x.call.Answer
	_, ahead := b.clocks.off(x.start, x.end)
	now := x.end.Add(ahead + b.clocks.apart + rounding)
	switch {
	case x.kind == history.Cancel:
		var valid bool
		if x.cancel, valid = outcomeOf(a.Cancel); !valid || x.cancel == none {
			x.bad = "a cancel has no such outcome"
		}
		return
	case x.kind != history.Fire:
		x.changes = x.number != 0
		if x.ask.Delay != 0 {
			x.to = now.Add(x.ask.Delay)
		}
	default:
		x.to = now.Add(horizon)                                        // a task may be ready that long before it is due,
		if a.State == ready.String() && b.seenDue(a.FireAt) <= x.end { // or even earlier by a clock that was ahead
			x.to = max(x.to, a.FireAt)
		}
	}
	if a.State != "" {
		x.look(b.life, x.kind == history.Schedule || !repeated)
	}
}

// rounding is the precision of due times: the service keeps whole milliseconds.
const rounding = time.Millisecond

// addRefused adds a try that was refused because of the task's state. The task did not know the call's key then, or it
// would have repeated an answer. once is the class of events that such a step cannot follow, -1 for none.
func (b *builder) addRefused(o operation, c *history.Call, once int) {
	x := &step{operation: o, call: c, start: c.Start, end: c.End, once: once}
	switch c.Answer.Status {
	case http.StatusOK:
		x.answer = replaced
	case http.StatusNotFound:
		x.answer = missing
	case http.StatusPreconditionFailed:
		x.answer = unmet
	case http.StatusConflict:
		x.answer = conflict
		if c.Answer.State != "" {
			x.look(b.life, false)
		}
	default:
		x.bad = "no key was ever used for two calls"
	}
	b.steps = append(b.steps, x)
}

// addSettles adds the calls of a consumer about its lease. Settles have no keys, so each try is an operation of its
// own.
func (b *builder) addSettles(o operation, answered, open []*history.Call) {
	for _, c := range answered {
		if c.Outcome == history.Failed {
			b.addRefused(o, c, -1)
			continue
		}
		delayed := b.withDelay(o, c.Start, c.End)
		b.steps = append(b.steps, &step{operation: delayed, call: c, start: c.Start, end: c.End, once: -1})
	}
	if len(open) > 0 {
		b.addEvents(o, open, false)
	}
}

// addEvents adds tries of unknown outcome to a class of events, and returns the class. A class of its own is made for
// an operation with a payload, or if apart is set.
func (b *builder) addEvents(o operation, open []*history.Call, apart bool) int {
	k := class{kind: o.kind, ask: o.ask}
	if o.ask.Body != 0 || apart {
		k.n = o.n
	}
	i, known := b.classes[k]
	if !known && len(open) > 0 {
		i = len(b.events)
		b.classes[k] = i
		b.events = append(b.events, event{operation: b.withDelay(o, open[0].Start, history.Forever)})
	}
	for _, c := range open {
		b.events[i].starts = append(b.events[i].starts, c.Start)
	}
	slices.Sort(b.events[i].starts)
	return i
}
