package control

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/wait"
)

// Tasks gives access to the tasks of all shards: those of namespaces that are being deleted, and those of bulk
// operations.
type Tasks interface {
	// List returns one page of a namespace's tasks over all shards.
	List(ctx context.Context, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error)
	// Get returns a task, or nil if there is none.
	Get(ctx context.Context, namespace, id string, stale bool) (*fsmpb.Task, error)
	// Do commits commands.
	Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply
	// Count returns the number of tasks in a namespace.
	Count(ctx context.Context, namespace string) (uint64, error)
	// AwaitAt waits until a node knows a version of the keys and namespaces.
	AwaitAt(ctx context.Context, node string, version uint64) error
}

// proposer is the group, as the work on tasks uses it. *Group implements it.
type proposer interface {
	Watch() (*clusterpb.ControlState, <-chan struct{})
	propose(ctx context.Context, entry *clusterpb.ControlEntry) (*clusterpb.ControlChanged, error)
	decide(ctx context.Context, entry *clusterpb.ControlEntry) (*clusterpb.ControlChanged, error)
}

// eraseRate is the number of tasks that are erased each second, over all deletions.
const eraseRate = 4000

const (
	erasePage  = 250         // tasks that are listed and erased together
	eraseTurn  = 40          // pages after which the next namespace has its turn
	eraseAgain = time.Second // between two sweeps
	eraseAsk   = time.Second // for which a node is asked
)

// eraser carries on the deletions of namespaces during one leadership of the control group.
type eraser struct {
	tasks Tasks
	group proposer
	calm  time.Duration    // for which calls under way may last
	clock func() time.Time // of the end of a deletion
	log   *slog.Logger
	limit *rate.Limiter
	all   map[string]*deletion // by namespace; only run uses it

	mu       sync.Mutex
	progress map[string]*clusterpb.Deletion // by namespace
}

// deletion is one deletion under way.
type deletion struct {
	name   string
	sure   time.Time        // when every node was known to refuse new work; zero: not yet
	next   *fsmpb.ListQuery // of the sweep under way; nil: none is
	calm   bool             // no new task could come when the sweep began
	found  int              // tasks that the sweep has found
	silent string           // reason why a node is awaited; empty: none is
}

func newEraser(
	tasks Tasks, group proposer, calm time.Duration, clock func() time.Time, log *slog.Logger,
) *eraser {
	return &eraser{
		tasks: tasks, group: group, calm: calm, clock: clock, log: log, limit: rate.NewLimiter(eraseRate, erasePage),
		all: make(map[string]*deletion), progress: make(map[string]*clusterpb.Deletion),
	}
}

// run carries on all deletions until ctx ends.
func (e *eraser) run(ctx context.Context) {
	for ctx.Err() == nil {
		state, changed := e.group.Watch()
		names := deletingNamespaces(state)
		e.keep(names)
		if len(names) == 0 {
			select {
			case <-changed:
			case <-ctx.Done():
			}
			continue
		}
		busy := false
		for _, name := range names {
			busy = e.carryOn(ctx, e.all[name]) || busy
		}
		if !busy {
			wait.For(ctx, eraseAgain)
		}
	}
}

// keep sets the deletions under way to those of these namespaces.
func (e *eraser) keep(names []string) {
	for _, name := range names {
		if e.all[name] == nil {
			e.all[name] = &deletion{name: name}
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for name := range e.all {
		if !slices.Contains(names, name) {
			delete(e.all, name)
			delete(e.progress, name)
		}
	}
}

// underway returns the deletions under way, by namespace.
func (e *eraser) underway() map[string]*clusterpb.Deletion {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := make(map[string]*clusterpb.Deletion, len(e.progress))
	for name, d := range e.progress {
		all[name] = &clusterpb.Deletion{Left: d.Left, Waits: d.Waits}
	}
	return all
}

// carryOn goes on with a sweep for a turn, and ends the deletion after a sweep that has found nothing. It reports
// whether there is more to do without a pause.
func (e *eraser) carryOn(ctx context.Context, d *deletion) (busy bool) {
	if d.next == nil {
		e.begin(ctx, d)
	}
	if err := e.sweep(ctx, d); err != nil {
		d.next = nil
		e.fail(ctx, d, err)
		return false
	}
	if d.next != nil {
		return true
	}
	if d.found > 0 || !d.calm {
		return d.found > 0
	}
	end := &clusterpb.EndNamespace{Name: d.name, AtMs: e.clock().UnixMilli()}
	entry := &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_EndNamespace{EndNamespace: end}}
	if _, err := e.group.decide(ctx, entry); err != nil {
		e.fail(ctx, d, err)
		return false
	}
	e.log.Info("a namespace is deleted", "namespace", d.name)
	return true
}

// fail records the error for which a deletion waits, unless that is the end of the leadership.
func (e *eraser) fail(ctx context.Context, d *deletion, err error) {
	if ctx.Err() == nil {
		e.note(d.name, err.Error())
	}
}

// begin begins a sweep.
func (e *eraser) begin(ctx context.Context, d *deletion) {
	if d.sure.IsZero() {
		e.confirm(ctx, d)
	}
	d.calm = !d.sure.IsZero() && time.Since(d.sure) >= e.calm
	d.next, d.found = &fsmpb.ListQuery{Namespace: d.name, Limit: erasePage, States: tasksAndSchedules()}, 0
	left, err := e.tasks.Count(ctx, d.name)
	if err != nil {
		e.log.Debug("the tasks of a namespace that is being deleted are not counted", "namespace", d.name, "err", err)
		return
	}
	e.count(d.name, left)
	e.note(d.name, d.silent)
}

// tasksAndSchedules returns the states of all tasks, and that of schedules. A list has a schedule before its
// occurrences, so a sweep finds the last of them.
func tasksAndSchedules() (all []fsmpb.State) {
	for state := fsmpb.State_STATE_SCHEDULED; state <= fsmpb.State_STATE_REPEATING; state++ {
		all = append(all, state)
	}
	return all
}

// confirm asks all nodes whether they know that the namespace takes no new work.
func (e *eraser) confirm(ctx context.Context, d *deletion) {
	ctx, cancel := context.WithTimeout(ctx, eraseAsk)
	defer cancel()
	state, _ := e.group.Watch()
	silent := make([]string, len(state.Nodes))
	var asked sync.WaitGroup
	for i, node := range state.Nodes {
		asked.Go(func() {
			if err := e.tasks.AwaitAt(ctx, node.Id, state.AccessVersion); err != nil {
				silent[i] = node.Id
			}
		})
	}
	asked.Wait()
	silent = slices.DeleteFunc(silent, func(id string) bool { return id == "" })
	if len(silent) == 0 {
		d.sure, d.silent = time.Now(), ""
		return
	}
	d.silent = fmt.Sprintf("node %s does not say that it takes no more tasks of the namespace: start it, or remove it "+
		"from the cluster", strings.Join(silent, " and "))
}

// sweep goes on with a sweep for at most a turn. It erases the tasks that it finds.
func (e *eraser) sweep(ctx context.Context, d *deletion) error {
	for range eraseTurn {
		listed, err := e.tasks.List(ctx, d.next, false)
		if err != nil {
			return err
		}
		d.found += len(listed.Tasks)
		if err := e.erase(ctx, d.name, listed.Tasks); err != nil {
			return err
		}
		if !listed.More {
			d.next = nil
			return nil
		}
		d.next.Slot, d.next.AfterId = listed.Slot, listed.AfterId
	}
	return nil
}

// erase erases the tasks of a page. A task that does not exist any more counts as erased.
func (e *eraser) erase(ctx context.Context, namespace string, tasks []*fsmpb.Task) error {
	if err := e.limit.WaitN(ctx, min(len(tasks), erasePage)); err != nil || len(tasks) == 0 {
		return err
	}
	var cmds []*fsmpb.Command
	for _, t := range tasks {
		cmds = append(cmds, &fsmpb.Command{
			Namespace: namespace, Id: t.Id, Op: &fsmpb.Command_Erase{Erase: &fsmpb.Erase{}},
		})
	}
	var errs []error
	for _, reply := range e.tasks.Do(ctx, cmds) {
		switch code := reply.Result.GetCode(); {
		case reply.Err != nil:
			errs = append(errs, reply.Err)
		case code != fsmpb.Code_CODE_OK && code != fsmpb.Code_CODE_NOT_FOUND:
			errs = append(errs, fmt.Errorf("a task is not erased: %v", code))
		}
	}
	if len(errs) > 0 {
		return fmt.Errorf("%d of %d tasks are not erased yet: %w", len(errs), len(cmds), errs[0])
	}
	e.erased(namespace, uint64(len(cmds)))
	return nil
}

// count sets the number of tasks that are left.
func (e *eraser) count(name string, left uint64) {
	e.edit(name, func(d *clusterpb.Deletion) { d.Left = left })
}

// erased lowers the number of tasks that are left, until the next count.
func (e *eraser) erased(name string, tasks uint64) {
	e.edit(name, func(d *clusterpb.Deletion) { d.Left -= min(tasks, d.Left) })
}

// note records why a deletion waits, and logs a new reason.
func (e *eraser) note(name, waits string) {
	e.edit(name, func(d *clusterpb.Deletion) {
		if waits != "" && d.Waits != waits {
			e.log.Info("the deletion of a namespace waits", "namespace", name, "reason", waits)
		}
		d.Waits = waits
	})
}

func (e *eraser) edit(name string, edit func(*clusterpb.Deletion)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.progress[name] == nil {
		e.progress[name] = &clusterpb.Deletion{}
	}
	edit(e.progress[name])
}
