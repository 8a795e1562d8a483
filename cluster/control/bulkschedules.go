package control

import (
	"context"
	"sync"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/repeat/calendar"
	"github.com/belfryhq/belfry/repeat/series"
)

// mostPatches is the largest number of schedules that are patched at a time.
const mostPatches = 16

func pauses(op *clusterpb.BulkOperation) bool { return op.Kind == clusterpb.BulkKind_BULK_KIND_PAUSE }

func patchesSchedules(op *clusterpb.BulkOperation) bool {
	return op.Schedules && op.Kind == clusterpb.BulkKind_BULK_KIND_PATCH
}

// patchSchedules patches the pinned schedules. The command has the whole schedule, so each is read first.
func (w *bulkWork) patchSchedules(
	ctx context.Context, op *clusterpb.BulkOperation, pinned []*clusterpb.BulkTask,
) []task.Reply {
	replies, turns := make([]task.Reply, len(pinned)), make(chan struct{}, mostPatches)
	var working sync.WaitGroup
	for i, p := range pinned {
		turns <- struct{}{}
		working.Go(func() {
			defer func() { <-turns }()
			replies[i] = w.retry(ctx, op, p)
		})
	}
	working.Wait()
	return replies
}

// patchOf returns the command that sets a schedule to its patched settings. The error is the reason why it may not have
// them: they break a limit, or its rule is none any more.
func (w *bulkWork) patchOf(op *clusterpb.BulkOperation, t *fsmpb.Task) (*fsmpb.Command_SetSeries, error) {
	set := &fsmpb.SetSeries{
		Spec: t.GetSpec(), Series: task.MergeSettings(t.GetSeries(), op.Settings, op.Changed),
		ReceivedAtMs: w.clock().UnixMilli(),
	}
	if op.Patch != nil {
		set.Spec = task.MergeSpec(t.GetSpec(), op.Patch)
	}
	if err := task.CheckSpec(set.Spec); err != nil {
		return nil, err
	}
	return &fsmpb.Command_SetSeries{SetSeries: set}, w.checkRule(op, set)
}

// checkRule refuses a rule that is wrong as a whole, by the calendar that it names.
func (w *bulkWork) checkRule(op *clusterpb.BulkOperation, set *fsmpb.SetSeries) (err error) {
	var opening *calendar.Calendar
	state, _ := w.group.Watch()
	if m := Calendar(state, op.Namespace, set.Series.Repeat.Calendar); m != nil {
		if opening, err = calendar.New(series.CalendarOf(m)); err != nil {
			return err
		}
	}
	_, err = series.Made(set.Series.Repeat, opening, time.UnixMilli(set.ReceivedAtMs))
	return err
}
