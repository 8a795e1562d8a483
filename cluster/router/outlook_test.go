package router

import (
	"slices"
	"testing"
	"testing/synctest"

	"google.golang.org/protobuf/proto"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

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
