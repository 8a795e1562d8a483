package httpapi

import (
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/repeat/series"
)

// aboutSeries carries out a command about the schedule t, which may be nil. It returns nil for other commands.
func (f *fakeBackend) aboutSeries(c *fsmpb.Command, t *fsmpb.Task) *fsmpb.Result {
	switch c.Op.(type) {
	case *fsmpb.Command_SetSeries:
		return f.setSeries(c, t)
	case *fsmpb.Command_PauseSeries, *fsmpb.Command_StartOccurrence, *fsmpb.Command_SkipOccurrence,
		*fsmpb.Command_Backfill, *fsmpb.Command_Erase:
	default:
		return nil
	}
	if t == nil {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}
	}
	if c.GetErase() != nil {
		delete(f.tasks, placeOf(c.Namespace, c.Id))
		return &fsmpb.Result{Code: fsmpb.Code_CODE_OK}
	}
	if !f.changeSeries(c, t, t.Series) {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_CONFLICT, Revision: t.Revision, Task: &fsmpb.Task{State: t.State}}
	}
	result := f.changed(fsmpb.Code_CODE_OK, t, c.Answer)
	if c.GetStartOccurrence() != nil {
		result.Number = t.Series.Last
	}
	return result
}

func (f *fakeBackend) setSeries(c *fsmpb.Command, old *fsmpb.Task) *fsmpb.Result {
	set := proto.CloneOf(c.GetSetSeries())
	set.Spec.Target = task.KeepMasked(set.Spec.Target, old.GetSpec().GetTarget())
	if err := task.CheckMasked(set.Spec.Target); err != nil {
		return &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Field: err.Field, Detail: err.Detail}
	}
	code, next := fsmpb.Code_CODE_CREATED, set.Series
	t := &fsmpb.Task{Namespace: c.Namespace, Id: c.Id, State: fsmpb.State_STATE_REPEATING, Spec: set.Spec,
		CreatedAtMs: set.ReceivedAtMs, Series: next, Shard: task.Slot("", c.Id) % 12}
	if old != nil {
		code, t.CreatedAtMs = fsmpb.Code_CODE_OK, old.CreatedAtMs
		next.Last, next.Ruled, next.Live, next.Queued = old.Series.Last, old.Series.Ruled, old.Series.Live, old.Series.Queued
		next.Past, next.Started, next.Passed = old.Series.Past, old.Series.Started, old.Series.Passed
	}
	if next.Repeat.EveryMs > 0 && next.Repeat.AnchorMs == nil {
		next.Repeat.AnchorMs = proto.Int64(set.ReceivedAtMs)
	}
	next.AfterMs = set.ReceivedAtMs
	lead(next)
	f.tasks[placeOf(c.Namespace, c.Id)] = t
	return f.changed(code, t, c.Answer)
}

// lead adds coming instants to a schedule, as the leader of its shard does.
func lead(s *fsmpb.Series) {
	s.Next, s.Complete = nil, false
	rule, err := series.RuleOf(s.Repeat, nil)
	if err != nil || s.Paused {
		return
	}
	for after := testNow; len(s.Next) < 2; {
		o, ok := rule.Next(after)
		if !ok || s.Repeat.Count > 0 && int64(s.Ruled)+int64(len(s.Next)) == s.Repeat.Count {
			s.Complete = true
			return
		}
		s.Next = append(s.Next, &fsmpb.Instant{ScheduledMs: o.At.UnixMilli(), FireMs: o.At.UnixMilli() + s.Repeat.JitterMs/2})
		after = o.At
	}
}

// changeSeries reports whether the schedule allows a command.
func (f *fakeBackend) changeSeries(c *fsmpb.Command, t *fsmpb.Task, s *fsmpb.Series) bool {
	switch op := c.Op.(type) {
	case *fsmpb.Command_PauseSeries:
		s.Paused, s.Note = op.PauseSeries.Paused, op.PauseSeries.Note
		lead(s)
	case *fsmpb.Command_SkipOccurrence:
		if len(s.Next) == 0 {
			return false
		}
		s.Last, s.Passed, s.Ruled = s.Last+1, s.Passed+1, s.Ruled+1
		s.Past = append(s.Past, &fsmpb.Occurrence{Number: s.Last, ScheduledMs: s.Next[0].ScheduledMs,
			Passed: fsmpb.Passed_PASSED_CALL})
		s.Next = s.Next[1:]
	case *fsmpb.Command_StartOccurrence:
		if s.Overlap == fsmpb.Overlap_OVERLAP_SKIP && len(s.Live) > 0 {
			return false
		}
		f.begin(t, &fsmpb.Occurrence{ScheduledMs: testNow.UnixMilli(), Origin: fsmpb.Origin_ORIGIN_CALL})
	case *fsmpb.Command_Backfill:
		if len(op.Backfill.ScheduledMs)+len(s.Queued) > task.MaxQueuedOccurrences {
			return false
		}
		for _, ms := range op.Backfill.ScheduledMs {
			s.Last++
			s.Queued = append(s.Queued, &fsmpb.Occurrence{Number: s.Last, ScheduledMs: ms, Origin: fsmpb.Origin_ORIGIN_BACKFILL})
		}
	}
	return true
}

// begin makes the task of an occurrence of the schedule t.
func (f *fakeBackend) begin(t *fsmpb.Task, o *fsmpb.Occurrence) {
	s := t.Series
	s.Last, s.Started = s.Last+1, s.Started+1
	o.Number, o.FireMs = s.Last, o.ScheduledMs
	s.Live = append(s.Live, o)
	name, _ := task.SplitSeries(t.Id)
	id := task.OccurrenceID(name, o.Number)
	f.revision++
	f.tasks[placeOf(t.Namespace, id)] = &fsmpb.Task{Namespace: t.Namespace, Id: id, Spec: proto.CloneOf(t.Spec),
		State: fsmpb.State_STATE_SCHEDULED, FireAtMs: o.FireMs, CreatedAtMs: o.FireMs, Revision: f.revision,
		Shard: t.Shard}
}
