package client

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// Order is the order of a list.
type Order string

// The orders of lists.
const (
	ByID Order = "id" // in an order of the service; the default
	// ByDue is by the next instant: that of the next attempt or occurrence, or else the due time. Without Filter.States,
	// the list has the tasks that have not ended. Dead letters are sorted by the instants at which they died.
	ByDue Order = "due"
)

// Filter selects tasks. Its zero value selects all.
type Filter struct {
	States    []State
	Queue     string
	Prefix    string // of the id
	Labels    map[string]string
	DueAfter  time.Time // tasks due at this instant or later; zero: any
	DueBefore time.Time // tasks due before this instant; zero: any
	Order     Order     // empty: ByID
	Payload   bool      // read the payloads too
	PageSize  int       // tasks in one request, 1000 at most; 0: the service's default
}

func (f Filter) query() url.Values {
	q := url.Values{}
	for _, s := range f.States {
		q.Add("state", string(s))
	}
	for name, value := range f.Labels {
		q.Add("label", name+":"+value)
	}
	if f.Queue != "" {
		q.Set("queue", f.Queue)
	}
	if f.Prefix != "" {
		q.Set("prefix", f.Prefix)
	}
	for name, bound := range map[string]time.Time{"due_after": f.DueAfter, "due_before": f.DueBefore} {
		if !bound.IsZero() {
			q.Set(name, bound.UTC().Format(time.RFC3339Nano))
		}
	}
	if f.Order != "" {
		q.Set("order", string(f.Order))
	}
	if f.Payload {
		q.Set("include", "payload")
	}
	if f.PageSize != 0 {
		q.Set("limit", strconv.Itoa(f.PageSize))
	}
	return q
}

// List returns all tasks that the filter selects, and reads them page by page. A task that exists during the whole walk
// comes exactly once, in the order ByDue unless it moves to another instant meanwhile. An error ends the sequence.
func (c *Client) List(ctx context.Context, filter Filter) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		for page, err := range c.Pages(ctx, filter) {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range page {
				if !yield(&page[i], nil) {
					return
				}
			}
		}
	}
}

// Pages returns the tasks of List by pages. A page may be empty and not the last.
func (c *Client) Pages(ctx context.Context, filter Filter) iter.Seq2[[]Task, error] {
	return func(yield func([]Task, error) bool) {
		query := filter.query()
		for {
			var tasks []Task
			var next string
			call := call{method: http.MethodGet, path: c.conn.root + "/tasks?" + query.Encode()}
			if err := c.conn.do(ctx, call, readPage(contract.Tasks, &tasks, &next, (*Task).read)); err != nil {
				yield(nil, err)
				return
			}
			if !yield(tasks, nil) || next == "" {
				return
			}
			query.Set("cursor", next)
		}
	}
}

// DeadFilter selects dead letters of a queue. Its zero value selects all.
type DeadFilter struct {
	IDs       []string // only these, at most 100; excludes the other filters
	Prefix    string   // of the id
	Labels    map[string]string
	DueAfter  time.Time // as in Filter, like DueBefore
	DueBefore time.Time
	Limit     int // the largest number of dead letters; 0: all
}

func (f DeadFilter) query() url.Values {
	q := Filter{Prefix: f.Prefix, Labels: f.Labels, DueAfter: f.DueAfter, DueBefore: f.DueBefore}.query()
	for _, id := range f.IDs {
		q.Add("id", id)
	}
	if f.Limit != 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	return q
}

// Replay makes dead letters due again, with all their attempts before them, and returns their number. Beside an error
// it returns the number that the last attempt has certainly replayed. After an ErrUnknown more may have been replayed;
// the same call continues with the rest.
func (c *Client) Replay(ctx context.Context, queue string, filter DeadFilter) (int, error) {
	return c.conn.eachDead(ctx, http.MethodPost, c.conn.path("queues", queue)+"/dead/replay", filter)
}

// DropDead removes dead letters for ever, and returns their number. Its errors are those of Replay.
func (c *Client) DropDead(ctx context.Context, queue string, filter DeadFilter) (int, error) {
	return c.conn.eachDead(ctx, http.MethodDelete, c.conn.path("queues", queue)+"/dead", filter)
}

func (c *conn) eachDead(ctx context.Context, method, path string, filter DeadFilter) (int, error) {
	if query := filter.query().Encode(); query != "" {
		path += "?" + query
	}
	var count int
	call := call{method: method, path: path, header: c.header(&options{}), wait: c.cfg.Timeout} // many letters take time
	err := c.do(ctx, call, readAnswer(func(r *contract.Reader) error {
		return readObject(r, "count", []member{{contract.Count, &count, 0}})
	}))
	var refusal *Error
	if errors.As(err, &refusal) {
		count = refusal.Count
	}
	return count, err
}
