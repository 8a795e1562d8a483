package router

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/clusterpb"
	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// movesAt moves the slots of shard 2 to shard 3: they are moving until at, and the router learns of the new map late.
func movesAt(w *world, at, learned time.Duration) *Router {
	began := time.Now()
	w.moved = func(shard, slot uint32) error {
		gone := time.Since(began) >= at
		switch {
		case shardOf(slot) != 2:
			return nil
		case !gone:
			return &task.MovedError{Shard: 3, Epoch: 5, Moving: true}
		case shard == 2:
			return &task.MovedError{Shard: 3, Epoch: 5}
		}
		return nil
	}
	r := w.at("b")
	before := r.cfg.Control.State()
	after := proto.CloneOf(before)
	after.Slots[1].Shard = 3
	r.cfg.Control = known(func() *clusterpb.ControlState {
		if time.Since(began) >= learned {
			return after
		}
		return before
	})
	return r
}

// A call on a slot that has moved goes to the shard that the old one names, at once.
func TestMovedCallGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := movesAt(w, 0, time.Hour)
		began := time.Now()
		replies := r.Do(t.Context(), cmds(id(2, 1), id(1, 2), id(2, 3), id(2, 1)))
		for i, want := range []string{"a 3 " + id(2, 1), "a 1 " + id(1, 2), "a 3 " + id(2, 3), "a 3 " + id(2, 1)} {
			if replies[i].Err != nil || replies[i].Result.Detail != want {
				t.Errorf("%d: %v, want %s", i, replies[i], want)
			}
		}
		if v, err := r.Get(t.Context(), "", id(2, 1), false); err != nil || v.Id != id(2, 1) {
			t.Errorf("get: %v, %v", v, err)
		}
		if took := time.Since(began); took > 0 {
			t.Errorf("took %v", took)
		}
	})
}

// Calls and reads on a slot that moves wait until the new shard takes them. Other calls do not.
func TestMovingCallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.tasks = []*fsmpb.Task{{Id: id(2, 1)}}
		r := movesAt(w, 60*time.Millisecond, 40*time.Millisecond)
		began := time.Now()
		if reply := r.Do(t.Context(), cmds(id(1, 1)))[0]; reply.Err != nil || time.Since(began) > 0 {
			t.Errorf("another slot: %v after %v", reply, time.Since(began))
		}
		got := make(chan error, 3)
		go func() {
			_, err := r.Get(t.Context(), "", id(2, 1), false)
			got <- err
		}()
		go func() {
			page, err := r.List(t.Context(), &fsmpb.ListQuery{Slot: task.Slots / 4, Limit: 1}, false)
			if err == nil && len(page.Tasks) != 1 {
				err = errors.New("the page lacks the task")
			}
			got <- err
		}()
		go func() {
			page, err := r.List(t.Context(), &fsmpb.ListQuery{Order: fsmpb.ListOrder_LIST_ORDER_DUE, Limit: 1}, false)
			if err == nil && len(page.Tasks) != 1 {
				err = errors.New("the page in due order lacks the task")
			}
			got <- err
		}()
		replies := r.Do(t.Context(), cmds(id(2, 1), id(2, 1), id(2, 2)))
		for i, reply := range replies {
			if reply.Err != nil || reply.Result.Detail[:3] != "a 3" {
				t.Errorf("%d: %v", i, reply)
			}
		}
		if took := time.Since(began); took < 60*time.Millisecond || took > 80*time.Millisecond {
			t.Errorf("took %v", took)
		}
		if err := errors.Join(<-got, <-got, <-got); err != nil {
			t.Errorf("reads: %v", err)
		}
		if w.log = w.log[1:]; !slices.Equal(w.log, []string{id(2, 1), id(2, 1), id(2, 2)}) {
			t.Errorf("carried out: %v", w.log)
		}
	})
}

// A call on a slot that never arrives ends with its caller's patience, and says why.
func TestMovingCallGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := movesAt(newWorld(), time.Hour, time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := r.Do(ctx, cmds(id(2, 1)))[0].Err
		var moved *task.MovedError
		if !errors.As(err, &moved) || !errors.Is(err, task.ErrNotProposed) {
			t.Errorf("command: %v", err)
		}
		if _, err := r.Get(ctx, "", id(2, 1), false); !errors.As(err, &moved) {
			t.Errorf("read: %v", err)
		}
	})
}
