package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

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

// WheelView is the answer to GET /v1/wheel.
type WheelView struct {
	Now       Instant   `json:"now"`
	Waiting   uint64    `json:"waiting"` // for an attempt
	DueWithin DueWithin `json:"due_within"`
	Steps     DueSteps  `json:"steps"`
	Rows      []Row     `json:"rows"`   // lower levels first
	Beside    uint64    `json:"beside"` // tasks beside the rows, most of them due next
	Missing   []uint32  `json:"missing_shards"`
}

// DueWithin counts the tasks that come due within spans of time. A longer span has the tasks of the shorter ones.
type DueWithin struct {
	Second    uint64 `json:"1s"`
	Seconds10 uint64 `json:"10s"`
	Minute    uint64 `json:"1m"`
	Minutes10 uint64 `json:"10m"`
	Hour      uint64 `json:"1h"`
}

// DueSteps counts the tasks that come due in steps of equal length.
type DueSteps struct {
	From   Instant  `json:"from"`    // begin of the first step
	StepMs int64    `json:"step_ms"` // length of a step
	Tasks  []uint64 `json:"tasks"`
}

// Row counts the tasks in the slots of one ring of the wheel.
type Row struct {
	Level  uint32   `json:"level"`
	From   Instant  `json:"from"`    // begin of the first slot
	SlotMs int64    `json:"slot_ms"` // span of a slot
	Tasks  []uint64 `json:"tasks"`
}

func (s *Server) wheel(c echo.Context) error {
	shard, err := onlyShard(c.QueryParams())
	if err != nil {
		return err
	}
	o, missing, err := s.cfg.Backend.Outlook(c.Request().Context(), shard)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, wheelView(o, missing))
}

func wheelView(o *fsmpb.Outlook, missing []uint32) *WheelView {
	within := append(o.Within, make([]uint64, 5)...) // all zero if no shard answered
	v := &WheelView{
		Now: Instant(o.NowMs), Waiting: o.Waiting, Beside: o.Beside, Missing: append([]uint32{}, missing...),
		DueWithin: DueWithin{within[0], within[1], within[2], within[3], within[4]},
		Steps: DueSteps{
			From: Instant(o.FirstMs), StepMs: task.OutlookStep.Milliseconds(), Tasks: append([]uint64{}, o.Steps...),
		},
		Rows: []Row{},
	}
	for _, r := range o.Rows {
		v.Rows = append(v.Rows, Row{Level: r.Level, From: Instant(r.FirstMs), SlotMs: r.SlotMs, Tasks: r.Tasks})
	}
	return v
}

// ActivityView is the answer to GET /v1/activity.
type ActivityView struct {
	Since        Instant        `json:"since"` // earlier events are not counted
	StepMs       int64          `json:"step_ms"`
	LateWithinMs []int64        `json:"late_within_ms"` // upper bounds of the classes of lateness but the last
	Steps        []ActivityStep `json:"steps"`
	Missing      []uint32       `json:"missing_shards"`
}

// ActivityStep counts the events of one step.
type ActivityStep struct {
	At        Instant  `json:"at"` // begin of the step
	Scheduled uint64   `json:"scheduled"`
	Fired     uint64   `json:"fired"` // attempts
	Delivered uint64   `json:"delivered"`
	Failed    uint64   `json:"failed"` // attempts
	Dead      uint64   `json:"dead"`
	Cancelled uint64   `json:"cancelled"`
	Skipped   uint64   `json:"skipped"`
	Late      []uint64 `json:"late"` // attempts, by class of lateness
	Held      []uint64 `json:"held"` // attempts of tasks that had waited for room, by class of lateness
}

func (s *Server) activity(c echo.Context) error {
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
	a, missing, err := s.cfg.Backend.Activity(c.Request().Context(), shard, after)
	if err != nil {
		return err
	}
	return writeValue(c, http.StatusOK, activityView(a, missing))
}

func activityView(a *fsmpb.Activity, missing []uint32) *ActivityView {
	v := &ActivityView{
		Since: Instant(a.SinceMs), StepMs: task.ActivityStep.Milliseconds(), Steps: []ActivityStep{},
		Missing: append([]uint32{}, missing...),
	}
	for _, bound := range task.LatenessBounds {
		v.LateWithinMs = append(v.LateWithinMs, bound.Milliseconds())
	}
	for _, s := range a.Steps {
		v.Steps = append(v.Steps, ActivityStep{
			At: Instant(s.AtMs), Scheduled: s.Scheduled, Fired: s.Fired, Delivered: s.Delivered, Failed: s.Failed,
			Dead: s.Dead, Cancelled: s.Cancelled, Skipped: s.Skipped, Late: append([]uint64{}, s.Late...),
			Held: append([]uint64{}, s.Held...),
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
