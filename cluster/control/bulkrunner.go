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
		q.States = BulkStates(op.Kind)
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
	for _, t := range op.Pinned {
		if t.Refused {
			counts = append(counts, &clusterpb.BulkCount{Outcome: clusterpb.BulkOutcome_BULK_OUTCOME_REFUSED, Tasks: 1})
			continue
		}
		cmds = append(cmds, bulkCommand(op, t))
	}
	if len(cmds) == 0 {
		return addOutcomes(counts, nil), nil
	}
	ids := idsOf(cmds) // the commands belong to the cluster from now on
	var errs []error
	for i, reply := range w.tasks.Do(ctx, cmds) {
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
	return addOutcomes(counts, nil), nil
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
func (w *bulkWork) retry(ctx context.Context, op *clusterpb.BulkOperation, id string) (reply task.Reply) {
	for range mostReads {
		t, err := w.tasks.Get(ctx, op.Namespace, id, false)
		switch {
		case err != nil:
			return task.Reply{Err: err}
		case t == nil:
			return task.Reply{Result: &fsmpb.Result{Code: fsmpb.Code_CODE_NOT_FOUND}}
		}
		p := pinnedTask(op, t)
		if p.Refused {
			return task.Reply{Result: &fsmpb.Result{Code: fsmpb.Code_CODE_INVALID}}
		}
		reply = w.tasks.Do(ctx, []*fsmpb.Command{bulkCommand(op, p)})[0]
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
	}
	if dependsOnTask(op) {
		c.Condition = &fsmpb.Condition{Revisions: []uint64{t.Revision}}
	}
	return c
}

// pinnedTask returns the parts of a listed task that the operation needs.
func pinnedTask(op *clusterpb.BulkOperation, t *fsmpb.Task) *clusterpb.BulkTask {
	p := &clusterpb.BulkTask{Id: t.Id}
	if dependsOnTask(op) {
		p.Revision, p.Refused = t.Revision, leadsAway(t.GetSpec().GetTarget(), op.Patch)
	}
	if op.ByMs != 0 {
		p.FireAtMs = t.FireAtMs
	}
	return p
}

// dependsOnTask reports whether the call on a task depends on the task. Such a call names the task's revision.
func dependsOnTask(op *clusterpb.BulkOperation) bool {
	return op.ByMs != 0 || op.Patch.GetSet().GetTarget().GetUrl() != ""
}

// leadsAway reports whether a patch would lead stored credentials to another host, where the caller might read them.
func leadsAway(stored *fsmpb.Target, patch *fsmpb.Patch) bool {
	url := patch.GetSet().GetTarget().GetUrl()
	isCredential := func(h *fsmpb.Header) bool { return task.IsCredential(h.Name) }
	if url == "" || !slices.ContainsFunc(stored.GetHeaders(), isCredential) {
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
		if repeated && kind == clusterpb.BulkKind_BULK_KIND_PURGE {
			outcome = clusterpb.BulkOutcome_BULK_OUTCOME_PURGED
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
