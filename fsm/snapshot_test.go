package fsm

import (
	"fmt"
	"io"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// Writing a snapshot makes next to no garbage a task. The collector would otherwise have a million tasks' garbage to
// collect while calls wait.
func TestSnapshotMakesLittleGarbage(t *testing.T) {
	const tasks = 1000
	m := New(1)
	for i := range tasks {
		schedule := scheduleCommand(fmt.Sprint("task-", i), 5)
		schedule.Key = &fsmpb.Key{Hash: uint64(i), Call: 1}
		schedule.GetSchedule().Spec = &fsmpb.Spec{Payload: []byte("p"), Target: &fsmpb.Target{Url: "https://shop.example"}}
		applyBytes(t, m, mustMarshal(&fsmpb.Entry{Version: 1, Commands: []*fsmpb.Command{schedule}}))
	}
	snapshot := m.Snapshot()
	defer snapshot.Release()
	const rest = 100 // buffers, the header, the trailer
	made := testing.AllocsPerRun(1, func() {
		if _, err := snapshot.WriteTo(io.Discard); err != nil {
			t.Fatal(err)
		}
	})
	if made > tasks+rest { // one for the id of each task
		t.Errorf("%.0f allocations for a snapshot of %d tasks", made, tasks)
	}
}
