package metamorphic

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"

	"github.com/belfryhq/belfry/internal/gated"
)

// shape is a cluster, and the changes of its shape during a history.
type shape struct {
	name          string
	nodes, shards int
	moveRate      int64 // bytes a second; 0: no limit
	changes       []change
}

// change is a call that changes the shape of a cluster.
type change struct{ path, body string }

func split(shard int) change { return change{path: fmt.Sprintf("/v1/shards/%d/split", shard)} }

func move(slots string, to int) change {
	return change{"/v1/shards/move", fmt.Sprintf(`{"slots":%q,"to":%d}`, slots, to)}
}

// shapes are the clusters that must agree, the simplest one first.
var shapes = []shape{
	{name: "one shard", nodes: 1, shards: 1},
	{name: "twelve shards", nodes: 1, shards: 12},
	{name: "three shards that split and exchange slots", nodes: 3, shards: 3, moveRate: 64 << 10, changes: []change{
		split(1), move("3000-4095", 1), split(3), move("0-99,2000-2999", 4), split(4), {path: "/v1/shards/balance"},
	}},
}

// length is the number of random steps in a history.
const length = 100

// variable is the environment variable that names a seed to play again.
const variable = "BELFRY_METAMORPHIC_SEED"

// TestShapesAgree plays the histories of some seeds on all shapes.
func TestShapesAgree(t *testing.T) {
	for _, seed := range seeds(t) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { agree(t, seed) })
	}
}

// seeds returns the seeds to play: always the same one, and in the long form many new ones.
func seeds(t *testing.T) []uint64 {
	if text := os.Getenv(variable); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return []uint64{seed}
	}
	all := []uint64{1}
	if gated.Has(gated.Long) {
		for range 30 {
			all = append(all, rand.Uint64N(1<<32))
		}
	}
	return all
}

// agree plays a history on all shapes, and reports the first step at which one of them differs from the first.
func agree(t *testing.T, seed uint64) {
	steps := draw(seed, length)
	var want []string
	for i, s := range shapes {
		var got []string
		synctest.Test(t, func(t *testing.T) { got = play(t, s, steps) })
		if i == 0 {
			want = got
			continue
		}
		if d := difference(want, got); d != "" {
			t.Errorf("%s and %s differ:\n%s\nagain: %s=%d go test -run TestShapesAgree ./node/nodetest/metamorphic",
				shapes[0].name, s.name, d, variable, seed)
		}
	}
}

// difference describes the first lines in which two records differ, and is empty if they agree.
func difference(want, got []string) string {
	for i := range max(len(want), len(got)) {
		w, g := at(want, i), at(got, i)
		if w != g {
			return fmt.Sprintf("%s\n— and —\n%s", w, g)
		}
	}
	return ""
}

// at returns a line of a record, or "the end" behind the last one.
func at(record []string, i int) string {
	if i >= len(record) {
		return "the end"
	}
	return record[i]
}
