package client

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// Filter selects tasks. Its zero value selects all.
type Filter struct {
	States    []State
	Queue     string
	Prefix    string // of the id
	Labels    map[string]string
	DueBefore time.Time
	Payload   bool // read the payloads too
	PageSize  int  // tasks in one request, 1000 at most; 0: the service's default
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
	if !f.DueBefore.IsZero() {
		q.Set("due_before", f.DueBefore.UTC().Format(time.RFC3339Nano))
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
// comes exactly once. An error ends the sequence.
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
			call := call{method: http.MethodGet, path: "/v1/tasks?" + query.Encode()}
			if err := c.do(ctx, call, readPage(contract.Tasks, &tasks, &next, (*Task).read)); err != nil {
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
