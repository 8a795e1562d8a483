package fsm

import (
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
