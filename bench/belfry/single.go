package belfry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/belfryhq/belfry/bench/subject"
	"github.com/belfryhq/belfry/client"
)

// single calls one node over one connection, with one task a call.
type single struct {
	base   string                // URL prefix of the node's tasks
	target func() *client.Target // of the tasks; nil: consumers take them
	key    string                // empty: calls need none
	http   *http.Client
}

// newSingle makes a caller, and spreads the callers over the nodes.
func newSingle(s *service) *single {
	node := int(s.made.Add(1)) % len(s.urls)
	return &single{base: s.urls[node] + "/v1/tasks/", target: s.target.Load, http: &http.Client{
		Transport: &http.Transport{MaxConnsPerHost: 1, MaxIdleConnsPerHost: 1, DisableCompression: true},
	}}
}

// Close closes the caller's connection.
func (c *single) Close() error {
	c.http.CloseIdleConnections()
	return nil
}

// Schedule schedules the task with a PUT.
func (c *single) Schedule(ctx context.Context, task subject.Task) error {
	body := make([]byte, 0, len(task.Payload)+100)
	body = append(body, `{"fire_at":"`...)
	body = task.Due.UTC().AppendFormat(body, time.RFC3339Nano)
	body = append(body, '"')
	if target := c.target(); target != nil {
		body = fmt.Appendf(body, `,"target":{"url":%q}`, target.URL)
	}
	body = append(append(append(body, `,"payload":`...), task.Payload...), '}')
	return c.call(ctx, http.MethodPut, task.ID, body)
}

// Cancel cancels the task with a DELETE.
func (c *single) Cancel(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, id, nil)
}

// repeatAfter is the pause before a call is repeated.
const repeatAfter = 20 * time.Millisecond

// call makes a call, and repeats it while the shard has no leader or the outcome is unknown. Any program without a
// client has to repeat such calls; a PUT and a DELETE are idempotent.
func (c *single) call(ctx context.Context, method, id string, body []byte) error {
	for {
		again, err := c.once(ctx, method, id, body)
		if !again {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(repeatAfter):
		}
	}
}

func (c *single) once(ctx context.Context, method, id string, body []byte) (again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+id, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Content-Type", "application/json")
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return false, err
	}
	defer func() { _ = resp.Body.Close() }()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return false, err
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusCreated:
		return false, nil
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		again = true
	}
	return again, fmt.Errorf("%s %s: %s: %s", method, id, resp.Status, answer)
}
