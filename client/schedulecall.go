package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// PutSchedule stores a schedule, or replaces all settings of the one with this ID, and returns the stored one. The
// numbers of the occurrences go on, and those under way are left alone. With IfAbsent it only stores a new one.
func (c *Client) PutSchedule(ctx context.Context, schedule Schedule, opts ...Option) (*Schedule, error) {
	body, err := appendTaskTo(schedule.settings(), &schedule.Task)
	if err != nil {
		return nil, fmt.Errorf("schedule %s: %w", schedule.ID, err)
	}
	return changeSchedule[Schedule](ctx, c.conn, http.MethodPut, schedule.ID, "", body, opts)
}

// GetSchedule returns a schedule. It sees every change that was acknowledged before the call.
func (c *Client) GetSchedule(ctx context.Context, id string) (*Schedule, error) {
	call := call{method: http.MethodGet, path: c.conn.path("schedules", id), about: id}
	return fetch[Schedule](ctx, c.conn, call)
}

// PatchSchedule changes a part of a schedule's settings and returns the whole schedule.
func (c *Client) PatchSchedule(ctx context.Context, id string, patch SchedulePatch, opts ...Option) (*Schedule, error) {
	body, err := patch.body()
	if err != nil {
		return nil, fmt.Errorf("schedule %s: %w", id, err)
	}
	return changeSchedule[Schedule](ctx, c.conn, http.MethodPatch, id, "", body, opts)
}

// DeleteSchedule deletes a schedule. Occurrences under way go on as tasks, and none of those that wait begins.
func (c *Client) DeleteSchedule(ctx context.Context, id string, opts ...Option) error {
	o := gather(opts)
	call := call{method: http.MethodDelete, path: c.conn.path("schedules", id), header: c.conn.header(&o), about: id}
	err := c.conn.do(ctx, call, func(reply) error { return nil })
	if errors.Is(err, ErrNotFound) && repeated(err) {
		return nil // an attempt whose answer was lost has deleted it
	}
	return err
}

// PauseSchedule pauses a schedule: the rule has no occurrences until ResumeSchedule, and those that wait do not begin.
// Those under way go on. The note replaces the schedule's, even if it is empty.
func (c *Client) PauseSchedule(ctx context.Context, id, note string, opts ...Option) (*Schedule, error) {
	return c.noteSchedule(ctx, id, "/pause", note, opts)
}

// ResumeSchedule ends a pause: the rule continues after this instant. The note replaces the schedule's, even if it is
// empty.
func (c *Client) ResumeSchedule(ctx context.Context, id, note string, opts ...Option) (*Schedule, error) {
	return c.noteSchedule(ctx, id, "/resume", note, opts)
}

// noteSchedule makes a call about a schedule that takes an optional note.
func (c *Client) noteSchedule(ctx context.Context, id, verb, note string, opts []Option) (*Schedule, error) {
	if note == "" {
		return changeSchedule[Schedule](ctx, c.conn, http.MethodPost, id, verb, nil, opts)
	}
	body, err := json.Marshal(map[string]string{"note": note})
	if err != nil {
		return nil, err
	}
	return changeSchedule[Schedule](ctx, c.conn, http.MethodPost, id, verb, body, opts)
}

// FiredOccurrence is an occurrence that FireSchedule made.
type FiredOccurrence struct {
	ID       string   `json:"id"` // of its task
	Number   uint64   `json:"number"`
	Schedule Schedule `json:"schedule"` // after the call
}

// FireSchedule makes an occurrence now, beside those of the rule. While an earlier one runs, the schedule's Overlap
// decides: the occurrence may have to wait, and the error is ErrConflict if it would not run. A paused schedule fires
// too.
func (c *Client) FireSchedule(ctx context.Context, id string, opts ...Option) (*FiredOccurrence, error) {
	return changeSchedule[FiredOccurrence](ctx, c.conn, http.MethodPost, id, "/fire", nil, opts)
}

// SkipOccurrence passes over the next occurrence of the rule. It returns ErrConflict if there is none.
func (c *Client) SkipOccurrence(ctx context.Context, id string, opts ...Option) (*Schedule, error) {
	return changeSchedule[Schedule](ctx, c.conn, http.MethodPost, id, "/skip", nil, opts)
}

// Backfill makes the occurrences that the rule names from one instant to another, both included, even if they ran
// already. They run one after the other, unless the schedule's Overlap is OverlapAllow. It returns ErrConflict if more
// than 1,000 would wait.
func (c *Client) Backfill(ctx context.Context, id string, from, to time.Time, opts ...Option) (*Schedule, error) {
	body, err := json.Marshal(map[string]time.Time{"from": from, "to": to})
	if err != nil {
		return nil, fmt.Errorf("backfill %s: %w", id, err)
	}
	return changeSchedule[Schedule](ctx, c.conn, http.MethodPost, id, "/backfill", body, opts)
}

// changeSchedule makes a changing call about a schedule. A nil body sends none.
func changeSchedule[T any](
	ctx context.Context, c *conn, method, id, verb string, body []byte, opts []Option,
) (*T, error) {
	o := gather(opts)
	return fetch[T](ctx, c, call{method: method, path: c.path("schedules", id) + verb, body: body, contentType: jsonType,
		header: c.header(&o), about: id})
}

// ScheduleFilter selects schedules. Its zero value selects all.
type ScheduleFilter struct {
	Prefix   string            // of the id
	Queue    string            // of the task
	Labels   map[string]string // of the task
	Order    Order             // empty: ByID; ByDue is by the next occurrence, and schedules without one come last
	Payload  bool              // read the payloads too
	PageSize int               // schedules in one request, 1000 at most; 0: the service's default
}

// Schedules returns all schedules that the filter selects, and reads them page by page. A schedule that exists during
// the whole walk comes exactly once. An error ends the sequence.
func (c *Client) Schedules(ctx context.Context, filter ScheduleFilter) iter.Seq2[*Schedule, error] {
	return func(yield func(*Schedule, error) bool) {
		query := Filter{
			Prefix: filter.Prefix, Queue: filter.Queue, Labels: filter.Labels, Order: filter.Order,
			Payload: filter.Payload, PageSize: filter.PageSize,
		}.query()
		for {
			var page schedulePage
			call := call{method: http.MethodGet, path: c.conn.root + "/schedules?" + query.Encode()}
			if err := c.conn.do(ctx, call, readJSON(&page)); err != nil {
				yield(nil, err)
				return
			}
			if !page.yieldAll(yield) || page.Next == "" {
				return
			}
			query.Set("cursor", page.Next)
		}
	}
}

// schedulePage is a page of a list of schedules.
type schedulePage struct {
	Schedules []Schedule `json:"schedules"`
	Next      string     `json:"next_cursor"` // empty on the last page
}

// yieldAll yields the schedules of the page. It returns false if yield does.
func (p *schedulePage) yieldAll(yield func(*Schedule, error) bool) bool {
	for i := range p.Schedules {
		if !yield(&p.Schedules[i], nil) {
			return false
		}
	}
	return true
}

// Occurrences returns the coming next occurrences of a schedule, and its last ones. Each number is 100 at most.
func (c *Client) Occurrences(ctx context.Context, id string, next, last int) (*Occurrences, error) {
	query := url.Values{"next": {strconv.Itoa(next)}, "last": {strconv.Itoa(last)}}
	call := call{method: http.MethodGet, path: c.conn.path("schedules", id) + "/occurrences?" + query.Encode(), about: id}
	return fetch[Occurrences](ctx, c.conn, call)
}
