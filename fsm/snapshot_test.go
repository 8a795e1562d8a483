package fsm

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/belfryhq/belfry/fsm/fsmpb"
)

// A snapshot from before queues had rules and tasks a history is still one: its tasks hash to what its trailer says.
func TestOlderSnapshotIsRestored(t *testing.T) {
	file, err := os.Open("testdata/snapshots/before-queues")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	m := New(3)
	if err := m.Restore(file); err != nil {
		t.Fatal(err)
	}
	audit(t, m)
	if a := m.Get("", "a"); a.State != fsmpb.State_STATE_RETRYING || a.LastError != "500" || len(a.History) != 0 {
		t.Errorf("a is %v", a)
	}
	if c := m.QueueCounts("", "q", 1100); c.Ready != 1 || c.Dead != 2 {
		t.Errorf("queue q has %v", c)
	}
}

// Writing a snapshot makes next to no garbage, however many tasks are in it: that of a million would be collected while
// calls wait.
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
	if made > tasks+rest { // the id of each
		t.Errorf("%.0f allocations for a snapshot of %d tasks", made, tasks)
	}
}
