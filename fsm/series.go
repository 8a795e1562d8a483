package fsm

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/internal/store"
	"github.com/belfryhq/belfry/fsm/task"
)

// applySetSeries creates a schedule, or changes its settings. The numbers of its occurrences go on.
func (a *applier) applySetSeries(r request) *fsmpb.Result {
	op := r.GetSetSeries()
	spec := op.Spec
	if spec == nil {
		spec = &fsmpb.Spec{}
	}
	if task.HasMasked(spec.Target) {
		kept, err := keepMasked(r.task, spec)
		if err != nil {
			return invalid(r.task, err)
		}
		spec = kept
	}
	content := store.Content{
		Spec: spec, CreatedMs: op.ReceivedAtMs, Occurrence: a.store.Number, DelayMs: store.NoDelay,
	}
	if !r.task.Exists() {
		content.Series = a.newSeries(op)
		a.store.Schedules.Add(r.at, r.Namespace, r.Id, content)
		return &fsmpb.Result{Code: fsmpb.Code_CODE_CREATED}
	}
	series := a.changedSeries(op, r.task.Series())
	content.Series, content.CreatedMs = series, r.task.CreatedMs()
	a.store.Change(r.task, func(e store.Edit) {
		e.Rewrite(content)
		e.EditSeries(func(series *fsmpb.Series) { a.startQueued(e, series) })
		e.Renew()
	})
	return done()
}

func (a *applier) newSeries(op *fsmpb.SetSeries) *fsmpb.Series {
	series := settingsOf(op)
	series.Version, series.AfterMs = a.store.Number, op.ReceivedAtMs
	setAnchor(series.Repeat, nil, op.ReceivedAtMs)
	return series
}

// changedSeries returns a schedule with new settings and the occurrences of before. An unchanged rule keeps its coming
// instants.
func (a *applier) changedSeries(op *fsmpb.SetSeries, before *fsmpb.Series) *fsmpb.Series {
	series, settings := before, settingsOf(op)
	setAnchor(settings.Repeat, before.Repeat, op.ReceivedAtMs)
	isNew := !proto.Equal(settings.Repeat, before.Repeat)
	if isNew { // the old one may have had occurrences far ahead, if a caller skipped them or the clock was wrong
		series.Ruled, series.AfterMs = 0, min(series.AfterMs, a.store.NowMs+a.store.HorizonMs)
	}
	if isNew || before.Paused || settings.Paused {
		forgetInstants(series, a.store.NowMs)
	}
	series.Repeat, series.Paused, series.Note = settings.Repeat, settings.Paused, settings.Note
	series.Misfire, series.MisfireWindowMs = settings.Misfire, settings.MisfireWindowMs
	series.Overlap, series.Version = settings.Overlap, a.store.Number
	return series
}

// forgetInstants drops the coming instants of a schedule. Its rule continues after nowMs, the log's time.
func forgetInstants(series *fsmpb.Series, nowMs int64) {
	series.Next, series.Complete = nil, false
	series.AfterMs = max(series.AfterMs, nowMs)
}

// settingsOf returns a schedule with the settings that callers give.
func settingsOf(op *fsmpb.SetSeries) *fsmpb.Series {
	given := op.GetSeries()
	repeat := &fsmpb.Repeat{}
	if given.GetRepeat() != nil {
		repeat = proto.CloneOf(given.Repeat)
	}
	return &fsmpb.Series{
		Repeat: repeat, Misfire: given.GetMisfire(), MisfireWindowMs: given.GetMisfireWindowMs(),
		Overlap: given.GetOverlap(), Paused: given.GetPaused(), Note: given.GetNote(),
	}
}

// setAnchor sets the anchor of an interval without one: the anchor of the same interval before, or else the start, or
// else the receipt.
func setAnchor(r, before *fsmpb.Repeat, receivedMs int64) {
	switch {
	case r.EveryMs == 0 || r.AnchorMs != nil:
	case before != nil && before.EveryMs == r.EveryMs && before.AnchorMs != nil:
		r.AnchorMs = before.AnchorMs
	case r.StartMs != nil:
		r.AnchorMs = proto.Int64(*r.StartMs)
	default:
		r.AnchorMs = proto.Int64(receivedMs)
	}
}

// applyPauseSeries pauses or resumes a schedule. A pause holds the occurrences that wait, too.
func (a *applier) applyPauseSeries(r request) *fsmpb.Result {
	op := r.GetPauseSeries()
	a.changeSeries(r.task, func(e store.Edit, series *fsmpb.Series) {
		if series.Paused != op.Paused {
			forgetInstants(series, a.store.NowMs)
			series.Version = a.store.Number
		}
		series.Paused, series.Note = op.Paused, op.Note
		e.Renew()
		a.startQueued(e, series)
	})
	return done()
}

// changeSeries calls edit with a schedule and its state, and keeps the changed state.
func (a *applier) changeSeries(t store.Task, edit func(store.Edit, *fsmpb.Series)) {
	a.store.Change(t, func(e store.Edit) {
		e.EditSeries(func(series *fsmpb.Series) { edit(e, series) })
	})
}

// applyExtendSeries adds coming instants that the leader has computed, behind those that did not run. It changes
// nothing if the schedule has changed meanwhile.
func (a *applier) applyExtendSeries(r request) *fsmpb.Result {
	op, t := r.GetExtendSeries(), a.store.FindAt(r.at, r.Namespace, r.Id)
	if !t.Exists() || t.State() != fsmpb.State_STATE_REPEATING {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	}
	series := t.Series()
	if series.Version != op.Version || series.Paused || cursor(series) != op.FromMs ||
		op.RedoAfterMs != nil && series.AfterMs > *op.RedoAfterMs {
		return refused(t, fsmpb.Code_CODE_STALE)
	}
	a.changeSeries(t, func(_ store.Edit, series *fsmpb.Series) {
		if op.RedoAfterMs != nil {
			forgetBehind(series, *op.RedoAfterMs)
		}
		for _, p := range op.Passed {
			series.Ruled += max(p.Count, 1)
			pass(series, &fsmpb.Occurrence{Count: p.Count, ScheduledMs: p.ScheduledMs, Passed: p.Passed})
		}
		if op.PassedToMs != 0 {
			series.AfterMs = op.PassedToMs
		}
		series.Next = append(series.Next, op.Next...)
		series.Complete, series.JudgedMs, series.CalendarVersion = op.Complete, a.store.NowMs, op.CalendarVersion
	})
	return done()
}

// forgetBehind drops the coming instants of a schedule behind one of its rule. The rule continues after that one.
func forgetBehind(series *fsmpb.Series, afterMs int64) {
	series.Next = slices.DeleteFunc(series.Next, func(i *fsmpb.Instant) bool { return i.ScheduledMs > afterMs })
	if len(series.Next) == 0 {
		series.AfterMs = max(series.AfterMs, afterMs)
	}
}

// cursor returns the instant after which the leader continues the rule of a schedule.
func cursor(series *fsmpb.Series) int64 {
	if n := len(series.Next); n > 0 {
		return series.Next[n-1].ScheduledMs
	}
	return series.AfterMs
}
