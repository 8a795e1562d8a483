package backup

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// world is a cluster of two shards whose leaders are on nodes a and b.
type world struct {
	mu     sync.Mutex
	state  *clusterpb.ControlState
	cuts   int
	open   int
	failed map[uint32][]error // of the next cuts of a shard
	after  func()             // after each cut
	lacks  map[uint32][]*fsmpb.SlotRange
}

func stateWith(boundary uint32) *clusterpb.ControlState {
	return &clusterpb.ControlState{
		Slots:  []*clusterpb.SlotRange{{End: boundary, Shard: 1}, {First: boundary, End: task.Slots, Shard: 2}},
		Shards: []*clusterpb.Shard{{Id: 1, Replicas: []string{"a", "b"}}, {Id: 2, Replicas: []string{"a", "b"}}},
	}
}

type content struct {
	io.Reader
	w *world
}

func (c content) Close() error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.open--
	return nil
}

func (w *world) cutAt(_ context.Context, _ string, id uint32) (*clusterpb.BackupShard, state, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cuts++
	if errs := w.failed[id]; len(errs) > 0 {
		w.failed[id] = errs[1:]
		return nil, nil, errs[0]
	}
	w.open++
	if w.after != nil {
		w.after()
	}
	return &clusterpb.BackupShard{Shard: id, Lacks: w.lacks[id]}, content{strings.NewReader("state"), w}, nil
}

func (w *world) State() *clusterpb.ControlState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state
}

func (w *world) Search(shard uint32) calls.Search {
	return calls.NewSearch(calls.SearchConfig{
		Shard: shard, Source: calls.NewBeliefs(), Placement: w, LastPause: 200e6,
	})
}

func (w *world) Placed(id uint32) *clusterpb.Shard { return stateWith(1).Shards[id-1] }

func (w *world) Alive(string) bool { return true }

func (w *world) taker() *Taker {
	t := NewTaker(TakerConfig{Self: "a", Control: w, Router: w})
	t.cutAt = w.cutAt
	return t
}

func TestLeadersAreSearched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		moved := &task.NotLeaderError{Shard: 2, Leader: "b"}
		w := &world{state: stateWith(2000), failed: map[uint32][]error{2: {moved, moved, errors.New("the disk is slow")}}}
		set, err := w.taker().take(t.Context())
		if err != nil || len(set.shards) != 2 || set.shards[1].Shard != 2 || w.cuts != 5 || w.open != 2 {
			t.Fatalf("%+v, %v, %d cuts, %d open", set, err, w.cuts, w.open)
		}
		set.close()
		if w.open != 0 {
			t.Errorf("%d cuts stay open", w.open)
		}
	})
}

func TestShardThatCannotBeCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("no room")
		w := &world{state: stateWith(2000), failed: map[uint32][]error{1: {broken, broken, broken, broken}}}
		_, err := w.taker().take(t.Context())
		if !errors.Is(err, broken) || !errors.Is(err, task.ErrNotProposed) || w.open != 0 {
			t.Errorf("%v, %d open", err, w.open)
		}
		w.failed[1] = nil
		for range 100 {
			w.failed[1] = append(w.failed[1], &task.NotLeaderError{Shard: 1})
		}
		if _, err := w.taker().take(t.Context()); err == nil || w.open != 0 {
			t.Errorf("a shard without a leader was cut: %v, %d open", err, w.open)
		}
	})
}

// Slots that move while the shards are cut could be in two sections or in none.
func TestCutsAreTakenAnewAfterAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{state: stateWith(2000)}
		w.after = func() {
			if w.cuts == 1 {
				w.state = stateWith(1000)
			}
		}
		set, err := w.taker().take(t.Context())
		if err != nil || w.cuts != 4 || w.open != 2 || set.state.Slots[0].End != 1000 {
			t.Fatalf("%v, %d cuts, %d open", err, w.cuts, w.open)
		}
		set.close()
		w.after = func() { w.state = stateWith(1000 + uint32(w.cuts)) }
		if _, err := w.taker().take(t.Context()); !errors.Is(err, errMoved) || w.open != 0 {
			t.Errorf("while slots moved all the time: %v, %d open", err, w.open)
		}
	})
}

// A node may learn of a move after it has cut the source. The source's state shows that the tasks are gone.
func TestCutsShowMovesThatTheNodeDoesNotKnow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{state: stateWith(2000), lacks: map[uint32][]*fsmpb.SlotRange{1: {{First: 1000, End: 2000}}}}
		w.after = func() {
			if w.cuts == 3 {
				w.state = stateWith(1000)
			}
		}
		set, err := w.taker().take(t.Context())
		if err != nil || w.cuts != 6 || w.open != 2 || set.state.Slots[0].End != 1000 {
			t.Fatalf("%v, %d cuts, %d open", err, w.cuts, w.open)
		}
		set.close()
		w.lacks[2] = []*fsmpb.SlotRange{{First: 4000, End: 4001}}
		if _, err := w.taker().take(t.Context()); !errors.Is(err, errMoved) || !strings.Contains(err.Error(), "4000") || w.open != 0 {
			t.Errorf("of a slot that is in no state: %v, %d open", err, w.open)
		}
	})
}

func TestPacedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		began := time.Now()
		if n, err := atRate(t.Context(), &out, 100<<10).Write(make([]byte, 300<<10)); n != 300<<10 || err != nil || out.Len() != n {
			t.Errorf("%d, %v, %d", n, err, out.Len())
		}
		if took := time.Since(began); took < 2*time.Second || took > 3*time.Second {
			t.Errorf("300 KiB at 100 KiB a second took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if n, err := atRate(ctx, &out, 1<<10).Write(make([]byte, 1<<20)); n > 2<<10 || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%d bytes within a second, %v", n, err)
		}
	})
}
