package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

// errCrash is the error of a step at which the leader of a test crashes.
var errCrash = errors.New("the leader has crashed")

// bulkWorld is a cluster whose tasks and record are in the memory of a test.
type bulkWorld struct {
	Tasks
	mu      sync.Mutex
	state   *clusterpb.ControlState
	changed chan struct{}
	tasks   map[string]*fsmpb.Task
	order   []string                         // sorted ids that there are or were
	keys    map[string]map[uint64]task.Reply // answers of keyed calls that succeeded, by id
	effects map[string]int                   // calls that changed a task, by id
	calls   int                              // commands that came

	steps   int                              // List, Do and propose calls so far
	crash   func(step int, before bool) bool // reports whether the leader crashes before or after a step
	kill    context.CancelFunc               // ends the present leadership
	between func(step int)                   // runs before each step
}

func newBulkWorld(tasks int) *bulkWorld {
	w := &bulkWorld{
		state: &clusterpb.ControlState{}, changed: make(chan struct{}), tasks: make(map[string]*fsmpb.Task),
		keys: make(map[string]map[uint64]task.Reply), effects: make(map[string]int),
	}
	for i := range tasks {
		w.add(fmt.Sprintf("t%06d", i))
	}
	return w
}

// add adds a scheduled task whose id is above all others.
func (w *bulkWorld) add(id string) {
	w.order = append(w.order, id)
	w.tasks[id] = &fsmpb.Task{Id: id, State: fsmpb.State_STATE_SCHEDULED, Revision: 1, FireAtMs: 1_000_000}
}

func (w *bulkWorld) Watch() (*clusterpb.ControlState, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, w.changed
}

// step runs a step, unless the leader crashes before it. After a crash the caller learns nothing of the outcome.
func (w *bulkWorld) step(ctx context.Context, run func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	w.steps++
	if w.between != nil {
		w.between(w.steps)
	}
	if w.crash != nil && w.crash(w.steps, true) {
		w.kill()
		return errCrash
	}
	err := run()
	if w.crash != nil && w.crash(w.steps, false) {
		w.kill()
		return errCrash
	}
	return err
}

func (w *bulkWorld) propose(ctx context.Context, entry *clusterpb.ControlEntry) (*clusterpb.ControlChanged, error) {
	return nil, w.step(ctx, func() error { return w.apply(entry) })
}

func (w *bulkWorld) decide(ctx context.Context, entry *clusterpb.ControlEntry) (*clusterpb.ControlChanged, error) {
	return w.propose(ctx, entry)
}

// apply applies an entry. The caller holds the lock, or nothing else runs.
func (w *bulkWorld) apply(entry *clusterpb.ControlEntry) error {
	next, err := Apply(w.state, proto.CloneOf(entry))
	if err != nil {
		return err
	}
	w.state = next
	close(w.changed)
	w.changed = make(chan struct{})
	return nil
}

// List returns pages whose cursor is the last id. The slot tells how many ids lie behind it.
func (w *bulkWorld) List(ctx context.Context, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
	p := &fsmpb.ListPage{}
	err := w.step(ctx, func() error {
		if stale || len(q.States) == 0 || len(q.States) > 1 && slices.Contains(q.States, fsmpb.State_STATE_REPEATING) {
			return fmt.Errorf("a list of %v, stale: %v", q.States, stale)
		}
		first, found := slices.BinarySearch(w.order, q.AfterId)
		if found {
			first++
		}
		for _, id := range w.order[first:] {
			t := w.tasks[id]
			switch {
			case t == nil || !slices.Contains(q.States, t.State) || !strings.HasPrefix(id, q.Prefix):
			case len(p.Tasks) == int(q.Limit):
				p.More, p.AfterId = true, p.Tasks[len(p.Tasks)-1].Id
				return nil
			default:
				p.Tasks = append(p.Tasks, proto.CloneOf(t))
			}
		}
		return nil
	})
	return p, err
}

func (w *bulkWorld) Get(ctx context.Context, _, id string, _ bool) (t *fsmpb.Task, err error) {
	err = w.step(ctx, func() error {
		if w.tasks[id] != nil {
			t = proto.CloneOf(w.tasks[id])
		}
		return nil
	})
	return t, err
}

// Do carries out the commands one after the other. A crash cuts them short.
func (w *bulkWorld) Do(ctx context.Context, cmds []*fsmpb.Command) []task.Reply {
	replies := make([]task.Reply, len(cmds))
	for i, c := range cmds {
		err := w.step(ctx, func() error {
			replies[i] = w.do(c)
			return nil
		})
		if err != nil {
			replies[i] = task.Reply{Err: fmt.Errorf("%w: %w", task.ErrUnknown, err)}
		}
	}
	return replies
}

func (w *bulkWorld) do(c *fsmpb.Command) task.Reply {
	w.calls++
	if old, ok := w.keys[c.Id][c.Key.GetHash()]; ok && c.Key != nil && w.tasks[c.Id] != nil {
		return old
	}
	t := w.tasks[c.Id]
	if t == nil {
		return bulkAnswer(fsmpb.Code_CODE_NOT_FOUND)
	}
	if c.Condition != nil && c.Condition.Revisions[0] != t.Revision {
		return bulkAnswer(fsmpb.Code_CODE_PRECONDITION_FAILED)
	}
	reply := w.change(c, t)
	if reply.Result.Code == fsmpb.Code_CODE_OK {
		t.Revision++
		w.effects[c.Id]++
		if w.keys[c.Id] == nil {
			w.keys[c.Id] = make(map[uint64]task.Reply)
		}
		w.keys[c.Id][c.Key.GetHash()] = reply
	}
	return reply
}

// change carries out a command on a task.
func (w *bulkWorld) change(c *fsmpb.Command, t *fsmpb.Task) task.Reply {
	scheduled, dead := t.State == fsmpb.State_STATE_SCHEDULED, t.State == fsmpb.State_STATE_DEAD
	reply := bulkAnswer(fsmpb.Code_CODE_OK)
	switch op := c.Op.(type) {
	case *fsmpb.Command_Cancel:
		reply.Result.Outcome = fsmpb.CancelOutcome_CANCEL_OUTCOME_ALREADY_FIRED
		if scheduled {
			t.State, reply.Result.Outcome = fsmpb.State_STATE_CANCELLED, fsmpb.CancelOutcome_CANCEL_OUTCOME_CANCELLED
		}
	case *fsmpb.Command_Patch:
		if !scheduled {
			return bulkAnswer(fsmpb.Code_CODE_CONFLICT)
		}
		if url := op.Patch.GetSet().GetTarget().GetUrl(); url != "" {
			t.Spec.Target.Url = url
		}
		if op.Patch.FireAtMs != nil {
			t.FireAtMs = *op.Patch.FireAtMs
		}
	case *fsmpb.Command_FireNow:
		if !scheduled {
			return bulkAnswer(fsmpb.Code_CODE_CONFLICT)
		}
		t.State = fsmpb.State_STATE_DELIVERED
	case *fsmpb.Command_Replay:
		if !dead {
			return bulkAnswer(fsmpb.Code_CODE_CONFLICT)
		}
		t.State = fsmpb.State_STATE_READY
	case *fsmpb.Command_PauseSeries:
		t.Series.Paused, t.Series.Note = op.PauseSeries.Paused, op.PauseSeries.Note
	case *fsmpb.Command_SetSeries:
		t.Spec, t.Series = op.SetSeries.Spec, op.SetSeries.Series
	case *fsmpb.Command_Erase:
		delete(w.tasks, c.Id)
	case *fsmpb.Command_Drop:
		if !dead {
			return bulkAnswer(fsmpb.Code_CODE_CONFLICT)
		}
		delete(w.tasks, c.Id)
	}
	return reply
}

func bulkAnswer(code fsmpb.Code) task.Reply { return task.Reply{Result: &fsmpb.Result{Code: code}} }

// begin begins an operation of the id op.
func (w *bulkWorld) begin(t *testing.T, op *clusterpb.BulkOperation) {
	t.Helper()
	op.Id, op.BeganMs = "op", 1
	if err := w.apply(&clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_BeginBulk{
		BeginBulk: &clusterpb.BeginBulk{Operation: op},
	}}); err != nil {
		t.Fatal(err)
	}
}

// run lets leaders follow each other until the operation has ended, and returns it.
func (w *bulkWorld) run(t *testing.T) *clusterpb.BulkOperation {
	t.Helper()
	for range 10_000 {
		ctx, cancel := context.WithCancel(t.Context())
		w.mu.Lock()
		w.kill = cancel
		w.mu.Unlock()
		r := newBulkRunner(w, w, time.Now, slog.New(slog.DiscardHandler))
		go func() {
			for {
				state, changed := w.Watch()
				if FindBulk(state, "op").GetEndedMs() > 0 {
					cancel()
				}
				select {
				case <-changed:
				case <-ctx.Done():
					return
				}
			}
		}()
		r.run(ctx)
		cancel()
		if state, _ := w.Watch(); FindBulk(state, "op").GetEndedMs() > 0 {
			return FindBulk(state, "op")
		}
	}
	t.Fatal("the operation does not end")
	return nil
}

// outcomes returns the counts by the ends of the outcomes' names.
func outcomes(op *clusterpb.BulkOperation) map[string]uint64 {
	counts := make(map[string]uint64)
	for _, c := range op.Outcomes {
		counts[strings.ToLower(strings.TrimPrefix(c.Outcome.String(), "BULK_OUTCOME_"))] = c.Tasks
	}
	return counts
}

// mustCount checks that an operation is done with these outcomes, and has made each change once.
func (w *bulkWorld) mustCount(t *testing.T, name string, op *clusterpb.BulkOperation, want map[string]uint64) {
	t.Helper()
	if got := outcomes(op); !maps.Equal(got, want) || op.State != bulkDone || op.Matched != SumOutcomes(op.Outcomes) {
		t.Errorf("%s: %v of %d tasks, %v; want %v", name, got, op.Matched, op.State, want)
	}
	for id, times := range w.effects {
		assert.Equal(t, times, 1, "%s: task %s was changed N times", name, id)
	}
}

// bulkKinds are the operations of the tests, with the outcomes of five live and three dead tasks.
var bulkKinds = map[string]struct {
	op      *clusterpb.BulkOperation
	want    map[string]uint64
	changed int
}{
	"cancel": {&clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_CANCEL}, map[string]uint64{"cancelled": 5}, 5},
	"move by": {&clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_MOVE, ByMs: 500},
		map[string]uint64{"moved": 5}, 5},
	"move to": {&clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_MOVE, ToMs: 1_000_500},
		map[string]uint64{"moved": 5}, 5},
	"patch": {&clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_PATCH, Patch: &fsmpb.Patch{Clear: []string{"labels"}}},
		map[string]uint64{"patched": 5}, 5},
	"fire":   {&clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_FIRE}, map[string]uint64{"fired": 5}, 5},
	"replay": {&clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_REPLAY}, map[string]uint64{"replayed": 3}, 3},
	"purge":  {&clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_PURGE}, map[string]uint64{"purged": 3}, 3},
	"pause schedules": {&clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_PAUSE, Schedules: true, Note: "x"},
		map[string]uint64{"paused": 4, "unchanged": 1}, 4},
	"resume schedules": {&clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_RESUME, Schedules: true},
		map[string]uint64{"resumed": 1, "unchanged": 4}, 1},
	"delete schedules": {&clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_DELETE, Schedules: true},
		map[string]uint64{"deleted": 5}, 5},
	"patch schedules": {&clusterpb.BulkOperation{
		Kind: clusterpb.BulkKind_BULK_KIND_PATCH, Schedules: true, Changed: []string{"note", "repeat.time_zone"},
		Settings: &fsmpb.Series{Note: "x", Repeat: &fsmpb.Repeat{TimeZone: "Europe/Berlin"}},
	}, map[string]uint64{"patched": 5}, 5},
}

// mixed returns a bulkWorld with five scheduled tasks, or schedules of which the first is paused, and three dead
// tasks, and pages of two.
func mixed(t *testing.T, op *clusterpb.BulkOperation) *bulkWorld {
	w := newBulkWorld(8)
	for i, id := range w.order {
		switch one := w.tasks[id]; {
		case i%3 == 1:
			one.State = fsmpb.State_STATE_DEAD
		case op.Schedules:
			w.tasks[id] = scheduleOf(id, &fsmpb.Repeat{Cron: []string{"0 9 * * *"}})
			w.tasks[id].Series.Paused = i == 0
		}
	}
	op = proto.CloneOf(op)
	op.PerSecond = 2
	w.begin(t, op)
	return w
}

// TestLeaderCrashesAtEveryStep crashes the leader before and after each step of each kind of operation. The totals are
// exact, and no task is changed twice.
func TestLeaderCrashesAtEveryStep(t *testing.T) {
	for name, k := range bulkKinds {
		t.Run(name, func(t *testing.T) {
			crashes := 0
			for at := 1; ; at++ {
				crashed := false
				for _, side := range []bool{true, false} {
					synctest.Test(t, func(t *testing.T) {
						w := mixed(t, k.op)
						w.crash = func(step int, before bool) bool {
							hit := step == at && before == side
							crashed = crashed || hit
							return hit
						}
						w.mustCount(t, fmt.Sprintf("step %d, before it: %v", at, side), w.run(t), k.want)
						if len(w.effects) != k.changed {
							t.Errorf("step %d: %d tasks were changed", at, len(w.effects))
						}
						w.mustHaveMoved(t, k.op)
					})
				}
				if !crashed {
					break
				}
				crashes++
			}
			if crashes < 9 {
				t.Errorf("only %d steps were seen", crashes)
			}
		})
	}
}

// mustHaveMoved checks that each task of a move has moved once.
func (w *bulkWorld) mustHaveMoved(t *testing.T, op *clusterpb.BulkOperation) {
	t.Helper()
	for id := range w.effects {
		if at := w.tasks[id].GetFireAtMs(); op.Kind == clusterpb.BulkKind_BULK_KIND_MOVE && at != 1_000_500 {
			t.Errorf("task %s fires at %d", id, at)
		}
	}
}

// TestLeaderCrashesAgainAndAgain crashes the leader after every seventh step.
func TestLeaderCrashesAgainAndAgain(t *testing.T) {
	for name, k := range bulkKinds {
		synctest.Test(t, func(t *testing.T) {
			w := mixed(t, k.op)
			w.crash = func(step int, before bool) bool { return step%7 == 0 && before == (step%2 == 0) }
			w.mustCount(t, name, w.run(t), k.want)
		})
	}
}

// TestEveryFailedCommandIsRepeated lets many single commands fail without a crash.
func TestEveryFailedCommandIsRepeated(t *testing.T) {
	for name, k := range bulkKinds {
		synctest.Test(t, func(t *testing.T) {
			w := mixed(t, k.op)
			cancelled := func() {}
			w.crash = func(step int, before bool) bool {
				w.kill = cancelled
				return step%3 == 0 && before == (step%2 == 0) && step < 200
			}
			w.mustCount(t, name, w.run(t), k.want)
		})
	}
}

// TestTasksChangeUnderneath changes tasks after they were pinned: each has the outcome of its new state.
func TestTasksChangeUnderneath(t *testing.T) {
	change := func(w *bulkWorld) {
		w.tasks["t000000"].State = fsmpb.State_STATE_FIRING
		delete(w.tasks, "t000002")
		w.tasks["t000001"].State = fsmpb.State_STATE_READY
		delete(w.tasks, "t000004")
		w.tasks["t000003"].Revision, w.tasks["t000003"].FireAtMs = 9, 2_000_000
	}
	for name, want := range map[string]map[string]uint64{
		"cancel":  {"cancelled": 3, "already_fired": 1, "gone": 1},
		"move by": {"moved": 3, "begun": 1, "gone": 1},
		"fire":    {"fired": 3, "begun": 1, "gone": 1},
		"replay":  {"replayed": 1, "not_dead": 1, "gone": 1},
		"purge":   {"purged": 1, "not_dead": 1, "gone": 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := mixed(t, bulkKinds[name].op)
			w.state.Bulks[0].PerSecond = 0 // one page
			w.between = func(step int) {
				if step == 3 { // behind the list and the pin
					change(w)
				}
			}
			w.mustCount(t, name, w.run(t), want)
			if name == "move by" && w.tasks["t000003"].FireAtMs != 2_000_500 {
				t.Errorf("a task that was changed underneath fires at %d", w.tasks["t000003"].FireAtMs)
			}
		})
	}
}

// scheduleOf returns a schedule of this rule.
func scheduleOf(id string, rule *fsmpb.Repeat) *fsmpb.Task {
	return &fsmpb.Task{
		Id: id, State: fsmpb.State_STATE_REPEATING, Revision: 1, CreatedAtMs: 7, Spec: &fsmpb.Spec{},
		Series: &fsmpb.Series{Repeat: rule, Note: "old"},
	}
}

// TestSchedulesArePatchedAsTheyAre merges one patch into different schedules. A schedule whose rule would be none, or
// whose task would break a limit, stays as it is.
func TestSchedulesArePatchedAsTheyAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBulkWorld(4)
		for i, rule := range []*fsmpb.Repeat{
			{Cron: []string{"0 9 * * *"}},
			{EveryMs: 60_000, AnchorMs: proto.Int64(5)},
			{Cron: []string{"0 10 * * *"}, Calendar: "gone"},
			{Cron: []string{"0 11 * * *"}},
		} {
			w.tasks[w.order[i]] = scheduleOf(w.order[i], rule)
		}
		full := w.tasks[w.order[3]]
		for i := range task.MaxLabels {
			full.Spec.Labels = append(full.Spec.Labels, &fsmpb.Label{Name: fmt.Sprint("l", i)})
		}
		w.between = func(step int) {
			if step == 4 { // the schedule was listed, pinned and read
				w.tasks["t000000"].Revision, w.tasks["t000000"].Series.Note = 9, "newer"
			}
		}
		w.begin(t, &clusterpb.BulkOperation{
			Kind: clusterpb.BulkKind_BULK_KIND_PATCH, Schedules: true, PerSecond: 1,
			Changed:  []string{"misfire_window", "repeat.jitter"},
			Settings: &fsmpb.Series{MisfireWindowMs: 9, Repeat: &fsmpb.Repeat{JitterMs: 3}},
			Patch:    &fsmpb.Patch{Set: &fsmpb.Spec{Labels: []*fsmpb.Label{{Name: "team", Value: "a"}}}},
		})
		w.mustCount(t, "patch", w.run(t), map[string]uint64{"patched": 2, "refused": 2})
		for id, want := range map[string]string{"t000000": "newer", "t000001": "old"} {
			s := w.tasks[id]
			if s.Series.Note != want || s.Series.MisfireWindowMs != 9 || s.Series.Repeat.JitterMs != 3 ||
				len(s.Spec.Labels) != 1 || len(s.Series.Repeat.Cron) == 0 && s.Series.Repeat.GetAnchorMs() != 5 {
				t.Errorf("%s: %v", id, s)
			}
		}
	})
}

// TestLaterScheduleOutlivesADelete deletes a schedule, crashes before the count, and makes another one of the id.
func TestLaterScheduleOutlivesADelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBulkWorld(1)
		w.tasks["t000000"] = scheduleOf("t000000", &fsmpb.Repeat{EveryMs: 1000})
		w.crash = func(step int, before bool) bool { return step == 4 && before }
		w.between = func(step int) {
			if step == 5 {
				w.tasks["t000000"] = scheduleOf("t000000", &fsmpb.Repeat{EveryMs: 1000})
				w.tasks["t000000"].CreatedAtMs, w.tasks["t000000"].Revision = 8, 5
			}
		}
		w.begin(t, &clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_DELETE, Schedules: true})
		w.mustCount(t, "delete", w.run(t), map[string]uint64{"deleted": 1})
		if s := w.tasks["t000000"]; s.GetCreatedAtMs() != 8 {
			t.Errorf("the later schedule became %v", s)
		}
	})
}

// TestPatchLeadsNoCredentialsAway patches the URLs of tasks with and without credentials. One task gets credentials
// after it was pinned.
func TestPatchLeadsNoCredentialsAway(t *testing.T) {
	secret := []*fsmpb.Header{{Name: "authorization", Value: "Bearer x"}}
	synctest.Test(t, func(t *testing.T) {
		w := newBulkWorld(5)
		for i, target := range []*fsmpb.Target{
			{Url: "https://old.example/a", Headers: secret},
			{Url: "https://new.example/a", Headers: secret},
			{Url: "https://old.example/a", Headers: []*fsmpb.Header{{Name: "x-shop", Value: "1"}}},
			{Url: "https://old.example/a"},
			{Url: "https://old.example/a"},
		} {
			w.tasks[w.order[i]].Spec = &fsmpb.Spec{Target: target}
		}
		w.between = func(step int) {
			if late := w.tasks["t000004"]; step == 3 {
				late.Spec.Target.Headers, late.Revision = secret, 9
			}
		}
		url := "https://new.example/b"
		w.begin(t, &clusterpb.BulkOperation{
			Kind: clusterpb.BulkKind_BULK_KIND_PATCH, Patch: &fsmpb.Patch{Set: &fsmpb.Spec{Target: &fsmpb.Target{Url: url}}},
		})
		w.mustCount(t, "patch", w.run(t), map[string]uint64{"patched": 3, "refused": 2})
		for id, patched := range map[string]bool{"t000000": false, "t000001": true, "t000003": true, "t000004": false} {
			got := w.tasks[id].Spec.Target.Url
			assert.Equal(t, got == url, patched, "task %s has the target %s", id, got)
		}
	})
}

// TestRateHolds checks that an operation takes the time of its rate, and that a stop ends it in between with exact
// counts.
func TestRateHolds(t *testing.T) {
	for _, stops := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newBulkWorld(1000)
			w.begin(t, &clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_CANCEL, PerSecond: 100})
			began := time.Now()
			if stops {
				time.AfterFunc(4500*time.Millisecond, func() {
					w.mu.Lock()
					defer w.mu.Unlock()
					assert.Equal(t, w.apply(stopEntry("op")), nil)
				})
			}
			op := w.run(t)
			took := time.Since(began)
			if !stops && (took < 8*time.Second || took > 11*time.Second || op.Matched != 1000) {
				t.Errorf("%d tasks in %v", op.Matched, took)
			}
			if stops && (took > 5*time.Second || op.State != bulkStopped || op.Matched < 400 || op.Matched > 600) {
				t.Errorf("stopped: %d tasks in %v, %v", op.Matched, took, op.State)
			}
			if n := SumOutcomes(op.Outcomes); n != op.Matched || n != uint64(len(w.effects)) {
				t.Errorf("%d tasks are counted, %d were matched and %d changed", n, op.Matched, len(w.effects))
			}
		})
	}
}

// TestOperationsShareTheRate runs two operations that together may make bulkRate calls a second.
func TestOperationsShareTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBulkWorld(20_000)
		for _, name := range []string{"t00", "t01"} {
			if err := w.apply(&clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_BeginBulk{BeginBulk: &clusterpb.BeginBulk{
				Operation: &clusterpb.BulkOperation{
					Id: name, Kind: clusterpb.BulkKind_BULK_KIND_CANCEL, Filter: &fsmpb.ListQuery{Prefix: name},
				},
			}}}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		newBulkRunner(w, w, time.Now, slog.New(slog.DiscardHandler)).run(ctx)
		a, b := w.state.Bulks[0].Matched, w.state.Bulks[1].Matched
		if a+b < 9000 || a+b > 11_000 || a < 4000 || b < 4000 {
			t.Errorf("%d and %d tasks in two seconds", a, b)
		}
	})
}

// TestEmptyWalkGoesOn checks that a walk that finds nothing ends, and moves its place on in the record.
func TestEmptyWalkGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBulkWorld(3)
		w.begin(t, &clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_PURGE})
		if op := w.run(t); op.State != bulkDone || op.Matched != 0 || op.Pages != 1 || w.calls != 0 {
			t.Errorf("%v after %d calls", op, w.calls)
		}
	})
}

// TestReasonsOfWaits checks that an operation tells why it waits, and forgets the reason once it goes on.
func TestReasonsOfWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newBulkWorld(3)
		w.begin(t, &clusterpb.BulkOperation{Kind: clusterpb.BulkKind_BULK_KIND_CANCEL})
		broken := true
		w.kill = func() {}
		w.crash = func(int, bool) bool { return broken }
		ctx, cancel := context.WithCancel(t.Context())
		r := newBulkRunner(w, w, time.Now, slog.New(slog.DiscardHandler))
		var running sync.WaitGroup
		running.Go(func() { r.run(ctx) })
		time.Sleep(1500 * time.Millisecond)
		assert.Contains(t, r.reasons()["op"], errCrash.Error(), "it waits for")
		w.mu.Lock()
		broken = false
		w.mu.Unlock()
		time.Sleep(2 * time.Second)
		if waits := r.reasons(); len(waits) > 0 || w.state.Bulks[0].State != bulkDone {
			t.Errorf("waits %v, %v", waits, w.state.Bulks[0])
		}
		cancel()
		running.Wait()
	})
}

func stopEntry(id string) *clusterpb.ControlEntry {
	return &clusterpb.ControlEntry{Op: &clusterpb.ControlEntry_StopBulk{
		StopBulk: &clusterpb.StopBulk{Id: id, AtMs: 7, Detail: "an operator has stopped it"},
	}}
}
