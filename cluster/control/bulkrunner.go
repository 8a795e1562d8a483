package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"golang.org/x/time/rate"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
)

// bulkRate is the number of calls a second, over all operations.
const bulkRate = 5000

const (
	bulkAgain = time.Second // pause after a failure
	mostLists = 64          // lists without a task until the walk's place is committed
	mostReads = 5           // reads of one task that others change again and again
)

// bulkRunner carries on the bulk operations during one leadership of the control group.
type bulkRunner struct {
	tasks Tasks
	group proposer
	clock func() time.Time // of the record's times
	log   *slog.Logger
	limit *rate.Limiter

	mu    sync.Mutex
	waits map[string]string // reasons why operations wait, by id
}

func newBulkRunner(tasks Tasks, group proposer, clock func() time.Time, log *slog.Logger) *bulkRunner {
	return &bulkRunner{
		tasks: tasks, group: group, clock: clock, log: log, limit: rate.NewLimiter(bulkRate, pageTasks),
		waits: make(map[string]string),
	}
}

// run carries on all operations until ctx ends, each in a goroutine of its own.
func (r *bulkRunner) run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	begun := make(map[string]bool)
	for ctx.Err() == nil {
		state, changed := r.group.Watch()
		for _, op := range runningBulks(state) {
			if !begun[op.Id] {
				begun[op.Id] = true
				working.Go(func() { r.carryOn(ctx, op.Id) })
			}
		}
		maps.DeleteFunc(begun, func(id string, _ bool) bool { return FindBulk(state, id) == nil })
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// reasons returns the reasons why operations wait, by id.
func (r *bulkRunner) reasons() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.waits)
}

// bulkWork is one operation during one leadership.
type bulkWork struct {
	*bulkRunner
	id    string
	limit *rate.Limiter // of the operation
	// fresh is the number of the page that this work has pinned and has made no call on; 0: none. The calls on any other
	// pinned page may have been made before.
	fresh uint64
}

// carryOn takes step after step until an operation has ended.
func (r *bulkRunner) carryOn(ctx context.Context, id string) {
	w := &bulkWork{bulkRunner: r, id: id}
	for ctx.Err() == nil {
		state, _ := r.group.Watch()
		op := FindBulk(state, id)
		if op == nil || op.EndedMs > 0 {
			r.note(id, "")
			return
		}
		err := w.step(ctx, op)
		switch {
		case err == nil:
			r.note(id, "")
			continue
		case errors.Is(err, ErrRefused): // the record has changed meanwhile
			r.log.Debug("a step of a bulk operation came too late", "operation", id, "err", err)
		case ctx.Err() == nil:
			r.note(id, err.Error())
		}
		wait.For(ctx, bulkAgain)
	}
}

// note records why an operation waits, and logs a new reason.
func (r *bulkRunner) note(id, reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if reason == "" {
		delete(r.waits, id)
		return
	}
	if r.waits[id] != reason {
		r.log.Info("a bulk operation waits", "operation", id, "reason", reason)
	}
	r.waits[id] = reason
}

// step makes the calls on the pinned page, or pins the next page.
func (w *bulkWork) step(ctx context.Context, op *clusterpb.BulkOperation) error {
	if len(op.Pinned) > 0 {
		return w.finish(ctx, op)
	}
	return w.pinNext(ctx, op)
}

// pinNext lists the next page, waits until its calls may be made, and pins it.
func (w *bulkWork) pinNext(ctx context.Context, op *clusterpb.BulkOperation) error {
	most := pageTasks
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
	page.AtMs = w.clock().UnixMilli()
	entry := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_PinBulk{PinBulk: page}}
	if _, err := w.group.propose(ctx, entry); err != nil {
		return err
	}
	w.fresh = page.Number
	return nil
}

// list returns the next page. The page has no tasks if many lists found none.
func (w *bulkWork) list(ctx context.Context, op *clusterpb.BulkOperation, most int) (*clusterpb.PinBulk, error) {
	page := &clusterpb.PinBulk{Id: op.Id, Number: op.Pages + 1, Slot: op.Slot, AfterId: op.AfterId}
	query := BulkQuery(op)
	for range mostLists {
		query.Slot, query.AfterId, query.Limit = page.Slot, page.AfterId, uint32(most-len(page.Tasks))
		listed, err := w.tasks.List(ctx, query, false)
		if err != nil {
			return nil, err
		}
		for _, t := range listed.Tasks {
			page.Tasks = append(page.Tasks, pinnedTask(op, t))
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

// BulkQuery returns the filter of an operation, to list the tasks from the first slot on.
func BulkQuery(op *clusterpb.BulkOperation) *fsmpb.ListQuery {
	q := proto.CloneOf(op.GetFilter())
	if q == nil {
		q = &fsmpb.ListQuery{}
	}
	q.Namespace, q.Slot, q.AfterId, q.IncludePayload = op.Namespace, 0, "", false
	if len(q.States) == 0 {
		q.States = BulkStates(op)
	}
	return q
}

// await waits until calls on the page may be made: by the rate of the operation, then by that of all of them.
func (w *bulkWork) await(ctx context.Context, op *clusterpb.BulkOperation, most, tasks int) error {
	if w.limit == nil {
		w.limit = rate.NewLimiter(rate.Limit(cmp.Or(op.PerSecond, bulkRate)), most)
	}
	if err := w.limit.WaitN(ctx, tasks); err != nil {
		return err
	}
	return w.bulkRunner.limit.WaitN(ctx, tasks)
}

// finish makes the calls on the pinned page, and counts their outcomes.
func (w *bulkWork) finish(ctx context.Context, op *clusterpb.BulkOperation) error {
	repeated := w.fresh != op.Pages
	w.fresh = 0
	counts, err := w.call(ctx, op, repeated)
	if err != nil {
		return err
	}
	counted := &clusterpb.CountBulk{
		Id: op.Id, Number: op.Pages, Outcomes: counts, AtMs: w.clock().UnixMilli(),
	}
	_, err = w.group.propose(ctx, &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_CountBulk{CountBulk: counted}})
	return err
}

// call makes the calls on the pinned page, and returns the numbers of their outcomes. After an error all calls must be
// made again.
func (w *bulkWork) call(
	ctx context.Context, op *clusterpb.BulkOperation, repeated bool,
) ([]*clusterpb.BulkCount, error) {
	var counts []*clusterpb.BulkCount
	var cmds []*fsmpb.Command
	var called []*clusterpb.BulkTask
	for _, t := range op.Pinned {
		outcome := clusterpb.BulkOutcome_BULK_OUTCOME_REFUSED
		switch {
		case t.Unchanged:
			outcome = clusterpb.BulkOutcome_BULK_OUTCOME_UNCHANGED
		case !t.Refused:
			called = append(called, t)
			continue
		}
		counts = append(counts, &clusterpb.BulkCount{Outcome: outcome, Tasks: 1})
	}
	if len(called) == 0 {
		return addOutcomes(counts, nil), nil
	}
	var replies []task.Reply
	if patchesSchedules(op) {
		replies = w.patchSchedules(ctx, op, called)
	} else {
		for _, t := range called {
			cmds = append(cmds, bulkCommand(op, t))
		}
		replies = w.tasks.Do(ctx, cmds)
	}
	var errs []error
	for i, reply := range replies {
		if reply.Result.GetCode() == fsmpb.Code_CODE_PRECONDITION_FAILED && reply.Err == nil {
			reply = w.retry(ctx, op, called[i])
		}
		outcome, err := outcomeOf(op.Kind, reply, repeated)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		counts = append(counts, &clusterpb.BulkCount{Outcome: outcome, Tasks: 1})
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("%d of %d calls have failed: %w", len(errs), len(called), errs[0])
	}
	return addOutcomes(counts, nil), nil
}

// retry makes the call on a task or a schedule as it is now, at the present revision. A call that was made before is
// answered from its record, so a task moves once. A schedule that was made after the deleted one stays.
func (w *bulkWork) retry(
	ctx context.Context, op *clusterpb.BulkOperation, pinned *clusterpb.BulkTask,
) (reply task.Reply) {
	for range mostReads {
		t, err := w.tasks.Get(ctx, op.Namespace, pinned.Id, false)
		if err != nil {
			return task.Reply{Err: err}
		}
		p := pinnedTask(op, t)
		switch {
		case t == nil || p.CreatedMs != pinned.CreatedMs:
			return task.Reply{Result: &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}}
		case p.Refused:
			return task.Reply{Result: &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID}}
		}
		cmd := bulkCommand(op, p)
		if patchesSchedules(op) {
			if cmd.Op, err = w.patchOf(op, t); err != nil {
				return task.Reply{Result: &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID, Detail: err.Error()}}
			}
			cmd.Condition = &fsmpb.Condition{Revisions: []uint64{t.Revision}}
		}
		reply = w.tasks.Do(ctx, []*fsmpb.Command{cmd})[0]
		if reply.Err != nil || reply.Result.GetCode() != fsmpb.Code_CODE_PRECONDITION_FAILED {
			return reply
		}
	}
	return reply
}

// bulkCommand returns the call of an operation on a task, which belongs to the caller.
func bulkCommand(op *clusterpb.BulkOperation, t *clusterpb.BulkTask) *fsmpb.Command {
	c := &fsmpb.Command{Namespace: op.Namespace, Id: t.Id, Key: &fsmpb.Key{
		Hash: xxhash.Sum64String(op.Id + "\x00" + t.Id), Call: xxhash.Sum64String(op.Id),
	}}
	switch op.Kind {
	case clusterpb.BulkKind_BULK_KIND_CANCEL:
		c.Op = &fsmpb.Command_Cancel{Cancel: &fsmpb.Cancel{}}
	case clusterpb.BulkKind_BULK_KIND_MOVE:
		to := op.ToMs
		if op.ByMs != 0 {
			to = max(t.FireAtMs+op.ByMs, 1)
		}
		c.Op = &fsmpb.Command_Patch{Patch: &fsmpb.Patch{FireAtMs: &to}}
	case clusterpb.BulkKind_BULK_KIND_PATCH:
		c.Op = &fsmpb.Command_Patch{Patch: proto.CloneOf(op.Patch)}
	case clusterpb.BulkKind_BULK_KIND_FIRE:
		c.Op = &fsmpb.Command_FireNow{FireNow: &fsmpb.FireNow{}}
	case clusterpb.BulkKind_BULK_KIND_REPLAY:
		c.Op = &fsmpb.Command_Replay{Replay: &fsmpb.Replay{}}
	case clusterpb.BulkKind_BULK_KIND_PURGE:
		c.Op = &fsmpb.Command_Drop{Drop: &fsmpb.Drop{}}
	case clusterpb.BulkKind_BULK_KIND_PAUSE, clusterpb.BulkKind_BULK_KIND_RESUME:
		c.Op = &fsmpb.Command_PauseSeries{PauseSeries: &fsmpb.PauseSeries{Paused: pauses(op), Note: op.Note}}
	case clusterpb.BulkKind_BULK_KIND_DELETE:
		c.Op, c.Key = &fsmpb.Command_Erase{Erase: &fsmpb.Erase{}}, nil // nothing remains that could remember a key
	}
	if dependsOnTask(op) {
		c.Condition = &fsmpb.Condition{Revisions: []uint64{t.Revision}}
	}
	return c
}

// pinnedTask returns the parts of a listed task that the operation needs.
func pinnedTask(op *clusterpb.BulkOperation, t *fsmpb.Task) *clusterpb.BulkTask {
	p := &clusterpb.BulkTask{Id: t.GetId()}
	if dependsOnTask(op) {
		p.Revision, p.Refused = t.GetRevision(), leadsAway(t.GetSpec().GetTarget(), op.Patch)
	}
	switch {
	case op.ByMs != 0:
		p.FireAtMs = t.GetFireAtMs()
	case op.Kind == clusterpb.BulkKind_BULK_KIND_DELETE:
		p.CreatedMs = t.GetCreatedAtMs()
	case op.Kind == clusterpb.BulkKind_BULK_KIND_PAUSE, op.Kind == clusterpb.BulkKind_BULK_KIND_RESUME:
		p.Unchanged = t.GetSeries().GetPaused() == pauses(op)
	}
	return p
}

// dependsOnTask reports whether the call on a task depends on the task. Such a call names the task's revision.
func dependsOnTask(op *clusterpb.BulkOperation) bool {
	return op.ByMs != 0 || op.Patch.GetSet().GetTarget().GetUrl() != "" ||
		op.Kind == clusterpb.BulkKind_BULK_KIND_DELETE
}

// leadsAway reports whether a patch would lead stored credentials, or the proofs of the cluster, to another host, where
// the caller might read them.
func leadsAway(stored *fsmpb.Target, patch *fsmpb.Patch) bool {
	url := patch.GetSet().GetTarget().GetUrl()
	isCredential := func(h *fsmpb.Header) bool { return task.IsCredential(h.Name) }
	if url == "" || stored.GetAuth() == nil && !slices.ContainsFunc(stored.GetHeaders(), isCredential) {
		return false
	}
	from, err := task.Destination(stored.Url)
	if err != nil {
		return true
	}
	to, err := task.Destination(url)
	return err != nil || from != to
}

// successes holds the outcomes of calls that succeed, except for cancels.
var successes = map[clusterpb.BulkKind]clusterpb.BulkOutcome{
	clusterpb.BulkKind_BULK_KIND_MOVE:   clusterpb.BulkOutcome_BULK_OUTCOME_MOVED,
	clusterpb.BulkKind_BULK_KIND_PATCH:  clusterpb.BulkOutcome_BULK_OUTCOME_PATCHED,
	clusterpb.BulkKind_BULK_KIND_FIRE:   clusterpb.BulkOutcome_BULK_OUTCOME_FIRED,
	clusterpb.BulkKind_BULK_KIND_REPLAY: clusterpb.BulkOutcome_BULK_OUTCOME_REPLAYED,
	clusterpb.BulkKind_BULK_KIND_PURGE:  clusterpb.BulkOutcome_BULK_OUTCOME_PURGED,
	clusterpb.BulkKind_BULK_KIND_PAUSE:  clusterpb.BulkOutcome_BULK_OUTCOME_PAUSED,
	clusterpb.BulkKind_BULK_KIND_RESUME: clusterpb.BulkOutcome_BULK_OUTCOME_RESUMED,
	clusterpb.BulkKind_BULK_KIND_DELETE: clusterpb.BulkOutcome_BULK_OUTCOME_DELETED,
}

// cancels holds the outcomes of cancels.
var cancels = map[fsmpb.CancelOutcome]clusterpb.BulkOutcome{
	fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED:     clusterpb.BulkOutcome_BULK_OUTCOME_CANCELLED,
	fsmpb.CancelOutcome_CANCEL_OUTCOME_STOPPED:       clusterpb.BulkOutcome_BULK_OUTCOME_STOPPED,
	fsmpb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FIRED: clusterpb.BulkOutcome_BULK_OUTCOME_ALREADY_FIRED,
}

// outcomeOf returns the outcome of a call. repeated is set if the call may have been made before. The error says that
// the call must be made again.
func outcomeOf(kind clusterpb.BulkKind, reply task.Reply, repeated bool) (clusterpb.BulkOutcome, error) {
	none := clusterpb.BulkOutcome_BULK_OUTCOME_UNSPECIFIED
	if reply.Err != nil {
		return none, reply.Err
	}
	ofDead := kind == clusterpb.BulkKind_BULK_KIND_REPLAY || kind == clusterpb.BulkKind_BULK_KIND_PURGE
	outcome := none
	switch code := reply.Result.GetCode(); code {
	case fsmpb.Code_CODE_OK:
		if outcome = successes[kind]; kind == clusterpb.BulkKind_BULK_KIND_CANCEL {
			outcome = cancels[reply.Result.Outcome]
		}
	case fsmpb.Code_CODE_NOT_FOUND:
		outcome = clusterpb.BulkOutcome_BULK_OUTCOME_GONE
		removes := kind == clusterpb.BulkKind_BULK_KIND_PURGE || kind == clusterpb.BulkKind_BULK_KIND_DELETE
		if repeated && removes {
			outcome = successes[kind]
		}
	case fsmpb.Code_CODE_CONFLICT:
		outcome = clusterpb.BulkOutcome_BULK_OUTCOME_BEGUN
		if ofDead {
			outcome = clusterpb.BulkOutcome_BULK_OUTCOME_NOT_DEAD
		}
	case fsmpb.Code_CODE_INVALID, fsmpb.Code_CODE_KEY_REUSED:
		outcome = clusterpb.BulkOutcome_BULK_OUTCOME_REFUSED
	}
	if outcome == none {
		return none, fmt.Errorf("%w: a call on a task was answered with %v", task.ErrUnknown, reply.Result.GetCode())
	}
	return outcome, nil
}
