package dispatch

import (
	"testing"

	"github.com/belfryhq/belfry/fsm/task"
)

// Shards of one node share its crowd: the silent receivers of one shard fill it for the others. Queues and namespaces
// with few attempts under way still begin some, and so does a renewed attempt.
func TestShardsShareACrowd(t *testing.T) {
	first, second := newWorld(t, 80), newWorld(t, 80)
	second.planner.spaces.crowd = first.planner.spaces.crowd
	lane := func(namespace, queue string) task.Lane {
		return task.Lane{Namespace: namespace, Queue: queue, Destination: "http://new.test"}
	}
	first.storm("silent", 80, 1)
	first.entry(true)
	first.entry(false)
	loud := laneAt("silent", 500)
	for _, l := range []task.Lane{loud, lane("silent", "calm"), lane("calm", "q")} {
		second.due(l, 1)
	}
	second.entry(true)
	second.entry(false)
	if len(second.running) != 2 || second.lines[loud].Ready != 1 {
		t.Errorf("%v began, %+v waits", second.running, second.lines[loud])
	}
	if at, ok := second.planner.Next(second.now); !ok || at.Sub(second.now) != lookAgain {
		t.Errorf("the held-back lane is looked at again at %v, %v", at, ok)
	}
	crowd := first.planner.spaces.crowd
	for range 40 - 2 {
		if !crowd.TryBegin(loud) {
			t.Fatal("a renewed attempt has no room")
		}
	}
	if crowd.TryBegin(loud) {
		t.Error("any number of renewed attempts begin")
	}
	for range 40 - 2 {
		crowd.End(loud)
	}
	first.end(50, 0)
	first.entry(false)
	second.now = second.now.Add(lookAgain)
	second.entry(false)
	if second.lines[loud].Ready != 0 {
		t.Error("the lane is held back while there is room")
	}
}
