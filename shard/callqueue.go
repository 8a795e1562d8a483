package shard

import (
	"container/heap"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// callQueue holds the waiting calls and settles. The namespaces share the entries by weight, and the calls of one
// namespace take turns among themselves. So a storm of one namespace does not delay the calls of the others. The
// intake's mutex guards it.
//
// The sharing of calls is start-time fair queueing (Goyal, Vin and Cheng, 1996): the next line is the one that has been
// served the least. A line that comes back counts as served as much as the line whose turn was last, so its absence
// gives it no claim.
type callQueue struct {
	weight func(namespace string) int // nil: all have one
	lines  lineHeap                   // with a call
	byName map[string]*callLine
	last   *callLine // of the last lookup
	newest *callLine // of the last call or settle
	calls  int       // in all lines
	served float64   // of the line whose turn was last, before that turn; after it if no line has a call
	joined uint64    // times that a line got its first call
	mixed  time.Time // when two calls or settles in a row last were of different namespaces

	settling []*callLine // lines with a settle, in the order of their turns
}

// callLine is the calls and settles of one namespace.
type callLine struct {
	namespace string
	calls     []*call
	pending   int64   // bytes of its calls and reservations that are not taken
	served    float64 // the sum of its prices, for each unit of its weight
	order     uint64  // among lines that have been served as much
	settles   []settle
}

// lineHeap is a heap of lines, the one that has been served the least first.
type lineHeap []*callLine

func (h lineHeap) Len() int { return len(h) }
func (h lineHeap) Less(i, j int) bool {
	return h[i].served < h[j].served || h[i].served == h[j].served && h[i].order < h[j].order
}
func (h lineHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *lineHeap) Push(x any)   { *h = append(*h, x.(*callLine)) }
func (h *lineHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return last
}

// commandBytes is the lowest price of a command. A larger command costs its bytes. So maxEntryCommands commands cost at
// least maxEntryBytes.
const commandBytes = maxEntryBytes / maxEntryCommands

// lineOf returns the line of a namespace, and makes it if there is none.
func (q *callQueue) lineOf(namespace string) *callLine {
	if q.last != nil && q.last.namespace == namespace {
		return q.last
	}
	l := q.byName[namespace]
	if l == nil {
		if q.byName == nil {
			q.byName = map[string]*callLine{}
		}
		q.forget()
		l = &callLine{namespace: namespace}
		q.byName[namespace] = l
	}
	q.last = l
	return l
}

// maxLines is the number of lines from which on lines without work are forgotten.
const maxLines = 64

func (q *callQueue) forget() {
	if len(q.byName) < maxLines {
		return
	}
	q.last = nil
	for name, l := range q.byName {
		if len(l.calls)+len(l.settles) == 0 && l.pending == 0 && l.served <= q.served {
			delete(q.byName, name)
		}
	}
}

// mixedFor is how long namespaces count as sharing the shard after calls or settles of several have come.
const mixedFor = time.Second

// areMixed reports whether calls or settles of several namespaces have come lately.
func (q *callQueue) areMixed() bool { return !q.mixed.IsZero() && time.Since(q.mixed) < mixedFor }

// came records that a line gets work.
func (q *callQueue) came(l *callLine) {
	if q.newest != l && q.newest != nil {
		q.mixed = time.Now()
	}
	q.newest = l
}

// add appends a call to its line.
func (q *callQueue) add(c *call) {
	q.came(c.line)
	if len(c.line.calls) == 0 {
		q.joined++
		c.line.order, c.line.served = q.joined, max(c.line.served, q.served)
		heap.Push(&q.lines, c.line)
	}
	c.line.calls = append(c.line.calls, c)
	q.calls++
}

// took ends the turn of the first call, in which the entry took so many of its commands and bytes. A call with commands
// left goes to the end of its line.
func (q *callQueue) took(c *call, commands, bytes int) {
	l := c.line
	l.calls[0] = nil
	l.calls = l.calls[1:]
	if !c.gone && c.taken < len(c.ends) {
		l.calls = append(l.calls, c)
	} else {
		q.calls--
	}
	q.served = l.served
	l.served += float64(max(bytes, commands*commandBytes)) / float64(q.weightOf(l.namespace))
	if len(l.calls) == 0 {
		heap.Pop(&q.lines)
		if len(q.lines) == 0 {
			q.served = l.served
		}
	} else {
		heap.Fix(&q.lines, 0)
	}
}

func (q *callQueue) weightOf(namespace string) int {
	if q.weight == nil {
		return 1
	}
	return max(q.weight(namespace), 1)
}

// addSettle appends a settle to the line of its namespace.
func (q *callQueue) addSettle(s settle) {
	l := q.lineOf(task.CanonicalNamespace(s.lane.Namespace))
	q.came(l)
	if len(l.settles) == 0 {
		q.settling = append(q.settling, l)
	}
	l.settles = append(l.settles, s)
}

// settleTurn is the number of settles that a namespace has in its turn, for each unit of its weight.
const settleTurn = 8

// takeSettles removes the next settles, up to a number, and returns them. Those of one namespace keep their order.
func (q *callQueue) takeSettles(most int) (taken []settle) {
	for len(q.settling) > 0 && most > 0 {
		l := q.settling[0]
		n := min(len(l.settles), most)
		if len(q.settling) > 1 {
			n = min(n, settleTurn*q.weightOf(l.namespace))
		}
		if taken == nil {
			taken = l.settles[:n:n]
		} else {
			taken = append(taken, l.settles[:n]...)
		}
		most -= n
		l.settles = l.settles[n:]
		q.settling = q.settling[1:]
		if len(l.settles) > 0 {
			q.settling = append(q.settling, l)
		}
	}
	return taken
}

// all returns all calls.
func (q *callQueue) all() (all []*call) {
	for _, l := range q.lines {
		all = append(all, l.calls...)
	}
	return all
}

// clear removes all calls and settles, and their counts.
func (q *callQueue) clear() {
	for _, l := range q.byName {
		l.calls, l.settles, l.pending = nil, nil, 0
	}
	q.lines, q.settling, q.calls = nil, nil, 0
}

// namespaceOf returns the namespace that a call counts for: that of its first command.
func namespaceOf(cmds []*fsmpb.Command) string {
	if len(cmds) == 0 {
		return task.DefaultNamespace
	}
	return task.CanonicalNamespace(cmds[0].Namespace)
}
