package store

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// A schedule is a record among the tasks of its slot, in the state STATE_REPEATING. Its content is that of its
// occurrences, and it waits in the wheel for the first of its coming instants. It has a progress record for its
// revision, and is in no list.

// Schedules finds the schedules by what they wait for. It is derived from the tasks.
type Schedules struct {
	s         *Store
	wanting   map[handle]struct{} // schedules that want coming instants
	calendars calendarUses
	ended     []EndedOccurrence // by the current command
}

func newSchedules(s *Store) Schedules {
	return Schedules{s: s, wanting: map[handle]struct{}{}, calendars: newCalendarUses()}
}

// Add makes a schedule under an id that has none, in no wheel.
func (ss *Schedules) Add(at Place, namespace, id string, content Content) Task {
	s := ss.s
	c := s.mem.newCold(namespace, &content)
	h := s.add(at, namespace, id, &c)
	s.mem.tasks.Write(h).state = uint8(fsmpb.State_STATE_REPEATING)
	s.mem.progressOf(h).revision = s.Number
	s.dues.add(dueKeysOf(Task{s, h}), at.slot, h)
	s.land(h, s.mem.identityOf(at.slot, h))
	ss.note(h, content.Series)
	return Task{s, h}
}

// Series returns a copy of the state of a schedule, or nil for a task.
func (t Task) Series() *fsmpb.Series {
	c := t.cold()
	return t.s.mem.extraOf(&c).Series
}

// EditSeries calls edit to change the state of a schedule, and makes it wait for its next instant. edit may change
// other tasks, too.
func (e Edit) EditSeries(edit func(*fsmpb.Series)) {
	s := e.s
	c := e.cold()
	extra := s.mem.extraOf(&c) // of its own: no other task shares a schedule's
	s.sum -= s.mem.digestContent(e.record(), &c, extra)
	number, passed := s.Number, extra.Series.Passed
	edit(extra.Series)
	if s.Number != number {
		s.Number++ // the numbers since are those of other tasks in the wheel
	}
	c = e.cold() // edit may have moved the blob's memory
	shared, old := c.manner, e.record().cold
	s.mem.setExtra(&c, extra)
	s.mem.manners.release(shared)
	s.mem.scratch = c.appendTo(s.mem.scratch[:0])
	ref := s.mem.blobs.Put(s.mem.scratch)
	s.mem.blobs.Free(old)
	r := s.mem.tasks.Write(e.h)
	r.cold = ref
	s.sum += s.mem.digestContent(r, &c, extra)
	e.AwaitNext(extra.Series)
	if s.events.tell != nil && extra.Series.Passed > passed {
		s.events.skipped(e.Task, extra.Series, extra.Series.Passed-passed)
	}
}

// AwaitNext makes a schedule with this state wait in the wheel for its next instant, if it has one.
func (e Edit) AwaitNext(series *fsmpb.Series) {
	switch {
	case len(series.Next) == 0:
		e.StopWaiting()
	case !e.record().waits || e.WaitsUntilMs() != series.Next[0].FireMs:
		e.WaitUntil(series.Next[0].FireMs)
	}
	e.s.Schedules.note(e.h, series)
}

// A schedule wants coming instants while it has fewer than fewestNext of them, or fewer than enoughNext that reach no
// further than nextSpan ahead. The span is longer than a failover takes.
const (
	fewestNext = 2
	enoughNext = 32
	nextSpanMs = 5000
)

func wantsInstants(s *fsmpb.Series, nowMs int64) bool {
	if s.Paused || s.Complete {
		return false
	}
	n := len(s.Next)
	return n < fewestNext || n < enoughNext && s.Next[n-1].FireMs < nowMs+nextSpanMs
}

// note records whether a schedule that is new or has changed wants coming instants, and its calendar.
func (ss *Schedules) note(h handle, series *fsmpb.Series) {
	namespace, _ := Task{ss.s, h}.ID()
	ss.calendars.note(h, namespace, series)
	if wantsInstants(series, ss.s.NowMs) {
		ss.wanting[h] = struct{}{}
	} else {
		delete(ss.wanting, h)
	}
}

func (ss *Schedules) forget(h handle) {
	delete(ss.wanting, h)
	ss.calendars.forget(h)
}

// Wants reports whether a schedule wants coming instants.
func (ss *Schedules) Wants() bool { return len(ss.wanting) > 0 }

// Wanting returns at most limit schedules in open slots that want coming instants, without payloads and in no order.
func (ss *Schedules) Wanting(limit int) []*fsmpb.Task {
	return ss.appendOpen(nil, limit, ss.wanting)
}

// appendOpen appends the schedules in open slots to at most limit views.
func (ss *Schedules) appendOpen(views []*fsmpb.Task, limit int, schedules map[handle]struct{}) []*fsmpb.Task {
	for h := range schedules {
		if len(views) == limit {
			break
		}
		if t := (Task{ss.s, h}); ss.s.Slots.IsOpen(t.slot()) {
			views = append(views, t.View(false))
		}
	}
	return views
}

// All returns all schedules, slot by slot and sorted by namespace and id within one.
func (ss *Schedules) All() (all []Task) {
	s := ss.s
	for slot := range uint32(task.Slots) {
		if s.bySlot[slot][fsmpb.State_STATE_REPEATING] == 0 {
			continue
		}
		first := len(all)
		for h := range s.index.Each(slot) {
			if t := (Task{s, h}); t.State() == fsmpb.State_STATE_REPEATING {
				all = append(all, t)
			}
		}
		slices.SortFunc(all[first:], compareNames)
	}
	return all
}

func compareNames(a, b Task) int {
	namespace, id := a.ID()
	otherNamespace, otherID := b.ID()
	return cmp.Or(strings.Compare(namespace, otherNamespace), strings.Compare(id, otherID))
}

// EndedOccurrence is an occurrence whose task has ended.
type EndedOccurrence struct {
	Namespace, Schedule string
	Number              uint64
	State               fsmpb.State
	Attempts            uint32
	BeganMs             int64 // start of the first attempt; 0: not known
	Error               string
}

// NoteEnd records that a task with a follow-up, or an occurrence, ends in a state, for the error if it is not empty, or
// else for the task's last error. It does nothing for other tasks.
func (e Edit) NoteEnd(state fsmpb.State, reason string) {
	e.noteFollowUp(state)
	if !isOccurrence(e.Task) { // saves most tasks an allocation
		return
	}
	namespace, id := e.ID()
	schedule, number, ok := task.SplitOccurrence(id)
	if !ok {
		return
	}
	h := e.history()
	ended := EndedOccurrence{
		Namespace: namespace, Schedule: schedule, Number: number, State: state, Attempts: e.Attempts(), Error: h.lastError,
	}
	if reason != "" {
		ended.Error = reason
	}
	if len(h.past) > 0 && h.past[0].attempt == 1 {
		ended.BeganMs = h.past[0].start
	}
	e.s.Schedules.ended = append(e.s.Schedules.ended, ended)
}

// TakeEnded returns the first occurrence that the current command has ended and that no call has returned yet.
func (ss *Schedules) TakeEnded() (ended EndedOccurrence, ok bool) {
	if len(ss.ended) == 0 {
		return EndedOccurrence{}, false
	}
	ended = ss.ended[0]
	ss.ended = ss.ended[1:]
	if len(ss.ended) == 0 {
		ss.ended = nil
	}
	return ended, true
}

// isOccurrence reports whether the task's id is that of an occurrence. It allocates nothing.
func isOccurrence(t Task) bool {
	r := t.record()
	if r.idLen != 0 {
		return bytes.IndexByte(r.id[:r.idLen], '@') >= 0
	}
	return bytes.IndexByte(coldID(t.s.mem.blobs.Get(r.cold)), '@') >= 0
}

// coldID returns the id in a blob that has one. The result aliases the blob.
func coldID(b []byte) []byte {
	_, in := readHead(b)
	in.sized() // the namespace
	return in.sized()
}

// calendarUse names the version of a calendar by which the coming instants of schedules were computed.
type calendarUse struct {
	namespace, calendar string
	version             uint64
}

// calendarUses finds the schedules of each version of a calendar. It is derived from the schedules, and takes about 150
// bytes for each one with a calendar.
type calendarUses struct {
	of        map[handle]calendarUse
	schedules map[calendarUse]map[handle]struct{}
}

func newCalendarUses() calendarUses {
	return calendarUses{map[handle]calendarUse{}, map[calendarUse]map[handle]struct{}{}}
}

// note records the calendar of a schedule that is new or has changed. A schedule without coming instants has none that
// could be outdated, and a paused one none at all.
func (u *calendarUses) note(h handle, namespace string, series *fsmpb.Series) {
	use := calendarUse{namespace, series.Repeat.GetCalendar(), series.CalendarVersion}
	if use.calendar == "" || series.Paused || len(series.Next) == 0 && !series.Complete {
		u.forget(h)
		return
	}
	if u.of[h] == use {
		return
	}
	u.forget(h)
	if u.schedules[use] == nil {
		u.schedules[use] = map[handle]struct{}{}
	}
	u.schedules[use][h] = struct{}{}
	u.of[h] = use
}

func (u *calendarUses) forget(h handle) {
	use, ok := u.of[h]
	if !ok {
		return
	}
	delete(u.of, h)
	if delete(u.schedules[use], h); len(u.schedules[use]) == 0 {
		delete(u.schedules, use)
	}
}

// Outdated returns at most limit schedules in open slots whose coming instants were computed by another version of
// their calendar than the current one, without payloads and in no order.
func (ss *Schedules) Outdated(limit int, current func(namespace, calendar string) uint64) []*fsmpb.Task {
	var views []*fsmpb.Task
	for use, schedules := range ss.calendars.schedules {
		if len(views) < limit && current(use.namespace, use.calendar) != use.version {
			views = ss.appendOpen(views, limit, schedules)
		}
	}
	return views
}
