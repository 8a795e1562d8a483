package fsm

import (
	"fmt"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
	"github.com/belfryhq/belfry/fsm/task"
)

// QueueSizes yields each queue once if there are more queues than are read at once. A caller may stop early.
func TestQueueSizesYieldsEachQueueOnce(t *testing.T) {
	const queues = 2*queuesAtOnce + 7
	m := New(1)
	entry := &fsmpb.Entry{Version: CommandVersion, AtMs: 1000}
	for i := range queues {
		c := scheduleCommand(fmt.Sprint("t-", i), 1_000_000)
		c.GetSchedule().Spec = &fsmpb.Spec{Queue: fmt.Sprint("q-", i)}
		entry.Commands = append(entry.Commands, c)
	}
	applyBytes(t, m, mustMarshal(entry))
	found := map[string]int{}
	for size := range m.QueueSizes(1000) {
		if size.Pending != 1 || size.Namespace != task.DefaultNamespace || size.Live() != 1 || size.OldestOverdueMs != 0 ||
			size.DueMinute != 0 || size.DueHour != 1 {
			t.Fatalf("%+v", size)
		}
		found[size.Queue]++
	}
	if len(found) != queues || found["q-0"] != 1 || found[fmt.Sprint("q-", queues-1)] != 1 {
		t.Errorf("%d queues were yielded, not %d", len(found), queues)
	}
	for range m.QueueSizes(1000) {
		break
	}
}
