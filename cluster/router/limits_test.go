package router

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/cluster/calls"
	"github.com/belfryhq/belfry/fsm/fsmpb"
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

const forgedTerm = 1 << 62

// A forged hint costs one call a retry. Later calls go to the right node.
func TestForgedHintCostsARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, liar := range []string{"c", "nobody"} {
			w := newWorld()
			w.leader[2], w.down["nobody"] = "b", true
			r := w.at("d")
			r.cfg.Leaders = calls.NewBeliefs()
			r.cfg.Leaders.Hint(2, 5, "b")
			r.cfg.Leaders.Hint(2, forgedTerm, liar)
			for i := range 20 {
				r.cfg.Leaders.Hint(2, forgedTerm, liar) // the hint is repeated
				if reply := r.Do(t.Context(), cmds(id(2, i)))[0]; reply.Err != nil {
					t.Fatal(reply.Err)
				}
				if _, err := r.Get(t.Context(), "", id(2, i), false); err != nil {
					t.Fatal(fmt.Errorf("a read: %w", err))
				}
			}
			if retries := r.counts()[2]; retries < 1 || retries > 3 {
				t.Errorf("%s: %v retries", liar, retries)
			}
		}
	})
}

// The sum has the steps that all shards have, and each row of the wheel once.
func TestOutlooksAreSummed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sum, missing, err := newWorld().at("d").Outlook(t.Context(), 0)
		if err != nil || len(missing) > 0 {
			t.Fatal(missing, err)
		}
		want := &fsmpb.Outlook{
			NowMs: 4000, FirstMs: 4000, Waiting: 40, Beside: 4, Within: []uint64{4, 10}, Steps: []uint64{22, 220},
			Rows: []*fsmpb.WheelRow{
				{Level: 1, FirstMs: 4096, Tasks: []uint64{0, 8}}, {Level: 1, FirstMs: 8192, Tasks: []uint64{3}},
				{Level: 2, FirstMs: 8192, Tasks: []uint64{3}}, {Level: 3, FirstMs: 8192, Tasks: []uint64{3}},
				{Level: 4, FirstMs: 8192, Tasks: []uint64{3}},
			},
		}
		if !proto.Equal(sum, want) {
			t.Errorf("%v, want %v", sum, want)
		}
	})
}

func TestActivitiesAreSummed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sum, missing, err := newWorld().at("d").Activity(t.Context(), 0, 10_000)
		want := &fsmpb.Activity{SinceMs: 4, Steps: []*fsmpb.ActivityStep{
			{AtMs: 15_000, Fired: 2, Dead: 7, Late: []uint64{0, 2}, Held: []uint64{2}},
			{AtMs: 20_000, Fired: 1, Dead: 4, Late: []uint64{0, 1}, Held: []uint64{1}},
		}}
		if err != nil || len(missing) > 0 || !proto.Equal(sum, want) {
			t.Errorf("%v, %v, %v, want %v", sum, missing, err, want)
		}
	})
}

// A shard that does not answer is named, and the others are summed.
func TestOutlookWithoutAShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		r := w.at("d")
		w.leader[2] = ""
		sum, missing, err := r.Outlook(t.Context(), 0)
		if err != nil || sum.Waiting != 30 || !slices.Equal(missing, []uint32{2}) {
			t.Errorf("%v, %v, %v", sum, missing, err)
		}
		if sum, missing, err = r.Outlook(t.Context(), 3); err != nil || sum.Waiting != 10 || len(missing) > 0 {
			t.Errorf("of one shard: %v, %v, %v", sum, missing, err)
		}
	})
}
