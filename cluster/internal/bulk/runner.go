package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/cluster/internal/pause"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Cluster is the way to the tasks of all shards.
type Cluster interface {
	// List returns one page of a namespace's tasks over all shards.
	List(ctx context.Context, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error)
	// Do commits commands.
	Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply
	// Get returns a task, or nil if there is none.
	Get(ctx context.Context, namespace, id string, stale bool) (*fsmpb.Task, error)
}

// Config holds the ways to the cluster.
type Config struct {
	Cluster Cluster
	Watch   func() (*clusterpb.ControlState, <-chan struct{}) // the control group's state, and its next change
	// Commit commits an entry. The state has the entry once Commit returns without an error. The error wraps a *Refusal
	// if the state does not allow the entry.
	Commit func(ctx context.Context, entry *clusterpb.ControlEntry) error
	Clock  func() time.Time // of the record's times
	Logger *slog.Logger
}

// Rate is the number of calls a second, over all operations.
const Rate = 5000

const (
	again     = time.Second // pause after a failure
	mostLists = 64          // lists without a task until the walk's place is committed
	mostReads = 5           // reads of one task that others change again and again
)

// Runner carries on the bulk operations during one leadership of the control group.
type Runner struct {
	cfg   Config
	limit *rate.Limiter

	mu    sync.Mutex
	waits map[string]string // reasons why operations wait, by id
}

// New returns a Runner.
func New(cfg Config) *Runner {
	return &Runner{cfg: cfg, limit: rate.NewLimiter(Rate, PageTasks), waits: make(map[string]string)}
}

// Run carries on all operations until ctx ends, each in a goroutine of its own.
func (r *Runner) Run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	begun := make(map[string]bool)
	for ctx.Err() == nil {
		state, changed := r.cfg.Watch()
		for _, op := range Running(state) {
			if !begun[op.Id] {
				begun[op.Id] = true
				working.Go(func() { r.carryOn(ctx, op.Id) })
			}
		}
		maps.DeleteFunc(begun, func(id string, _ bool) bool { return Find(state, id) == nil })
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// Waits returns the reasons why operations wait, by id.
func (r *Runner) Waits() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.waits)
}

// work is one operation during one leadership.
type work struct {
	*Runner
	id    string
	limit *rate.Limiter // of the operation
	// fresh is the number of the page that this work has pinned and has made no call on; 0: none. The calls on any other
	// pinned page may have been made before.
	fresh uint64
}

// carryOn takes step after step until an operation has ended.
func (r *Runner) carryOn(ctx context.Context, id string) {
	w := &work{Runner: r, id: id}
	for ctx.Err() == nil {
		state, _ := r.cfg.Watch()
		op := Find(state, id)
		if op == nil || op.EndedMs > 0 {
			r.note(id, "")
			return
		}
		err := w.step(ctx, op)
		var refusal *Refusal
		switch {
		case err == nil:
			r.note(id, "")
			continue
		case errors.As(err, &refusal): // the record has changed meanwhile
			r.cfg.Logger.Debug("a step of a bulk operation came too late", "operation", id, "err", err)
		case ctx.Err() == nil:
			r.note(id, err.Error())
		}
		_ = pause.For(ctx, again) // its error is the end of ctx
	}
}

// note records why an operation waits, and logs a new reason.
func (r *Runner) note(id, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reason == "" {
		delete(r.waits, id)
		return
	}
	if r.waits[id] != reason {
		r.cfg.Logger.Info("a bulk operation waits", "operation", id, "reason", reason)
	}
	r.waits[id] = reason
}

// step makes the calls on the pinned page, or pins the next page.
func (w *work) step(ctx context.Context, op *clusterpb.BulkOperation) error {
	if len(op.Pinned) > 0 {
		return w.finish(ctx, op)
	}
	return w.pinNext(ctx, op)
}

// pinNext lists the next page, waits until its calls may be made, and pins it.
func (w *work) pinNext(ctx context.Context, op *clusterpb.BulkOperation) error {
	most := PageTasks
	if op.PerSecond > 0 {
		most = min(most, int(op.PerSecond))
	}
	page, err := w.list(ctx, op, most)
	if err != nil {
		return err
	}
	if err := w.await(ctx, op, most, len(page.Tasks)); err != nil {
		return err
	}
	page.AtMs = w.cfg.Clock().UnixMilli()
	if err := w.cfg.Commit(ctx, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_PinBulk{PinBulk: page}}); err != nil {
		return err
	}
	w.fresh = page.Number
	return nil
}

// list returns the next page. The page has no tasks if many lists found none.
func (w *work) list(ctx context.Context, op *clusterpb.BulkOperation, most int) (*clusterpb.PinBulk, error) {
	page := &clusterpb.PinBulk{Id: op.Id, Number: op.Pages + 1, Slot: op.Slot, AfterId: op.AfterId}
	query := Query(op)
	for range mostLists {
		query.Slot, query.AfterId, query.Limit = page.Slot, page.AfterId, uint32(most-len(page.Tasks))
		listed, err := w.cfg.Cluster.List(ctx, query, false)
		if err != nil {
			return nil, err
		}
		for _, t := range listed.Tasks {
			page.Tasks = append(page.Tasks, pinned(op, t))
		}
		if !listed.More {
			page.Slot, page.AfterId, page.Walked = task.Slots, "", true
			break
		}
		if page.Slot, page.AfterId = listed.Slot, listed.AfterId; len(page.Tasks) >= most {
			break
		}
	}
	return page, nil
}

// Query returns the filter of an operation, to list the tasks from the first slot on.
func Query(op *clusterpb.BulkOperation) *fsmpb.ListQuery {
	q := proto.CloneOf(op.GetFilter())
	if q == nil {
		q = &fsmpb.ListQuery{}
	}
	q.Namespace, q.Slot, q.AfterId, q.IncludePayload = op.Namespace, 0, "", false
	if len(q.States) == 0 {
		q.States = States(op.Kind)
	}
	return q
}

// await waits until calls on the page may be made: by the rate of the operation, then by that of all of them.
func (w *work) await(ctx context.Context, op *clusterpb.BulkOperation, most, tasks int) error {
	if w.limit == nil {
		w.limit = rate.NewLimiter(rate.Limit(cmp.Or(op.PerSecond, Rate)), most)
	}
	if err := w.limit.WaitN(ctx, tasks); err != nil {
		return err
	}
	return w.Runner.limit.WaitN(ctx, tasks)
}

// finish makes the calls on the pinned page, and counts their outcomes.
func (w *work) finish(ctx context.Context, op *clusterpb.BulkOperation) error {
	repeated := w.fresh != op.Pages
	w.fresh = 0
	counts, err := w.call(ctx, op, repeated)
	if err != nil {
		return err
	}
	counted := &clusterpb.CountBulk{
		Id: op.Id, Number: op.Pages, Outcomes: counts, AtMs: w.cfg.Clock().UnixMilli(),
	}
	return w.cfg.Commit(ctx, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_CountBulk{CountBulk: counted}})
}

// call makes the calls on the pinned page, and returns the numbers of their outcomes. After an error all calls must be
// made again.
func (w *work) call(
	ctx context.Context, op *clusterpb.BulkOperation, repeated bool,
) ([]*clusterpb.BulkCount, error) {
	var counts []*clusterpb.BulkCount
	var cmds []*fsmpb.Command
	for _, t := range op.Pinned {
		if t.Refused {
			counts = append(counts, &clusterpb.BulkCount{Outcome: clusterpb.BulkOutcome_BULK_OUTCOME_REFUSED, Tasks: 1})
			continue
		}
		cmds = append(cmds, command(op, t))
	}
	if len(cmds) == 0 {
		return add(counts, nil), nil
	}
	ids := idsOf(cmds) // the commands belong to the cluster from now on
	var errs []error
	for i, reply := range w.cfg.Cluster.Do(ctx, cmds) {
		if reply.Result.GetCode() == fsmpb.Code_CODE_PRECONDITION_FAILED && reply.Err == nil {
			reply = w.retry(ctx, op, ids[i])
		}
		outcome, err := outcomeOf(op.Kind, reply, repeated)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		counts = append(counts, &clusterpb.BulkCount{Outcome: outcome, Tasks: 1})
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%d of %d calls have failed: %w", len(errs), len(ids), errs[0])
	}
	return add(counts, nil), nil
}

func idsOf(cmds []*fsmpb.Command) []string {
	ids := make([]string, len(cmds))
	for i, c := range cmds {
		ids[i] = c.Id
	}
	return ids
}

// retry makes the call on a task that has changed since it was listed, at the task's present revision. A call that was
// made before is answered from the task's record, so the task moves once.
func (w *work) retry(ctx context.Context, op *clusterpb.BulkOperation, id string) (reply task.Reply) {
	for range mostReads {
		t, err := w.cfg.Cluster.Get(ctx, op.Namespace, id, false)
		switch {
		case err != nil:
			return task.Reply{Err: err}
		case t == nil:
			return task.Reply{Result: &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}}
		}
		p := pinned(op, t)
		if p.Refused {
			return task.Reply{Result: &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID}}
		}
		reply = w.cfg.Cluster.Do(ctx, []*fsmpb.Command{command(op, p)})[0]
		if reply.Err != nil || reply.Result.GetCode() != fsmpb.Code_CODE_PRECONDITION_FAILED {
			return reply
		}
	}
	return reply
}
