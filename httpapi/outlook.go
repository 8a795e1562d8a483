package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/client/view"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Outlooks counts the tasks that wait in the cluster, and the events of the last quarter of an hour. Shard 0 stands for
// all shards. The sums leave out the shards that are missing, because their leaders did not answer.
type Outlooks interface {
	// Outlook counts the tasks in the timing wheel of a shard.
	Outlook(ctx context.Context, shard uint32) (sum *fsmpb.Outlook, missing []uint32, err error)

	// Activity counts events, in the steps of five seconds that begin after an instant in Unix milliseconds.
	Activity(ctx context.Context, shard uint32, afterMs int64) (sum *fsmpb.Activity, missing []uint32, err error)
}

func (s *nodeService) wheel(c echo.Context) error {
	shard, err := onlyShard(c.QueryParams())
	if err != nil {
		return err
	}
	o, missing, err := s.backend.Outlook(c.Request().Context(), shard)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, wheelView(o, missing))
}

func wheelView(o *fsmpb.Outlook, missing []uint32) *view.Wheel {
	within := append(o.Within, make([]uint64, 5)...) // all zero if no shard answered
	v := &view.Wheel{
		Now: view.InstantOf(o.NowMs), Waiting: o.Waiting, Beside: o.Beside, Missing: orEmpty(missing), Rows: []view.Ring{},
		DueWithin: view.DueWithin{
			Second: within[0], Seconds10: within[1], Minute: within[2], Minutes10: within[3], Hour: within[4],
		},
		Steps: view.DueSteps{
			From: view.InstantOf(o.FirstMs), StepMs: task.OutlookStep.Milliseconds(), Tasks: orEmpty(o.Steps),
		},
	}
	for _, r := range o.Rows {
		v.Rows = append(v.Rows, view.Ring{
			Level: int(r.Level), From: view.InstantOf(r.FirstMs), SlotMs: r.SlotMs, Tasks: r.Tasks,
		})
	}
	return v
}

func (s *nodeService) activity(c echo.Context) error {
	query := c.QueryParams()
	shard, err := onlyShard(query)
	if err != nil {
		return err
	}
	after := int64(0)
	if query.Has("since") {
		since, err := parseSince(query.Get("since"), s.arrived().at)
		if err != nil {
			return err
		}
		after = since.UnixMilli() - 1
	}
	a, missing, err := s.backend.Activity(c.Request().Context(), shard, after)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, activityView(a, missing))
}

func activityView(a *fsmpb.Activity, missing []uint32) *view.Activity {
	v := &view.Activity{
		Since: view.InstantOf(a.SinceMs), StepMs: task.ActivityStep.Milliseconds(), Steps: []view.ActivityStep{},
		Missing: orEmpty(missing),
	}
	for _, bound := range task.LatenessBounds {
		v.LateWithinMs = append(v.LateWithinMs, bound.Milliseconds())
	}
	for _, s := range a.Steps {
		v.Steps = append(v.Steps, view.ActivityStep{
			At: view.InstantOf(s.AtMs), Scheduled: s.Scheduled, Fired: s.Fired, Delivered: s.Delivered, Failed: s.Failed,
			Dead: s.Dead, Cancelled: s.Cancelled, Skipped: s.Skipped, Late: orEmpty(s.Late),
			Held: orEmpty(s.Held),
		})
	}
	return v
}

// onlyShard reads the parameter shard; 0: it is not there.
func onlyShard(query url.Values) (uint32, error) {
	if !query.Has("shard") {
		return 0, nil
	}
	n, err := wholeParam("shard", query.Get("shard"), 1, mostShards)
	return uint32(n), err
}
