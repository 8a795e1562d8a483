package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/client/view"
)

type (
	// Wheel counts the tasks that wait in the timing wheels of the shards.
	Wheel = view.Wheel
	// DueWithin counts the tasks that come due within spans of time.
	DueWithin = view.DueWithin
	// DueSteps counts tasks by due time, in steps of equal length.
	DueSteps = view.DueSteps
	// Ring counts the tasks in the slots of one ring of the wheel.
	Ring = view.Ring
	// Activity counts events, and attempts by lateness, in steps of a few seconds.
	Activity = view.Activity
	// ActivityStep counts the events of one step.
	ActivityStep = view.ActivityStep
	// Advanced is the clock of a node in dev mode after an advance.
	Advanced = view.Advanced
)

// Wheel returns the counts of one shard's wheel, or the sums over all shards for shard 0.
func (c *Client) Wheel(ctx context.Context, shard int) (*Wheel, error) {
	wheel := new(Wheel)
	return wheel, c.conn.do(ctx, call{method: http.MethodGet, path: outlookPath("/v1/wheel", shard, 0)}, readJSON(wheel))
}

// Activity returns the counts of one shard, or the sums over all shards for shard 0. They begin that long before now;
// 0: as early as they are kept, a quarter of an hour.
func (c *Client) Activity(ctx context.Context, shard int, within time.Duration) (*Activity, error) {
	a := new(Activity)
	return a, c.conn.do(ctx, call{method: http.MethodGet, path: outlookPath("/v1/activity", shard, within)}, readJSON(a))
}

func outlookPath(path string, shard int, within time.Duration) string {
	query := url.Values{}
	if shard > 0 {
		query.Set("shard", strconv.Itoa(shard))
	}
	if within > 0 {
		query.Set("since", within.String())
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}
