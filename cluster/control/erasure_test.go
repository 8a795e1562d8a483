package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
)

const eraseCalm = 10 * time.Second

// eraseWorld is a cluster of two nodes with tasks, in the memory of a test.
type eraseWorld struct {
	Tasks
	mu      sync.Mutex
	state   *clusterpb.ControlState
	changed chan struct{}
	tasks   map[string]map[string]bool // ids by namespace
	order   map[string][]string        // sorted ids that there are or were, by namespace
	silent  map[string]bool            // nodes
	broken  error                      // of List and Do
	ended   map[string]time.Time
	asked   int    // times that a node was asked
	erasing func() // called before an Erase
	refuses bool   // Erase
}

func newEraseWorld(sizes map[string]int) *eraseWorld {
	w := &eraseWorld{
		state: &clusterpb.ControlState{AccessVersion: 3, Nodes: []*clusterpb.Node{{Id: "a"}, {Id: "b"}}},
		tasks: make(map[string]map[string]bool), silent: make(map[string]bool), ended: make(map[string]time.Time),
		changed: make(chan struct{}), order: make(map[string][]string),
	}
	for _, name := range slices.Sorted(maps.Keys(sizes)) {
		w.tasks[name] = make(map[string]bool)
		for i := range sizes[name] {
			w.add(name, fmt.Sprintf("t%06d", i))
		}
		w.state.Namespaces = append(w.state.Namespaces, &clusterpb.Namespace{
			Name: name, State: clusterpb.NamespaceState_NAMESPACE_STATE_DELETING,
		})
	}
	w.state.Namespaces = append(w.state.Namespaces, &clusterpb.Namespace{Name: "zoo"})
	w.tasks["zoo"] = map[string]bool{"t": true}
	return w
}

// add adds a task whose id is above all others.
func (w *eraseWorld) add(name, id string) {
	w.tasks[name][id] = true
	w.order[name] = append(w.order[name], id)
}

func (w *eraseWorld) Watch() (*clusterpb.ControlState, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, w.changed
}

func (w *eraseWorld) propose(context.Context, *clusterpb.ControlEntry) (*clusterpb.ControlChanged, error) {
	return nil, errors.New("the end of a deletion is told to all nodes")
}

func (w *eraseWorld) decide(_ context.Context, entry *clusterpb.ControlEntry) (*clusterpb.ControlChanged, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := entry.GetEndNamespace().GetName()
	if w.broken != nil {
		return nil, w.broken
	}
	w.ended[name] = time.Now()
	next := &clusterpb.ControlState{AccessVersion: w.state.AccessVersion + 1, Nodes: w.state.Nodes}
	for _, n := range w.state.Namespaces {
		if n.Name != name {
			next.Namespaces = append(next.Namespaces, n)
		}
	}
	w.state = next
	close(w.changed)
	w.changed = make(chan struct{})
	return nil, nil
}

// List returns pages whose cursor is the last id.
func (w *eraseWorld) List(_ context.Context, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case stale:
		return nil, errors.New("a stale page may lack tasks")
	case w.broken != nil:
		return nil, w.broken
	case !slices.Contains(q.States, fsmpb.State_STATE_REPEATING) || len(q.States) != len(fsmpb.State_name)-1:
		return nil, fmt.Errorf("a page of the states %v leaves some out", q.States)
	}
	p := &fsmpb.ListPage{}
	first, found := slices.BinarySearch(w.order[q.Namespace], q.AfterId)
	if found {
		first++
	}
	for _, id := range w.order[q.Namespace][first:] {
		switch {
		case !w.tasks[q.Namespace][id]:
		case len(p.Tasks) == int(q.Limit):
			p.More, p.AfterId = true, p.Tasks[len(p.Tasks)-1].Id
			return p, nil
		default:
			p.Tasks = append(p.Tasks, &fsmpb.Task{Namespace: q.Namespace, Id: id})
		}
	}
	return p, nil
}

func (w *eraseWorld) Do(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
	w.mu.Lock()
	defer w.mu.Unlock()
	var replies []task.Reply
	if w.erasing != nil {
		w.erasing()
	}
	for _, c := range cmds {
		code := fsmpb.Code_CODE_NOT_FOUND
		if w.refuses {
			code = fsmpb.Code_CODE_CONFLICT
		} else if c.GetErase() != nil && w.tasks[c.Namespace][c.Id] {
			code = fsmpb.Code_CODE_OK
			delete(w.tasks[c.Namespace], c.Id)
		}
		replies = append(replies, task.Reply{Result: &fsmpb.Result{Code: code}})
	}
	return replies
}

func (w *eraseWorld) Count(_ context.Context, namespace string) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return uint64(len(w.tasks[namespace])), nil
}

func (w *eraseWorld) AwaitAt(ctx context.Context, node string, version uint64) error {
	w.mu.Lock()
	w.asked++
	silent := w.silent[node]
	w.mu.Unlock()
	if version < 3 {
		return errors.New("the version is one before the deletion")
	}
	if silent {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

// left returns the number of tasks in a namespace, and when its deletion ended.
func (w *eraseWorld) left(name string) (tasks int, ended time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.tasks[name]), w.ended[name]
}

func (w *eraseWorld) edit(edit func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edit()
}

// runEraser runs an eraser in a bubble of fake time, beside the test.
func runEraser(t *testing.T, w *eraseWorld, test func(t *testing.T, e *eraser)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		e := newEraser(w, w, eraseCalm, time.Now, slog.New(slog.DiscardHandler))
		running.Go(func() { e.run(ctx) })
		test(t, e)
	})
}

// TestSweepsUntilNothingIsLeft erases the tasks of one namespace, in its time and not before.
func TestSweepsUntilNothingIsLeft(t *testing.T) {
	w, begun := newEraseWorld(map[string]int{"shop": 20_000}), time.Time{}
	runEraser(t, w, func(t *testing.T, e *eraser) {
		begun = time.Now()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if left := e.underway()["shop"].GetLeft(); left < 20_000-2*eraseRate-erasePage || left > 20_000-eraseRate {
			t.Errorf("%d tasks are left after two seconds", left)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		shop, _ := w.left("shop")
		if zoo, _ := w.left("zoo"); shop > 0 || zoo != 1 || len(e.underway()) > 0 {
			t.Errorf("left: %d of the namespace and %d of another, with %v", shop, zoo, e.underway())
		}
	})
	if took := w.ended["shop"].Sub(begun); took < eraseCalm || took > eraseCalm+5*time.Second {
		t.Errorf("ended after %v", took)
	}
	assert.Equal(t, w.asked, 2, "questions to two nodes")
}

// TestLateTasksAreErased brings a task while a node may still take some.
func TestLateTasksAreErased(t *testing.T) {
	w := newEraseWorld(map[string]int{"shop": 1})
	w.silent["b"] = true
	runEraser(t, w, func(t *testing.T, e *eraser) {
		time.Sleep(time.Hour)
		synctest.Wait()
		w.edit(func() {
			if len(w.ended) > 0 || len(w.tasks["shop"]) > 0 {
				t.Errorf("with a silent node: ended %v, and %d tasks are left", w.ended, len(w.tasks["shop"]))
			}
			w.add("shop", "u-late")
		})
		assert.Contains(t, e.underway()["shop"].GetWaits(), "node b ", "it waits")
		w.edit(func() { w.silent["b"] = false })
		time.Sleep(eraseCalm / 2)
		synctest.Wait()
		w.edit(func() {
			if len(w.ended) > 0 {
				t.Error("ended before the calls under way had ended")
			}
			w.add("shop", "u-later")
		})
		assert.Equal(t, e.underway()["shop"].GetWaits(), "", "it waits for no node")
		time.Sleep(eraseCalm)
		synctest.Wait()
		if left, ended := w.left("shop"); ended.IsZero() || left > 0 {
			t.Errorf("ended at %v, and %d tasks are left", ended, left)
		}
	})
}

// TestErrorsAreTriedAgain lets every call fail for a while.
func TestErrorsAreTriedAgain(t *testing.T) {
	w := newEraseWorld(map[string]int{"shop": 300})
	w.broken = errors.New("no leader")
	runEraser(t, w, func(t *testing.T, e *eraser) {
		time.Sleep(time.Minute)
		synctest.Wait()
		if p := e.underway()["shop"]; p.GetWaits() != "no leader" || p.GetLeft() != 300 {
			t.Errorf("progress %v", p)
		}
		w.edit(func() { w.broken, w.refuses = nil, true })
		time.Sleep(eraseCalm)
		synctest.Wait()
		assert.Contains(t, e.underway()["shop"].GetWaits(), "250 of 250 tasks are not erased", "refused tasks")
		w.edit(func() { w.refuses = false })
		time.Sleep(eraseCalm)
		synctest.Wait()
		if _, ended := w.left("shop"); ended.IsZero() {
			t.Error("it has not ended")
		}
	})
}

// TestDeletionsTakeTurns deletes a small namespace beside a large one.
func TestDeletionsTakeTurns(t *testing.T) {
	w := newEraseWorld(map[string]int{"large": 120_000, "small": 10})
	runEraser(t, w, func(t *testing.T, _ *eraser) {
		time.Sleep(2 * eraseCalm)
		synctest.Wait()
		_, small := w.left("small")
		if _, large := w.left("large"); small.IsZero() || !large.IsZero() {
			t.Errorf("the small one ended at %v, and the large one at %v", small, large)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if left, large := w.left("large"); large.IsZero() {
			t.Errorf("%d tasks are left", left)
		}
	})
}

// TestEndsAfterAnEmptySweep brings a task behind a sweep's cursor, after all nodes have said that they take none.
func TestEndsAfterAnEmptySweep(t *testing.T) {
	w := newEraseWorld(map[string]int{"shop": 1})
	runEraser(t, w, func(t *testing.T, _ *eraser) {
		time.Sleep(eraseCalm - time.Millisecond)
		synctest.Wait()
		w.edit(func() {
			w.add("shop", "u")
			w.erasing = func() {
				w.erasing = nil
				w.tasks["shop"]["t000000"] = true
			}
		})
		time.Sleep(eraseCalm)
		synctest.Wait()
		if left, ended := w.left("shop"); ended.IsZero() || left > 0 {
			t.Errorf("ended at %v, and %d tasks are left", ended, left)
		}
	})
}
