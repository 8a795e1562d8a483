package check

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/chaos/history"
)

// Index is a history by task.
type Index struct {
	h      *history.History
	tasks  map[string]*task
	order  []*task         // by first sight
	writes map[int64]*op   // operations that wrote a payload
	first  history.Instant // of the history
	clocks Clocks
}

// task is what is known of one id. All lists are by start or arrival.
type task struct {
	id       string
	shard    uint32 // 0: nothing told
	ops      []*op  // that may change it, but for settles
	reads    []*history.Call
	stale    []*history.Call
	settles  []*history.Call // of its leases
	arrivals []*arrival
}

// arrival is an attempt, or a lease with what its consumer did about it.
type arrival struct {
	*history.Arrival
	settles []*history.Call
}

// op is an operation with all its tries.
type op struct {
	n       int64
	kind    history.Kind
	ask     *history.Ask
	start   history.Instant // of the first try that may have done it; of the first, if all failed
	end     history.Instant // when it was first answered for certain; Forever: it never was
	last    history.Instant // when the last try was answered, or given up
	outcome history.Outcome // OK, Failed or Unknown
	answer  *history.Answer // of the first try that succeeded
	tries   int
	open    bool // a try was not answered for certain
	recurs  bool // that try may happen after the key is forgotten: again
}

// NewIndex sorts a history out.
func NewIndex(h *history.History) *Index {
	x := &Index{
		h: h, tasks: make(map[string]*task, len(h.Calls)/3), writes: make(map[int64]*op, len(h.Calls)/2),
		first: history.Forever, clocks: NewClocks(h.Faults),
	}
	ops := make(map[int64]*op, len(h.Calls)/2)
	for i := range h.Calls {
		x.addCall(&h.Calls[i], ops)
	}
	arrivals := make([]arrival, len(h.Arrivals))
	for i := range h.Arrivals {
		a := &arrivals[i]
		a.Arrival = &h.Arrivals[i]
		t := x.task(a.ID)
		t.arrivals = append(t.arrivals, a)
		if t.shard == 0 {
			t.shard = a.Shard
		}
	}
	x.learnShards()
	for _, t := range x.order {
		slices.SortStableFunc(t.arrivals, func(a, b *arrival) int { return cmp.Compare(a.At, b.At) })
		t.joinSettles()
		t.finish()
	}
	return x
}

func (x *Index) task(id string) *task {
	t := x.tasks[id]
	if t == nil {
		t = &task{id: id}
		x.tasks[id] = t
		x.order = append(x.order, t)
	}
	return t
}

func (x *Index) addCall(c *history.Call, ops map[int64]*op) {
	x.first = min(x.first, c.Start)
	t := x.task(c.ID)
	if t.shard == 0 {
		t.shard = c.Answer.Shard
	}
	switch {
	case c.Kind == history.Get:
		t.reads = append(t.reads, c)
		return
	case c.Kind == history.Stale:
		t.stale = append(t.stale, c)
		return
	case c.Kind.Settles():
		t.settles = append(t.settles, c)
		return
	}
	o := ops[c.Op]
	if o == nil {
		o = &op{n: c.Op, kind: c.Kind, ask: &c.Ask, start: c.Start, outcome: history.Failed, answer: &noAnswer}
		ops[c.Op] = o
		t.ops = append(t.ops, o)
		if c.Ask.Body != 0 {
			x.writes[c.Op] = o
		}
	}
	o.try(c)
}

var noAnswer history.Answer

// try adds what one more call of the operation came to.
func (o *op) try(c *history.Call) {
	o.tries++
	o.last = max(o.last, c.End)
	if o.outcome == history.Failed && c.Outcome != history.Failed {
		o.start = c.Start
	}
	switch {
	case c.Outcome == history.OK && o.outcome != history.OK:
		o.outcome, o.end, o.answer = history.OK, c.End, &c.Answer
	case c.Outcome == history.OK:
		o.end = min(o.end, c.End)
	case c.Outcome == history.Failed && o.outcome == history.Failed:
		o.end = max(o.end, c.End)
	case c.Outcome != history.Failed:
		o.open = true
		if o.outcome != history.OK {
			o.outcome = history.Unknown
		}
	}
	if o.outcome == history.Unknown {
		o.end = history.Forever
	}
}

// joinSettles gives each lease the calls about it.
func (t *task) joinSettles() {
	for _, c := range t.settles {
		for _, a := range t.arrivals {
			if a.Pulled && a.Fence == c.Ask.Fence {
				a.settles = append(a.settles, c)
				break
			}
		}
	}
}

// taken tells whether whom it came to has taken it: a receiver by its answer, a consumer by an ack; perhaps: by an ack
// of unknown outcome.
func (a *arrival) taken() (certain, perhaps bool) {
	if !a.Pulled {
		return a.Delivered(), false
	}
	for _, c := range a.settles {
		certain = certain || c.Kind == history.Ack && c.Outcome == history.OK
		perhaps = perhaps || c.Kind == history.Ack && possible(c)
	}
	return certain, perhaps
}

// released tells whether a lease may have been given back before an instant: then it does not count as begun.
func (a *arrival) released(before history.Instant) bool {
	return slices.ContainsFunc(a.settles, func(c *history.Call) bool {
		return c.Kind == history.Release && possible(c) && c.Start < before
	})
}

// possible: it happened, or may have.
func possible(c *history.Call) bool { return c.Outcome != history.Failed }

// remembered is how many calls' keys a task remembers.
const remembered = 2

// finish finds the operations that may happen twice: a try that is still under way somewhere finds its key forgotten.
// Revisions do not tell what came after such an operation: that in its answer may be of the second time.
func (t *task) finish() {
	slices.SortStableFunc(t.ops, func(a, b *op) int { return cmp.Compare(a.start, b.start) })
	for _, o := range t.ops {
		if !o.open || o.tries < 2 {
			continue
		}
		later := 0
		for _, other := range t.ops {
			if other != o && other.possible() && !(other.outcome == history.OK && other.end < o.start) {
				later++
			}
		}
		o.recurs = later >= remembered
	}
}

// possible: it happened, or may have.
func (o *op) possible() bool { return o.outcome != history.Failed }

// doubtful: when, how often or whether it happened is not known.
func (o *op) doubtful() bool { return o.outcome == history.Unknown || o.recurs }

// before: it certainly happened before p, and not after it.
func (o *op) before(p *op) bool {
	if o.doubtful() || !o.possible() {
		return false
	}
	if o.end < p.start {
		return true
	}
	return p.outcome == history.OK && !p.recurs &&
		o.answer.Revision > 0 && p.answer.Revision > 0 && o.answer.Revision < p.answer.Revision
}

// schedules: it makes an occurrence, or may make one.
func (o *op) schedules() bool {
	return o.kind == history.Schedule || o.ask.OrSchedule && !o.onlyTouched()
}

// onlyTouched: it certainly made no occurrence, for the payload in its answer is another's.
func (o *op) onlyTouched() bool {
	return o.outcome == history.OK && !o.recurs && o.answer.Wrote != 0 && o.answer.Wrote != o.n
}

// made: it certainly made an occurrence. A touch that has a task to schedule did so only if its answer shows that
// task's payload.
func (o *op) made() bool {
	return o.outcome == history.OK &&
		(o.kind == history.Schedule || o.ask.OrSchedule && (o.answer.Wrote == o.n || o.answer.Status == created))
}

// ends: it may end an occurrence that another one made.
func (o *op) ends() bool { return o.schedules() || o.kind == history.Cancel }

// wroteSince tells whether an arrival or a read with the payload of operation n may show the occurrence that w made:
// the payload is w's own, or that of a patch that is not certainly before w.
func (x *Index) wroteSince(n int64, w *op) bool {
	if n == w.n {
		return true
	}
	p := x.writes[n]
	return p != nil && p.kind == history.Patch && !p.before(w)
}

// carries tells whether a payload certainly is of the occurrence that w made and c cancelled or changed: w's own, or
// that of a patch between the two, or of c itself.
func (x *Index) carries(n int64, w, c *op) bool {
	if n == w.n {
		return true
	}
	p := x.writes[n]
	return p != nil && p.kind == history.Patch && w.before(p) && (p == c || p.before(c))
}

func finished(state string) bool {
	return state == "delivered" || state == "dead" || state == "cancelled"
}

// last is the last certain answer of a linearizable read, nil if there is none.
func (t *task) last() *history.Call {
	var last *history.Call
	for _, r := range t.reads {
		if answered(r) && (last == nil || r.Start > last.Start) {
			last = r
		}
	}
	return last
}

// unanswered tells whether the task was to be read in the end, and could not be.
func (t *task) unanswered() bool {
	asked := false
	for _, r := range t.reads {
		if r.Final && answered(r) {
			return false
		}
		asked = asked || r.Final
	}
	return asked
}

// What the checks know of HTTP.
const (
	created     = 201
	notFound    = 404
	conflict    = 409
	unavailable = 503
)

func answered(r *history.Call) bool { return r.Outcome == history.OK || r.Answer.Status == notFound }
