package router

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/belfryhq/belfry/fsm/task"
	"github.com/belfryhq/belfry/internal/assert"
	"github.com/belfryhq/belfry/internal/lend"
	"github.com/belfryhq/belfry/shard"
)

func TestLoansComeFromTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.at("d")
		owner := shardOf(ownerSlot("", "q"))
		assert.Equal(t, owner, shardOf(ownerSlot(task.DefaultNamespace, "q")), "the default namespace has two owners")
		w.leader[owner] = "b"
		for range 3 {
			ask := shard.Borrow{
				Queue: "q", Shard: 1, Borrow: lend.Borrow{Term: 10, Round: 100, InFlight: 1000, Unused: 10_000, Want: 3},
			}
			loan, err := r.Borrow(t.Context(), ask)
			want := shard.Loan{Permits: 3, Life: 11_111 * time.Microsecond, RetryAfter: time.Millisecond}
			if err != nil || loan != want {
				t.Fatalf("%v, %v, want %v", loan, err, want)
			}
		}
		for _, line := range w.log {
			assert.Equal(t, line, "b lends q")
		}
		assert.Equal(t, len(w.log), 3, "%v", w.log)
	})
}

// TestGroupsAreAskedOfTheOwner checks that an ask goes to the owner of the queue with the epoch of its slot, and that a
// look needs the answers of all shards.
func TestGroupsAreAskedOfTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.at("d")
		owner := shardOf(ownerSlot("", "q"))
		w.leader[owner] = "b"
		answer, err := r.AskGroups(t.Context(), shard.GroupsAsk{
			Queue: "q", Shard: 1, Term: 10, Number: 100, Wait: true,
			Wants: []shard.GroupsWant{{Group: "g", Permits: 2}}, Ended: []string{"h"},
		})
		given := []shard.GroupsGiven{{Group: "gh", Permits: 2, FirstMs: -101}}
		if err != nil || answer.Owner != (shard.GroupsOwner{Epoch: uint64(19 + owner), Term: 10}) || !slices.Equal(answer.Given, given) {
			t.Fatalf("%+v, %v", answer, err)
		}
		if len(w.log) != 1 || w.log[0] != "b gives groups of q" {
			t.Error(w.log)
		}
		for _, id := range r.shards() {
			w.leader[id] = "b"
		}
		look := shard.GroupsLook{Owner: shard.GroupsOwner{Epoch: 7, Term: 10}, Queue: "q", Groups: []string{"g", "h"}}
		standings, err := r.LookGroups(t.Context(), look)
		if err != nil || len(standings) != len(r.shards()) {
			t.Fatalf("%+v, %v", standings, err)
		}
		for i, s := range standings {
			want := shard.GroupsStanding{
				Shard: r.shards()[i], Term: 10, Done: 7, ClearMs: math.MinInt64, Groups: []shard.GroupsCount{
					{UnderWay: 0, Retrying: 1, Priority: 5, FirstMs: task.BegunMs},
					{UnderWay: 1, Retrying: 2, Waiting: true, Priority: 5, FirstMs: task.BegunMs},
				},
			}
			assert.Equal(t, cmp.Diff(want, s), "")
		}
		w.forgotten = 1
		if _, err := r.LookGroups(t.Context(), look); err == nil {
			t.Error("an answer that lacks a group")
		}
	})
}

func TestBorrowerIsNotKeptWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.leader = map[uint32]string{}
		began := time.Now()
		_, err := w.at("d").Borrow(t.Context(), shard.Borrow{Queue: "q"})
		assert.ErrorIs(t, err, task.ErrNotProposed)
		if took := time.Since(began); took > lendPatience+time.Second {
			t.Errorf("it took %v to say so", took)
		}
	})
}
