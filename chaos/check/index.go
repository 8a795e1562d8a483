package check

import (
	"cmp"
	"slices"

	"github.com/belfryhq/belfry/chaos/history"
)

// Index is a history sorted by task. It refers to the history's records, which must not change.
type Index struct {
	h      *history.History
	tasks  map[string]*task
	order  []*task         // without occurrences of schedules, by first calls, then by first arrivals
	writes map[int64]*op   // operations with a payload, by number
	first  history.Instant // start of the first call
	clocks Clocks
	owners owners

	schedules   []*schedule // by first calls
	occurrences []*task     // tasks that are occurrences of schedules, by first arrivals
}

// task holds the records of one id. Each list is sorted by the start of the calls or by the instant of the arrivals.
type task struct {
	id       string
	slot     uint32
	shard    uint32   // the first known one; 0: none is known
	shards   []uint32 // all that may have held the task
	ops      []*op    // operations that may change the task, without settles
	reads    []*history.Call
	stale    []*history.Call
	settles  []*history.Call // calls about the task's leases
	arrivals []*arrival
}

// arrival is an attempt, or a lease together with the calls of its consumer about it.
type arrival struct {
	*history.Arrival
	settles []*history.Call
}

// op is an operation with all its tries.
type op struct {
	n       int64
	kind    history.Kind
	ask     *history.Ask
	start   history.Instant // start of the first try that may have succeeded; of the first try if all failed
	end     history.Instant // first answer of success, or last refusal; Forever: outcome unknown
	last    history.Instant // when the last try was answered or given up
	outcome history.Outcome // OK, Failed or Unknown
	answer  *history.Answer // answer of the first try that succeeded
	tries   int
	open    bool // a try has an unknown outcome
	recurs  bool // the operation may happen again, after the task forgot its key
}

// NewIndex sorts a history by task.
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
		x.seeAt(t, a.Shard)
	}
	x.addSchedules()
	x.learnShards()
	for _, t := range x.attempted() {
		slices.SortStableFunc(t.arrivals, func(a, b *arrival) int { return cmp.Compare(a.At, b.At) })
		t.joinSettles()
		t.finish()
	}
	return x
}

func (x *Index) task(id string) *task {
	t := x.tasks[id]
	if t == nil {
		t = &task{id: id, slot: history.SlotIn(x.h.Namespace, id)}
		x.tasks[id] = t
		x.order = append(x.order, t)
	}
	return t
}

// seeAt notes that a shard answered about the task; 0: a shard that is not known.
func (x *Index) seeAt(t *task, shard uint32) {
	x.owners.see(t.slot, shard)
	if t.shard == 0 {
		t.shard = shard
	}
}

func (x *Index) addCall(c *history.Call, ops map[int64]*op) {
	x.first = min(x.first, c.Start)
	t := x.task(c.ID)
	x.seeAt(t, c.Answer.Shard)
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

// try adds one more call of the operation, with its outcome.
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

// joinSettles gives each lease the calls about it, by their fence.
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

// taken reports whether the arrival was accepted: an attempt by the receiver's answer, a lease by an ack. perhaps is
// also set for a lease by an ack of unknown outcome.
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

// released reports whether the consumer may have given the lease back before an instant. Such a lease does not count as
// a begun attempt.
func (a *arrival) released(before history.Instant) bool {
	return slices.ContainsFunc(a.settles, func(c *history.Call) bool {
		return c.Kind == history.Release && possible(c) && c.Start < before
	})
}

// possible reports whether a call happened or may have happened.
func possible(c *history.Call) bool { return c.Outcome != history.Failed }

// remembered is the number of calls whose idempotency keys a task remembers.
const remembered = 2

// finish sorts the operations and marks the repeatable ones. An operation can happen twice if a late try arrives after
// the task forgot its key. The revision in the answer of such an operation proves no order, because it may be that of
// the second time.
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

// possible reports whether the operation happened or may have happened.
func (o *op) possible() bool { return o.outcome != history.Failed }

// doubtful reports whether it is unknown when, how often or whether the operation happened.
func (o *op) doubtful() bool { return o.outcome == history.Unknown || o.recurs }

// before reports whether o certainly happened before p, and not again after it.
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

// schedules reports whether the operation makes a new occurrence of the task, or may make one.
func (o *op) schedules() bool {
	return o.kind == history.Schedule || o.ask.OrSchedule && !o.onlyTouched()
}

// onlyTouched reports whether the operation certainly made no occurrence: its answer shows the payload of another one.
func (o *op) onlyTouched() bool {
	return o.outcome == history.OK && !o.recurs && o.answer.Wrote != 0 && o.answer.Wrote != o.n
}

// made reports whether the operation certainly made an occurrence. A touch with a task to schedule did so only if its
// answer shows that task's payload, or says that a task was created.
func (o *op) made() bool {
	return o.outcome == history.OK &&
		(o.kind == history.Schedule || o.ask.OrSchedule && (o.answer.Wrote == o.n || o.answer.Status == created))
}

// ends reports whether the operation may end an occurrence that another operation made.
func (o *op) ends() bool { return o.schedules() || o.kind == history.Cancel }

// wroteSince reports whether an arrival or a read with the payload of operation n may show the occurrence that w made.
// The payload must be w's own, or that of a patch that is not certainly before w.
func (x *Index) wroteSince(n int64, w *op) bool {
	if n == w.n {
		return true
	}
	p := x.writes[n]
	return p != nil && p.kind == history.Patch && !p.before(w)
}

// carries reports whether the payload of operation n certainly belongs to the occurrence that w made and c cancelled or
// changed. The payload must be w's own, that of a patch between w and c, or c's own.
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

// last returns the latest read of the task among the linearizable reads with a certain answer, nil if there is none.
func (t *task) last() *history.Call {
	var last *history.Call
	for _, r := range t.reads {
		if answered(r) && (last == nil || r.Start > last.Start) {
			last = r
		}
	}
	return last
}

// unanswered reports whether final reads of the task were made and none had a certain answer.
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

// HTTP statuses that the checks look at.
const (
	created     = 201
	notFound    = 404
	conflict    = 409
	unavailable = 503
)

func answered(r *history.Call) bool { return r.Outcome == history.OK || r.Answer.Status == notFound }

// owners holds, by slot, the shards that were seen to own it. All tasks of a slot move to another shard together.
type owners [history.Slots][]uint32

func (o *owners) see(slot, shard uint32) {
	if shard != 0 && !slices.Contains(o[slot], shard) {
		o[slot] = append(o[slot], shard)
	}
}

// learnShards gives each task the shards of its slot. Answers of batches name no shard, for instance.
func (x *Index) learnShards() {
	for _, r := range x.h.Owners {
		for slot := r.First; slot < r.End; slot++ {
			x.owners.see(slot, r.Shard)
		}
	}
	for _, t := range x.attempted() {
		t.shards = x.owners[t.slot]
		if t.shard == 0 && len(t.shards) == 1 {
			t.shard = t.shards[0]
		}
	}
}

// anywhere are the shards of a task of which none is known.
var anywhere = []uint32{0}

// known returns the shards that may have held the task, and 0 alone if none is known.
func (t *task) known() []uint32 {
	if len(t.shards) == 0 {
		return anywhere
	}
	return t.shards
}

// heldBy reports whether one of the shards may have held the task.
func (t *task) heldBy(shards []uint32) bool {
	return slices.ContainsFunc(t.shards, func(shard uint32) bool { return slices.Contains(shards, shard) })
}

// born returns the instants at which shards were first seen to own slots. A record without owners has none.
func (x *Index) born() map[uint32]history.Instant {
	born := map[uint32]history.Instant{}
	for _, o := range x.h.Owners {
		if _, ok := born[o.Shard]; !ok {
			born[o.Shard] = o.At
		}
	}
	return born
}
