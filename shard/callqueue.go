package shard

import (
	"slices"
	"time"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// callQueue holds the waiting calls. The namespaces with calls take turns by weight, and the calls of one namespace
// take turns among themselves. So a storm of one namespace does not delay the calls of the others. The intake's mutex
// guards it.
type callQueue struct {
	weight func(namespace string) int // nil: all have one
	lines  []*callLine                // with a call; the one whose turn it is comes first
	byName map[string]*callLine
	last   *callLine // that was looked up last
	newest *callLine // of the last call
	calls  int       // in all lines
	mixed  time.Time // when the last call came of another namespace than the call before
}

// callLine is the calls of one namespace.
type callLine struct {
	namespace string
	calls     []*call
	pending   int64 // bytes of its calls and reservations that are not taken
	left      int   // the rest of its turn, in bytes
}

// The price of a command is its bytes, and at least its part of an entry with as many commands as may be.
const (
	commandBytes = maxEntryBytes / maxEntryCommands
	turnBytes    = shareBytes
)

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

// maxLines is the number of namespaces from which on those without calls are forgotten.
const maxLines = 64

func (q *callQueue) forget() {
	if len(q.byName) < maxLines {
		return
	}
	q.last = nil
	for name, l := range q.byName {
		if len(l.calls) == 0 && l.pending == 0 {
			delete(q.byName, name)
		}
	}
}

// The limits of users' commands in an entry while calls of several namespaces come. A storm makes entries full, and the
// calls of the others wait for the entry before theirs and for their own.
const (
	mixedCommands = maxEntryCommands / 4
	mixedBytes    = maxEntryBytes / 4
	mixedFor      = time.Second
)

// areMixed reports whether calls of several namespaces have come lately.
func (q *callQueue) areMixed() bool { return !q.mixed.IsZero() && time.Since(q.mixed) < mixedFor }

// add appends a call to its line.
func (q *callQueue) add(c *call) {
	if q.newest != c.line && q.newest != nil {
		q.mixed = time.Now()
	}
	q.newest = c.line
	if len(c.line.calls) == 0 {
		q.lines = append(q.lines, c.line)
	}
	c.line.calls = append(c.line.calls, c)
	q.calls++
}

// first returns the call whose turn it is. There must be one.
func (q *callQueue) first() *call { return q.lines[0].calls[0] }

// took ends the part of the first call, which was so many commands and bytes. A call with commands left goes to the end
// of its line, and a line whose turn is over to the end of the lines.
func (q *callQueue) took(c *call, commands, bytes int) {
	l := c.line
	l.calls[0] = nil
	l.calls = l.calls[1:]
	if !c.gone && c.taken < len(c.ends) {
		l.calls = append(l.calls, c)
	} else {
		q.calls--
	}
	switch {
	case len(l.calls) == 0:
		l.left = 0
		q.lines = slices.Delete(q.lines, 0, 1)
	case len(q.lines) > 1:
		q.spend(l, max(bytes, commands*commandBytes))
	}
}

// spend takes a price off the turn of the first line.
func (q *callQueue) spend(l *callLine, price int) {
	if l.left <= 0 {
		l.left = turnBytes * q.weightOf(l.namespace)
	}
	if l.left -= price; l.left <= 0 {
		q.lines = append(slices.Delete(q.lines, 0, 1), l)
	}
}

func (q *callQueue) weightOf(namespace string) int {
	if q.weight == nil {
		return 1
	}
	return max(q.weight(namespace), 1)
}

// all returns all calls.
func (q *callQueue) all() (all []*call) {
	for _, l := range q.lines {
		all = append(all, l.calls...)
	}
	return all
}

// clear removes all calls and counts.
func (q *callQueue) clear() {
	for _, l := range q.byName {
		l.calls, l.pending, l.left = nil, 0, 0
	}
	q.lines, q.calls = nil, 0
}

// namespaceOf returns the namespace that a call counts for: that of its first command.
func namespaceOf(cmds []*fsmpb.Command) string {
	if len(cmds) == 0 {
		return task.DefaultNamespace
	}
	return task.CanonicalNamespace(cmds[0].Namespace)
}
