package fsm

import (
	"slices"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// recur begins the next occurrence of a schedule whose instant in the wheel has come. Instants that were missed are
// left to the leader, which knows the rule.
func (a *applier) recur(e store.Edit, credits *credits) {
	e.EditSeries(func(series *fsmpb.Series) {
		if len(series.Next) == 0 {
			return
		}
		if isMissed(series, a.store.NowMs) {
			series.Next, series.Complete = nil, false
			return
		}
		a.begin(e, series, nextOf(series), credits)
	})
}

// isMissed reports whether the first coming instant is long past, and the leader has not judged it yet.
func isMissed(series *fsmpb.Series, nowMs int64) bool {
	fire, limit := series.Next[0].FireMs, task.MissedAfter.Milliseconds()
	return fire < nowMs-limit && fire >= series.JudgedMs-limit
}

// nextOf takes the first coming instant of a schedule as an occurrence.
func nextOf(series *fsmpb.Series) *fsmpb.Occurrence {
	flawAltersInstants(series)
	next := series.Next[0]
	series.Next = series.Next[1:]
	series.AfterMs = next.ScheduledMs
	series.Ruled++
	return &fsmpb.Occurrence{ScheduledMs: next.ScheduledMs, FireMs: next.FireMs}
}

// begin starts an occurrence, makes it wait or passes it over, as the overlap policy says. credits is nil outside of an
// Advance.
func (a *applier) begin(e store.Edit, series *fsmpb.Series, o *fsmpb.Occurrence, credits *credits) {
	number(series, o)
	switch {
	case passesOver(series):
		o.Passed = fsmpb.Passed_PASSED_OVERLAP
		record(series, o)
	case len(series.Queued) == 0 && hasRoom(series):
		a.start(e, series, o, credits)
	case series.Overlap == fsmpb.Overlap_OVERLAP_CANCEL_PREVIOUS:
		a.displace(e, series, o)
	default:
		series.Queued = append(series.Queued, o)
	}
}

// number gives an occurrence its number.
func number(series *fsmpb.Series, o *fsmpb.Occurrence) {
	o.Number = series.Last + 1
	series.Last += max(o.Count, 1)
}

// displace cancels the occurrences under way, and lets o wait for the end of their attempts.
func (a *applier) displace(e store.Edit, series *fsmpb.Series, o *fsmpb.Occurrence) {
	for _, waiting := range series.Queued {
		waiting.Passed = fsmpb.Passed_PASSED_REPLACED
		record(series, waiting)
	}
	series.Queued = []*fsmpb.Occurrence{o}
	for _, live := range series.Live {
		namespace, id := occurrenceOf(e, live)
		a.after = append(a.after, func() { a.cancelOccurrence(namespace, id) })
	}
}

func (a *applier) cancelOccurrence(namespace, id string) {
	if t := a.store.Find(namespace, id); t.Exists() {
		a.store.Number++
		a.cancel(t)
	}
}

func occurrenceOf(e store.Edit, o *fsmpb.Occurrence) (namespace, id string) {
	namespace, record := e.ID()
	schedule, _ := task.SplitSeries(record)
	return namespace, task.OccurrenceID(schedule, o.Number)
}

// start makes the task of an occurrence. In an Advance, with credits, the task comes due at once. Otherwise it does at
// the next Advance.
func (a *applier) start(e store.Edit, series *fsmpb.Series, o *fsmpb.Occurrence, credits *credits) {
	a.startWith(e, series, o, e.Content(true), credits)
}

// startWith is start with the content of the schedule.
func (a *applier) startWith(e store.Edit, series *fsmpb.Series, o *fsmpb.Occurrence, content store.Content,
	credits *credits) {
	series.Started++
	series.Live = append(series.Live, o)
	namespace, id := occurrenceOf(e, o)
	a.store.Number++
	content.Series, content.CreatedMs, content.Occurrence = nil, a.store.NowMs, a.store.Number
	if o.Origin == fsmpb.Origin_ORIGIN_BACKFILL {
		o.FireMs = a.store.NowMs // its instant is long over
	}
	content.Spec = specOf(content.Spec, o)
	if a.store.Find(namespace, id).Exists() {
		a.after = append(a.after, func() { a.takeOver(namespace, id, content, o.FireMs) })
		return
	}
	a.store.Add(a.store.PlaceOf(namespace, id), namespace, id, nil, content, o.FireMs)
	if credits != nil {
		a.store.Change(a.store.Find(namespace, id), func(e store.Edit) {
			e.StopWaiting()
			a.becomeReady(e, o.FireMs, credits)
		})
	}
}

// specOf returns the spec of an occurrence. It shares the parts of the schedule's.
func specOf(s *fsmpb.Spec, o *fsmpb.Occurrence) *fsmpb.Spec {
	spec := &fsmpb.Spec{}
	task.CopySpec(spec, s)
	spec.ScheduledMs = 0
	if o.ScheduledMs != o.FireMs {
		spec.ScheduledMs = o.ScheduledMs
	}
	return spec
}

// takeOver makes a task out of one with the same id: of an occurrence, whose schedule was deleted, or of a follow-up,
// whose task was scheduled again. There may be no such task.
func (a *applier) takeOver(namespace, id string, content store.Content, fireMs int64) {
	a.store.Number++
	content.Occurrence = a.store.Number
	old := a.store.Find(namespace, id)
	if !old.Exists() {
		a.store.Add(a.store.PlaceOf(namespace, id), namespace, id, nil, content, fireMs)
		return
	}
	a.store.Change(old, func(e store.Edit) {
		e.Rewrite(content)
		e.Reschedule(fireMs)
	})
}

// startQueued starts occurrences that wait, in their order, as far as the overlap policy lets them begin now.
func (a *applier) startQueued(e store.Edit, series *fsmpb.Series) {
	if len(series.Queued) == 0 || series.Paused || !hasRoom(series) {
		return
	}
	content := e.Content(true)
	for len(series.Queued) > 0 && hasRoom(series) {
		first := series.Queued[0]
		series.Queued = series.Queued[1:]
		a.startWith(e, series, first, content, nil)
	}
}

// hasRoom reports whether an occurrence may begin beside those under way.
func hasRoom(series *fsmpb.Series) bool {
	under := len(series.Live)
	return under == 0 || series.Overlap == fsmpb.Overlap_OVERLAP_ALLOW && under < task.MaxLiveOccurrences
}

// pass numbers occurrences that do not run, and records why.
func pass(series *fsmpb.Series, o *fsmpb.Occurrence) {
	number(series, o)
	record(series, o)
}

// record adds an occurrence to those that have ended or did not run. Consecutive ones that did not run for one reason
// share a record.
func record(series *fsmpb.Series, o *fsmpb.Occurrence) {
	n := len(series.Past)
	if o.Passed != 0 {
		series.Passed += max(o.Count, 1)
		if n > 0 && follows(series.Past[n-1], o) {
			before := series.Past[n-1]
			before.Count = max(before.Count, 1) + max(o.Count, 1)
			return
		}
	}
	series.Past = append(series.Past, o)
	series.Past = series.Past[max(0, len(series.Past)-task.MaxPastOccurrences):]
}

// follows reports whether o comes right after the occurrences of a record, and did not run for the same reason.
func follows(before, o *fsmpb.Occurrence) bool {
	return before.Passed == o.Passed && before.Origin == o.Origin && before.Number+max(before.Count, 1) == o.Number
}

// closeOccurrences runs at the end of a command, when no task is popped from the wheel and not carried on yet. It
// cancels displaced occurrences, records at their schedules the occurrences that have ended, and starts those that
// waited for them.
func (a *applier) closeOccurrences() {
	a.runAfter()
	for ended, ok := a.store.Schedules.TakeEnded(); ok; ended, ok = a.store.Schedules.TakeEnded() {
		id := task.SeriesID(ended.Schedule)
		at := a.store.PlaceOf(ended.Namespace, id)
		if t := a.store.FindAt(at, ended.Namespace, id); t.Exists() && a.store.Slots.IsOpen(at.Slot()) {
			a.store.Number++
			a.changeSeries(t, func(e store.Edit, series *fsmpb.Series) { a.close(e, series, ended) })
			a.runAfter()
		}
	}
}

func (a *applier) runAfter() {
	work := a.after
	a.after = nil
	for _, do := range work {
		do()
	}
}

// close records the end of an occurrence. A dead letter that was replayed ends a second time.
func (a *applier) close(e store.Edit, series *fsmpb.Series, ended store.EndedOccurrence) {
	has := func(o *fsmpb.Occurrence) bool { return o.Number == ended.Number && o.Passed == 0 }
	if i := slices.IndexFunc(series.Live, has); i >= 0 {
		o := series.Live[i]
		series.Live = slices.Delete(series.Live, i, i+1)
		fill(o, ended, a.store.NowMs)
		record(series, o)
		a.startQueued(e, series)
	} else if i := slices.IndexFunc(series.Past, has); i >= 0 {
		fill(series.Past[i], ended, a.store.NowMs)
	}
}

func fill(o *fsmpb.Occurrence, ended store.EndedOccurrence, nowMs int64) {
	o.State, o.Attempts, o.Error = ended.State, ended.Attempts, ended.Error
	o.BeganMs, o.EndedMs = ended.BeganMs, nowMs
}

// applyStartOccurrence begins an occurrence that no rule names, at the entry's instant.
func (a *applier) applyStartOccurrence(r request) *fsmpb.Result {
	series := r.task.Series()
	if passesOver(series) {
		return conflict(r.task)
	}
	now, result := a.store.NowMs, done()
	o := &fsmpb.Occurrence{ScheduledMs: now, FireMs: now, Origin: fsmpb.Origin_ORIGIN_CALL}
	a.changeSeries(r.task, func(e store.Edit, series *fsmpb.Series) {
		a.begin(e, series, o, nil)
		e.Renew()
	})
	result.Number = o.Number
	return result
}

// passesOver reports whether a schedule would pass an occurrence over that began now.
func passesOver(series *fsmpb.Series) bool {
	waiting := len(series.Queued)
	switch series.Overlap {
	case fsmpb.Overlap_OVERLAP_QUEUE_ONE:
		return waiting > 0
	case fsmpb.Overlap_OVERLAP_QUEUE_ALL:
		return waiting >= task.MaxQueuedOccurrences
	case fsmpb.Overlap_OVERLAP_CANCEL_PREVIOUS:
		return false
	}
	return waiting > 0 || !hasRoom(series)
}

// applySkipOccurrence passes the next occurrence of the rule over.
func (a *applier) applySkipOccurrence(r request) *fsmpb.Result {
	if len(r.task.Series().Next) == 0 {
		return conflict(r.task)
	}
	a.changeSeries(r.task, func(e store.Edit, series *fsmpb.Series) {
		o := nextOf(series)
		o.Passed = fsmpb.Passed_PASSED_CALL
		pass(series, o)
		e.Renew()
	})
	return done()
}

// applyBackfill makes occurrences of the past. They begin at once if the schedule allows overlaps, and otherwise one
// after the other.
func (a *applier) applyBackfill(r request) *fsmpb.Result {
	instants := r.GetBackfill().ScheduledMs
	if len(r.task.Series().Queued)+len(instants) > task.MaxQueuedOccurrences {
		return conflict(r.task)
	}
	a.changeSeries(r.task, func(e store.Edit, series *fsmpb.Series) {
		for _, at := range instants {
			o := &fsmpb.Occurrence{ScheduledMs: at, FireMs: at, Origin: fsmpb.Origin_ORIGIN_BACKFILL}
			number(series, o)
			series.Queued = append(series.Queued, o)
		}
		a.startQueued(e, series)
		e.Renew()
	})
	return done()
}
