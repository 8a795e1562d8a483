package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/history/feed"
	"github.com/belfryhq/belfry/history/historypb"
	"github.com/belfryhq/belfry/internal/contract"
)

// Events reads what happened to tasks, over the whole cluster. It may be called concurrently.
type Events interface {
	// Task returns the events of a task, oldest first, limit of them at most.
	Task(ctx context.Context, namespace, id string, limit int) (feed.Story, error)
	// Read returns events after a cursor, some limit of each shard at most. If there are none, it waits for some, but not
	// longer than wait. The error may be a *feed.GoneError.
	Read(ctx context.Context, namespace string, after feed.Cursor, f feed.Filter, limit int, wait time.Duration,
	) (feed.Page, error)
	// Present returns the cursor after the events that are there.
	Present(ctx context.Context, namespace string) (feed.Cursor, error)
}

// noEvents is the history of a node that keeps none.
type noEvents struct{}

var errNoHistory = errors.New("the node keeps no history")

func (noEvents) Task(context.Context, string, string, int) (feed.Story, error) {
	return feed.Story{}, errNoHistory
}

func (noEvents) Read(
	context.Context, string, feed.Cursor, feed.Filter, int, time.Duration,
) (feed.Page, error) {
	return feed.Page{}, errNoHistory
}

func (noEvents) Present(context.Context, string) (feed.Cursor, error) {
	return feed.Cursor{}, errNoHistory
}

// eventService answers the calls about events.
type eventService struct {
	*core
	history Events
}

const (
	eventsOfPage   = 256                   // of one shard, read at once
	eventPause     = 50 * time.Millisecond // between pages without an event for the caller
	eventStreamSSE = "text/event-stream"   // the type of an answer
	eventRetry     = 2 * time.Second       // after which a browser connects again
	defaultStory   = task.DefaultListLimit // events of a task's history
	eventForm      = "2006-01-02T15:04:05.000Z"
)

var eventTypes = map[historypb.Type]string{
	historypb.Type_TYPE_SCHEDULED: "scheduled", historypb.Type_TYPE_MOVED: "moved", historypb.Type_TYPE_FIRED: "fired",
	historypb.Type_TYPE_DELIVERED: "delivered", historypb.Type_TYPE_FAILED: "failed", historypb.Type_TYPE_DEAD: "dead",
	historypb.Type_TYPE_CANCELLED: "cancelled", historypb.Type_TYPE_EXPIRED: "expired",
	historypb.Type_TYPE_SKIPPED: "skipped",
}

// eventNames are the names of the types, in the order of the contract.
const eventNames = "scheduled, moved, fired, delivered, failed, dead, cancelled, expired or skipped"

// eventView is an event as answers show it. Members that do not apply are absent.
type eventView struct {
	ID         string            `json:"id,omitempty"` // of a stream: where to go on
	Type       string            `json:"type"`
	At         string            `json:"at"`
	Task       string            `json:"task"`
	Queue      string            `json:"queue"`
	Labels     map[string]string `json:"labels,omitempty"`
	Due        string            `json:"due"`
	Lateness   string            `json:"lateness,omitempty"`
	Attempt    uint32            `json:"attempt,omitempty"`
	WebhookID  string            `json:"webhook_id,omitempty"`
	Schedule   string            `json:"schedule,omitempty"`
	Occurrence uint64            `json:"occurrence,omitempty"`
	Node       string            `json:"node,omitempty"`
	Answer     string            `json:"answer,omitempty"`
	Shard      uint32            `json:"shard"`
}

func viewOfEvent(e *historypb.Event, id string) eventView {
	v := eventView{
		ID: id, Type: eventTypes[e.GetType()], At: instantText(e.GetAtMs()), Task: e.GetTask(), Queue: e.GetQueue(),
		Due: instantText(e.GetDueMs()), Attempt: e.GetAttempt(), WebhookID: e.GetWebhookId(), Node: e.GetNode(),
		Answer: e.GetAnswer(), Shard: e.GetShard(),
	}
	if e.GetAttempt() == 1 {
		v.Lateness = (time.Duration(e.GetLatenessMs()) * time.Millisecond).String()
	}
	if schedule, number, ok := task.SplitOccurrence(e.GetTask()); ok {
		v.Schedule, v.Occurrence = schedule, number
	}
	for _, l := range e.GetLabels() {
		if v.Labels == nil {
			v.Labels = map[string]string{}
		}
		v.Labels[l.GetName()] = l.GetValue()
	}
	return v
}

func instantText(ms int64) string { return time.UnixMilli(ms).UTC().Format(eventForm) }

// storyView is the history of a task as an answer shows it.
type storyView struct {
	Task          string      `json:"task"`
	Events        []eventView `json:"events"`
	More          bool        `json:"more"`
	Complete      bool        `json:"complete"`
	CompleteSince *string     `json:"complete_since"`
	Missing       []string    `json:"missing"`
}

// ofTask answers the events of a task.
func (s *eventService) ofTask(c echo.Context) error {
	cl, id := callOf(c), c.Param("id")
	limit, err := storyLimit(c.QueryParams())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cl.Request().Context(), s.bounds.RequestTimeout)
	defer cancel()
	story, err := s.history.Task(ctx, cl.namespace, id, limit)
	if err != nil {
		return s.historyFailed(err)
	}
	view := storyView{Task: id, Events: []eventView{}, More: story.More, Missing: story.Absent}
	for _, e := range story.Events {
		if cl.mayUse(e.GetQueue(), id) {
			view.Events = append(view.Events, viewOfEvent(e, ""))
		}
	}
	if len(view.Events) == 0 {
		if err := s.checkStory(ctx, cl, id, story); err != nil {
			return err
		}
	}
	view.Complete = !story.Gapped && story.Since.IsZero() && !story.More
	if !story.Since.IsZero() {
		since := instantText(story.Since.UnixMilli())
		view.CompleteSince = &since
	}
	if view.Missing == nil {
		view.Missing = []string{}
	}
	return writeValue(c, http.StatusOK, view)
}

// checkStory refuses the history of a task without events, unless the task exists.
func (s *eventService) checkStory(ctx context.Context, cl *call, id string, story feed.Story) error {
	switch t, err := s.tasks.Get(ctx, cl.namespace, id, false); {
	case err != nil:
		return s.readFailed(err)
	case t != nil && cl.reaches(t):
		return nil
	case !story.Since.IsZero() && !cl.limited:
		return goneProblem(story.Since)
	}
	return notFound()
}

func goneProblem(since time.Time) *problem {
	return &problem{kind: eventsGone, detail: fmt.Sprintf("events up to %s are gone", instantText(since.UnixMilli()))}
}

func storyLimit(query url.Values) (int, error) {
	q := &fsmpb.ListQuery{Limit: defaultStory}
	if query.Has("limit") {
		if err := listLimit(q, query.Get("limit")); err != nil {
			return 0, err
		}
	}
	return int(q.Limit), nil
}

// historyFailed words the error of a read of events.
func (s *eventService) historyFailed(err error) error {
	var gone *feed.GoneError
	if errors.As(err, &gone) {
		return goneProblem(gone.Since)
	}
	return &problem{kind: notReady, detail: "the history cannot be read: " + reason(err), retryAfter: 1}
}

// eventQuery is what a caller wants of the stream of events.
type eventQuery struct {
	feed.Filter
	after  string // text of a cursor; empty: the present, unless Since is set
	follow bool
	lines  bool // newline-delimited JSON in place of server-sent events
}

func parseEvents(r *http.Request, query url.Values, now time.Time) (q eventQuery, err error) {
	list := &fsmpb.ListQuery{}
	for _, p := range []struct {
		name string
		read func(q *fsmpb.ListQuery, value string) error
	}{{"queue", listQueue}, {"prefix", listPrefix}} {
		if query.Has(p.name) {
			if err := p.read(list, query.Get(p.name)); err != nil {
				return q, err
			}
		}
	}
	if err := listLabels(list, query["label"]); err != nil {
		return q, err
	}
	q.Queue, q.Prefix = list.Queue, list.Prefix
	for _, l := range list.Labels {
		q.Labels = append(q.Labels, &historypb.Label{Name: l.Name, Value: l.Value})
	}
	if q.Types, err = parseTypes(query["type"]); err != nil {
		return q, err
	}
	if query.Has("since") {
		if q.Since, err = parseSince(query.Get("since"), now); err != nil {
			return q, err
		}
	}
	q.after = query.Get("after")
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		q.after = id
	}
	if q.follow, err = parseFollow(query); err != nil {
		return q, err
	}
	q.lines, err = wantsLines(r)
	return q, err
}

func parseTypes(values []string) (types []historypb.Type, err error) {
	for _, value := range values {
		for name := range strings.SplitSeq(value, ",") {
			found := false
			for kind, known := range eventTypes {
				if known == name {
					types, found = append(types, kind), true
				}
			}
			if !found {
				return nil, fieldProblem("type", fmt.Sprintf("is %q", contract.Clip(name)), eventNames)
			}
		}
	}
	return types, nil
}

func parseFollow(query url.Values) (bool, error) {
	if !query.Has("follow") {
		return true, nil
	}
	follow, err := strconv.ParseBool(query.Get("follow"))
	if err != nil {
		return false, fieldProblem("follow", fmt.Sprintf("is %q", contract.Clip(query.Get("follow"))), "true or false")
	}
	return follow, nil
}

// wantsLines reports whether a caller asks for lines of JSON.
func wantsLines(r *http.Request) (bool, error) {
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if accept == "" {
		return false, nil
	}
	for part := range strings.SplitSeq(accept, ",") {
		switch kind, _, err := mime.ParseMediaType(part); {
		case err != nil:
		case kind == ndjsonType:
			return true, nil
		case kind == eventStreamSSE, kind == "text/*", kind == "*/*":
			return false, nil
		}
	}
	return false, fieldProblem("accept", "names no type of this call", eventStreamSSE+" or "+ndjsonType)
}

// stream streams what happens to the tasks of a namespace.
func (s *eventService) stream(c echo.Context) error {
	cl := callOf(c)
	q, err := parseEvents(cl.Request(), c.QueryParams(), s.arrived().at)
	if err == nil {
		err = cl.checkList(q.Queue, q.Prefix)
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(cl.life())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	t := &eventStream{s: s, c: cl, q: q}
	if err := t.begin(ctx); err != nil {
		return err
	}
	t.run(ctx)
	return nil
}

// eventStream is one answer of events.
type eventStream struct {
	s    *eventService
	c    *call
	q    eventQuery
	at   feed.Cursor
	page feed.Page
}

// begin reads the first page, so that a refusal is still an answer of its own, and begins the answer.
func (t *eventStream) begin(ctx context.Context) (err error) {
	if t.at, err = feed.Parse(t.q.after); err != nil {
		return fieldProblem("after", err.Error(), "the id of an event")
	}
	first, cancel := context.WithTimeout(ctx, t.s.bounds.RequestTimeout)
	defer cancel()
	if t.at.IsZero() && t.q.Since.IsZero() {
		t.at, err = t.s.history.Present(first, t.c.namespace)
	}
	if err == nil {
		t.page, err = t.s.history.Read(first, t.c.namespace, t.at, t.q.Filter, eventsOfPage, 0)
	}
	if refusal := t.c.right.Refusal(); refusal != nil {
		return refusal
	}
	if err != nil {
		return t.s.historyFailed(err)
	}
	h := t.c.Response().Header()
	h["Content-Type"] = []string{eventStreamSSE}
	if t.q.lines {
		h["Content-Type"] = []string{ndjsonType}
	}
	h["Cache-Control"] = []string{"no-store"}
	t.c.Response().WriteHeader(http.StatusOK)
	return nil
}

// run writes pages until the caller leaves, loses its right or takes no bytes, or the server closes.
func (t *eventStream) run(ctx context.Context) {
	if !t.q.lines {
		t.write(fmt.Sprintf("retry: %d\n\n", eventRetry.Milliseconds()))
	}
	for {
		empty := len(t.page.Entries) == 0 && !t.page.Gapped
		stays := t.page.Next.String() == t.at.String()
		if !t.writePage() {
			return
		}
		if empty && stays && !t.q.follow {
			return
		}
		if empty && !stays && !pauseFor(ctx, eventPause) {
			return
		}
		if !t.next(ctx) {
			return
		}
	}
}

// next reads the next page. A page without events after the beat's time is a heartbeat.
func (t *eventStream) next(ctx context.Context) bool {
	wait := t.s.bounds.StreamBeat
	if !t.q.follow {
		wait = 0
	}
	page, err := t.s.history.Read(ctx, t.c.namespace, t.at, t.q.Filter, eventsOfPage, wait)
	switch {
	case ctx.Err() != nil:
		if refusal := t.c.right.Refusal(); refusal != nil {
			t.fail(t.c.ending("stream"))
		}
		return false
	case err != nil:
		t.fail(t.s.historyFailed(err))
		return false
	}
	t.page = page
	return true
}

// pauseFor waits for d, and reports whether ctx is still live.
func pauseFor(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// writePage writes the events of a page, or a heartbeat. It reports whether the caller takes them.
func (t *eventStream) writePage() bool {
	var b strings.Builder
	if t.page.Gapped {
		t.line(&b, t.at.String(), "gap", map[string]string{"type": "gap"})
	}
	for _, e := range t.page.Entries {
		v := viewOfEvent(e.Event, e.Cursor.String())
		t.line(&b, v.ID, v.Type, v)
	}
	t.at = t.page.Next
	switch {
	case b.Len() > 0:
	case t.q.lines:
		fmt.Fprintf(&b, "{\"heartbeat\":%q}\n", instantText(t.s.arrived().at.UnixMilli()))
	default:
		b.WriteString(": \n\n")
	}
	return t.write(b.String())
}

// line adds one event in the form that the caller wants.
func (t *eventStream) line(b *strings.Builder, id, kind string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("httpapi: an event cannot be written: %v", err))
	}
	if t.q.lines {
		b.Write(text)
		b.WriteByte('\n')
		return
	}
	fmt.Fprintf(b, "id: %s\nevent: %s\ndata: %s\n\n", id, kind, text)
}

// fail writes a problem as the last event.
func (t *eventStream) fail(err error) {
	p := problemOf(err)
	var b strings.Builder
	t.line(&b, t.at.String(), "error", map[string]json.RawMessage{"problem": appendProblem(nil, p)})
	t.write(b.String())
}

// write writes text and sends it at once. A caller that takes no bytes for too long loses the connection.
func (t *eventStream) write(text string) bool {
	t.s.writeWithin(t.c, t.s.bounds.BatchStall)
	if _, err := t.c.Response().Write([]byte(text)); err != nil {
		return false
	}
	return http.NewResponseController(t.c.Response().Writer).Flush() == nil
}
