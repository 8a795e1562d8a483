package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/httpapi/internal/rights"
	"github.com/belfryhq/belfry/internal/contract"
)

// replayDead makes a queue's dead letters due again, and dropDead deletes them: all of them, those that filters select,
// or those named by their ids.
func (s *queueService) replayDead(c echo.Context) error {
	return s.eachDead(c, func(cmd *fsmpb.Command) { cmd.Op = &fsmpb.Command_Replay{Replay: &fsmpb.Replay{}} })
}

func (s *queueService) dropDead(c echo.Context) error {
	return s.eachDead(c, func(cmd *fsmpb.Command) { cmd.Op = &fsmpb.Command_Drop{Drop: &fsmpb.Drop{}} })
}

// deadWalk changes dead letters one page after another.
type deadWalk struct {
	s     *queueService
	right *rights.Right
	set   func(*fsmpb.Command) // the command's op
	left  uint64               // dead letters that it may still change
	count uint64               // dead letters that it has changed
}

func (s *queueService) eachDead(c echo.Context, set func(*fsmpb.Command)) error {
	f, err := s.parseDead(c.QueryParams(), callOf(c).namespace, c.Param("queue"))
	if err != nil {
		return err
	}
	if err := s.emptyBody(c); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	e := &deadWalk{s: s, right: callOf(c).right, set: set, left: f.limit}
	if err := e.run(ctx, f, func() { s.writeWithin(c, 2*s.bounds.RequestTimeout+writeReserve) }); err != nil {
		return e.broken(err)
	}
	writeJSON(c.Response(), http.StatusOK, fmt.Appendf(nil, "{\"count\":%d}\n", e.count))
	return nil
}

// deadFilter selects dead letters: by ids, or else by query.
type deadFilter struct {
	namespace, queue string

	ids   []string
	query *fsmpb.ListQuery
	limit uint64
}

const maxDeadIDs = 100

func (s *queueService) parseDead(query url.Values, namespace, queue string) (*deadFilter, error) {
	f := &deadFilter{namespace: namespace, queue: queue, ids: query["id"], limit: 1<<64 - 1}
	if limit := query["limit"]; len(limit) == 1 {
		n, err := strconv.ParseUint(limit[0], 10, 63)
		if err != nil || n < 1 {
			return nil, fieldProblem("limit", fmt.Sprintf("is %q", contract.Clip(limit[0])), "1 or more")
		}
		f.limit = n
		delete(query, "limit") // a page has another limit
	}
	if len(f.ids) > 0 {
		return f, f.checkIDs(query)
	}
	var err error
	f.query, err = parseList(listsTasks, namespace, query, s.arrived().at)
	if err != nil {
		return nil, err
	}
	f.query.Queue, f.query.Limit = queue, task.MaxListLimit
	f.query.States = []fsmpb.State{fsmpb.State_STATE_DEAD}
	return f, nil
}

// checkIDs checks ids, which exclude all filters.
func (f *deadFilter) checkIDs(query url.Values) error {
	for name := range query {
		if name != "id" {
			return fieldProblem(name, "has no use beside id, which names the tasks", "")
		}
	}
	if len(f.ids) > maxDeadIDs {
		return fieldProblem("id", fmt.Sprintf("is given %d times", len(f.ids)), fmt.Sprint(maxDeadIDs))
	}
	for _, id := range f.ids {
		if err := checkTaskID("id", id); err != nil {
			return err
		}
	}
	return nil
}

// run changes one page after another, and calls beat before each.
func (e *deadWalk) run(ctx context.Context, f *deadFilter, beat func()) error {
	if len(f.ids) > 0 {
		beat()
		tasks, err := e.named(ctx, f)
		if err != nil {
			return err
		}
		return e.change(ctx, tasks)
	}
	for {
		beat()
		page, err := e.page(ctx, f.query)
		if err != nil {
			return err
		}
		if err := e.change(ctx, page.Tasks); err != nil || e.left == 0 {
			return err
		}
		if !page.More || page.Slot >= task.Slots {
			return nil
		}
		f.query.Slot, f.query.AfterId = page.Slot, page.AfterId
	}
}

func (e *deadWalk) page(ctx context.Context, q *fsmpb.ListQuery) (*fsmpb.ListPage, error) {
	ctx, cancel := e.reading(ctx)
	defer cancel()
	page, err := e.s.tasks.List(ctx, q)
	if err != nil {
		return nil, readProblem(err)
	}
	return page, nil
}

// reading returns the context of a read, which ends at once when the caller loses its right to the call.
func (e *deadWalk) reading(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, e.s.bounds.RequestTimeout)
	ctx, stop := e.right.Within(ctx, 0)
	return ctx, func() { stop(); cancel() }
}

// named reads the tasks with the filter's ids, and leaves out those that are no dead letters of the queue.
func (e *deadWalk) named(ctx context.Context, f *deadFilter) ([]*fsmpb.Task, error) {
	ctx, cancel := e.reading(ctx)
	defer cancel()
	var tasks []*fsmpb.Task
	for _, id := range f.ids {
		t, err := e.s.tasks.Get(ctx, f.namespace, id, false)
		if err != nil {
			return nil, readProblem(err)
		}
		if t.GetState() == fsmpb.State_STATE_DEAD && orElse(t.Spec.GetQueue(), task.DefaultQueue) == f.queue {
			tasks = append(tasks, t)
		}
	}
	return tasks, nil
}

// change sends the commands for a page. Each command holds only for the revision that was read, so a task that has
// changed since stays as it is.
func (e *deadWalk) change(ctx context.Context, tasks []*fsmpb.Task) error {
	if uint64(len(tasks)) > e.left {
		tasks = tasks[:e.left]
	}
	commands := make([]*fsmpb.Command, len(tasks))
	for i, t := range tasks {
		commands[i] = &fsmpb.Command{Namespace: t.Namespace, Id: t.Id,
			Condition: &fsmpb.Condition{Revisions: []uint64{t.Revision}}}
		e.set(commands[i])
	}
	if refusal := e.right.Refusal(); refusal != nil {
		return refusal
	}
	replies, err := e.s.doPatiently(ctx, e.right, commands)
	if err != nil {
		return err
	}
	var failed error
	for _, r := range replies {
		if err := e.tally(r); err != nil && (failed == nil || errors.Is(err, task.ErrUnknown)) {
			failed = err // an unknown outcome is worse than a refusal
		}
	}
	return failed
}

func (e *deadWalk) tally(r task.Reply) error {
	switch {
	case r.Err != nil:
		return r.Err
	case r.Result.Code == fsmpb.Code_CODE_OK:
		e.count++
		e.left--
	}
	return nil // gone, replayed or replaced meanwhile: no dead letter now
}

// broken returns the problem of a walk that broke off. If some letters have changed, the call is neither done nor
// undone: its outcome is reported as unknown, with the number that has certainly changed. The refusal of a caller that
// has lost its right has the exact number, unless the outcome of the last page is unknown.
func (e *deadWalk) broken(err error) error {
	p := *problemOf(err)
	refusal := e.right.Refusal()
	switch {
	case refusal != nil && p.kind != outcomeUnknown:
		p = *problemOf(refusal)
		p.detail = "the call breaks off here: " + p.detail
	case refusal != nil:
		err = refusal
		fallthrough
	case e.count > 0 && p.kind != internalError:
		p = problem{kind: outcomeUnknown, detail: "it broke off half-way, and can be repeated for the rest: " + reason(err),
			committed: "unknown", retryAfter: 1}
	}
	p.done = &e.count
	return &p
}
