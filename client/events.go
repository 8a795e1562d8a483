package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// ErrGone is returned if the service no longer has the events that were asked for.
var ErrGone = errors.New("the events are no longer kept")

// EventError is the error of an event that the client cannot read. The sequence goes on with the next event, unless the
// caller breaks off. Without an ID the stream is not the service's, and the sequence ends.
type EventError struct {
	ID  string // EventFilter.After goes on behind it; empty: not known
	Err error
}

func (e *EventError) Error() string {
	if e.ID == "" {
		return "the answer is no stream of events: " + e.Err.Error()
	}
	return "cannot read event " + e.ID + ": " + e.Err.Error()
}

func (e *EventError) Unwrap() error { return e.Err }

// Event is one thing that happened to a task: see the types in openapi.yaml.
type Event struct {
	ID         string            `json:"id,omitempty"` // of a stream: EventFilter.After goes on behind it
	Type       string            `json:"type"`         // such as fired or dead, or EventGap
	At         time.Time         `json:"at"`
	Task       string            `json:"task,omitempty"`
	Queue      string            `json:"queue,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Due        time.Time         `json:"due"`                // the task is due then, or waits until then
	Lateness   string            `json:"lateness,omitempty"` // of a first attempt: a duration
	Attempt    int               `json:"attempt,omitempty"`  // 0: the event belongs to no attempt
	WebhookID  string            `json:"webhook_id,omitempty"`
	Schedule   string            `json:"schedule,omitempty"` // of an occurrence
	Occurrence uint64            `json:"occurrence,omitempty"`
	Node       string            `json:"node,omitempty"` // that made the attempt
	Answer     string            `json:"answer,omitempty"`
	Shard      uint32            `json:"shard"`
}

// EventGap is the type of an event that stands for missing ones.
const EventGap = "gap"

// History is the events of one task, oldest first.
type History struct {
	Task          string     `json:"task"`
	Events        []Event    `json:"events"`
	More          bool       `json:"more"` // later events were left out by the limit
	Complete      bool       `json:"complete"`
	CompleteSince *time.Time `json:"complete_since"` // events up to it may be gone; nil: none is
	Missing       []string   `json:"missing"`        // nodes that did not answer
}

// TaskHistory returns the events of a task that are still kept, also of one that is gone. They are limit at most, and
// 100 for a limit of 0. The error is ErrNotFound if there is neither a task nor an event, and ErrGone if there may have
// been some.
func (c *Client) TaskHistory(ctx context.Context, id string, limit int) (*History, error) {
	path := c.conn.path("tasks", id) + "/history"
	if limit > 0 {
		path += "?limit=" + strconv.Itoa(limit)
	}
	history := new(History)
	err := c.conn.do(ctx, call{method: http.MethodGet, path: path}, func(r reply) error {
		if err := json.NewDecoder(r.body).Decode(history); err != nil {
			return &garbledError{err}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return history, nil
}

// EventFilter selects events. Its zero value selects all from now on.
type EventFilter struct {
	Queue  string
	Types  []string
	Prefix string // of the task's id
	Labels map[string]string
	Since  time.Time // zero: from now on
	After  string    // the ID of an event; it takes the place of Since
	Ends   bool      // the sequence ends at the present
}

func (f EventFilter) query() url.Values {
	q := Filter{Queue: f.Queue, Prefix: f.Prefix, Labels: f.Labels}.query()
	for _, name := range f.Types {
		q.Add("type", name)
	}
	if !f.Since.IsZero() {
		q.Set("since", f.Since.UTC().Format(time.RFC3339Nano))
	}
	if f.After != "" {
		q.Set("after", f.After)
	}
	if f.Ends {
		q.Set("follow", "false")
	}
	return q
}

// The pauses before a stream of events is asked for again.
const (
	firstEventPause = 200 * time.Millisecond
	maxEventPause   = 5 * time.Second
)

// Events returns the events that the filter selects, as they happen. After a failure it goes on at another address,
// behind the last event, so that none is lost or comes twice. The sequence ends with the context, with the present if
// the filter Ends, and with an error that a repetition does not mend. An EventError stands for an event that cannot be
// read, and the next event may follow it.
func (c *Client) Events(ctx context.Context, filter EventFilter) iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		pause := firstEventPause
		for turn := 0; ; turn++ {
			node := c.conn.nodes.given[turn%len(c.conn.nodes.given)]
			before := filter.After
			ended, err := c.conn.streamEvents(ctx, node.base, &filter, yield)
			switch {
			case ended || ctx.Err() != nil:
				return
			case err != nil && !isPassing(err):
				yield(nil, fmt.Errorf("events from %s: %w", node.base, err))
				return
			case filter.After != before:
				pause = firstEventPause
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			pause = min(2*pause, maxEventPause)
		}
	}
}

// isPassing reports whether another try may succeed.
func isPassing(err error) bool {
	var unreadable *EventError
	if errors.As(err, &unreadable) {
		return false
	}
	var problem *Error
	return !errors.As(err, &problem) || problem.Status >= 500 || problem.Status == http.StatusTooManyRequests
}

// streamEvents makes one request, and moves the filter behind each event. ended is set if the caller wants no more, or
// the present is reached.
func (c *conn) streamEvents(
	ctx context.Context, base string, filter *EventFilter, yield func(*Event, error) bool,
) (ended bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := newQuiet(c.cfg.Timeout+maxHeartbeat, func() { cancel(errSilent) })
	defer quiet.stop()
	req, err := c.newRequest(ctx, http.MethodGet, base+c.root+"/events?"+filter.query().Encode(), nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", ndjsonType)
	resp, err := c.cfg.HTTPClient.Do(req)
	if err != nil {
		return false, causeOf(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // read as far as needed
	if resp.StatusCode != http.StatusOK {
		return false, readError(resp)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, maxEventLine)
	lines.Split(wholeLines)
	for lines.Scan() {
		quiet.restart()
		event, err := readEvent(lines.Bytes())
		var unreadable *EventError
		switch {
		case errors.As(err, &unreadable) && unreadable.ID != "":
			filter.goOnBehind(unreadable.ID)
		case err != nil:
			return false, err
		case event == nil:
			continue
		default:
			filter.goOnBehind(event.ID)
		}
		if !yield(event, err) {
			return true, nil
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return false, &EventError{Err: fmt.Errorf("a line is longer than %d bytes", maxEventLine)}
	case err != nil:
		return false, causeOf(ctx, err)
	}
	return filter.Ends, nil
}

// goOnBehind moves the filter behind an event; a gap has no id.
func (f *EventFilter) goOnBehind(id string) {
	if id != "" {
		f.After, f.Since = id, time.Time{}
	}
}

// wholeLines is bufio.ScanLines without a last line that has no end: the connection broke within that line.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if atEOF && len(data) > 0 && !bytes.ContainsRune(data, '\n') {
		return 0, nil, io.ErrUnexpectedEOF
	}
	return bufio.ScanLines(data, atEOF)
}

const (
	maxEventLine = 1 << 20          // bytes
	maxHeartbeat = 15 * time.Second // between two heartbeats of the service
)

// readEvent reads one line of a stream. The event is nil for a heartbeat. The error is the service's problem or an
// EventError.
func readEvent(line []byte) (*Event, error) {
	var read struct {
		Event
		Heartbeat *time.Time      `json:"heartbeat"`
		Problem   json.RawMessage `json:"problem"`
	}
	if err := json.Unmarshal(line, &read); err != nil {
		return nil, &EventError{ID: eventID(line), Err: err}
	}
	switch {
	case read.Problem != nil:
		problem := new(Error)
		if err := whole(read.Problem, problem.read); err != nil {
			return nil, &EventError{Err: err}
		}
		return nil, problem
	case read.Heartbeat != nil:
		return nil, nil
	case read.Type == "":
		return nil, &EventError{ID: read.ID, Err: errors.New("it has no type")}
	}
	return &read.Event, nil
}

// eventID returns the id of an event that cannot be read otherwise, or "" if the line has none.
func eventID(line []byte) string {
	fields := json.NewDecoder(bytes.NewReader(line))
	if begin, err := fields.Token(); err != nil || begin != json.Delim('{') {
		return ""
	}
	for fields.More() {
		name, err := fields.Token()
		if err != nil {
			return ""
		}
		var id string
		if name == "id" && fields.Decode(&id) == nil {
			return id
		}
		if name != "id" && fields.Decode(new(json.RawMessage)) == nil {
			continue
		}
		return ""
	}
	return ""
}
