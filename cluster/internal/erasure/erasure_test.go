package erasure

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

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

const calm = 10 * time.Second

// world is a cluster of two nodes with tasks, in the memory of a test.
type world struct {
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

func newWorld(sizes map[string]int) *world {
	w := &world{
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
func (w *world) add(name, id string) {
	w.tasks[name][id] = true
	w.order[name] = append(w.order[name], id)
}

func (w *world) watch() (*clusterpb.ControlState, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state, w.changed
}

func (w *world) end(_ context.Context, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return w.broken
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
	return nil
}

// List returns pages whose cursor is the last id.
func (w *world) List(_ context.Context, q *fsmpb.ListQuery, stale bool) (*fsmpb.ListPage, error) {
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

func (w *world) Do(_ context.Context, cmds []*fsmpb.Command) []task.Reply {
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

func (w *world) Count(_ context.Context, namespace string) (uint64, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return uint64(len(w.tasks[namespace])), nil
}

func (w *world) AwaitAt(ctx context.Context, node string, version uint64) error {
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
func (w *world) left(name string) (tasks int, ended time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.tasks[name]), w.ended[name]
}

func (w *world) edit(edit func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edit()
}

// run runs an eraser in a bubble of fake time, beside the test.
func run(t *testing.T, w *world, test func(t *testing.T, e *Eraser)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		e := New(Config{Cluster: w, Watch: w.watch, End: w.end, Calm: calm, Logger: slog.New(slog.DiscardHandler)})
		running.Go(func() { e.Run(ctx) })
		test(t, e)
	})
}

// TestSweepsUntilNothingIsLeft erases the tasks of one namespace, in its time and not before.
func TestSweepsUntilNothingIsLeft(t *testing.T) {
	w, begun := newWorld(map[string]int{"shop": 20_000}), time.Time{}
	run(t, w, func(t *testing.T, e *Eraser) {
		begun = time.Now()
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if left := e.Progress()["shop"].GetLeft(); left < 20_000-2*Rate-page || left > 20_000-Rate {
			t.Errorf("%d tasks are left after two seconds", left)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		shop, _ := w.left("shop")
		if zoo, _ := w.left("zoo"); shop > 0 || zoo != 1 || len(e.Progress()) > 0 {
			t.Errorf("left: %d of the namespace and %d of another, with %v", shop, zoo, e.Progress())
		}
	})
	if took := w.ended["shop"].Sub(begun); took < calm || took > calm+5*time.Second {
		t.Errorf("ended after %v", took)
	}
	if w.asked != 2 {
		t.Errorf("%d questions to two nodes", w.asked)
	}
}

// TestLateTasksAreErased brings a task while a node may still take some.
func TestLateTasksAreErased(t *testing.T) {
	w := newWorld(map[string]int{"shop": 1})
	w.silent["b"] = true
	run(t, w, func(t *testing.T, e *Eraser) {
		time.Sleep(time.Hour)
		synctest.Wait()
		w.edit(func() {
			if len(w.ended) > 0 || len(w.tasks["shop"]) > 0 {
				t.Errorf("with a silent node: ended %v, and %d tasks are left", w.ended, len(w.tasks["shop"]))
			}
			w.add("shop", "u-late")
		})
		if waits := e.Progress()["shop"].GetWaits(); !strings.Contains(waits, "node b ") {
			t.Errorf("it waits: %q", waits)
		}
		w.edit(func() { w.silent["b"] = false })
		time.Sleep(calm / 2)
		synctest.Wait()
		w.edit(func() {
			if len(w.ended) > 0 {
				t.Error("ended before the calls under way had ended")
			}
			w.add("shop", "u-later")
		})
		if waits := e.Progress()["shop"].GetWaits(); waits != "" {
			t.Errorf("it waits for no node: %q", waits)
		}
		time.Sleep(calm)
		synctest.Wait()
		if left, ended := w.left("shop"); ended.IsZero() || left > 0 {
			t.Errorf("ended at %v, and %d tasks are left", ended, left)
		}
	})
}

// TestErrorsAreTriedAgain lets every call fail for a while.
func TestErrorsAreTriedAgain(t *testing.T) {
	w := newWorld(map[string]int{"shop": 300})
	w.broken = errors.New("no leader")
	run(t, w, func(t *testing.T, e *Eraser) {
		time.Sleep(time.Minute)
		synctest.Wait()
		if p := e.Progress()["shop"]; p.GetWaits() != "no leader" || p.GetLeft() != 300 {
			t.Errorf("progress %v", p)
		}
		w.edit(func() { w.broken, w.refuses = nil, true })
		time.Sleep(calm)
		synctest.Wait()
		if waits := e.Progress()["shop"].GetWaits(); !strings.Contains(waits, "250 of 250 tasks are not erased") {
			t.Errorf("refused tasks: %q", waits)
		}
		w.edit(func() { w.refuses = false })
		time.Sleep(calm)
		synctest.Wait()
		if _, ended := w.left("shop"); ended.IsZero() {
			t.Error("it has not ended")
		}
	})
}

// TestDeletionsTakeTurns deletes a small namespace beside a large one.
func TestDeletionsTakeTurns(t *testing.T) {
	w := newWorld(map[string]int{"large": 120_000, "small": 10})
	run(t, w, func(t *testing.T, _ *Eraser) {
		time.Sleep(2 * calm)
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
	w := newWorld(map[string]int{"shop": 1})
	run(t, w, func(t *testing.T, _ *Eraser) {
		time.Sleep(calm - time.Millisecond)
		synctest.Wait()
		w.edit(func() {
			w.add("shop", "u")
			w.erasing = func() {
				w.erasing = nil
				w.tasks["shop"]["t000000"] = true
			}
		})
		time.Sleep(calm)
		synctest.Wait()
		if left, ended := w.left("shop"); ended.IsZero() || left > 0 {
			t.Errorf("ended at %v, and %d tasks are left", ended, left)
		}
	})
}
