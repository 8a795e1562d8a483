package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/belfryhq/belfry/internal/contract"
)

// DeadFilter selects dead letters of a queue. Its zero value selects all.
type DeadFilter struct {
	IDs       []string // only these, at most 100; excludes the other filters
	Prefix    string   // of the id
	Labels    map[string]string
	DueBefore time.Time
	Limit     int // the largest number of dead letters; 0: all
}

func (f DeadFilter) query() url.Values {
	q := Filter{Prefix: f.Prefix, Labels: f.Labels, DueBefore: f.DueBefore}.query()
	for _, id := range f.IDs {
		q.Add("id", id)
	}
	if f.Limit != 0 {
		q.Set("limit", strconv.Itoa(f.Limit))
	}
	return q
}

// Replay makes dead letters due again, with all their attempts before them, and returns their number. After an
// ErrUnknown some may have been replayed; the same call continues with the rest.
func (c *Client) Replay(ctx context.Context, queue string, filter DeadFilter) (int, error) {
	return c.eachDead(ctx, http.MethodPost, queuePath(queue)+"/dead/replay", filter)
}

// DropDead removes dead letters for ever, and returns their number. Its errors are those of Replay.
func (c *Client) DropDead(ctx context.Context, queue string, filter DeadFilter) (int, error) {
	return c.eachDead(ctx, http.MethodDelete, queuePath(queue)+"/dead", filter)
}

func (c *Client) eachDead(ctx context.Context, method, path string, filter DeadFilter) (int, error) {
	if query := filter.query().Encode(); query != "" {
		path += "?" + query
	}
	var count int
	call := call{method: method, path: path, header: c.header(&options{}), wait: c.cfg.Timeout} // many letters take time
	err := c.do(ctx, call, readAnswer(func(r *contract.Reader) error {
		return readObject(r, "count", []member{{contract.Count, &count}})
	}))
	return count, err
}
