package client

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/belfryhq/belfry/client/view"
)

// BulkOp is the call that a bulk operation makes on each task or schedule.
type BulkOp = view.BulkOp

// The calls of bulk operations.
const (
	BulkCancel BulkOp = "cancel"
	BulkMove   BulkOp = "move"  // changes the instant of tasks none of whose attempts has begun
	BulkPatch  BulkOp = "patch" // changes target, retry or labels of such tasks
	BulkFire   BulkOp = "fire"  // makes tasks due now
	BulkReplay BulkOp = "replay"
	BulkPurge  BulkOp = "purge" // removes dead letters
)

// The calls of bulk operations on schedules. BulkPatch is one, too.
const (
	BulkPause  BulkOp = "pause"
	BulkResume BulkOp = "resume"
	BulkDelete BulkOp = "delete"
)

// BulkFilter selects the tasks or schedules of a bulk operation. All its conditions must hold. Schedules have no states
// and no due time here.
type BulkFilter struct {
	States    []State // none: the states that the operation can change
	Queue     string
	Prefix    string // of the id
	Labels    map[string]string
	DueAfter  time.Time // the task fires then or later
	DueBefore time.Time
}

// MarshalJSON writes the filter in the form of the service.
func (f BulkFilter) MarshalJSON() ([]byte, error) {
	wire := OperationFilter{Queue: f.Queue, Prefix: f.Prefix, States: f.States}
	for _, name := range slices.Sorted(maps.Keys(f.Labels)) {
		wire.Labels = append(wire.Labels, name+":"+f.Labels[name])
	}
	if !f.DueAfter.IsZero() {
		wire.DueAfter = &Instant{Time: f.DueAfter}
	}
	if !f.DueBefore.IsZero() {
		wire.DueBefore = &Instant{Time: f.DueBefore}
	}
	return json.Marshal(wire)
}

// BulkRequest asks for a bulk operation: one call on every task of the client's namespace that passes a filter, or on
// every schedule.
type BulkRequest struct {
	Op        BulkOp
	Schedules bool // the operation is on schedules, not on tasks
	Filter    BulkFilter
	All       bool          // every one of the namespace; needed if the filter has no condition, and refused beside one
	By        time.Duration // of BulkMove: added to the instant of each task; it may be negative
	To        time.Time     // of BulkMove, in place of By
	// Patch is a merge patch with the members target, retry and labels, without headers; of schedules one with repeat,
	// misfire, misfire_window, overlap, paused, note, and a task of these three members. Of BulkPatch.
	Patch     json.RawMessage
	Note      string // of BulkPause and BulkResume, for people
	PerSecond int    // most tasks or schedules a second; 0: as many as all bulk operations of the cluster together may
}

// call returns the call of the request, without a key.
func (r *BulkRequest) call(c *Client, dryRun bool) (call, error) {
	m := map[string]any{"op": r.Op, "filter": r.Filter}
	setDuration(m, "by", r.By)
	if !r.To.IsZero() {
		m["to"] = r.To.UTC().Format(time.RFC3339Nano)
	}
	if r.Patch != nil {
		m["patch"] = r.Patch
	}
	if r.Schedules {
		m["of"] = "schedules"
	}
	if r.Note != "" {
		m["note"] = r.Note
	}
	if r.PerSecond != 0 {
		m["per_second"] = r.PerSecond
	}
	for name, set := range map[string]bool{"all": r.All, "dry_run": dryRun} {
		if set {
			m[name] = true
		}
	}
	body, err := json.Marshal(m)
	return call{method: http.MethodPost, path: c.conn.root + "/operations", body: body, contentType: jsonType}, err
}

// BeginBulk begins a bulk operation. The cluster carries it on by itself: Operation shows its progress, and
// StopOperation stops it. The error is ErrImpossible if as many are under way as may be.
func (c *Client) BeginBulk(ctx context.Context, r BulkRequest, opts ...Option) (*Operation, error) {
	call, err := r.call(c, false)
	if err != nil {
		return nil, err
	}
	o := gather(opts)
	call.header = c.conn.header(&o)
	return fetch[Operation](ctx, c.conn, call)
}

// CountBulk counts the tasks or schedules that a bulk operation would match now, and begins nothing. complete is false
// if the service had no time to count all of them.
func (c *Client) CountBulk(ctx context.Context, r BulkRequest) (matched int, complete bool, err error) {
	call, err := r.call(c, true)
	if err != nil {
		return 0, false, err
	}
	var counted struct {
		Matched  int  `json:"matched"`
		Complete bool `json:"complete"`
	}
	err = c.conn.do(ctx, call, readJSON(&counted))
	return counted.Matched, counted.Complete, err
}
