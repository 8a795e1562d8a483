package erasure

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
	"github.com/belfryhq/belfry/cluster/internal/pause"
	"github.com/belfryhq/belfry/cluster/internal/tenancy"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// Cluster is the way to the tasks of all shards, and to the other nodes.
type Cluster interface {
	// List returns one page of a namespace's tasks over all shards.
	List(ctx context.Context, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error)
	// Do commits commands.
	Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply
	// Count returns the number of tasks in a namespace.
	Count(ctx context.Context, namespace string) (uint64, error)
	// AwaitAt waits until a node knows a version of the keys and namespaces.
	AwaitAt(ctx context.Context, node string, version uint64) error
}

// Config holds the ways to the cluster.
type Config struct {
	Cluster Cluster
	Watch   func() (*clusterpb.ControlState, <-chan struct{}) // the control group's state, and its next change
	End     func(ctx context.Context, namespace string) error // commits the end of a deletion
	Calm    time.Duration                                     // for which calls under way may last
	Logger  *slog.Logger
}

// Rate is the number of tasks that are erased each second, over all deletions.
const Rate = 4000

// page is the number of tasks that are listed and erased together. turn is the number of pages after which the next
// namespace has its turn.
const (
	page = 250
	turn = 40
)

// The pauses between two looks: after a sweep, and while a node is asked.
const (
	again  = time.Second
	asking = time.Second
)

// Eraser carries on the deletions during one leadership of the control group.
type Eraser struct {
	cfg   Config
	limit *rate.Limiter
	all   map[string]*deletion // by namespace; only Run uses it

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

// New returns an Eraser that has erased nothing.
func New(cfg Config) *Eraser {
	return &Eraser{
		cfg: cfg, limit: rate.NewLimiter(Rate, page), all: make(map[string]*deletion),
		progress: make(map[string]*clusterpb.Deletion),
	}
}

// Run carries on all deletions until ctx ends.
func (e *Eraser) Run(ctx context.Context) {
	for ctx.Err() == nil {
		state, changed := e.cfg.Watch()
		names := tenancy.Deleting(state)
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
			_ = pause.For(ctx, again) // its error is the end of ctx
		}
	}
}

// keep sets the deletions under way to those of these namespaces.
func (e *Eraser) keep(names []string) {
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

// Progress returns the deletions under way, by namespace.
func (e *Eraser) Progress() map[string]*clusterpb.Deletion {
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
func (e *Eraser) carryOn(ctx context.Context, d *deletion) (busy bool) {
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
	if err := e.cfg.End(ctx, d.name); err != nil {
		e.fail(ctx, d, err)
		return false
	}
	e.cfg.Logger.Info("a namespace is deleted", "namespace", d.name)
	return true
}

// fail records the error for which a deletion waits, unless that is the end of the leadership.
func (e *Eraser) fail(ctx context.Context, d *deletion, err error) {
	if ctx.Err() == nil {
		e.note(d.name, err.Error())
	}
}

// begin begins a sweep.
func (e *Eraser) begin(ctx context.Context, d *deletion) {
	if d.sure.IsZero() {
		e.confirm(ctx, d)
	}
	d.calm = !d.sure.IsZero() && time.Since(d.sure) >= e.cfg.Calm
	d.next, d.found = &fsmpb.ListQuery{Namespace: d.name, Limit: page, States: tasksAndSchedules()}, 0
	left, err := e.cfg.Cluster.Count(ctx, d.name)
	if err != nil {
		e.cfg.Logger.Debug("the tasks of a namespace that is being deleted are not counted", "namespace", d.name, "err", err)
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
func (e *Eraser) confirm(ctx context.Context, d *deletion) {
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	state, _ := e.cfg.Watch()
	silent := make([]string, len(state.Nodes))
	var asked sync.WaitGroup
	for i, node := range state.Nodes {
		asked.Go(func() {
			if err := e.cfg.Cluster.AwaitAt(ctx, node.Id, state.AccessVersion); err != nil {
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
func (e *Eraser) sweep(ctx context.Context, d *deletion) error {
	for range turn {
		listed, err := e.cfg.Cluster.List(ctx, d.next, false)
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
func (e *Eraser) erase(ctx context.Context, namespace string, tasks []*fsmpb.Task) error {
	if err := e.limit.WaitN(ctx, min(len(tasks), page)); err != nil || len(tasks) == 0 {
		return err
	}
	var cmds []*fsmpb.Command
	for _, t := range tasks {
		cmds = append(cmds, &fsmpb.Command{
			Namespace: namespace, Id: t.Id, Op: &fsmpb.Command_Erase{Erase: &fsmpb.Erase{}},
		})
	}
	var errs []error
	for _, reply := range e.cfg.Cluster.Do(ctx, cmds) {
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
func (e *Eraser) count(name string, left uint64) {
	e.edit(name, func(d *clusterpb.Deletion) { d.Left = left })
}

// erased lowers the number of tasks that are left, until the next count.
func (e *Eraser) erased(name string, tasks uint64) {
	e.edit(name, func(d *clusterpb.Deletion) { d.Left -= min(tasks, d.Left) })
}

// note records why a deletion waits, and logs a new reason.
func (e *Eraser) note(name, waits string) {
	e.edit(name, func(d *clusterpb.Deletion) {
		if waits != "" && d.Waits != waits {
			e.cfg.Logger.Info("the deletion of a namespace waits", "namespace", name, "reason", waits)
		}
		d.Waits = waits
	})
}

func (e *Eraser) edit(name string, edit func(*clusterpb.Deletion)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.progress[name] == nil {
		e.progress[name] = &clusterpb.Deletion{}
	}
	edit(e.progress[name])
}
